// RUN: fsdp-opt %s --split-input-file --verify-diagnostics --allow-unregistered-dialect --fsdp-apply-optimizer=clip

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @a on @mesh shard ["shard"] replicate [] state f32 gather f32 reduce f32 numel 64 [
  <"a.w", tensor<64xf32> at 0>] {trainable, unit = "a"}
// No shard to update.
// expected-error@below {{expected a shard of @a for the gradient that is result #1}}
fsdp.program @step(%x: tensor<f32>) -> (tensor<f32> {fsdp.loss}, !fsdp.sharded<@a, f32> {fsdp.grad_shard = @a}) {
  %g = "test.grad"() : () -> tensor<64xf32>
  %s = fsdp.reduce_grad @a(%g) : (tensor<64xf32>) -> !fsdp.sharded<@a, f32>
  fsdp.return %x, %s : tensor<f32>, !fsdp.sharded<@a, f32>
}
func.func @optimizer(%p: tensor<?xf32> {fsdp.optimizer = {role = "param", name = "p"}},
                     %g: tensor<?xf32> {fsdp.optimizer = {role = "grad", name = "g"}})
    -> (tensor<?xf32> {fsdp.optimizer = {role = "param", name = "p"}}) {
  %n = arith.subf %p, %g : tensor<?xf32>
  return %n : tensor<?xf32>
}

// -----

// expected-error@below {{optimizer_c1: expected a function @optimizer, got none}}
module {
  fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
  fsdp.flat_param @a on @mesh shard ["shard"] replicate [] state f32 gather f32 reduce f32 numel 64 [
    <"a.w", tensor<64xf32> at 0>] {trainable, unit = "a"}
  fsdp.state @a.param parameter of @a : !fsdp.sharded<@a, f32>
  fsdp.program @step(%a: !fsdp.sharded<@a, f32> {fsdp.state = @a.param}) -> (!fsdp.sharded<@a, f32> {fsdp.grad_shard = @a}) {
    %g = "test.grad"() : () -> tensor<64xf32>
    %s = fsdp.reduce_grad @a(%g) : (tensor<64xf32>) -> !fsdp.sharded<@a, f32>
    fsdp.return %s : !fsdp.sharded<@a, f32>
  }
}
