// RUN: fsdp-opt %s -fsdp-verify-input -split-input-file -verify-diagnostics

// Case: a declaration.
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}
// optimizer_c1
// expected-error @below {{optimizer_c1: expected a body of one block in @optimizer}}
func.func private @optimizer()

// -----

// Case: an argument without a role.
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}
// optimizer_c2
// expected-error @below {{optimizer_c2: expected argument #1 of @optimizer with fsdp.optimizer = {role, name}, role being param, grad, state or scalar}}
func.func @optimizer(
    %p: tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}},
    %g: tensor<?xf32>,
    %lr: tensor<f32> {fsdp.optimizer = {role = "scalar", name = "lr", default = 0.1 : f64}})
    -> (tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}}) {
  return %p : tensor<?xf32>
}

// -----

// Case: an unknown role.
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}
// expected-error @below {{optimizer_c2: expected argument #1 of @optimizer with fsdp.optimizer}}
func.func @optimizer(
    %p: tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}},
    %g: tensor<?xf32> {fsdp.optimizer = {role = "gradient", name = "grad"}},
    %lr: tensor<f32> {fsdp.optimizer = {role = "scalar", name = "lr", default = 0.1 : f64}})
    -> (tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}}) {
  return %p : tensor<?xf32>
}

// -----

// Case: an initial value that is text.
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}
// expected-error @below {{optimizer_c2: expected a number as 'init' of a state or 'default' of a scalar and no other entry for argument #2 of @optimizer ("m"), got 'init' = "0"}}
func.func @optimizer(
    %p: tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}},
    %g: tensor<?xf32> {fsdp.optimizer = {role = "grad", name = "grad"}},
    %m: tensor<?xf32> {fsdp.optimizer = {role = "state", name = "m", init = "0"}})
    -> (tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}},
        tensor<?xf32> {fsdp.optimizer = {role = "state", name = "m"}}) {
  return %p, %m : tensor<?xf32>, tensor<?xf32>
}

// -----

// Case: an initial value of a scalar.
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}
// expected-error @below {{optimizer_c2: expected a number as 'init' of a state or 'default' of a scalar and no other entry for argument #2 of @optimizer ("lr"), got 'init' = 1.000000e-01 : f64}}
func.func @optimizer(
    %p: tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}},
    %g: tensor<?xf32> {fsdp.optimizer = {role = "grad", name = "grad"}},
    %lr: tensor<f32> {fsdp.optimizer = {role = "scalar", name = "lr", init = 0.1 : f64}})
    -> (tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}}) {
  return %p : tensor<?xf32>
}

// -----

// Case: a matrix.
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}
// optimizer_c3
// expected-error @below {{optimizer_c3: expected a flat float tensor of dynamic size (or a state or scalar of rank 0) for argument #1 of @optimizer ("grad"), got 'tensor<?x?xf32>'}}
func.func @optimizer(
    %p: tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}},
    %g: tensor<?x?xf32> {fsdp.optimizer = {role = "grad", name = "grad"}},
    %lr: tensor<f32> {fsdp.optimizer = {role = "scalar", name = "lr", default = 0.1 : f64}})
    -> (tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}}) {
  return %p : tensor<?xf32>
}

// -----

// Case: a size of its own.
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}
// expected-error @below {{optimizer_c3: expected a flat float tensor of dynamic size (or a state or scalar of rank 0) for argument #1 of @optimizer ("grad"), got 'tensor<8xf32>'}}
func.func @optimizer(
    %p: tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}},
    %g: tensor<8xf32> {fsdp.optimizer = {role = "grad", name = "grad"}},
    %lr: tensor<f32> {fsdp.optimizer = {role = "scalar", name = "lr", default = 0.1 : f64}})
    -> (tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}}) {
  return %p : tensor<?xf32>
}

// -----

// Case: a scalar per element.
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}
// expected-error @below {{optimizer_c3: expected a flat float tensor of dynamic size (or a state or scalar of rank 0) for argument #2 of @optimizer ("lr"), got 'tensor<?xf32>'}}
func.func @optimizer(
    %p: tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}},
    %g: tensor<?xf32> {fsdp.optimizer = {role = "grad", name = "grad"}},
    %lr: tensor<?xf32> {fsdp.optimizer = {role = "scalar", name = "lr", default = 0.1 : f64}})
    -> (tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}}) {
  return %p : tensor<?xf32>
}

// -----

// Case: integers per element.
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}
// expected-error @below {{optimizer_c3: expected a flat float tensor of dynamic size (or a state or scalar of rank 0) for argument #1 of @optimizer ("grad"), got 'tensor<?xi32>'}}
func.func @optimizer(
    %p: tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}},
    %g: tensor<?xi32> {fsdp.optimizer = {role = "grad", name = "grad"}},
    %lr: tensor<f32> {fsdp.optimizer = {role = "scalar", name = "lr", default = 0.1 : f64}})
    -> (tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}}) {
  return %p : tensor<?xf32>
}

