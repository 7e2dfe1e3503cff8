// RUN: fsdp-opt %s --split-input-file --allow-unregistered-dialect --fsdp-reduce-gradients | FileCheck %s
// RUN: fsdp-opt %s --split-input-file --allow-unregistered-dialect --fsdp-reduce-gradients="gradient-divide-factor=pre=4,post=3" | FileCheck %s --check-prefix=FACTOR

// Right behind the last gradient of each trainable flat parameter, members in
// its order; the step returns shards of gradients, and what it returned else.
fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @a on @mesh shard ["shard"] replicate [] state f32 gather bf16 reduce bf16 numel 128 [
  <"a.w", tensor<8xf32> at 0>, <"a.b", tensor<4xf32> at 32>] {trainable, unit = "a"}
fsdp.flat_param @b on @mesh shard ["shard"] replicate [] state f32 gather f32 reduce f32 numel 64 [
  <"b.w", tensor<4xf32> at 0>] {trainable, unit = "b"}
fsdp.flat_param @frozen on @mesh shard ["shard"] replicate [] state f32 gather f32 reduce f32 numel 64 [
  <"c.w", tensor<4xf32> at 0>] {unit = "c"}
// Each gradient is divided by 4, and the mean over 2 ranks by 3 / 2.
// FACTOR-LABEL: fsdp.program @step
// FACTOR:         %[[OVER:.*]] = arith.constant dense<1.500000e+00> : tensor<f64>
// FACTOR:         %[[GW:.*]] = "test.weight_grad"
// FACTOR:         %[[DIVIDED:.*]] = linalg.generic {{.*}} ins(%[[GW]] : tensor<8xf32>)
// FACTOR:           %[[P:.*]] = arith.constant 4.000000e+00 : f32
// FACTOR-NEXT:      arith.divf %{{.*}}, %[[P]] : f32
// FACTOR:         fsdp.reduce_grad @a(%[[DIVIDED]], %{{.*}}) over %[[OVER]] : (tensor<8xf32>, tensor<4xf32>)
// CHECK-LABEL: fsdp.program @step
// CHECK-SAME:    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.state = @m}, !fsdp.sharded<@a, f32> {fsdp.grad_shard = @a}, !fsdp.sharded<@b, f32> {fsdp.grad_shard = @b})
// CHECK-NEXT:    %[[B:.*]] = fsdp.reduce_grad @b(
// CHECK:         %[[GB:.*]] = "test.bias_grad"
// CHECK-NEXT:    "test.more"
// CHECK-NEXT:    %[[GW:.*]] = "test.weight_grad"
// CHECK-NEXT:    %[[A:.*]] = fsdp.reduce_grad @a(%[[GW]], %[[GB]])
// CHECK-NEXT:    "test.more"
// CHECK-NEXT:    return %{{.*}}, %{{.*}}, %[[A]], %[[B]] :
fsdp.state @a.param parameter of @a : !fsdp.sharded<@a, f32>
fsdp.state @b.param parameter of @b : !fsdp.sharded<@b, f32>
fsdp.state @frozen.param parameter of @frozen : !fsdp.sharded<@frozen, f32>
fsdp.state @m buffer "m" : tensor<4xf32>
fsdp.program @step(%a: !fsdp.sharded<@a, f32> {fsdp.state = @a.param}, %b: !fsdp.sharded<@b, f32> {fsdp.state = @b.param},
                   %c: !fsdp.sharded<@frozen, f32> {fsdp.state = @frozen.param}, %m: tensor<4xf32> {fsdp.state = @m}, %x: tensor<4xf32>)
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "a.b"}}, tensor<8xf32> {fsdp.grad = {fqn = "a.w"}},
        tensor<4xf32> {fsdp.grad = {fqn = "b.w"}}, tensor<4xf32> {fsdp.state = @m}) {
  %loss = "test.loss"(%x) : (tensor<4xf32>) -> tensor<f32>
  %gb = "test.bias_grad"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  "test.more"() : () -> ()
  %gw = "test.weight_grad"(%x) : (tensor<4xf32>) -> tensor<8xf32>
  "test.more"() : () -> ()
  // The gradient of b.w is the batch itself: no op computes it.
  fsdp.return %loss, %gb, %gw, %x, %x : tensor<f32>, tensor<4xf32>, tensor<8xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// No gradients any more: a second run changes nothing.
fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @a on @mesh shard ["shard"] replicate [] state f32 gather f32 reduce f32 numel 64 [
  <"a.w", tensor<8xf32> at 0>] {trainable, unit = "a"}
// CHECK-LABEL: fsdp.program @step
// CHECK-SAME:    -> (tensor<f32> {fsdp.loss}, !fsdp.sharded<@a, f32> {fsdp.grad_shard = @a})
// CHECK-NEXT:    %[[G:.*]]:2 = "test.all"
// CHECK-NEXT:    %[[A:.*]] = fsdp.reduce_grad
// CHECK-NEXT:    return %[[G]]#0, %[[A]] :
fsdp.state @a.param parameter of @a : !fsdp.sharded<@a, f32>
fsdp.program @step(%a: !fsdp.sharded<@a, f32> {fsdp.state = @a.param})
    -> (tensor<f32> {fsdp.loss}, !fsdp.sharded<@a, f32> {fsdp.grad_shard = @a}) {
  %l, %g = "test.all"() : () -> (tensor<f32>, tensor<8xf32>)
  %s = fsdp.reduce_grad @a(%g) : (tensor<8xf32>) -> !fsdp.sharded<@a, f32>
  fsdp.return %l, %s : tensor<f32>, !fsdp.sharded<@a, f32>
}

// -----

// CHECK-LABEL: func.func @not_a_step
// CHECK-NEXT:    return %{{.*}} : tensor<4xf32>
func.func @not_a_step(%x: tensor<4xf32>) -> (tensor<4xf32> {fsdp.grad = {fqn = "a.w"}}) {
  return %x : tensor<4xf32>
}
