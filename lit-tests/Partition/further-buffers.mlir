// Buffers that an evaluation alone has become states behind those of the step, which is no function any more by then.
//
// RUN: fsdp-opt %s --fsdp-partition='mesh=shard=2 optimizer=sgd' | FileCheck %s
// CHECK:     fsdp.state @buffer.first buffer "first"
// CHECK:     fsdp.state @buffer.second buffer "second"
// CHECK:     fsdp.program @train
// CHECK:     fsdp.program eval @evaluate({{.*}}fsdp.state = @buffer.first{{.*}}fsdp.state = @buffer.second
func.func @forward_backward(%w: tensor<f32> {fsdp.param = {fqn = "w"}})
    -> (tensor<f32> {fsdp.loss}, tensor<f32> {fsdp.grad = {fqn = "w"}}) {
  return %w, %w : tensor<f32>, tensor<f32>
}
func.func @evaluate(%w: tensor<f32> {fsdp.param = {fqn = "w"}}, %a: tensor<2xf32> {fsdp.buffer = {fqn = "first"}},
                    %b: tensor<3xf32> {fsdp.buffer = {fqn = "second"}})
    -> (tensor<f32> {fsdp.loss}, tensor<2xf32> {fsdp.output = {name = "a"}}, tensor<3xf32> {fsdp.output = {name = "b"}})
    attributes {fsdp.program = "eval"} {
  return %w, %a, %b : tensor<f32>, tensor<2xf32>, tensor<3xf32>
}
