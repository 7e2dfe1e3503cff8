// RUN: fsdp-opt %s --fsdp-layout-state --fsdp-plan-arena | FileCheck %s

// Of a gradient that is reduced in a narrow type nothing wide stays behind (pytorch/pytorch#90027): while its shard waits
// for the update, the next unit's gradient lies where it was.
fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
func.func private @backward(tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
func.func private @narrow(tensor<1024xf32>, tensor<1024xbf16>) -> tensor<1024xbf16>
func.func private @update(tensor<512xbf16>, tensor<512xbf16>, tensor<512xf32>) -> tensor<512xf32>

// CHECK-LABEL: fsdp.program @step
// The batch and one gradient of 4096 bytes each, what is sent of it, 2048, and a shard that waits, 1024.
// CHECK-SAME:    arena = #fsdp.arena<bytes = 11264,
// CHECK:         fsdp.launch @backward({{.*}}) {fsdp.offsets = array<i64: [[WIDE:[0-9]+]]>}
// CHECK-NEXT:    fsdp.launch @narrow({{.*}}) {fsdp.offsets = array<i64: [[PACK:[0-9]+]]>}
// CHECK-NEXT:    fsdp.reduce_scatter {{.*}} : tensor<1024xbf16> -> tensor<512xbf16>
// CHECK-NEXT:    fsdp.launch @backward({{.*}}) {fsdp.offsets = array<i64: [[WIDE]]>}
// CHECK-NEXT:    fsdp.launch @narrow({{.*}}) {fsdp.offsets = array<i64: [[PACK]]>}
fsdp.program @step(%x: tensor<1024xf32>) -> tensor<512xf32> {
  %d0 = fsdp.launch @backward(%x) : (tensor<1024xf32>) -> tensor<1024xf32>
  %n0 = fsdp.launch @narrow(%d0) : (tensor<1024xf32>) -> tensor<1024xbf16>
  %g0 = fsdp.reduce_scatter %n0 on @mesh["shard"] divisor 2 : tensor<1024xbf16> -> tensor<512xbf16>
  %d1 = fsdp.launch @backward(%x) : (tensor<1024xf32>) -> tensor<1024xf32>
  %n1 = fsdp.launch @narrow(%d1) : (tensor<1024xf32>) -> tensor<1024xbf16>
  %g1 = fsdp.reduce_scatter %n1 on @mesh["shard"] divisor 2 : tensor<1024xbf16> -> tensor<512xbf16>
  %new = fsdp.launch @update(%g0, %g1) : (tensor<512xbf16>, tensor<512xbf16>) -> tensor<512xf32>
  fsdp.return %new : tensor<512xf32>
}
