// RUN: fsdp-opt %s --fsdp-form-kernels --split-input-file | FileCheck %s

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>

// A softmax's sum and quotient share their rows: one kernel.

// CHECK-LABEL: fsdp.program @step
// CHECK:         iterator_types = ["parallel", "parallel"]{{.*}} {fsdp.kernel = 0 : i64}
// CHECK:         iterator_types = ["parallel", "reduction"]{{.*}} {fsdp.kernel = 0 : i64}
// CHECK:         iterator_types = ["parallel", "parallel"]{{.*}} {fsdp.kernel = 0 : i64}
fsdp.program @step(%x: tensor<64x33xf32>) -> tensor<64x33xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x33xf32>
  %exp = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<64x33xf32>) outs(%e : tensor<64x33xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = math.exp %a : f32
    linalg.yield %r : f32
  } -> tensor<64x33xf32>
  %e1 = tensor.empty() : tensor<64xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e1 : tensor<64xf32>) -> tensor<64xf32>
  %sum = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%exp : tensor<64x33xf32>) outs(%zeros : tensor<64xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %a, %o : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %p = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%exp, %sum : tensor<64x33xf32>, tensor<64xf32>) outs(%e : tensor<64x33xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.divf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<64x33xf32>
  fsdp.return %p : tensor<64x33xf32>
}

// -----

// A product is a kernel of its own, and so is a loop that upstream lowers; work
// on different tensors stays apart.

#id = affine_map<(d0) -> (d0)>

// CHECK-LABEL: fsdp.program @step
// CHECK:         linalg.matmul {fsdp.kernel = 0 : i64}
// CHECK:         {fsdp.kernel = 1 : i64}
// CHECK:         math.tanh
// CHECK:         tensor.pad
// CHECK:         {fsdp.kernel = 2 : i64}
// CHECK:         {fsdp.kernel = 3 : i64}
// CHECK:         math.exp
fsdp.program @step(%x: tensor<4x4xf32>, %y: tensor<7xf32>, %z: tensor<5xf32>) -> (tensor<4x4xf32>, tensor<7xf32>, tensor<9xf32>, tensor<5xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  %m = linalg.matmul ins(%x, %x : tensor<4x4xf32>, tensor<4x4xf32>) outs(%f : tensor<4x4xf32>) -> tensor<4x4xf32>
  %e1 = tensor.empty() : tensor<7xf32>
  %t = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%y : tensor<7xf32>) outs(%e1 : tensor<7xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = math.tanh %a : f32
    linalg.yield %r : f32
  } -> tensor<7xf32>
  %p = tensor.pad %y low[1] high[1] {
  ^bb0(%i: index):
    tensor.yield %zero : f32
  } : tensor<7xf32> to tensor<9xf32>
  %e2 = tensor.empty() : tensor<5xf32>
  %u = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%z : tensor<5xf32>) outs(%e2 : tensor<5xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = math.exp %a : f32
    linalg.yield %r : f32
  } -> tensor<5xf32>
  fsdp.return %m, %t, %p, %u : tensor<4x4xf32>, tensor<7xf32>, tensor<9xf32>, tensor<5xf32>
}

// -----

// Two readers that meet the same pieces of a dimension in different orders: no
// kernel has both, and the search for one ends.

#id = affine_map<(d0, d1) -> (d0, d1)>
#flip = affine_map<(d0, d1) -> (d1, d0)>

// CHECK-LABEL: fsdp.program @step
// CHECK-COUNT-3: fsdp.kernel
fsdp.program @step(%x: tensor<4x2xf32>) -> tensor<2x4xf32> {
  %e = tensor.empty() : tensor<4x2xf32>
  %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4x2xf32>) outs(%e : tensor<4x2xf32>) {
  ^bb0(%v: f32, %o: f32):
    %r = math.tanh %v : f32
    linalg.yield %r : f32
  } -> tensor<4x2xf32>
  %flat = tensor.collapse_shape %a [[0, 1]] : tensor<4x2xf32> into tensor<8xf32>
  %other = tensor.expand_shape %flat [[0, 1]] output_shape [2, 4] : tensor<8xf32> into tensor<2x4xf32>
  %e1 = tensor.empty() : tensor<2x4xf32>
  %b = linalg.generic {indexing_maps = [#flip, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%a, %other : tensor<4x2xf32>, tensor<2x4xf32>) outs(%e1 : tensor<2x4xf32>) {
  ^bb0(%v: f32, %w: f32, %o: f32):
    %r = arith.addf %v, %w : f32
    linalg.yield %r : f32
  } -> tensor<2x4xf32>
  %c = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%b : tensor<2x4xf32>) outs(%e1 : tensor<2x4xf32>) {
  ^bb0(%v: f32, %o: f32):
    %r = math.exp %v : f32
    linalg.yield %r : f32
  } -> tensor<2x4xf32>
  fsdp.return %c : tensor<2x4xf32>
}

