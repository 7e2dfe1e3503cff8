// RUN: fsdp-opt %s --fsdp-count-flops | FileCheck %s

#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(d0) -> (d0)>

// Multiplications and additions of products, in the type of their factors; of
// each launch. What is computed element by element does not count.

// CHECK-LABEL: fsdp.program @products(
// CHECK-SAME:    attributes {flops = #fsdp.flops<f32 = 192, bf16 = 384>} {
fsdp.program @products(%x: tensor<4x8xf32>, %y: tensor<8x3xf32>, %p: tensor<4x8xbf16>, %q: tensor<8x3xbf16>, %v: tensor<8xf32>) {
  %0 = fsdp.launch @f32(%x, %y) : (tensor<4x8xf32>, tensor<8x3xf32>) -> tensor<4x3xf32>
  %1 = fsdp.launch @bf16(%p, %q) : (tensor<4x8xbf16>, tensor<8x3xbf16>) -> tensor<4x3xf32>
  %2 = fsdp.launch @bf16(%p, %q) : (tensor<4x8xbf16>, tensor<8x3xbf16>) -> tensor<4x3xf32>
  %3 = fsdp.launch @add(%v) : (tensor<8xf32>) -> tensor<8xf32>
  fsdp.return
}

// Of a program without any it is known that there are none; of one that was
// counted before it is counted anew.

// CHECK-LABEL: fsdp.program eval @elementwise(
// CHECK-SAME:    attributes {flops = #fsdp.flops<>} {
fsdp.program eval @elementwise(%v: tensor<8xf32>) attributes {flops = #fsdp.flops<f16 = 7>} {
  %0 = fsdp.launch @add(%v) : (tensor<8xf32>) -> tensor<8xf32>
  fsdp.return
}

// Nobody knows what a kernel without a body computes.

// CHECK-LABEL: fsdp.program accumulate @unknown(
// CHECK-NOT:     flops
fsdp.program accumulate @unknown(%v: tensor<8xf32>) attributes {flops = #fsdp.flops<f16 = 7>} {
  %0 = fsdp.launch @declared(%v) : (tensor<8xf32>) -> tensor<8xf32>
  fsdp.return
}

func.func private @f32(%x: tensor<4x8xf32>, %y: tensor<8x3xf32>, %out: tensor<4x3xf32>) -> tensor<4x3xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x3xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x3xf32>) -> tensor<4x3xf32>
  %r = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %y : tensor<4x8xf32>, tensor<8x3xf32>) outs(%f : tensor<4x3xf32>) {
  ^bb0(%u: f32, %v: f32, %o: f32):
    %t = arith.mulf %u, %v : f32
    %s = arith.addf %o, %t : f32
    linalg.yield %s : f32
  } -> tensor<4x3xf32>
  %s = bufferization.materialize_in_destination %r in %out : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %s : tensor<4x3xf32>
}
func.func private @bf16(%x: tensor<4x8xbf16>, %y: tensor<8x3xbf16>, %out: tensor<4x3xf32>) -> tensor<4x3xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x3xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x3xf32>) -> tensor<4x3xf32>
  %r = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %y : tensor<4x8xbf16>, tensor<8x3xbf16>) outs(%f : tensor<4x3xf32>) {
  ^bb0(%u: bf16, %v: bf16, %o: f32):
    %a = arith.extf %u : bf16 to f32
    %b = arith.extf %v : bf16 to f32
    %t = arith.mulf %a, %b : f32
    %s = arith.addf %o, %t : f32
    linalg.yield %s : f32
  } -> tensor<4x3xf32>
  %s = bufferization.materialize_in_destination %r in %out : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %s : tensor<4x3xf32>
}
func.func private @add(%x: tensor<8xf32>, %out: tensor<8xf32>) -> tensor<8xf32> {
  %e = tensor.empty() : tensor<8xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%v: f32, %o: f32):
    %s = arith.addf %v, %v : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %s = bufferization.materialize_in_destination %r in %out : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %s : tensor<8xf32>
}
func.func private @declared(tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
