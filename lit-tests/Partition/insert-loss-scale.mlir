// RUN: fsdp-opt %s --fsdp-insert-loss-scale=loss-scale=dynamic | FileCheck %s --check-prefixes=CHECK,SCALED
// RUN: fsdp-opt %s --fsdp-insert-loss-scale=loss-scale=1024 | FileCheck %s --check-prefixes=CHECK,SCALED
// RUN: fsdp-opt %s --fsdp-insert-loss-scale | FileCheck %s --check-prefixes=CHECK,PLAIN
// RUN: fsdp-opt %s --fsdp-insert-loss-scale -o %t.once && fsdp-opt %t.once --fsdp-insert-loss-scale -o %t.twice && diff %t.once %t.twice
// RUN: not fsdp-opt %t.once --fsdp-insert-loss-scale=loss-scale=dynamic 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not fsdp-opt %s --fsdp-insert-loss-scale=loss-scale=dynamic:growth=0.5 2>&1 | FileCheck %s --check-prefix=WRONG

// The argument is gone: an op stands for it, or 1 where nothing is scaled. An
// evaluation has none.
// NONE: error: expected an argument of @forward_backward with fsdp.loss_scale beside loss-scale dynamic, got none: export the step with fsdp-export --loss-scale
// WRONG: error: loss-scale: expected growth=G above 1, got 'growth=0.5'

// CHECK-LABEL: func.func @forward_backward(
// CHECK-SAME: %{{.*}}: tensor<4xf32> {fsdp.param = {fqn = "w"}}, %{{.*}}: tensor<4xf32> {fsdp.input = {name = "x"}})
// SCALED: %[[S:.*]] = fsdp.loss_scale : tensor<f32>
// PLAIN: %[[S:.*]] = arith.constant dense<1.000000e+00> : tensor<f32>
// CHECK: linalg.broadcast ins(%[[S]] : tensor<f32>)
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %s: tensor<f32> {fsdp.loss_scale},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  %e = tensor.empty() : tensor<4xf32>
  %g = linalg.broadcast ins(%s : tensor<f32>) outs(%e : tensor<4xf32>) dimensions = [0]
  return %loss, %g : tensor<f32>, tensor<4xf32>
}

// CHECK-LABEL: func.func @evaluate
// CHECK-NOT: fsdp.loss_scale
func.func @evaluate(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}}) -> (tensor<f32> {fsdp.loss}) attributes {fsdp.program = "eval"} {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss : tensor<f32>
}
