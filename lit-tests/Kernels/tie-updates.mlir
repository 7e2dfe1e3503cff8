// RUN: fsdp-opt %s --fsdp-tie-updates --split-input-file | FileCheck %s

#id = affine_map<(d0) -> (d0)>

// Each element is read before it is written: in place.

// CHECK-LABEL: fsdp.program @step
// CHECK:         fsdp.launch @add(%{{.*}}, %{{.*}}) tied [0]
fsdp.state @b buffer "b" : tensor<8xf32>
fsdp.program @step(%b: tensor<8xf32> {fsdp.state = @b}, %x: tensor<8xf32>) -> (tensor<8xf32> {fsdp.state = @b}) {
  %0 = fsdp.launch @add(%b, %x) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  fsdp.return %0 : tensor<8xf32>
}
func.func private @add(%b: tensor<8xf32>, %x: tensor<8xf32>, %out: tensor<8xf32>) -> tensor<8xf32> {
  %e = tensor.empty() : tensor<8xf32>
  %r = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]}
      ins(%b, %x : tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%v: f32, %w: f32, %o: f32):
    %s = arith.addf %v, %w : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %s = bufferization.materialize_in_destination %r in %out : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %s : tensor<8xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>

// A later op reads the old value.

// CHECK-LABEL: fsdp.program @step
// CHECK:         fsdp.launch @twice(%{{.*}}) : (
fsdp.state @b buffer "b" : tensor<8xf32>
fsdp.program @step(%b: tensor<8xf32> {fsdp.state = @b}) -> (tensor<8xf32> {fsdp.state = @b}, tensor<8xf32>) {
  %0 = fsdp.launch @twice(%b) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = fsdp.launch @twice(%b) : (tensor<8xf32>) -> tensor<8xf32>
  fsdp.return %0, %1 : tensor<8xf32>, tensor<8xf32>
}
func.func private @twice(%b: tensor<8xf32>, %out: tensor<8xf32>) -> tensor<8xf32> {
  %e = tensor.empty() : tensor<8xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%b : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%v: f32, %o: f32):
    %s = arith.addf %v, %v : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %s = bufferization.materialize_in_destination %r in %out : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %s : tensor<8xf32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#flip = affine_map<(d0, d1) -> (d1, d0)>

// An op in between reads the element across: it may have been written already.

