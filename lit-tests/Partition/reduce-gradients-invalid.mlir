// RUN: fsdp-opt %s --verify-diagnostics --allow-unregistered-dialect --fsdp-reduce-gradients

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// expected-note@below {{its flat parameter is trainable}}
fsdp.flat_param @a on @mesh shard ["shard"] replicate [] state f32 gather f32 reduce f32 numel 64 [
  <"a.w", tensor<8xf32> at 0>, <"a.b", tensor<8xf32> at 32>] {trainable, unit = "a"}
fsdp.state @a.param parameter of @a : !fsdp.sharded<@a, f32>
// expected-error@below {{expected a result that is the gradient of "a.b"}}
fsdp.program @step(%a: !fsdp.sharded<@a, f32> {fsdp.state = @a.param})
    -> (tensor<f32> {fsdp.loss}, tensor<8xf32> {fsdp.grad = {fqn = "a.w"}}) {
  %l, %g = "test.all"() : () -> (tensor<f32>, tensor<8xf32>)
  fsdp.return %l, %g : tensor<f32>, tensor<8xf32>
}
