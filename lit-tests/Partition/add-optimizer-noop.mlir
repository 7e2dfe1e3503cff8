// Not a traced step, or one with an optimizer of its own: nothing changes.
//
// RUN: split-file %s %t
// RUN: fsdp-opt %t/no-step.mlir -o %t/a && fsdp-opt %t/no-step.mlir --fsdp-add-optimizer -o %t/b && diff %t/a %t/b
// RUN: fsdp-opt %t/own-optimizer.mlir -o %t/a && fsdp-opt %t/own-optimizer.mlir --fsdp-add-optimizer -o %t/b && diff %t/a %t/b

//--- no-step.mlir
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

//--- own-optimizer.mlir
func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}}, %l: tensor<f32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  return %l, %w : tensor<f32>, tensor<4xf32>
}
func.func @optimizer(%p: tensor<?xf32> {fsdp.optimizer = {role = "param", name = "p"}},
                     %g: tensor<?xf32> {fsdp.optimizer = {role = "grad", name = "g"}})
    -> (tensor<?xf32> {fsdp.optimizer = {role = "param", name = "p"}}) {
  %n = arith.subf %p, %g : tensor<?xf32>
  return %n : tensor<?xf32>
}
