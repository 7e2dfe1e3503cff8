// RUN: fsdp-opt %s | fsdp-opt | FileCheck %s
// RUN: fsdp-opt %s --emit-bytecode | fsdp-opt | FileCheck %s
// RUN: fsdp-opt %s --mlir-print-op-generic | fsdp-opt | FileCheck %s
// RUN: fsdp-opt %s --verify-roundtrip | FileCheck %s
// RUN: fsdp-opt %s --mlir-print-op-generic | FileCheck %s --check-prefix=GENERIC

// CHECK: fsdp.mesh @mesh [#fsdp.axis<"replicate" = 2>, #fsdp.axis<"shard" = 4>]
fsdp.mesh @mesh [#fsdp.axis<"replicate" = 2>, #fsdp.axis<"shard" = 4>]
// CHECK-LABEL: fsdp.flat_param @h0 on @mesh shard ["shard"] replicate ["replicate"]
// CHECK-SAME:    state f32 gather bf16 reduce f32 numel 1152 [
// CHECK-NEXT:    <"h.0.weight", tensor<32x32xf32> at 0 tied ["head.weight"] init {kind = "normal"}>,
// CHECK-NEXT:    <"h.0.bias", tensor<32xf32> at 1024>
// CHECK-NEXT:  ] {trainable, unit = "h.0"}
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate ["replicate"]
    state f32 gather bf16 reduce f32 numel 1152 [
      <"h.0.weight", tensor<32x32xf32> at 0 tied ["head.weight"] init {kind = "normal"}>,
      <"h.0.bias", tensor<32xf32> at 1024>
    ] {trainable, unit = "h.0"}

// CHECK-LABEL: func.func @logical
func.func @logical(%shard: !fsdp.sharded<@h0, f32>, %gw: tensor<32x32xf32>, %gb: tensor<32xf32>,
                   %acc: !fsdp.unsharded<@h0, f32>, %lr: tensor<f32>, %count: tensor<f64>)
    -> (!fsdp.sharded<@h0, f32>, tensor<f32>) {
  // CHECK: %[[W:.*]] = fsdp.unshard %{{.*}} for forward : <@h0, f32> -> <@h0, bf16>
  %w = fsdp.unshard %shard for forward : <@h0, f32> -> <@h0, bf16>
  // CHECK: fsdp.member %[[W]]["h.0.bias"] : <@h0, bf16> -> tensor<32xf32>
  %b = fsdp.member %w["h.0.bias"] : <@h0, bf16> -> tensor<32xf32>
  // CHECK: fsdp.reshard %[[W]] : <@h0, bf16>
  fsdp.reshard %w : <@h0, bf16>
  // CHECK: fsdp.unshard %{{.*}} for backward :
  %w1 = fsdp.unshard %shard for backward : <@h0, f32> -> <@h0, bf16>
  fsdp.reshard %w1 : <@h0, bf16>
  // CHECK: %[[G:.*]] = fsdp.reduce_grad @h0(%{{.*}}, %{{.*}}) : (tensor<32x32xf32>, tensor<32xf32>) -> !fsdp.sharded<@h0, f32>
  %g = fsdp.reduce_grad @h0(%gw, %gb) : (tensor<32x32xf32>, tensor<32xf32>) -> !fsdp.sharded<@h0, f32>
  // CHECK: %[[A:.*]] = fsdp.accumulate_grad @h0 %{{.*}} after %{{.*}}(%{{.*}}, %{{.*}}) : !fsdp.unsharded<@h0, f32>, tensor<f32>, tensor<32x32xf32>, tensor<32xf32>
  %a = fsdp.accumulate_grad @h0 %acc after %lr(%gw, %gb) : !fsdp.unsharded<@h0, f32>, tensor<f32>, tensor<32x32xf32>, tensor<32xf32>
  // CHECK: %[[COUNT:.*]] = fsdp.average %{{.*}}
  %mean = fsdp.average %count
  // CHECK: fsdp.reduce_grad @h0(%{{.*}}, %{{.*}}) over %[[COUNT]] : (tensor<32x32xf32>, tensor<32xf32>) -> !fsdp.sharded<@h0, f32>
  %o = fsdp.reduce_grad @h0(%gw, %gb) over %mean : (tensor<32x32xf32>, tensor<32xf32>) -> !fsdp.sharded<@h0, f32>
  // CHECK: fsdp.accumulate_grad @h0 %{{.*}} after %{{.*}}(%{{.*}}, %{{.*}}) of %[[COUNT]] : !fsdp.unsharded<@h0, f32>, tensor<f32>, tensor<32x32xf32>, tensor<32xf32>
  %s = fsdp.accumulate_grad @h0 %acc after %lr(%gw, %gb) of %mean : !fsdp.unsharded<@h0, f32>, tensor<f32>, tensor<32x32xf32>, tensor<32xf32>
  // CHECK: fsdp.reduce_accumulated %[[A]] over %{{.*}} : !fsdp.unsharded<@h0, f32>, tensor<f32> -> <@h0, f32>
  %r = fsdp.reduce_accumulated %a over %lr : !fsdp.unsharded<@h0, f32>, tensor<f32> -> !fsdp.sharded<@h0, f32>
  // CHECK: %[[N:.*]] = fsdp.grad_norm %[[G]] : !fsdp.sharded<@h0, f32> -> tensor<f32>
  %n = fsdp.grad_norm %g : !fsdp.sharded<@h0, f32> -> tensor<f32>
  // CHECK: fsdp.update @sgd(%{{.*}}, %[[G]], %{{.*}}) scale %[[N]]
  %p = fsdp.update @sgd(%shard, %g, %lr) scale %n
      : (!fsdp.sharded<@h0, f32>, !fsdp.sharded<@h0, f32>, tensor<f32>), tensor<f32>
      -> (!fsdp.sharded<@h0, f32>)
  // CHECK: fsdp.update @sgd(%{{.*}}, %[[G]], %{{.*}}) scale %[[N]] if_finite %[[N]] : {{.*}}, tensor<f32> if_finite tensor<f32> -> (
  %q = fsdp.update @sgd(%p, %g, %lr) scale %n if_finite %n
      : (!fsdp.sharded<@h0, f32>, !fsdp.sharded<@h0, f32>, tensor<f32>), tensor<f32> if_finite tensor<f32>
      -> (!fsdp.sharded<@h0, f32>)
  return %q, %n : !fsdp.sharded<@h0, f32>, tensor<f32>
}

func.func @sgd(%p: tensor<?xf32>, %g: tensor<?xf32>, %lr: tensor<f32>) -> tensor<?xf32> {
  return %p : tensor<?xf32>
}

// CHECK-LABEL: func.func @collectives
func.func @collectives(%shard: tensor<288xf32>, %gw: tensor<32x32xf32>, %gb: tensor<32xf32>,
                       %ok: tensor<i1>) -> tensor<288xf32> {
  // CHECK: %[[W:.*]] = fsdp.all_gather %{{.*}} on @mesh["shard"] for forward : tensor<288xf32> -> tensor<1152xf32>
  %w = fsdp.all_gather %shard on @mesh["shard"] for forward : tensor<288xf32> -> tensor<1152xf32>
  // CHECK: fsdp.view %[[W]][1024] : tensor<1152xf32> -> tensor<32xf32>
  %b = fsdp.view %w[1024] : tensor<1152xf32> -> tensor<32xf32>
  // CHECK: %[[G:.*]] = fsdp.pack %{{.*}} at 0, %{{.*}} at 1024 : tensor<32x32xf32>, tensor<32xf32> -> tensor<1152xf32>
  %g = fsdp.pack %gw at 0, %gb at 1024 : tensor<32x32xf32>, tensor<32xf32> -> tensor<1152xf32>
  // CHECK: %[[S:.*]] = fsdp.reduce_scatter %[[G]] on @mesh["shard"] : tensor<1152xf32> -> tensor<288xf32>
  %s = fsdp.reduce_scatter %g on @mesh["shard"] : tensor<1152xf32> -> tensor<288xf32>
  // CHECK: %[[R:.*]] = fsdp.all_reduce %[[S]] on @mesh["replicate"] divisor 8 : tensor<288xf32>
  %r = fsdp.all_reduce %s on @mesh["replicate"] divisor 8 : tensor<288xf32>
  // CHECK: %[[X:.*]] = fsdp.all_to_all %[[G]] on @mesh["shard"] divisor 4 : tensor<1152xf32>
  %x = fsdp.all_to_all %g on @mesh["shard"] divisor 4 : tensor<1152xf32>
  // CHECK: fsdp.all_to_all %[[X]] on @mesh["replicate", "shard"] : tensor<1152xf32>
  %y = fsdp.all_to_all %x on @mesh["replicate", "shard"] : tensor<1152xf32>
  // CHECK: fsdp.check %{{.*}}, "index in range" : tensor<i1>
  fsdp.check %ok, "index in range" : tensor<i1>
  // CHECK: fsdp.launch @k0(%{{.*}}, %{{.*}}) tied [0] : (tensor<288xf32>, tensor<32xf32>) -> tensor<288xf32>
  %p = fsdp.launch @k0(%r, %b) tied [0] : (tensor<288xf32>, tensor<32xf32>) -> tensor<288xf32>
  return %p : tensor<288xf32>
}

// CHECK-LABEL: func.func @copies
func.func @copies(%x: tensor<64x64xbf16>) -> tensor<64x64xbf16> {
  // CHECK: %[[H:.*]] = fsdp.offload %{{.*}} : tensor<64x64xbf16> -> !fsdp.host<tensor<64x64xbf16>>
  %h = fsdp.offload %x : tensor<64x64xbf16> -> !fsdp.host<tensor<64x64xbf16>>
  // CHECK: fsdp.reload %[[H]] : !fsdp.host<tensor<64x64xbf16>> -> tensor<64x64xbf16>
  %y = fsdp.reload %h : !fsdp.host<tensor<64x64xbf16>> -> tensor<64x64xbf16>
  // CHECK: %[[S:.*]] = fsdp.start(%{{.*}}) on d2h event 0
  %s = fsdp.start(%y) on d2h event 0 {
  ^bb0(%a: tensor<64x64xbf16>):
    %c = fsdp.offload %a : tensor<64x64xbf16> -> !fsdp.host<tensor<64x64xbf16>>
    fsdp.yield %c : !fsdp.host<tensor<64x64xbf16>>
  } : (tensor<64x64xbf16>) -> !fsdp.token<!fsdp.host<tensor<64x64xbf16>>>
  // What the host holds comes through the token.
  // CHECK: fsdp.start() on h2d event 1 after(%[[S]] : !fsdp.token<!fsdp.host<tensor<64x64xbf16>>>)
  %t = fsdp.start() on h2d event 1 after(%s : !fsdp.token<!fsdp.host<tensor<64x64xbf16>>>) {
  ^bb0(%a: !fsdp.host<tensor<64x64xbf16>>):
    %c = fsdp.reload %a : !fsdp.host<tensor<64x64xbf16>> -> tensor<64x64xbf16>
    fsdp.yield %c : tensor<64x64xbf16>
  } : () -> !fsdp.token<tensor<64x64xbf16>>
  // CHECK: fsdp.wait %[[S]] : <!fsdp.host<tensor<64x64xbf16>>> -> !fsdp.host<tensor<64x64xbf16>>
  %d = fsdp.wait %s : !fsdp.token<!fsdp.host<tensor<64x64xbf16>>> -> !fsdp.host<tensor<64x64xbf16>>
  %z = fsdp.wait %t : !fsdp.token<tensor<64x64xbf16>> -> tensor<64x64xbf16>
  return %z : tensor<64x64xbf16>
}

func.func private @k0(%a: tensor<288xf32>, %b: tensor<32xf32>, %out: tensor<288xf32>) -> tensor<288xf32> {
  return %a : tensor<288xf32>
}

// The generic form, for what other tools write and read.
// GENERIC-DAG: "fsdp.mesh"() <{axes = [#fsdp.axis<"replicate" = 2>, #fsdp.axis<"shard" = 4>], sym_name = "mesh"}> : () -> ()
// GENERIC-DAG: "fsdp.flat_param"() <{{{.*}}members = [#fsdp.member<"h.0.weight", tensor<32x32xf32> at 0 tied ["head.weight"] init {kind = "normal"}>, #fsdp.member<"h.0.bias", tensor<32xf32> at 1024>]{{.*}}}> : () -> ()
// GENERIC-DAG: "fsdp.unshard"({{.*}}) <{phase = #fsdp<phase backward>}> : (!fsdp.sharded<@h0, f32>) -> !fsdp.unsharded<@h0, bf16>
// GENERIC-DAG: "fsdp.all_reduce"({{.*}}) <{axes = ["replicate"], divisor = 8 : i64, mesh = @mesh}> : (tensor<288xf32>) -> tensor<288xf32>
// GENERIC-DAG: "fsdp.all_to_all"({{.*}}) <{axes = ["shard"], divisor = 4 : i64, mesh = @mesh}> : (tensor<1152xf32>) -> tensor<1152xf32>
// GENERIC-DAG: "fsdp.pack"({{.*}}) <{offsets = array<i64: 0, 1024>}> : (tensor<32x32xf32>, tensor<32xf32>) -> tensor<1152xf32>
