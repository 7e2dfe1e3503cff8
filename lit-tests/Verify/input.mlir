// RUN: fsdp-opt %s --fsdp-verify-input --split-input-file | FileCheck %s
// RUN: fsdp-opt %s --split-input-file -o %t
// RUN: fsdp-opt %s --split-input-file --fsdp-verify-input | diff %t -

// Every kind of argument, result and entry there is; nothing is changed.

// CHECK-LABEL: func.func @forward_backward
// CHECK-SAME:    fsdp.param = {fqn = "w", init = {kind = "normal", mean = 0.000000e+00 : f64, std = 2.000000e-02 : f64}, tied = ["head.w"]}
// CHECK-NOT:   fsdp.unit
// CHECK:         cf.assert
// CHECK:       func.func @optimizer
module attributes {fsdp.modules = [{fqn = "", class = "Net"}, {fqn = "head", class = "Head"}]} {
  func.func @forward_backward(
      // Results may come in any order, and so may arguments.
      %ids: tensor<2x3xi64> {fsdp.input = {name = "ids", low = 0, high = 4, shift = 1}},
      %w: tensor<4xf32> {fsdp.param = {fqn = "w", tied = ["head.w"], init = {kind = "normal", mean = 0.0, std = 0.02}}},
      %frozen: tensor<4xbf16> {fsdp.param = {fqn = "frozen", requires_grad = false, init = {kind = "uniform", low = -1.0, high = 1.0}}},
      %unused: tensor<f64> {fsdp.param = {fqn = "unused", unused = true, init = {kind = "file"}}},
      %t: tensor<4xf16> {fsdp.param = {fqn = "t", requires_grad = false, init = {kind = "truncated_normal", mean = 0.0, std = 1.0, low = -2.0, high = 2.0}}},
      %mask: tensor<4xi1> {fsdp.buffer = {fqn = "mask", init = {kind = "values", values = dense<[true, false, true, true]> : tensor<4xi1>}}},
      %count: tensor<i8> {fsdp.buffer = {fqn = "count", tied = ["n"], init = {kind = "constant", value = -128.0}}},
      %x: tensor<4xf32> {fsdp.input = {name = "x"}})
      -> (tensor<4xf32> {fsdp.grad = {fqn = "w"}},
          tensor<i8> {fsdp.buffer_update = {fqn = "count"}},
          tensor<f32> {fsdp.loss}) {
    %loss = arith.constant dense<0.0> : tensor<f32>
    %true = arith.constant true
    cf.assert %true, "so it is"
    return %x, %count, %loss : tensor<4xf32>, tensor<i8>, tensor<f32>
  }

  func.func @optimizer(
      %p: tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}},
      %g: tensor<?xf32> {fsdp.optimizer = {role = "grad", name = "grad"}},
      %m: tensor<?xbf16> {fsdp.optimizer = {role = "state", name = "m", init = 0.0}},
      %step: tensor<i64> {fsdp.optimizer = {role = "state", name = "step", init = 0}},
      %lr: tensor<f32> {fsdp.optimizer = {role = "scalar", name = "lr"}})
      -> (tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}},
          tensor<i64> {fsdp.optimizer = {role = "state", name = "step"}},
          tensor<?xbf16> {fsdp.optimizer = {role = "state", name = "m"}}) {
    %c0 = arith.constant 0 : index
    %n = tensor.dim %p, %c0 : tensor<?xf32>
    %k = tensor.dim %g, %c0 : tensor<?xf32>
    %same = arith.cmpi eq, %n, %k : index
    cf.assert %same, "sizes differ"
    %e = tensor.empty(%n) : tensor<?xf32>
    %new = linalg.map { arith.subf } ins(%p, %g : tensor<?xf32>, tensor<?xf32>) outs(%e : tensor<?xf32>)
    %newer = arith.addf %new, %g : tensor<?xf32>
    return %newer, %step, %m : tensor<?xf32>, tensor<i64>, tensor<?xbf16>
  }
}

// -----

// What private functions compute is looked at where they are called.

// CHECK-LABEL: func.func private @helper
// CHECK-SAME:    tensor<?xf32>
func.func private @helper(%x: tensor<?xf32>) -> tensor<?xf32> {
  return %x : tensor<?xf32>
}
func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %w : tensor<f32>, tensor<4xf32>
}
