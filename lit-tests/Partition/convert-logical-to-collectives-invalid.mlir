// RUN: not fsdp-opt %s --allow-unregistered-dialect --convert-fsdp-logical-to-collectives 2>&1 | FileCheck %s

// An assertion about values cannot be left out as one about sizes can.
// CHECK: error: 'fsdp.update' op expected an optimizer that is elementwise on flat tensors, got cf.assert in @optimizer
fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @a on @mesh shard ["shard"] replicate [] state f32 gather f32 reduce f32 numel 64 [<"a.w", tensor<4xf32> at 0 tied []>] {trainable, unit = "a"}
fsdp.program @step(%p: !fsdp.sharded<@a, f32>, %g: !fsdp.sharded<@a, f32>, %s: tensor<f32>) -> !fsdp.sharded<@a, f32> {
  %n = fsdp.update @optimizer(%p, %g, %s) : (!fsdp.sharded<@a, f32>, !fsdp.sharded<@a, f32>, tensor<f32>) -> (!fsdp.sharded<@a, f32>)
  fsdp.return %n : !fsdp.sharded<@a, f32>
}
func.func @optimizer(%p: tensor<?xf32> {fsdp.optimizer = {role = "param", name = "p"}},
                     %g: tensor<?xf32> {fsdp.optimizer = {role = "grad", name = "g"}},
                     %s: tensor<f32> {fsdp.optimizer = {role = "scalar", name = "s"}})
    -> (tensor<?xf32> {fsdp.optimizer = {role = "param", name = "p"}}) {
  %zero = arith.constant 0.0 : f32
  %x = tensor.extract %s[] : tensor<f32>
  %positive = arith.cmpf ogt, %x, %zero : f32
  cf.assert %positive, "learning rate is positive"
  return %p : tensor<?xf32>
}
