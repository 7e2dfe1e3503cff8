// RUN: fsdp-opt %s --split-input-file --verify-diagnostics --fsdp-assign-units='wrap=module:Block,Blok'
// RUN: not fsdp-opt %S/Inputs/two-blocks.mlir --allow-unregistered-dialect --fsdp-assign-units=wrap=module: 2>&1 | FileCheck %s --check-prefix=NO-CLASS
// RUN: not fsdp-opt %S/Inputs/two-blocks.mlir --allow-unregistered-dialect --fsdp-assign-units=wrap=size:0 2>&1 | FileCheck %s --check-prefix=ZERO
// RUN: not fsdp-opt %S/Inputs/two-blocks.mlir --allow-unregistered-dialect --fsdp-assign-units=wrap=size:-5 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not fsdp-opt %S/Inputs/two-blocks.mlir --allow-unregistered-dialect --fsdp-assign-units=wrap=size:10000000000G 2>&1 | FileCheck %s --check-prefix=HUGE
// RUN: not fsdp-opt %S/Inputs/two-blocks.mlir --allow-unregistered-dialect --fsdp-assign-units=wrap=size:2m 2>&1 | FileCheck %s --check-prefix=SUFFIX
// RUN: not fsdp-opt %S/Inputs/two-blocks.mlir --allow-unregistered-dialect --fsdp-assign-units=wrap=layers 2>&1 | FileCheck %s --check-prefix=POLICY

// NO-CLASS: error: expected a class after 'module:', got nothing
// ZERO:     error: expected a positive number of elements after 'size:', got '0'
// NEGATIVE: error: expected a positive number of elements after 'size:', got '-5'
// HUGE:     error: expected a positive number of elements after 'size:', got '10000000000G'
// SUFFIX:   error: expected a positive number of elements after 'size:', got '2m'
// POLICY:   error: expected module:CLASS[,CLASS..], size:N, blocks, pieces, none or auto as wrap policy, got 'layers'

// The classes that there are, each once, in the model's order.
module attributes {fsdp.modules = [
    {class = "Net", fqn = ""}, {class = "Block", fqn = "a"}, {class = "Linear", fqn = "a.in"},
    {class = "Block", fqn = "b"}, {class = "Linear", fqn = "b.in"}]} {
  // expected-error@below {{expected classes of the model after 'module:', got 'Blok'; there are Net, Block, Linear}}
  func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "a.in.w"}}, %l: tensor<f32> {fsdp.input = {name = "x"}})
      -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "a.in.w"}}) {
    return %l, %w : tensor<f32>, tensor<4xf32>
  }
}

// -----

// An exporter that wrote no modules.
// expected-error@below {{expected classes of the model after 'module:', got 'Block'; there are none: the step lists no modules}}
func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "a.in.w"}}, %l: tensor<f32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "a.in.w"}}) {
  return %l, %w : tensor<f32>, tensor<4xf32>
}

// -----

// Not even a traced step.
// expected-error@below {{input_c9: expected a result with fsdp.loss, got none}}
// expected-error@below {{input_c10: expected a gradient of parameter "w", got none}}
func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}}) {
  return
}
