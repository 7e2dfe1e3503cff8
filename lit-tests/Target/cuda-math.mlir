// RUN: fsdp-compile %s --optimizer sgd:lr=1 --target cuda --emit ptx -o %t.ptx
// RUN: FileCheck %s --input-file=%t.ptx

// Functions divide as IEEE 754 says.

// CHECK-NOT: .approx
// CHECK:     div.rn.f32
// CHECK-NOT: .approx

func.func @forward_backward(
    %w: tensor<16xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<16xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss}, tensor<16xf32> {fsdp.grad = {fqn = "w"}}) {
  %zero = arith.constant dense<0.0> : tensor<f32>
  %e = tensor.empty() : tensor<16xf32>
  %g = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
                       iterator_types = ["parallel"]}
      ins(%w, %x : tensor<16xf32>, tensor<16xf32>) outs(%e : tensor<16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %t = math.tan %a : f32
    %r = arith.mulf %t, %b : f32
    linalg.yield %r : f32
  } -> tensor<16xf32>
  %loss = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>],
                          iterator_types = ["reduction"]}
      ins(%g : tensor<16xf32>) outs(%zero : tensor<f32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %a, %o : f32
    linalg.yield %r : f32
  } -> tensor<f32>
  return %loss, %g : tensor<f32>, tensor<16xf32>
}
