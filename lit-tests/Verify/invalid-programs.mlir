// RUN: fsdp-opt %s -fsdp-verify-input -split-input-file -verify-diagnostics

// Further traced functions: what they are, and what they share with the one that
// trains.

func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %w : tensor<f32>, tensor<4xf32>
}
// Case: a word that is no kind.
// input_c22
// expected-error @below {{input_c22: expected fsdp.program with 'train' or 'eval' on @other, got "evaluate"}}
func.func @other(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}})
    -> (tensor<f32> {fsdp.loss}) attributes {fsdp.program = "evaluate"} {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss : tensor<f32>
}

// -----

func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %w : tensor<f32>, tensor<4xf32>
}
// Case: the name of the program that @forward_backward becomes.
// expected-error @below {{input_c22: expected fsdp.program on functions of their own, got it on @train}}
func.func @train(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}})
    -> (tensor<f32> {fsdp.loss}) attributes {fsdp.program = "eval"} {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss : tensor<f32>
}

// -----

// Case: the step does not train.
// expected-error @below {{input_c22: expected @forward_backward to train, got fsdp.program = "eval"}}
func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}})
    attributes {fsdp.program = "eval"} {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %w : tensor<f32>, tensor<4xf32>
}

// -----

// expected-note @below {{that is here}}
func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %w : tensor<f32>, tensor<4xf32>
}
// Case: a parameter of another shape.
// input_c23
// expected-error @below {{input_c23: expected parameter "w" of @evaluate to be 'tensor<4xf32>' as in @forward_backward, got 'tensor<8xf32>'}}
func.func @evaluate(%w: tensor<8xf32> {fsdp.param = {fqn = "w"}})
    -> (tensor<f32> {fsdp.loss}) attributes {fsdp.program = "eval"} {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss : tensor<f32>
}

// -----

func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %w : tensor<f32>, tensor<4xf32>
}
// Case: a parameter that is not trained.
// expected-error @below {{input_c23: expected parameters of @forward_backward in @evaluate, got "v"}}
func.func @evaluate(%v: tensor<4xf32> {fsdp.param = {fqn = "v"}})
    -> (tensor<f32> {fsdp.loss}) attributes {fsdp.program = "eval"} {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss : tensor<f32>
}

// -----

func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %b: tensor<4xf32> {fsdp.buffer = {fqn = "b", init = {kind = "constant", value = 1.0}}})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %w : tensor<f32>, tensor<4xf32>
}
// Case: a buffer that begins as something else.
// expected-error @below {{input_c23: expected buffer "b" of @evaluate to be what it is in @forward_backward, got another "init"}}
func.func @evaluate(%b: tensor<4xf32> {fsdp.buffer = {fqn = "b", init = {kind = "constant", value = 2.0}}})
    -> (tensor<f32> {fsdp.loss}) attributes {fsdp.program = "eval"} {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss : tensor<f32>
}

// -----

func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %b: tensor<4xf32> {fsdp.buffer = {fqn = "b"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %w : tensor<f32>, tensor<4xf32>
}
// Case: an evaluation that changes a buffer.
// input_c24
// expected-error @below {{input_c24: expected an evaluation without gradients and updates, got result #1 with {fsdp.buffer_update = {fqn = "b"}}}}
func.func @evaluate(%b: tensor<4xf32> {fsdp.buffer = {fqn = "b"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.buffer_update = {fqn = "b"}})
    attributes {fsdp.program = "eval"} {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %b : tensor<f32>, tensor<4xf32>
}

// -----

func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %w : tensor<f32>, tensor<4xf32>
}
// Case: an evaluation that says nothing.
// expected-error @below {{input_c24: expected an evaluation with a loss or an output, got neither}}
func.func @evaluate(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}})
    attributes {fsdp.program = "eval"} {
  return
}

// -----

func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %w : tensor<f32>, tensor<4xf32>
}
// Case: two outputs of one name.
// expected-error @below {{input_c4: expected outputs with names of their own, not 'loss' and 'loss_count', got "y" for result #1}}
func.func @evaluate(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}})
    -> (tensor<4xf32> {fsdp.output = {name = "y"}}, tensor<4xf32> {fsdp.output = {name = "y"}})
    attributes {fsdp.program = "eval"} {
  return %w, %w : tensor<4xf32>, tensor<4xf32>
}

// -----

// Case: an output of the step: only evaluations have some.
// expected-error @below {{input_c2: expected result #1 with one of fsdp.loss, fsdp.loss_count, fsdp.grad and fsdp.buffer_update, got {fsdp.output = {name = "y"}}}}
func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.output = {name = "y"}}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %w, %w : tensor<f32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// input_c25
// expected-error @below {{input_c25: expected random numbers of kind bits, uniform or normal, got {kind = "gamma", name = "a", site = 0 : i64} for "a"}}
// expected-error @below {{input_c25: expected at most 4398046511104 elements of 'f32', got 'tensor<4xf64>' for "b"}}
// expected-error @below {{input_c25: expected sites used once, got 7 of argument #3 for "e"}}
// expected-error @below {{input_c25: expected a site from 0 to 65535, got {kind = "bits", name = "d", site = -1 : i64} for "d"}}
func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %a: tensor<4xf32> {fsdp.random = {name = "a", kind = "gamma", site = 0}},
    %b: tensor<4xf64> {fsdp.random = {name = "b", kind = "uniform", site = 7}},
    %c: tensor<4xf32> {fsdp.random = {name = "c", kind = "normal", site = 7}},
    %e: tensor<4xf32> {fsdp.random = {name = "e", kind = "normal", site = 7}},
    %d: tensor<4xi32> {fsdp.random = {name = "d", kind = "bits", site = -1}})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %w : tensor<f32>, tensor<4xf32>
}

// -----

func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %w : tensor<f32>, tensor<4xf32>
}
// Case: an evaluation that draws.
// expected-error @below {{input_c25: expected an evaluation that draws no random numbers, got some for "u"}}
func.func @evaluate(%u: tensor<4xf32> {fsdp.random = {name = "u", kind = "uniform", site = 0}})
    -> (tensor<f32> {fsdp.loss}) attributes {fsdp.program = "eval"} {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss : tensor<f32>
}

// -----

// input_c26
// expected-error @below {{input_c26: expected nothing beside fsdp.loss_scale, and no value, for argument #1, got {fsdp.loss_scale = 2.000000e+00 : f64}}}
// expected-error @below {{input_c26: expected 'tensor<f32>' for the loss's scale, argument #2, got 'tensor<1xf32>'}}
// expected-error @below {{input_c26: expected 'tensor<f32>' for the loss's scale, argument #3, got 'tensor<f16>'}}
// expected-error @below {{input_c26: expected one scale of the loss, got argument #4 and argument #5}}
func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %a: tensor<f32> {fsdp.loss_scale = 2.0}, %b: tensor<1xf32> {fsdp.loss_scale}, %c: tensor<f16> {fsdp.loss_scale},
    %d: tensor<f32> {fsdp.loss_scale}, %e: tensor<f32> {fsdp.loss_scale})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %w : tensor<f32>, tensor<4xf32>
}

// -----

func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %w : tensor<f32>, tensor<4xf32>
}
// Case: an evaluation that scales its loss.
// expected-error @below {{input_c26: expected an evaluation that scales no loss, got argument #0 with fsdp.loss_scale}}
func.func @evaluate(%s: tensor<f32> {fsdp.loss_scale}) -> (tensor<f32> {fsdp.loss}) attributes {fsdp.program = "eval"} {
  return %s : tensor<f32>
}
