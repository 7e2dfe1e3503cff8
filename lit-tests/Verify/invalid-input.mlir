// RUN: fsdp-opt %s -fsdp-verify-input -split-input-file -verify-diagnostics

// Case: no step.
// input_c1
// expected-error @below {{input_c1: expected a function @forward_backward, got none}}
module {
}

// -----

// Case: a declaration.
// expected-error @below {{input_c1: expected a body of one block in @forward_backward, got 0}}
func.func private @forward_backward()

// -----

// Case: an argument that is two things.
// input_c2
// expected-error @below {{input_c2: expected argument #1 with one of fsdp.param, fsdp.buffer, fsdp.input, fsdp.random and fsdp.loss_scale, got {fsdp.buffer = {fqn = "x"}, fsdp.input = {name = "x"}}}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.buffer = {fqn = "x"}, fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}

// -----

// Case: an argument that is nothing.
// expected-error @below {{input_c2: expected argument #1 with one of fsdp.param, fsdp.buffer, fsdp.input, fsdp.random and fsdp.loss_scale, got {}}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32>)
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}

// -----

// Case: a result that is nothing.
// expected-error @below {{input_c2: expected result #2 with one of fsdp.loss, fsdp.loss_count, fsdp.grad and fsdp.buffer_update, got {}}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}},
        tensor<4xf32>) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x, %x : tensor<f32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// Case: no parameter.
// expected-error @below {{input_c2: expected at least one parameter, got none}}
func.func @forward_backward(
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss : tensor<f32>
}

// -----

// Case: a name that is not text.
// input_c3
// expected-error @below {{input_c2: expected at least one parameter, got none}}
// expected-error @below {{input_c3: expected argument #0 with a string in 'fqn', got 1 : i64}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = 1}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss : tensor<f32>
}

// -----

// Case: a misspelt entry.
// expected-error @below {{input_c3: expected w with entries among fqn, tied, init, requires_grad, unused, group, placement, got "require_grad"}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w", require_grad = false}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}

// -----

// Case: a flag that is a number.
// expected-error @below {{input_c3: expected w with true or false in 'unused', got 0 : i64}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w", unused = 0}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}

// -----

// Case: a bound that is text.
// expected-error @below {{input_c3: expected x with an integer in 'high', got "4"}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x", high = "4"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}

// -----

// Case: an empty tied name.
// expected-error @below {{input_c3: expected names in 'tied' of "w", got ""}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w", tied = [""]}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}

// -----

// Case: two parameters of one name.
// input_c4
// expected-error @below {{input_c4: expected names used once, got 'w' as a parameter after a parameter}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %v: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}

// -----

// Case: a tied name that is a buffer.
// expected-error @below {{input_c4: expected names used once, got 'b' as a buffer after a tied name}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w", tied = ["b"]}},
    %b: tensor<4xf32> {fsdp.buffer = {fqn = "b"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}

// -----

// Case: an input of dynamic shape.
// input_c5
// expected-error @below {{input_c5: expected a tensor of static shape for argument #1 ("x"), got 'tensor<?xf32>'}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<?xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %w : tensor<f32>, tensor<4xf32>
}

// -----