// -----

// Case: no gradient.
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}
// optimizer_c4
// expected-error @below {{optimizer_c4: expected @optimizer to take one param and one grad and to return one param}}
func.func @optimizer(
    %p: tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}},
    %lr: tensor<f32> {fsdp.optimizer = {role = "scalar", name = "lr", default = 0.1 : f64}})
    -> (tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}}) {
  return %p : tensor<?xf32>
}

// -----

// Case: no new parameter.
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}
// expected-error @below {{optimizer_c4: expected @optimizer to take one param and one grad and to return one param}}
func.func @optimizer(
    %p: tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}},
    %g: tensor<?xf32> {fsdp.optimizer = {role = "grad", name = "grad"}},
    %m: tensor<?xf32> {fsdp.optimizer = {role = "state", name = "m"}})
    -> (tensor<?xf32> {fsdp.optimizer = {role = "state", name = "m"}}) {
  return %m : tensor<?xf32>
}

// -----

// Case: a result that is no argument.
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}
// optimizer_c5
// expected-error @below {{optimizer_c5: expected result "m" of @optimizer to be an argument of the same role, name and type}}
func.func @optimizer(
    %p: tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}},
    %g: tensor<?xf32> {fsdp.optimizer = {role = "grad", name = "grad"}},
    %lr: tensor<f32> {fsdp.optimizer = {role = "scalar", name = "lr", default = 0.1 : f64}})
    -> (tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}},
        tensor<?xf32> {fsdp.optimizer = {role = "state", name = "m"}}) {
  return %p, %g : tensor<?xf32>, tensor<?xf32>
}

// -----

// Case: a state that is not returned.
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}
// expected-error @below {{optimizer_c5: expected @optimizer to return every state it takes}}
func.func @optimizer(
    %p: tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}},
    %g: tensor<?xf32> {fsdp.optimizer = {role = "grad", name = "grad"}},
    %m: tensor<?xf32> {fsdp.optimizer = {role = "state", name = "m"}})
    -> (tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}}) {
  return %p : tensor<?xf32>
}

// -----

// Case: a state and a scalar of one name.
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}
// optimizer_c6
// expected-error @below {{optimizer_c6: expected arguments of @optimizer with names of their own, got "m" twice}}
func.func @optimizer(
    %p: tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}},
    %g: tensor<?xf32> {fsdp.optimizer = {role = "grad", name = "grad"}},
    %m: tensor<?xf32> {fsdp.optimizer = {role = "state", name = "m"}},
    %lr: tensor<f32> {fsdp.optimizer = {role = "scalar", name = "m", default = 0.1 : f64}})
    -> (tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}},
        tensor<?xf32> {fsdp.optimizer = {role = "state", name = "m"}}) {
  return %p, %m : tensor<?xf32>, tensor<?xf32>
}

// -----

// Case: the scalar of clipping.
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}
// expected-error @below {{optimizer_c6: expected @optimizer without an argument named "clip_norm", which clipping adds}}
func.func @optimizer(
    %p: tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}},
    %g: tensor<?xf32> {fsdp.optimizer = {role = "grad", name = "grad"}},
    %lr: tensor<f32> {fsdp.optimizer = {role = "scalar", name = "clip_norm", default = 0.1 : f64}})
    -> (tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}}) {
  return %p : tensor<?xf32>
}

// -----

// Case: one state returned for another.
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}
// expected-error @below {{optimizer_c6: expected results of @optimizer with names of their own, got "m" twice}}
func.func @optimizer(
    %p: tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}},
    %g: tensor<?xf32> {fsdp.optimizer = {role = "grad", name = "grad"}},
    %m: tensor<?xf32> {fsdp.optimizer = {role = "state", name = "m"}},
    %v: tensor<?xf32> {fsdp.optimizer = {role = "state", name = "v"}})
    -> (tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}},
        tensor<?xf32> {fsdp.optimizer = {role = "state", name = "m"}},
        tensor<?xf32> {fsdp.optimizer = {role = "state", name = "m"}}) {
  return %p, %m, %v : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
}

// -----

