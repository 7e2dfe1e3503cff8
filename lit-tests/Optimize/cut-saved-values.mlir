// RUN: fsdp-opt %s --split-input-file --pass-pipeline='builtin.module(fsdp.program(fsdp-cut-saved-values))' | FileCheck %s

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d1)>

// The product's result, which backward reads, is saved; its activation and the scaled activation are
// computed again: the scale is read from what backward gathers, which comes
// earlier for that. The copies stand before their first reader, a product, and
// serve the loop after it, too. The rounding stays where it was.
fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// CHECK-LABEL: fsdp.program @step
fsdp.program @step(%p: tensor<8xf32>, %x: tensor<16x16xf32>, %y: tensor<16x16xbf16>)
    -> (tensor<f32> {fsdp.loss}, tensor<16x16xbf16>, tensor<16x16xf32>, tensor<16xf32>) {
  // CHECK: %[[W:.*]] = fsdp.all_gather {{.*}} forward
  // CHECK: %[[A:.*]] = linalg.matmul
  // CHECK: %[[T:.*]] = linalg.generic {{.*}}ins(%[[A]] :
  // CHECK: math.tanh
  // CHECK: %[[S:.*]] = linalg.generic {{.*}}ins(%[[T]],
  // CHECK: arith.mulf
  // CHECK: arith.truncf
  // CHECK: %[[L:.*]] = linalg.generic {{.*}}ins(%[[S]] :
  // CHECK: %[[W2:.*]] = fsdp.all_gather {{.*}} backward
  // CHECK: %[[V2:.*]] = fsdp.view %[[W2]][0]
  // CHECK: %[[T2:.*]] = linalg.generic {{.*}}ins(%[[A]] :
  // CHECK: math.tanh
  // CHECK: %[[S2:.*]] = linalg.generic {{.*}}ins(%[[T2]], %[[V2]] :
  // CHECK: arith.mulf
  // CHECK: arith.truncf
  // CHECK: %[[D:.*]] = linalg.matmul ins(%{{.*}}, %[[S2]] :
  // CHECK-NOT: math.tanh
  // CHECK: linalg.generic {{.*}}ins(%[[T2]], %[[A]], %[[D]] :
  %w = fsdp.all_gather %p on @mesh["shard"] for forward : tensor<8xf32> -> tensor<16xf32>
  %wv = fsdp.view %w[0] : tensor<16xf32> -> tensor<16xf32>
  %zero = arith.constant 0.0 : f32
  %bzero = arith.constant 0.0 : bf16
  %e = tensor.empty() : tensor<16x16xf32>
  %be = tensor.empty() : tensor<16x16xbf16>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<16x16xf32>) -> tensor<16x16xf32>
  %binit = linalg.fill ins(%bzero : bf16) outs(%be : tensor<16x16xbf16>) -> tensor<16x16xbf16>
  %a = linalg.matmul ins(%x, %x : tensor<16x16xf32>, tensor<16x16xf32>) outs(%init : tensor<16x16xf32>) -> tensor<16x16xf32>
  %t = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%a : tensor<16x16xf32>) outs(%e : tensor<16x16xf32>) {
  ^bb0(%v: f32, %o: f32):
    %r = math.tanh %v : f32
    linalg.yield %r : f32
  } -> tensor<16x16xf32>
  %s = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%t, %wv : tensor<16x16xf32>, tensor<16xf32>) outs(%be : tensor<16x16xbf16>) {
  ^bb0(%v: f32, %u: f32, %o: bf16):
    %r = arith.mulf %v, %u : f32
    %n = arith.truncf %r : f32 to bf16
    linalg.yield %n : bf16
  } -> tensor<16x16xbf16>
  %se = tensor.empty() : tensor<f32>
  %sinit = linalg.fill ins(%zero : f32) outs(%se : tensor<f32>) -> tensor<f32>
  %l = linalg.generic {indexing_maps = [#id, affine_map<(d0, d1) -> ()>], iterator_types = ["reduction", "reduction"]}
      ins(%s : tensor<16x16xbf16>) outs(%sinit : tensor<f32>) {
  ^bb0(%v: bf16, %o: f32):
    %n = arith.extf %v : bf16 to f32
    %r = arith.addf %n, %o : f32
    linalg.yield %r : f32
  } -> tensor<f32>
  %d = linalg.matmul ins(%y, %s : tensor<16x16xbf16>, tensor<16x16xbf16>) outs(%binit : tensor<16x16xbf16>) -> tensor<16x16xbf16>
  %g = linalg.generic {indexing_maps = [#id, #id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%t, %a, %d : tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xbf16>) outs(%e : tensor<16x16xf32>) {
  ^bb0(%v: f32, %z: f32, %u: bf16, %o: f32):
    %n = arith.extf %u : bf16 to f32
    %m = arith.mulf %v, %n : f32
    %r = arith.addf %m, %z : f32
    linalg.yield %r : f32
  } -> tensor<16x16xf32>
  %w2 = fsdp.all_gather %p on @mesh["shard"] for backward : tensor<8xf32> -> tensor<16xf32>
  %w2v = fsdp.view %w2[0] : tensor<16xf32> -> tensor<16xf32>
  fsdp.return %l, %d, %g, %w2v : tensor<f32>, tensor<16x16xbf16>, tensor<16x16xf32>, tensor<16xf32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d1)>

// What reads a parameter that backward has not is saved, and so are sums.
fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// CHECK-LABEL: fsdp.program @step
fsdp.program @step(%p: tensor<8xf32>, %x: tensor<16x16xf32>) -> (tensor<f32> {fsdp.loss}, tensor<16x16xf32>) {
  // CHECK: fsdp.all_gather
  // CHECK: %[[S:.*]] = linalg.generic
  // CHECK: arith.mulf
  // CHECK: %[[L:.*]] = linalg.generic
  // CHECK: %[[G:.*]] = linalg.generic {{.*}}ins(%[[S]], %[[L]] :
  // CHECK: arith.addf
  // CHECK: fsdp.return %[[L]], %[[G]]
  %w = fsdp.all_gather %p on @mesh["shard"] for forward : tensor<8xf32> -> tensor<16xf32>
  %wv = fsdp.view %w[0] : tensor<16xf32> -> tensor<16xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<16x16xf32>
  %s = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %wv : tensor<16x16xf32>, tensor<16xf32>) outs(%e : tensor<16x16xf32>) {
  ^bb0(%v: f32, %u: f32, %o: f32):
    %r = arith.mulf %v, %u : f32
    linalg.yield %r : f32
  } -> tensor<16x16xf32>
  %se = tensor.empty() : tensor<f32>
  %sinit = linalg.fill ins(%zero : f32) outs(%se : tensor<f32>) -> tensor<f32>
  %l = linalg.generic {indexing_maps = [#id, affine_map<(d0, d1) -> ()>], iterator_types = ["reduction", "reduction"]}
      ins(%s : tensor<16x16xf32>) outs(%sinit : tensor<f32>) {
  ^bb0(%v: f32, %o: f32):
    %r = arith.addf %v, %o : f32
    linalg.yield %r : f32
  } -> tensor<f32>
  %g = linalg.generic {indexing_maps = [#id, affine_map<(d0, d1) -> ()>, #id], iterator_types = ["parallel", "parallel"]}
      ins(%s, %l : tensor<16x16xf32>, tensor<f32>) outs(%e : tensor<16x16xf32>) {
  ^bb0(%v: f32, %u: f32, %o: f32):
    %r = arith.addf %v, %u : f32
    linalg.yield %r : f32
  } -> tensor<16x16xf32>
  fsdp.return %l, %g : tensor<f32>, tensor<16x16xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>

// An op of the trace's forward that only backward reads moves there. What an
// input gives is computed again although nothing but the input is in memory.
// CHECK-LABEL: fsdp.program @step
// CHECK-SAME: (%[[X:.*]]: tensor<64xf32>)
fsdp.program @step(%x: tensor<64xf32>) -> (tensor<f32> {fsdp.loss}, tensor<64xf32>) {
  // CHECK-NOT: math.exp
  // CHECK: linalg.generic {{.*}}"reduction"
  // CHECK: %[[T:.*]] = linalg.generic {{.*}}ins(%[[X]] :
  // CHECK: math.exp
  // CHECK: linalg.generic {{.*}}ins(%[[T]] :
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64xf32>
  %t = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<64xf32>) outs(%e : tensor<64xf32>) {
  ^bb0(%v: f32, %o: f32):
    %r = math.exp %v : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %se = tensor.empty() : tensor<f32>
  %sinit = linalg.fill ins(%zero : f32) outs(%se : tensor<f32>) -> tensor<f32>
  %l = linalg.generic {indexing_maps = [#id, affine_map<(d0) -> ()>], iterator_types = ["reduction"]}
      ins(%x : tensor<64xf32>) outs(%sinit : tensor<f32>) {
  ^bb0(%v: f32, %o: f32):
    %r = arith.addf %v, %o : f32
    linalg.yield %r : f32
  } -> tensor<f32>
  %g = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%t : tensor<64xf32>) outs(%e : tensor<64xf32>) {
  ^bb0(%v: f32, %o: f32):
    %r = arith.mulf %v, %v : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  fsdp.return %l, %g : tensor<f32>, tensor<64xf32>
}

// -----

// A program without backward is left as it is.
// CHECK-LABEL: fsdp.program @step
// CHECK: fsdp.return
fsdp.program @step(%x: tensor<64xf32>) -> tensor<64xf32> {
  fsdp.return %x : tensor<64xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>

// An evaluation has no backward: what it computes after the loss stays as it is.
// CHECK-LABEL: fsdp.program eval @evaluate
// CHECK: math.exp
// CHECK: linalg.generic {{.*}}"reduction"
// CHECK-NOT: math.exp
// CHECK: fsdp.return
fsdp.program eval @evaluate(%x: tensor<64xf32>) -> (tensor<f32> {fsdp.loss}, tensor<64xf32> {fsdp.output = {name = "y"}}) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64xf32>
  %t = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<64xf32>) outs(%e : tensor<64xf32>) {
  ^bb0(%v: f32, %o: f32):
    %r = math.exp %v : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %se = tensor.empty() : tensor<f32>
  %sinit = linalg.fill ins(%zero : f32) outs(%se : tensor<f32>) -> tensor<f32>
  %l = linalg.generic {indexing_maps = [#id, affine_map<(d0) -> ()>], iterator_types = ["reduction"]}
      ins(%x : tensor<64xf32>) outs(%sinit : tensor<f32>) {
  ^bb0(%v: f32, %o: f32):
    %r = arith.addf %v, %o : f32
    linalg.yield %r : f32
  } -> tensor<f32>
  %g = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%t : tensor<64xf32>) outs(%e : tensor<64xf32>) {
  ^bb0(%v: f32, %o: f32):
    %r = arith.mulf %v, %v : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  fsdp.return %l, %g : tensor<f32>, tensor<64xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>

// A value that the program returns in another shape is in memory: backward reads it there.
// CHECK-LABEL: fsdp.program @step
// CHECK: %[[T:.*]] = linalg.generic
// CHECK: math.exp
// CHECK-NOT: math.exp
// CHECK: linalg.generic {{.*}}ins(%[[T]] :
// CHECK: arith.mulf
fsdp.program @step(%x: tensor<64xf32>) -> (tensor<f32> {fsdp.loss}, tensor<64xf32>, tensor<8x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64xf32>
  %t = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<64xf32>) outs(%e : tensor<64xf32>) {
  ^bb0(%v: f32, %o: f32):
    %r = math.exp %v : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %se = tensor.empty() : tensor<f32>
  %sinit = linalg.fill ins(%zero : f32) outs(%se : tensor<f32>) -> tensor<f32>
  %l = linalg.generic {indexing_maps = [#id, affine_map<(d0) -> ()>], iterator_types = ["reduction"]}
      ins(%x : tensor<64xf32>) outs(%sinit : tensor<f32>) {
  ^bb0(%v: f32, %o: f32):
    %r = arith.addf %v, %o : f32
    linalg.yield %r : f32
  } -> tensor<f32>
  %g = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%t : tensor<64xf32>) outs(%e : tensor<64xf32>) {
  ^bb0(%v: f32, %o: f32):
    %r = arith.mulf %v, %v : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %s = tensor.expand_shape %t [[0, 1]] output_shape [8, 8] : tensor<64xf32> into tensor<8x8xf32>
  fsdp.return %l, %g, %s : tensor<f32>, tensor<64xf32>, tensor<8x8xf32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d1)>

// Backward gathers the parameter nine products after the first op that would read the repeated one: the gather
// does not move that far, and the value is saved.
fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// CHECK-LABEL: fsdp.program @step
// CHECK: %[[S:.*]] = linalg.generic
// CHECK: arith.mulf
// CHECK: %[[L:.*]] = linalg.generic
// CHECK: linalg.matmul ins(%[[S]],
// CHECK-COUNT-8: linalg.matmul
// CHECK: fsdp.all_gather {{.*}} backward
fsdp.program @step(%p: tensor<8xf32>, %x: tensor<16x16xf32>)
    -> (tensor<f32> {fsdp.loss}, tensor<16x16xf32>, tensor<16xf32>) {
  %w = fsdp.all_gather %p on @mesh["shard"] for forward : tensor<8xf32> -> tensor<16xf32>
  %wv = fsdp.view %w[0] : tensor<16xf32> -> tensor<16xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<16x16xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<16x16xf32>) -> tensor<16x16xf32>
  %s = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %wv : tensor<16x16xf32>, tensor<16xf32>) outs(%e : tensor<16x16xf32>) {
  ^bb0(%v: f32, %u: f32, %o: f32):
    %r = arith.mulf %v, %u : f32
    linalg.yield %r : f32
  } -> tensor<16x16xf32>
  %se = tensor.empty() : tensor<f32>
  %sinit = linalg.fill ins(%zero : f32) outs(%se : tensor<f32>) -> tensor<f32>
  %l = linalg.generic {indexing_maps = [#id, affine_map<(d0, d1) -> ()>], iterator_types = ["reduction", "reduction"]}
      ins(%s : tensor<16x16xf32>) outs(%sinit : tensor<f32>) {
  ^bb0(%v: f32, %o: f32):
    %r = arith.addf %v, %o : f32
    linalg.yield %r : f32
  } -> tensor<f32>
  %m0 = linalg.matmul ins(%s, %x : tensor<16x16xf32>, tensor<16x16xf32>) outs(%init : tensor<16x16xf32>) -> tensor<16x16xf32>
  %m1 = linalg.matmul ins(%m0, %x : tensor<16x16xf32>, tensor<16x16xf32>) outs(%init : tensor<16x16xf32>) -> tensor<16x16xf32>
  %m2 = linalg.matmul ins(%m1, %x : tensor<16x16xf32>, tensor<16x16xf32>) outs(%init : tensor<16x16xf32>) -> tensor<16x16xf32>
  %m3 = linalg.matmul ins(%m2, %x : tensor<16x16xf32>, tensor<16x16xf32>) outs(%init : tensor<16x16xf32>) -> tensor<16x16xf32>
  %m4 = linalg.matmul ins(%m3, %x : tensor<16x16xf32>, tensor<16x16xf32>) outs(%init : tensor<16x16xf32>) -> tensor<16x16xf32>
  %m5 = linalg.matmul ins(%m4, %x : tensor<16x16xf32>, tensor<16x16xf32>) outs(%init : tensor<16x16xf32>) -> tensor<16x16xf32>
  %m6 = linalg.matmul ins(%m5, %x : tensor<16x16xf32>, tensor<16x16xf32>) outs(%init : tensor<16x16xf32>) -> tensor<16x16xf32>
  %m7 = linalg.matmul ins(%m6, %x : tensor<16x16xf32>, tensor<16x16xf32>) outs(%init : tensor<16x16xf32>) -> tensor<16x16xf32>
  %m8 = linalg.matmul ins(%m7, %x : tensor<16x16xf32>, tensor<16x16xf32>) outs(%init : tensor<16x16xf32>) -> tensor<16x16xf32>
  %w2 = fsdp.all_gather %p on @mesh["shard"] for backward : tensor<8xf32> -> tensor<16xf32>
  %w2v = fsdp.view %w2[0] : tensor<16xf32> -> tensor<16xf32>
  fsdp.return %l, %m8, %w2v : tensor<f32>, tensor<16x16xf32>, tensor<16xf32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>

// A clone serves readers that at most eight products separate from its first one; the next reader has its own.
// CHECK-LABEL: fsdp.program @step
// CHECK: %[[A:.*]] = linalg.matmul
// CHECK: linalg.generic {{.*}}"reduction"
// CHECK: %[[T:.*]] = linalg.generic {{.*}}ins(%[[A]] :
// CHECK: arith.negf
// CHECK: linalg.matmul ins(%[[T]],
// CHECK-COUNT-8: linalg.matmul
// CHECK: %[[T2:.*]] = linalg.generic {{.*}}ins(%[[A]] :
// CHECK: arith.negf
// CHECK: linalg.matmul ins(%[[T2]],
fsdp.program @step(%x: tensor<16x16xf32>) -> (tensor<f32> {fsdp.loss}, tensor<16x16xf32>, tensor<16x16xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<16x16xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<16x16xf32>) -> tensor<16x16xf32>
  %s = linalg.matmul ins(%x, %x : tensor<16x16xf32>, tensor<16x16xf32>) outs(%init : tensor<16x16xf32>) -> tensor<16x16xf32>
  %t = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%s : tensor<16x16xf32>) outs(%e : tensor<16x16xf32>) {
  ^bb0(%v: f32, %o: f32):
    %r = arith.negf %v : f32
    linalg.yield %r : f32
  } -> tensor<16x16xf32>
  %se = tensor.empty() : tensor<f32>
  %sinit = linalg.fill ins(%zero : f32) outs(%se : tensor<f32>) -> tensor<f32>
  %l = linalg.generic {indexing_maps = [#id, affine_map<(d0, d1) -> ()>], iterator_types = ["reduction", "reduction"]}
      ins(%s : tensor<16x16xf32>) outs(%sinit : tensor<f32>) {
  ^bb0(%v: f32, %o: f32):
    %r = arith.addf %v, %o : f32
    linalg.yield %r : f32
  } -> tensor<f32>
  %m0 = linalg.matmul ins(%t, %x : tensor<16x16xf32>, tensor<16x16xf32>) outs(%init : tensor<16x16xf32>) -> tensor<16x16xf32>
  %m1 = linalg.matmul ins(%m0, %x : tensor<16x16xf32>, tensor<16x16xf32>) outs(%init : tensor<16x16xf32>) -> tensor<16x16xf32>
  %m2 = linalg.matmul ins(%m1, %x : tensor<16x16xf32>, tensor<16x16xf32>) outs(%init : tensor<16x16xf32>) -> tensor<16x16xf32>
  %m3 = linalg.matmul ins(%m2, %x : tensor<16x16xf32>, tensor<16x16xf32>) outs(%init : tensor<16x16xf32>) -> tensor<16x16xf32>
  %m4 = linalg.matmul ins(%m3, %x : tensor<16x16xf32>, tensor<16x16xf32>) outs(%init : tensor<16x16xf32>) -> tensor<16x16xf32>
  %m5 = linalg.matmul ins(%m4, %x : tensor<16x16xf32>, tensor<16x16xf32>) outs(%init : tensor<16x16xf32>) -> tensor<16x16xf32>
  %m6 = linalg.matmul ins(%m5, %x : tensor<16x16xf32>, tensor<16x16xf32>) outs(%init : tensor<16x16xf32>) -> tensor<16x16xf32>
  %m7 = linalg.matmul ins(%m6, %x : tensor<16x16xf32>, tensor<16x16xf32>) outs(%init : tensor<16x16xf32>) -> tensor<16x16xf32>
  %m8 = linalg.matmul ins(%m7, %x : tensor<16x16xf32>, tensor<16x16xf32>) outs(%init : tensor<16x16xf32>) -> tensor<16x16xf32>
  %d = linalg.matmul ins(%t, %m8 : tensor<16x16xf32>, tensor<16x16xf32>) outs(%init : tensor<16x16xf32>) -> tensor<16x16xf32>
  %n = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%s, %m8 : tensor<16x16xf32>, tensor<16x16xf32>) outs(%e : tensor<16x16xf32>) {
  ^bb0(%v: f32, %u: f32, %o: f32):
    %r = arith.addf %v, %u : f32
    linalg.yield %r : f32
  } -> tensor<16x16xf32>
  fsdp.return %l, %d, %n : tensor<f32>, tensor<16x16xf32>, tensor<16x16xf32>
}