// Case: a parameter that is a number.
// expected-error @below {{input_c2: expected at least one parameter, got none}}
// expected-error @below {{input_c5: expected a tensor of static shape for argument #0 ("w"), got 'f32'}}
func.func @forward_backward(
    %w: f32 {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss : tensor<f32>
}

// -----

// Case: a parameter of integers.
// input_c6
// expected-error @below {{input_c6: expected f32, f64, f16 or bf16 elements for argument #0 ("w"), got 'tensor<4xi32>'}}
func.func @forward_backward(
    %w: tensor<4xi32> {fsdp.param = {fqn = "w"}},
    %v: tensor<4xf32> {fsdp.param = {fqn = "v"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "v"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}

// -----

// Case: an input of indices.
// expected-error @below {{input_c6: expected f32, f64, f16, bf16, i1, i8, i16, i32 or i64 elements for argument #2 ("y"), got 'tensor<4xindex>'}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}},
    %y: tensor<4xindex> {fsdp.input = {name = "y"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}

// -----

// Case: a parameter with a placement.
// input_c7
// expected-error @below {{input_c7: expected a parameter without a placement of its own, got one for "w"}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w", placement = ["tensor"]}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}

// -----

// Case: bounds without a value between them.
// input_c8
// expected-error @below {{input_c8: expected low < high for input "y", got 4 and 4}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}},
    %y: tensor<4xi64> {fsdp.input = {name = "y", low = 4, high = 4}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}

// -----

// Case: bounds of floats.
// expected-error @below {{input_c8: expected bounds on integers only, got some on input "x" of 'tensor<4xf32>'}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x", low = 0, high = 4}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}

// -----

// Case: random data outside of the bounds.
// expected-error @below {{input_c8: expected to draw within the bounds of input "y", got array<i64: 0, 5>}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}},
    %y: tensor<4xi64> {fsdp.input = {name = "y", high = 4, draw = array<i64: 0, 5>}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}

// -----

// Case: a range that is none, and values that are no list.
// expected-error @below {{input_c8: expected draw = array<i64: low, high> with low < high for input "y", got array<i64: 5>}}
// expected-error @below {{input_c3: expected z with array<i64: ...> in 'allowed', got 4 : i64}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}},
    %y: tensor<4xi64> {fsdp.input = {name = "y", draw = array<i64: 5>}},
    %z: tensor<4xi64> {fsdp.input = {name = "z", allowed = 4}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}

// -----

// Case: allowed values of floats.
// expected-error @below {{input_c8: expected bounds on integers only, got some on input "x" of 'tensor<4xf32>'}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x", allowed = array<i64: 4>}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}

// -----

// Case: a shift in words.
// expected-error @below {{input_c3: expected an integer or "unknown" as the shift of input "x", got "next"}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x", shift = "next"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}

// -----

// Case: no loss.
// input_c9
// expected-error @below {{input_c9: expected a result with fsdp.loss, got none}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  return %x : tensor<4xf32>
}

// -----

// Case: a loss per element.
// expected-error @below {{input_c9: expected a loss of rank 0 with a float element, got 'tensor<4xf32>'}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<4xf32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  return %x, %x : tensor<4xf32>, tensor<4xf32>
}

// -----

// Case: an integer loss.
// expected-error @below {{input_c9: expected a loss of rank 0 with a float element, got 'tensor<i64>'}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<i64> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0> : tensor<i64>
  return %loss, %x : tensor<i64>, tensor<4xf32>
}

// -----

// Case: two losses.
// expected-error @below {{input_c9: expected one loss, got result #1 as another}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %loss, %x : tensor<f32>, tensor<f32>, tensor<4xf32>
}

// -----

// Case: no gradient of a trained parameter.
// input_c10
// expected-error @below {{input_c10: expected a gradient of parameter "w", got none}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss : tensor<f32>
}

// -----

// Case: a gradient of another shape.
// expected-error @below {{input_c10: expected a gradient of 'tensor<4xf32>' for "w", got 'tensor<2x2xf32>'}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<2x2xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<2x2xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<2x2xf32>
}

// -----

// Case: a gradient of a frozen parameter.
// expected-error @below {{input_c10: expected no gradient of "w", which is frozen or unused}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w", requires_grad = false}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}

// -----

