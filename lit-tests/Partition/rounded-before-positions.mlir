// DEFINE: %{flatten} = fsdp-opt %s -o /dev/null --fsdp-assign-units --fsdp-flatten-parameters=
// RUN: %{flatten}'mesh=shard=1 param-dtype=bf16 buffer-dtype=bf16' 2>&1 | FileCheck %s
// RUN: %{flatten}'mesh=shard=1 param-dtype=bf16 buffer-dtype=bf16 ignore=f*' 2>&1 | FileCheck %s --check-prefix=IGNORED
// RUN: %{flatten}'mesh=shard=1' 2>&1 | FileCheck %s --check-prefix=WIDE --allow-empty

// Angles of parameters and buffers that are rounded: a product by positions, and
// elementwise. What scales positions for something else, or is multiplied by
// other values, is rounded without a word.

// CHECK:       :[[#@LINE+12]]:5: remark: parameter "freq" is rounded to 'bf16' (param-dtype, as FSDP rounds it) before it is multiplied by positions: angles are off by up to 1/256 of themselves; a buffer is not rounded
// CHECK:       :[[#@LINE+13]]:5: warning: buffer "inv" is rounded to 'bf16' (buffer-dtype) before it is multiplied by positions: angles are off by up to 1/256 of themselves; under ignore it is not rounded
// CHECK-NOT:   is rounded to
// IGNORED-NOT: parameter "freq"
// IGNORED:     warning: buffer "inv" is rounded to 'bf16'
// IGNORED-NOT: is rounded to
// WIDE-NOT:    is rounded to

#id = affine_map<(d0) -> (d0)>
#none = affine_map<(d0) -> ()>

func.func @forward_backward(
    %freq: tensor<4x1xf32> {fsdp.param = {fqn = "freq"}},
    %w: tensor<f32> {fsdp.param = {fqn = "w"}},
    %inv: tensor<f32> {fsdp.buffer = {fqn = "inv"}},
    %mean: tensor<f32> {fsdp.buffer = {fqn = "mean"}},
    %position: tensor<2048xi64> {fsdp.input = {name = "position"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4x1xf32> {fsdp.grad = {fqn = "freq"}},
        tensor<f32> {fsdp.grad = {fqn = "w"}}) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2048xf32>
  %float = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%position : tensor<2048xi64>) outs(%e : tensor<2048xf32>) {
  ^bb0(%a: i64, %o: f32):
    %r = arith.sitofp %a : i64 to f32
    linalg.yield %r : f32
  } -> tensor<2048xf32>
  %row = tensor.expand_shape %float [[0, 1]] output_shape [1, 2048] : tensor<2048xf32> into tensor<1x2048xf32>
  %ep = tensor.empty() : tensor<4x2048xf32>
  %init = linalg.fill ins(%zero : f32) outs(%ep : tensor<4x2048xf32>) -> tensor<4x2048xf32>
  %angle = linalg.matmul ins(%freq, %row : tensor<4x1xf32>, tensor<1x2048xf32>) outs(%init : tensor<4x2048xf32>) -> tensor<4x2048xf32>
  %cos = linalg.exp ins(%angle : tensor<4x2048xf32>) outs(%ep : tensor<4x2048xf32>) -> tensor<4x2048xf32>
  %sin = linalg.generic {indexing_maps = [#id, #none, #none, #none, #id], iterator_types = ["parallel"]}
      ins(%float, %inv, %mean, %w : tensor<2048xf32>, tensor<f32>, tensor<f32>, tensor<f32>) outs(%e : tensor<2048xf32>) {
  ^bb0(%p: f32, %i: f32, %m: f32, %s: f32, %o: f32):
    %half = arith.constant 0.5 : f32
    %scaled = arith.mulf %p, %half : f32
    %a = arith.mulf %i, %scaled : f32
    %b = math.sin %a : f32
    %c = arith.mulf %b, %m : f32
    %d = arith.mulf %p, %s : f32
    %r = arith.addf %c, %d : f32
    linalg.yield %r : f32
  } -> tensor<2048xf32>
  %first = tensor.extract_slice %cos[0, 0] [1, 1] [1, 1] : tensor<4x2048xf32> to tensor<f32>
  %second = tensor.extract_slice %sin[0] [1] [1] : tensor<2048xf32> to tensor<f32>
  %es = tensor.empty() : tensor<f32>
  %loss = linalg.add ins(%first, %second : tensor<f32>, tensor<f32>) outs(%es : tensor<f32>) -> tensor<f32>
  return %loss, %freq, %w : tensor<f32>, tensor<4x1xf32>, tensor<f32>
}