// -----

// %p and %u read the same value, but %u waits for %p by way of a kernel that
// begins before both and ends behind them: they stay apart.

#id = affine_map<(d0) -> (d0)>
#scalar = affine_map<() -> ()>
#same = affine_map<(d0) -> ()>

// CHECK-LABEL: fsdp.program @step
// CHECK:         ins(%{{.*}} : tensor<f32>){{.*}} {fsdp.kernel = [[A:.*]] : i64}
// CHECK:         ins(%{{.*}} : tensor<65536xf32>){{.*}} {fsdp.kernel = [[P:.*]] : i64}
// CHECK-NOT:     {fsdp.kernel = [[P]] : i64}
// CHECK:         ins(%{{.*}} : tensor<f32>, tensor<f32>){{.*}} {fsdp.kernel = [[A]] : i64}
fsdp.program @step(%x: tensor<f32>, %g: tensor<65536xf32>) -> (tensor<f32>, tensor<65536xf32>) {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<f32>
  %e = tensor.empty() : tensor<65536xf32>
  %s = linalg.generic {indexing_maps = [#scalar, #scalar], iterator_types = []}
      ins(%x : tensor<f32>) outs(%e0 : tensor<f32>) {
  ^bb0(%a: f32, %o: f32):
    %r = math.tanh %a : f32
    linalg.yield %r : f32
  } -> tensor<f32>
  %p = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%g : tensor<65536xf32>) outs(%e : tensor<65536xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = math.exp %a : f32
    linalg.yield %r : f32
  } -> tensor<65536xf32>
  %u = linalg.generic {indexing_maps = [#id, #same, #id], iterator_types = ["parallel"]}
      ins(%g, %s : tensor<65536xf32>, tensor<f32>) outs(%e : tensor<65536xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.mulf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<65536xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e0 : tensor<f32>) -> tensor<f32>
  %pp = linalg.dot ins(%p, %p : tensor<65536xf32>, tensor<65536xf32>) outs(%f : tensor<f32>) -> tensor<f32>
  %t = linalg.generic {indexing_maps = [#scalar, #scalar, #scalar], iterator_types = []}
      ins(%pp, %s : tensor<f32>, tensor<f32>) outs(%e0 : tensor<f32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.addf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<f32>
  fsdp.return %t, %u : tensor<f32>, tensor<65536xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>
#same = affine_map<(d0) -> ()>
#scalar = affine_map<() -> ()>

// An optimizer's factor joins the first update that reads it.

// CHECK-LABEL: fsdp.program @step
// CHECK:         ins(%{{.*}} : tensor<f32>){{.*}} {fsdp.kernel = 0 : i64}
// CHECK:         ins(%{{.*}} : tensor<64xf32>, tensor<f32>){{.*}} {fsdp.kernel = 0 : i64}
fsdp.program @step(%count: tensor<f32>, %g: tensor<64xf32>) -> tensor<64xf32> {
  %e0 = tensor.empty() : tensor<f32>
  %e = tensor.empty() : tensor<64xf32>
  %s = linalg.generic {indexing_maps = [#scalar, #scalar], iterator_types = []}
      ins(%count : tensor<f32>) outs(%e0 : tensor<f32>) {
  ^bb0(%a: f32, %o: f32):
    %r = math.exp %a : f32
    linalg.yield %r : f32
  } -> tensor<f32>
  %u = linalg.generic {indexing_maps = [#id, #same, #id], iterator_types = ["parallel"]}
      ins(%g, %s : tensor<64xf32>, tensor<f32>) outs(%e : tensor<64xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.mulf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  fsdp.return %u : tensor<64xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>
#same = affine_map<(d0) -> ()>
#scalar = affine_map<() -> ()>

// Where a parameter is ignored, its update does not wait for reductions, and
// others do not wait for it: the factor is a kernel of its own.

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @own on @mesh shard [] replicate [] state f32 gather f32 reduce f32 numel 64 [
  <"b", tensor<64xf32> at 0>
] {trainable, unit = ""}

// CHECK-LABEL: fsdp.program @step
// CHECK:         ins(%{{.*}} : tensor<f32>){{.*}} {fsdp.kernel = 0 : i64}
// CHECK:         ins(%{{.*}} : tensor<64xf32>, tensor<f32>){{.*}} {fsdp.kernel = 1 : i64}
fsdp.program @step(%count: tensor<f32>, %g: tensor<64xf32>) -> tensor<64xf32> {
  %e0 = tensor.empty() : tensor<f32>
  %e = tensor.empty() : tensor<64xf32>
  %s = linalg.generic {indexing_maps = [#scalar, #scalar], iterator_types = []}
      ins(%count : tensor<f32>) outs(%e0 : tensor<f32>) {
  ^bb0(%a: f32, %o: f32):
    %r = math.exp %a : f32
    linalg.yield %r : f32
  } -> tensor<f32>
  %u = linalg.generic {indexing_maps = [#id, #same, #id], iterator_types = ["parallel"]}
      ins(%g, %s : tensor<64xf32>, tensor<f32>) outs(%e : tensor<64xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.mulf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  fsdp.return %u : tensor<64xf32>
}

// -----

// Circular padding: a tensor that is written part by part is one kernel. Where
// what was written before has another reader, the next part has its own.

// CHECK-LABEL: fsdp.program @step
// CHECK:         tensor.insert_slice {{.*}} {fsdp.kernel = 0 : i64}
// CHECK:         tensor.insert_slice {{.*}} {fsdp.kernel = 0 : i64}
// CHECK:         tensor.insert_slice {{.*}} {fsdp.kernel = 0 : i64}
// CHECK:         tensor.insert_slice {{.*}} {fsdp.kernel = 1 : i64}
fsdp.program @step(%x: tensor<5xf32>, %y: tensor<2xf32>) -> (tensor<9xf32>, tensor<9xf32>) {
  %e = tensor.empty() : tensor<9xf32>
  %middle = tensor.insert_slice %x into %e[2] [5] [1] : tensor<5xf32> into tensor<9xf32>
  %last = tensor.extract_slice %middle[5] [2] [1] : tensor<9xf32> to tensor<2xf32>
  %left = tensor.insert_slice %last into %middle[0] [2] [1] : tensor<2xf32> into tensor<9xf32>
  %first = tensor.extract_slice %left[2] [2] [1] : tensor<9xf32> to tensor<2xf32>
  %all = tensor.insert_slice %first into %left[7] [2] [1] : tensor<2xf32> into tensor<9xf32>
  %other = tensor.insert_slice %y into %all[0] [2] [1] : tensor<2xf32> into tensor<9xf32>
  fsdp.return %all, %other : tensor<9xf32>, tensor<9xf32>
}

// -----

// So is one whose rows are padded and then its columns.

// CHECK-LABEL: fsdp.program @step
// CHECK:         tensor.insert_slice {{.*}} {fsdp.kernel = 0 : i64}
// CHECK:         tensor.insert_slice {{.*}} {fsdp.kernel = 0 : i64}
fsdp.program @step(%x: tensor<2x2xf32>) -> tensor<4x4xf32> {
  %e = tensor.empty() : tensor<4x4xf32>
  %columns = tensor.extract_slice %e[0, 1] [4, 2] [1, 1] : tensor<4x4xf32> to tensor<4x2xf32>
  %rows = tensor.insert_slice %x into %columns[1, 0] [2, 2] [1, 1] : tensor<2x2xf32> into tensor<4x2xf32>
  %all = tensor.insert_slice %rows into %e[0, 1] [4, 2] [1, 1] : tensor<4x2xf32> into tensor<4x4xf32>
  fsdp.return %all : tensor<4x4xf32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>

// Rows of one tensor are summed, rows of another, which are as long, are scaled by that: one kernel, whose rows are
// those of both.

// CHECK-LABEL: fsdp.program @step
// CHECK:         iterator_types = ["parallel", "reduction"]{{.*}} {fsdp.kernel = 0 : i64}
// CHECK:         iterator_types = ["parallel", "parallel"]{{.*}} {fsdp.kernel = 0 : i64}
// Rows that are of another length are another kernel's.
// CHECK:         iterator_types = ["parallel", "parallel"]{{.*}} {fsdp.kernel = 1 : i64}
fsdp.program @step(%x: tensor<64x256xf32>, %y: tensor<64x256xf32>, %z: tensor<64x100xf32>)
    -> (tensor<64x256xf32>, tensor<64x100xf32>) {
  %zero = arith.constant 0.0 : f32
  %er = tensor.empty() : tensor<64xf32>
  %init = linalg.fill ins(%zero : f32) outs(%er : tensor<64xf32>) -> tensor<64xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<64x256xf32>) outs(%init : tensor<64xf32>) {
  ^bb0(%v: f32, %o: f32):
    %r = arith.addf %v, %o : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %e = tensor.empty() : tensor<64x256xf32>
  %g = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%y, %s : tensor<64x256xf32>, tensor<64xf32>) outs(%e : tensor<64x256xf32>) {
  ^bb0(%v: f32, %w: f32, %o: f32):
    %r = arith.mulf %v, %w : f32
    linalg.yield %r : f32
  } -> tensor<64x256xf32>
  %e2 = tensor.empty() : tensor<64x100xf32>
  %h = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%z, %s : tensor<64x100xf32>, tensor<64xf32>) outs(%e2 : tensor<64x100xf32>) {
  ^bb0(%v: f32, %w: f32, %o: f32):
    %r = arith.mulf %v, %w : f32
    linalg.yield %r : f32
  } -> tensor<64x100xf32>
  fsdp.return %g, %h : tensor<64x256xf32>, tensor<64x100xf32>
}