// Case: a gradient of no parameter.
// expected-error @below {{input_c10: expected the gradient of a parameter, got result #2 for "x"}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}},
        tensor<4xf32> {fsdp.grad = {fqn = "x"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x, %x : tensor<f32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// Case: two gradients of one parameter.
// expected-error @below {{input_c10: expected one gradient of "w", got another}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x, %x : tensor<f32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// Case: an update of a parameter.
// input_c11
// expected-error @below {{input_c11: expected the update of a buffer, got result #2 for "w"}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}},
        tensor<4xf32> {fsdp.buffer_update = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x, %x : tensor<f32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// Case: an update of another type.
// expected-error @below {{input_c11: expected an update of 'tensor<4xf32>' for "b", got 'tensor<f32>'}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %b: tensor<4xf32> {fsdp.buffer = {fqn = "b"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}},
        tensor<f32> {fsdp.buffer_update = {fqn = "b"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x, %loss : tensor<f32>, tensor<4xf32>, tensor<f32>
}

// -----

// Case: words that are no bytes.
// expected-error @below {{input_c6: expected i8 elements where 'unsigned' stands, for "x", got 'tensor<4xi16>'}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xi16> {fsdp.input = {name = "x", unsigned = true}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %w : tensor<f32>, tensor<4xf32>
}

// -----

// Case: a byte that is none.
// expected-error @below {{input_c14: expected a value that i8 without a sign can hold as initialiser of "b", got {kind = "constant", value = -1.000000e+00 : f64}}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %b: tensor<4xi8> {fsdp.buffer = {fqn = "b", unsigned = true, init = {kind = "constant", value = -1.0}}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %w : tensor<f32>, tensor<4xf32>
}

// -----

// Case: a check that says nothing.
// input_c21
module attributes {fsdp.verified = ""} {
  // expected-error @below {{input_c21: expected a text in fsdp.verified, got ""}}
  func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}})
      -> (tensor<f32> {fsdp.loss},
          tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
    %loss = arith.constant dense<0.0> : tensor<f32>
    return %loss, %w : tensor<f32>, tensor<4xf32>
  }
}

// -----

// Case: a module without a class.
module attributes {fsdp.modules = [{fqn = ""}]} {
// input_c12
// expected-error @below {{input_c12: expected {fqn, class} in fsdp.modules, got {fqn = ""}}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}
}

// -----

// Case: a checkpoint that is neither true nor false.
module attributes {fsdp.modules = [{fqn = "", class = "Net", checkpoint = 1}]} {
// expected-error @below {{input_c12: expected true or false in checkpoint of module "", got 1}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}
}

// -----

// Case: a module whose configuration is no object.
module attributes {fsdp.modules = [{fqn = "", class = "Net", config = "[1]"}]} {
// expected-error @below {{input_c12: expected a JSON object as text in config of module "", got "[1]"}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}
}

// -----

// Case: a module twice.
module attributes {fsdp.modules = [{fqn = "", class = "Net"}, {fqn = "", class = "Net"}]} {
// expected-error @below {{input_c12: expected each module once in fsdp.modules, got "" twice}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}
}

// -----

// Case: a value of dynamic shape.
// input_c13
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  // expected-error @below {{'tensor.cast' op input_c13: expected results of static shape in @forward_backward, got 'tensor<?xf32>'}}
  %y = tensor.cast %x : tensor<4xf32> to tensor<?xf32>
  %z = tensor.cast %y : tensor<?xf32> to tensor<4xf32>
  return %loss, %z : tensor<f32>, tensor<4xf32>
}

// -----

// Case: a value of dynamic shape inside a loop.
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %zero = arith.constant dense<0.0> : tensor<f32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %loss = scf.for %i = %c0 to %c4 step %c1 iter_args(%sum = %zero) -> (tensor<f32>) {
    // expected-error @below {{'tensor.extract_slice' op input_c13: expected results of static shape in @forward_backward, got 'tensor<?xf32>'}}
    %part = tensor.extract_slice %x[0] [%i] [1] : tensor<4xf32> to tensor<?xf32>
    %size = tensor.dim %part, %c0 : tensor<?xf32>
    scf.yield %sum : tensor<f32>
  }
  return %loss, %x : tensor<f32>, tensor<4xf32>
}

