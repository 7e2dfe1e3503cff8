// RUN: fsdp-opt %s --fsdp-layout-state --split-input-file | FileCheck %s
// RUN: fsdp-opt %s --fsdp-layout-state=guard=true --split-input-file | FileCheck %s --check-prefix=GUARD
// Places that are there already do not count.
// RUN: fsdp-opt %s --fsdp-layout-state=guard=true --fsdp-layout-state --split-input-file | FileCheck %s
// RUN: fsdp-opt %s --fsdp-layout-state --split-input-file -o %t
// RUN: fsdp-opt %t --fsdp-layout-state --split-input-file | diff %t -

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate [] state f32 gather f32 reduce f32 numel 256 [
  <"w", tensor<256xf32> at 0>
] {trainable, unit = ""}

// Large ones first, equal ones in the module's order: 4 and 1 bytes take 256, as
// all places begin at a multiple of it. 65 elements take 260 bytes and so 512,
// as many as 128 do. What no program names has a place, too.
// CHECK:      fsdp.state @count buffer "count" : tensor<f32> at 1792{{$}}
// CHECK-NEXT: fsdp.state @odd buffer "odd" : tensor<65xf32> at 768{{$}}
// CHECK-NEXT: fsdp.state @h0.param parameter of @h0 : tensor<128xf32> at 1280{{$}}
// CHECK-NEXT: fsdp.state @mean buffer "mean" : tensor<64xf32> at 2048 init {kind = "constant", value = 0.000000e+00 : f64}{{$}}
// CHECK-NEXT: fsdp.state @wide optimizer "wide" : tensor<65xf64> at 0 init 0.000000e+00 : f64{{$}}
// CHECK-NEXT: fsdp.state @empty buffer "empty" : tensor<0xf32> at 2304{{$}}
// CHECK-NEXT: fsdp.state @flag buffer "flag" : tensor<i1> at 2560{{$}}
// Behind each, as aligned, 256 bytes belong to nobody.
// GUARD:      fsdp.state @count {{.*}} at 2560
// GUARD-NEXT: fsdp.state @odd {{.*}} at 1024
// GUARD-NEXT: fsdp.state @h0.param {{.*}} at 1792
// GUARD-NEXT: fsdp.state @mean {{.*}} at 3072 init
// GUARD-NEXT: fsdp.state @wide {{.*}} at 0 init
// GUARD-NEXT: fsdp.state @empty {{.*}} at 3584
// GUARD-NEXT: fsdp.state @flag {{.*}} at 4096
fsdp.state @count buffer "count" : tensor<f32>
fsdp.state @odd buffer "odd" : tensor<65xf32>
fsdp.state @h0.param parameter of @h0 : tensor<128xf32>
fsdp.state @mean buffer "mean" : tensor<64xf32> init {kind = "constant", value = 0.0 : f64}
fsdp.state @wide optimizer "wide" : tensor<65xf64> init 0.0 : f64
fsdp.state @empty buffer "empty" : tensor<0xf32>
fsdp.state @flag buffer "flag" : tensor<i1>

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate [] state f32 gather f32 reduce f32 numel 256 [
  <"w", tensor<256xf32> at 0>
] {trainable, unit = ""}
// The host's memory has places of its own.
// CHECK:      fsdp.state @p parameter of @h0 : tensor<128xf32> at 0{{$}}
// CHECK-NEXT: fsdp.state @m optimizer "m" of @h0 : !fsdp.host<tensor<128xf32>> at 0 init
// CHECK-NEXT: fsdp.state @v optimizer "v" of @h0 : !fsdp.host<tensor<128xf32>> at 512 init
// CHECK-NEXT: fsdp.state @step optimizer "step" : tensor<f32> at 512 init
// GUARD:      fsdp.state @p {{.*}} at 0
// GUARD-NEXT: fsdp.state @m {{.*}} at 0 init
// GUARD-NEXT: fsdp.state @v {{.*}} at 768 init
// GUARD-NEXT: fsdp.state @step {{.*}} at 768 init
fsdp.state @p parameter of @h0 : tensor<128xf32>
fsdp.state @m optimizer "m" of @h0 : !fsdp.host<tensor<128xf32>> init 0.0 : f64
fsdp.state @v optimizer "v" of @h0 : !fsdp.host<tensor<128xf32>> init 0.0 : f64
fsdp.state @step optimizer "step" : tensor<f32> init 0.0 : f64

// -----

// Without states nothing changes.
// CHECK:      module {
// CHECK-NEXT:   fsdp.program @step(%{{.*}}: tensor<4xf32> {fsdp.offset = 0 : i64})
// CHECK-SAME:     attributes {arena = #fsdp.arena<bytes = 256, inputs = 256>} {
// CHECK-NEXT:     fsdp.return
// CHECK-NEXT:   }
// CHECK-NEXT: }
fsdp.program @step(%x: tensor<4xf32> {fsdp.offset = 0 : i64}) attributes {arena = #fsdp.arena<bytes = 256, inputs = 256>} {
  fsdp.return
}
