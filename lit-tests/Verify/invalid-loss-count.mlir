// RUN: fsdp-opt %s -fsdp-verify-input -split-input-file -verify-diagnostics

// Case: a count of nothing.
// expected-error @below {{input_c9: expected a result with fsdp.loss beside that with fsdp.loss_count, got none}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}}, %n: tensor<i64> {fsdp.input = {name = "n"}})
    -> (tensor<i64> {fsdp.loss_count}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  return %n, %w : tensor<i64>, tensor<4xf32>
}

// -----

// Case: a type that does not hold whole numbers.
// expected-error @below {{input_c9: expected a loss_count of rank 0 with an f32, f64, i32 or i64 element, got 'tensor<bf16>'}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}}, %n: tensor<bf16> {fsdp.input = {name = "n"}})
    -> (tensor<f32> {fsdp.loss}, tensor<bf16> {fsdp.loss_count}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %n, %w : tensor<f32>, tensor<bf16>, tensor<4xf32>
}

// -----

// Case: a count of each row, and two of all.
// expected-error @below {{input_c9: expected a loss_count of rank 0 with an f32, f64, i32 or i64 element, got 'tensor<4xf32>'}}
// expected-error @below {{input_c9: expected at most one loss_count, got result #2 as another}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.loss_count}, tensor<f32> {fsdp.loss_count},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %w, %loss, %w : tensor<f32>, tensor<4xf32>, tensor<f32>, tensor<4xf32>
}

// -----

// Case: one result that is both.
// expected-error @below {{input_c2: expected result #0 with one of fsdp.loss, fsdp.loss_count, fsdp.grad and fsdp.buffer_update, got {fsdp.loss, fsdp.loss_count}}}
// expected-error @below {{input_c9: expected a result with fsdp.loss, got none}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}})
    -> (tensor<f32> {fsdp.loss, fsdp.loss_count}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %w : tensor<f32>, tensor<4xf32>
}