// -----

// Case: an unknown initialiser.
// input_c14
// expected-error @below {{input_c14: expected a kind among constant, normal, uniform, truncated_normal, values and file as initialiser of "w"}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w", init = {kind = "orthogonal"}}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}

// -----

// Case: an initialiser that is a number.
// expected-error @below {{input_c14: expected a kind among constant, normal, uniform, truncated_normal, values and file as initialiser of "w"}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w", init = 1.0 : f32}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}

// -----

// Case: a constant without a value.
// expected-error @below {{input_c14: expected a number in 'value' as initialiser of "w"}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w", init = {kind = "constant"}}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}

// -----

// Case: a constant that no boolean can be.
// expected-error @below {{input_c14: expected a value that i1 can hold as initialiser of "b"}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %b: tensor<4xi1> {fsdp.buffer = {fqn = "b", init = {kind = "constant", value = 2.0 : f64}}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}

// -----

// Case: values of another shape.
// expected-error @below {{input_c14: expected dense values of tensor<4xf32> as initialiser of "w"}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w", init = {kind = "values", values = dense<1.0> : tensor<2x2xf32>}}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}

// -----

// Case: an entry of another kind of initialiser.
// expected-error @below {{input_c3: expected initialiser of w with entries among kind, mean, std, got "low"}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w", init = {kind = "normal", low = 0.0 : f64, mean = 0.0 : f64, std = 1.0 : f64}}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}

// -----

// Case: a shift that no file has.
// expected-error @below {{input_c3: expected a shift from 0 to 1152921504606846976 for input "x", got 9223372036854775807}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xi64> {fsdp.input = {name = "x", low = 0, high = 2, shift = 9223372036854775807 : i64}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  %g = arith.constant dense<0.0> : tensor<4xf32>
  return %loss, %g : tensor<f32>, tensor<4xf32>
}

// -----

// Case: a negative deviation.
// expected-error @below {{input_c14: expected finite numbers 'mean' and 'std', std not below 0, as initialiser of}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w", init = {kind = "normal", mean = 0.0 : f64, std = -1.0 : f64}}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}

// -----

// Case: an empty range.
// expected-error @below {{input_c14: expected finite numbers 'low' < 'high' as initialiser of}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w", init = {kind = "uniform", low = 1.0 : f64, high = 1.0 : f64}}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}

// -----

// Case: random integers.
// expected-error @below {{input_c14: expected constant, values or file for integers as initialiser of "b"}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %b: tensor<4xi64> {fsdp.buffer = {fqn = "b", init = {kind = "uniform", low = 0.0 : f64, high = 4.0 : f64}}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}

// -----

// Case: an effect.
// input_c15
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  // expected-error @below {{'tosa.custom' op input_c15: expected ops without side effects, or cf.assert, in @forward_backward, got this one}}
  %y = "tosa.custom"(%x) {operator_name = "a", domain_name = "b", implementation_attrs = "c"} : (tensor<4xf32>) -> tensor<4xf32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}

// -----

// Case: memory.
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  // expected-error @below {{'memref.alloc' op input_c19: expected ops that compute on tensors}}
  %y = memref.alloc() : memref<4xf32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}

// -----

// Case: an input whose bytes nobody can count.
// expected-error @below {{input_c5: expected a tensor of at most 9007199254740992 bytes for argument #1 ("x"), got 'tensor<4611686018427387904xf32>'}}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4611686018427387904xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %w : tensor<f32>, tensor<4xf32>
}

// -----

// Case: a value whose bytes nobody can count.
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  // expected-error @below {{'tensor.empty' op input_c13: expected results of at most 9007199254740992 bytes in @forward_backward, got 'tensor<4611686018427387904x4xf32>'}}
  %y = tensor.empty() : tensor<4611686018427387904x4xf32>
  return %loss, %w : tensor<f32>, tensor<4xf32>
}
