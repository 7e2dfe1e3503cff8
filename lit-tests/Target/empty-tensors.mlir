// A weight of Linear(0, 4) has no elements; its gradient is computed all the same.
// RUN: fsdp-compile %s --mesh shard=2 -o %t && %t --describe | FileCheck %s
// RUN: fsdp-compile %s --mesh shard=2 --target cuda --emit ptx -o - | FileCheck %s --check-prefix=PTX
// CHECK: l.1.w
// PTX: .target sm_80

#id = affine_map<(d0, d1) -> (d0, d1)>
#one = affine_map<(d0, d1) -> ()>
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "l.0.w", init = {kind = "constant", value = 0.5}}},
    %none: tensor<4x0xf32> {fsdp.param = {fqn = "l.1.w", init = {kind = "constant", value = 0.5}}},
    %x: tensor<f32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss},
        tensor<4xf32> {fsdp.grad = {fqn = "l.0.w"}},
        tensor<4x0xf32> {fsdp.grad = {fqn = "l.1.w"}}) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<f32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<f32>) -> tensor<f32>
  %sum = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>], iterator_types = ["reduction"]}
      ins(%w : tensor<4xf32>) outs(%z : tensor<f32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %o : f32
    linalg.yield %s : f32
  } -> tensor<f32>
  %loss = linalg.generic {indexing_maps = [#id, #one], iterator_types = ["reduction", "reduction"]}
      ins(%none : tensor<4x0xf32>) outs(%sum : tensor<f32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %o : f32
    linalg.yield %s : f32
  } -> tensor<f32>
  %e4 = tensor.empty() : tensor<4xf32>
  %g = linalg.generic {indexing_maps = [affine_map<(d0) -> ()>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%x : tensor<f32>) outs(%e4 : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<4xf32>
  %e0 = tensor.empty() : tensor<4x0xf32>
  %g0 = linalg.generic {indexing_maps = [#one, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<f32>) outs(%e0 : tensor<4x0xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<4x0xf32>
  return %loss, %g, %g0 : tensor<f32>, tensor<4xf32>, tensor<4x0xf32>
}