// CHECK-LABEL: fsdp.program @step
// CHECK:         fsdp.launch @across(%{{.*}}) : (
fsdp.state @b buffer "b" : tensor<8x8xf32>
fsdp.program @step(%b: tensor<8x8xf32> {fsdp.state = @b}) -> (tensor<8x8xf32> {fsdp.state = @b}) {
  %0 = fsdp.launch @across(%b) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  fsdp.return %0 : tensor<8x8xf32>
}
func.func private @across(%b: tensor<8x8xf32>, %out: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %e = tensor.empty() : tensor<8x8xf32>
  %d = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%b : tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) {
  ^bb0(%v: f32, %o: f32):
    %s = math.tanh %v : f32
    linalg.yield %s : f32
  } -> tensor<8x8xf32>
  %r = linalg.generic {indexing_maps = [#id, #flip, #id], iterator_types = ["parallel", "parallel"]}
      ins(%b, %d : tensor<8x8xf32>, tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) {
  ^bb0(%v: f32, %w: f32, %o: f32):
    %s = arith.addf %v, %w : f32
    linalg.yield %s : f32
  } -> tensor<8x8xf32>
  %s = bufferization.materialize_in_destination %r in %out : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %s : tensor<8x8xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>
#none = affine_map<(d0) -> ()>

// Each element is read and written after the sum of all.

// CHECK-LABEL: fsdp.program @step
// CHECK:         fsdp.launch @shift(%{{.*}}) tied [0] : (
fsdp.state @b buffer "b" : tensor<8xf32>
fsdp.program @step(%b: tensor<8xf32> {fsdp.state = @b}) -> (tensor<8xf32> {fsdp.state = @b}) {
  %0 = fsdp.launch @shift(%b) : (tensor<8xf32>) -> tensor<8xf32>
  fsdp.return %0 : tensor<8xf32>
}
func.func private @shift(%b: tensor<8xf32>, %out: tensor<8xf32>) -> tensor<8xf32> {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<f32>
  %f = linalg.fill ins(%zero : f32) outs(%e0 : tensor<f32>) -> tensor<f32>
  %sum = linalg.generic {indexing_maps = [#id, #none], iterator_types = ["reduction"]}
      ins(%b : tensor<8xf32>) outs(%f : tensor<f32>) {
  ^bb0(%v: f32, %o: f32):
    %s = arith.addf %v, %o : f32
    linalg.yield %s : f32
  } -> tensor<f32>
  %e = tensor.empty() : tensor<8xf32>
  %r = linalg.generic {indexing_maps = [#id, #none, #id], iterator_types = ["parallel"]}
      ins(%b, %sum : tensor<8xf32>, tensor<f32>) outs(%e : tensor<8xf32>) {
  ^bb0(%v: f32, %w: f32, %o: f32):
    %s = arith.subf %v, %w : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %s = bufferization.materialize_in_destination %r in %out : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %s : tensor<8xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>
#point = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>

// A running mean: each row's is read and written behind the row's sum.

// CHECK-LABEL: fsdp.program @step
// CHECK:         fsdp.launch @running(%{{.*}}, %{{.*}}) tied [1] : (
fsdp.state @b buffer "b" : tensor<4xf32>
fsdp.program @step(%x: tensor<4x8xf32>, %b: tensor<4xf32> {fsdp.state = @b}) -> (tensor<4xf32> {fsdp.state = @b}) {
  %0 = fsdp.launch @running(%x, %b) : (tensor<4x8xf32>, tensor<4xf32>) -> tensor<4xf32>
  fsdp.return %0 : tensor<4xf32>
}
func.func private @running(%x: tensor<4x8xf32>, %b: tensor<4xf32>, %out: tensor<4xf32>) -> tensor<4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %sum = linalg.generic {indexing_maps = [#point, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<4x8xf32>) outs(%f : tensor<4xf32>) {
  ^bb0(%v: f32, %o: f32):
    %s = arith.addf %v, %o : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  %r = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]}
      ins(%b, %sum : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%v: f32, %w: f32, %o: f32):
    %s = arith.addf %v, %w : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  %s = bufferization.materialize_in_destination %r in %out : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %s : tensor<4xf32>
}

// -----

#point = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>

// What is written over the old value is written first: behind the row's sum,
// the old value is read again.

// CHECK-LABEL: fsdp.program @step
// CHECK:         fsdp.launch @again(%{{.*}}) : (
fsdp.state @b buffer "b" : tensor<4x8xf32>
fsdp.program @step(%b: tensor<4x8xf32> {fsdp.state = @b}) -> (tensor<4x8xf32> {fsdp.state = @b}, tensor<4x8xf32>) {
  %0:2 = fsdp.launch @again(%b) : (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
  fsdp.return %0#0, %0#1 : tensor<4x8xf32>, tensor<4x8xf32>
}
func.func private @again(%b: tensor<4x8xf32>, %out0: tensor<4x8xf32>, %out1: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e0 : tensor<4xf32>) -> tensor<4xf32>
  %sum = linalg.generic {indexing_maps = [#point, #row], iterator_types = ["parallel", "reduction"]}
      ins(%b : tensor<4x8xf32>) outs(%f : tensor<4xf32>) {
  ^bb0(%v: f32, %o: f32):
    %s = arith.addf %v, %o : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  %e = tensor.empty() : tensor<4x8xf32>
  %twice = linalg.generic {indexing_maps = [#point, #point], iterator_types = ["parallel", "parallel"]}
      ins(%b : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%v: f32, %o: f32):
    %s = arith.addf %v, %v : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  %shifted = linalg.generic {indexing_maps = [#point, #row, #point], iterator_types = ["parallel", "parallel"]}
      ins(%b, %sum : tensor<4x8xf32>, tensor<4xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%v: f32, %w: f32, %o: f32):
    %s = arith.subf %v, %w : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  %s0 = bufferization.materialize_in_destination %twice in %out0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %s1 = bufferization.materialize_in_destination %shifted in %out1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %s0, %s1 : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>

// The kernel reads the state through a view, too.

// CHECK-LABEL: fsdp.program @step
// CHECK:         fsdp.launch @add(%{{.*}}, %{{.*}}) : (
fsdp.state @b buffer "b" : tensor<8xf32>
fsdp.program @step(%b: tensor<8xf32> {fsdp.state = @b}) -> (tensor<8xf32> {fsdp.state = @b}) {
  %view = fsdp.view %b[0] : tensor<8xf32> -> tensor<2x4xf32>
  %0 = fsdp.launch @add(%b, %view) : (tensor<8xf32>, tensor<2x4xf32>) -> tensor<8xf32>
  fsdp.return %0 : tensor<8xf32>
}
func.func private @add(%b: tensor<8xf32>, %x: tensor<2x4xf32>, %out: tensor<8xf32>) -> tensor<8xf32> {
  %e = tensor.empty() : tensor<8xf32>
  %flat = tensor.collapse_shape %x [[0, 1]] : tensor<2x4xf32> into tensor<8xf32>
  %r = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]}
      ins(%b, %flat : tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%v: f32, %w: f32, %o: f32):
    %s = arith.addf %v, %w : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %s = bufferization.materialize_in_destination %r in %out : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %s : tensor<8xf32>
}
