// Ranks apply the optimizer to their pieces: one that mixes elements would
// compute something else than on the whole parameter, so it is refused.
//
// RUN: fsdp-opt %s --split-input-file --verify-diagnostics --allow-unregistered-dialect --fsdp-verify-input

func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}}, %l: tensor<f32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  return %l, %w : tensor<f32>, tensor<4xf32>
}
// A norm of the gradient (LAMB, clipping inside the optimizer).
func.func @optimizer(%p: tensor<?xf32> {fsdp.optimizer = {role = "param", name = "p"}},
                     %g: tensor<?xf32> {fsdp.optimizer = {role = "grad", name = "g"}},
                     %s: tensor<f32> {fsdp.optimizer = {role = "state", name = "s"}})
    -> (tensor<?xf32> {fsdp.optimizer = {role = "param", name = "p"}}, tensor<f32> {fsdp.optimizer = {role = "state", name = "s"}}) {
  // expected-error@below {{'linalg.generic' op optimizer_c7}}
  %sum = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>], iterator_types = ["reduction"]}
      ins(%g : tensor<?xf32>) outs(%s : tensor<f32>) {
  ^bb0(%x: f32, %o: f32):
    %a = arith.addf %o, %x : f32
    linalg.yield %a : f32
  } -> tensor<f32>
  return %p, %sum : tensor<?xf32>, tensor<f32>
}

// -----

func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}}, %l: tensor<f32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  return %l, %w : tensor<f32>, tensor<4xf32>
}
// One element read out.
func.func @optimizer(%p: tensor<?xf32> {fsdp.optimizer = {role = "param", name = "p"}},
                     %g: tensor<?xf32> {fsdp.optimizer = {role = "grad", name = "g"}})
    -> (tensor<?xf32> {fsdp.optimizer = {role = "param", name = "p"}}) {
  %c0 = arith.constant 0 : index
  // expected-error@below {{'tensor.extract' op optimizer_c7}}
  %x = tensor.extract %g[%c0] : tensor<?xf32>
  return %p : tensor<?xf32>
}

// -----

func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}}, %l: tensor<f32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  return %l, %w : tensor<f32>, tensor<4xf32>
}
// A value that depends on the place.
func.func @optimizer(%p: tensor<?xf32> {fsdp.optimizer = {role = "param", name = "p"}},
                     %g: tensor<?xf32> {fsdp.optimizer = {role = "grad", name = "g"}})
    -> (tensor<?xf32> {fsdp.optimizer = {role = "param", name = "p"}}) {
  // expected-error@below {{'linalg.generic' op optimizer_c7}}
  %n = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%g : tensor<?xf32>) outs(%p : tensor<?xf32>) {
  ^bb0(%x: f32, %o: f32):
    %i = linalg.index 0 : index
    %k = arith.index_cast %i : index to i32
    %f = arith.sitofp %k : i32 to f32
    linalg.yield %f : f32
  } -> tensor<?xf32>
  return %n : tensor<?xf32>
}

// -----

func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}}, %l: tensor<f32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  return %l, %w : tensor<f32>, tensor<4xf32>
}
// Elementwise ops of any dialect, and scalars on their own, are fine.
func.func @optimizer(%p: tensor<?xf32> {fsdp.optimizer = {role = "param", name = "p"}},
                     %g: tensor<?xf32> {fsdp.optimizer = {role = "grad", name = "g"}},
                     %lr: tensor<f32> {fsdp.optimizer = {role = "scalar", name = "lr"}})
    -> (tensor<?xf32> {fsdp.optimizer = {role = "param", name = "p"}}) {
  %rate = tensor.extract %lr[] : tensor<f32>
  %c0 = arith.constant 0 : index
  %n = tensor.dim %p, %c0 : tensor<?xf32>
  %e = tensor.empty(%n) : tensor<?xf32>
  %r = linalg.fill ins(%rate : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %q = tensor.splat %rate[%n] : tensor<?xf32>
  %m = arith.mulf %g, %r : tensor<?xf32>
  %k = math.fma %m, %q, %g : tensor<?xf32>
  %d = "foreign.sub"(%p, %k) : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
  return %d : tensor<?xf32>
}