// Case: a norm of the shard.
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}
func.func @optimizer(
    %p: tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}},
    %g: tensor<?xf32> {fsdp.optimizer = {role = "grad", name = "grad"}},
    %lr: tensor<f32> {fsdp.optimizer = {role = "scalar", name = "lr", default = 0.1 : f64}})
    -> (tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}}) {
  %zero = arith.constant dense<0.0> : tensor<f32>
  // optimizer_c7
  // expected-error @below {{'linalg.reduce' op optimizer_c7: expected ops of @optimizer that treat each element of a flat tensor alone, got this one}}
  %sum = linalg.reduce ins(%g : tensor<?xf32>) outs(%zero : tensor<f32>) dimensions = [0]
    (%a: f32, %b: f32) {
      %c = arith.addf %a, %b : f32
      linalg.yield %c : f32
    }
  return %p : tensor<?xf32>
}

// -----

// Case: an update that depends on the place.
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}
func.func @optimizer(
    %p: tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}},
    %g: tensor<?xf32> {fsdp.optimizer = {role = "grad", name = "grad"}},
    %lr: tensor<f32> {fsdp.optimizer = {role = "scalar", name = "lr", default = 0.1 : f64}})
    -> (tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}}) {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %p, %c0 : tensor<?xf32>
  %e = tensor.empty(%n) : tensor<?xf32>
  // expected-error @below {{'linalg.generic' op optimizer_c7}}
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%p : tensor<?xf32>) outs(%e : tensor<?xf32>) {
  ^bb0(%a: f32, %o: f32):
    %i = linalg.index 0 : index
    %j = arith.index_cast %i : index to i64
    %f = arith.sitofp %j : i64 to f32
    linalg.yield %f : f32
  } -> tensor<?xf32>
  return %r : tensor<?xf32>
}

// -----

// Case: an update that reads another element.
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}
func.func @optimizer(
    %p: tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}},
    %g: tensor<?xf32> {fsdp.optimizer = {role = "grad", name = "grad"}},
    %lr: tensor<f32> {fsdp.optimizer = {role = "scalar", name = "lr", default = 0.1 : f64}})
    -> (tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}}) {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %p, %c0 : tensor<?xf32>
  %e = tensor.empty(%n) : tensor<?xf32>
  // expected-error @below {{'linalg.generic' op optimizer_c7}}
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%p : tensor<?xf32>) outs(%e : tensor<?xf32>) {
  ^bb0(%a: f32, %o: f32):
    %f = tensor.extract %g[%c0] : tensor<?xf32>
    linalg.yield %f : f32
  } -> tensor<?xf32>
  return %r : tensor<?xf32>
}

// -----

// Case: a number that is the size of the shard.
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}
func.func @optimizer(
    %p: tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}},
    %g: tensor<?xf32> {fsdp.optimizer = {role = "grad", name = "grad"}},
    %lr: tensor<f32> {fsdp.optimizer = {role = "scalar", name = "lr", default = 0.1 : f64}})
    -> (tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}}) {
  %c0 = arith.constant 0 : index
  // expected-error @below {{'tensor.dim' op optimizer_c7}}
  %n = tensor.dim %p, %c0 : tensor<?xf32>
  %i = arith.index_cast %n : index to i64
  return %p : tensor<?xf32>
}

// -----

// Case: a group of another scalar.
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}
// optimizer_c8
// expected-error @below {{optimizer_c8: expected one of the scalars of @optimizer (lr) for group "small", got "beta"}}
func.func @optimizer(
    %p: tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}},
    %g: tensor<?xf32> {fsdp.optimizer = {role = "grad", name = "grad"}},
    %lr: tensor<f32> {fsdp.optimizer = {role = "scalar", name = "lr", default = 0.1 : f64}})
    -> (tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}})
    attributes {fsdp.optimizer_groups = {small = {beta = 0.5}}} {
  return %p : tensor<?xf32>
}

// -----

// Case: a number of another type.
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}
// expected-error @below {{optimizer_c8: expected a finite f64 number for "lr" of group "small", got 1 : i64}}
func.func @optimizer(
    %p: tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}},
    %g: tensor<?xf32> {fsdp.optimizer = {role = "grad", name = "grad"}},
    %lr: tensor<f32> {fsdp.optimizer = {role = "scalar", name = "lr", default = 0.1 : f64}})
    -> (tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}})
    attributes {fsdp.optimizer_groups = {small = {lr = 1 : i64}}} {
  return %p : tensor<?xf32>
}

// -----

// Case: a group that is no dictionary.
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4xf32>
}
// expected-error @below {{optimizer_c8: expected groups of @optimizer with names without dots and a dictionary of numbers each, got "small" = 5.000000e-01 : f64}}
func.func @optimizer(
    %p: tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}},
    %g: tensor<?xf32> {fsdp.optimizer = {role = "grad", name = "grad"}},
    %lr: tensor<f32> {fsdp.optimizer = {role = "scalar", name = "lr", default = 0.1 : f64}})
    -> (tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}})
    attributes {fsdp.optimizer_groups = {small = 0.5}} {
  return %p : tensor<?xf32>
}
