// RUN: fsdp-opt %s --fsdp-split-column-sums --split-input-file | FileCheck %s
// RUN: fsdp-opt %s --fsdp-split-column-sums=items=64 --split-input-file | FileCheck %s --check-prefix=FEW
// RUN: fsdp-opt %s --fsdp-split-column-sums=sweeps=true --split-input-file | FileCheck %s --check-prefix=ROWS

// Rows are divided into 128 chunks, so that 65536 sums of chunks are computed at a time. Chunks start at the neutral
// element, their sums at the sum's init.

// CHECK-LABEL: fsdp.program @step
// CHECK-SAME: (%[[X:.*]]: tensor<4x2048x512xf32>)
// CHECK: %[[INIT:.*]] = linalg.fill
// CHECK: %[[E:.*]] = tensor.expand_shape %[[X]] {{\[\[}}0], [1, 2], [3]] output_shape [4, 128, 16, 512]
// CHECK: %[[ZEROS:.*]] = linalg.fill {{.*}} -> tensor<128x512xf32>
// CHECK: %[[P:.*]] = linalg.generic {{.*}}["reduction", "parallel", "reduction", "parallel"]{{.*}} ins(%[[E]] : tensor<4x128x16x512xf32>) outs(%[[ZEROS]] : tensor<128x512xf32>)
// CHECK: arith.mulf
// CHECK: arith.addf
// CHECK: linalg.generic {{.*}}["reduction", "parallel"]{{.*}} ins(%[[P]] : tensor<128x512xf32>) outs(%[[INIT]] : tensor<512xf32>)
// CHECK: ^bb0(%[[V:.*]]: f32, %[[SUM:.*]]: f32):
// CHECK: arith.addf %[[V]], %[[SUM]]

// There are more sums than 64.

// FEW-LABEL: fsdp.program @step
// FEW-COUNT-1: linalg.generic
// FEW-NOT: linalg.generic
// FEW: fsdp.return
fsdp.program @step(%x: tensor<4x2048x512xf32>) -> tensor<512xf32> {
  %half = arith.constant 0.5 : f32
  %e = tensor.empty() : tensor<512xf32>
  %init = linalg.fill ins(%half : f32) outs(%e : tensor<512xf32>) -> tensor<512xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d2)>], iterator_types = ["reduction", "reduction", "parallel"]}
      ins(%x : tensor<4x2048x512xf32>) outs(%init : tensor<512xf32>) {
  ^bb0(%v: f32, %o: f32):
    %m = arith.mulf %v, %v : f32
    %r = arith.addf %m, %o : f32
    linalg.yield %r : f32
  } -> tensor<512xf32>
  fsdp.return %s : tensor<512xf32>
}

// -----

// Rows that lie side by side, and sums of few elements, stay.

// CHECK-LABEL: fsdp.program @step
// CHECK-COUNT-2: linalg.generic
// CHECK-NOT: linalg.generic
fsdp.program @step(%x: tensor<512x8192xf32>, %y: tensor<128x512xf32>) -> (tensor<512xf32>, tensor<512xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<512xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<512xf32>) -> tensor<512xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<512x8192xf32>) outs(%init : tensor<512xf32>) {
  ^bb0(%v: f32, %o: f32):
    %r = arith.addf %v, %o : f32
    linalg.yield %r : f32
  } -> tensor<512xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>], iterator_types = ["reduction", "parallel"]}
      ins(%y : tensor<128x512xf32>) outs(%init : tensor<512xf32>) {
  ^bb0(%v: f32, %o: f32):
    %r = arith.addf %v, %o : f32
    linalg.yield %r : f32
  } -> tensor<512xf32>
  fsdp.return %s, %t : tensor<512xf32>, tensor<512xf32>
}

// -----

// Columns of rows that are reduced as well: chunks are of 8 rows that follow each other in memory, whether rows are one dimension or two,
// so that one kernel can compute the sums of both.

// ROWS-LABEL: fsdp.program @step
// ROWS-SAME: (%[[X:.*]]: tensor<4x2048x512xf32>
// ROWS: tensor.expand_shape %[[X]] {{\[\[}}0, 1], [2, 3], [4]] output_shape [4, 1, 256, 8, 512]
// ROWS: linalg.generic {{.*}}["parallel", "reduction", "parallel", "reduction", "parallel"]{{.*}} outs(%{{.*}} : tensor<4x256x512xf32>)
// ROWS: linalg.generic {{.*}}["reduction", "reduction", "parallel"]{{.*}} ins(%{{.*}} : tensor<4x256x512xf32>)
// ROWS: tensor.expand_shape %{{.*}} {{\[\[}}0, 1], [2]] output_shape [1024, 8, 512]

// CHECK-LABEL: fsdp.program @step
// CHECK: output_shape [4, 128, 16, 512]
// CHECK: output_shape [128, 64, 512]
fsdp.program @step(%x: tensor<4x2048x512xf32>) -> (tensor<4x2048xf32>, tensor<512xf32>, tensor<512xf32>) {
  %zero = arith.constant 0.0 : f32
  %er = tensor.empty() : tensor<4x2048xf32>
  %ir = linalg.fill ins(%zero : f32) outs(%er : tensor<4x2048xf32>) -> tensor<4x2048xf32>
  %rows = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x : tensor<4x2048x512xf32>) outs(%ir : tensor<4x2048xf32>) {
  ^bb0(%v: f32, %o: f32):
    %r = arith.addf %v, %o : f32
    linalg.yield %r : f32
  } -> tensor<4x2048xf32>
  %e = tensor.empty() : tensor<512xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<512xf32>) -> tensor<512xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d2)>], iterator_types = ["reduction", "reduction", "parallel"]}
      ins(%x : tensor<4x2048x512xf32>) outs(%init : tensor<512xf32>) {
  ^bb0(%v: f32, %o: f32):
    %r = arith.addf %v, %o : f32
    linalg.yield %r : f32
  } -> tensor<512xf32>
  %flat = tensor.collapse_shape %x [[0, 1], [2]] : tensor<4x2048x512xf32> into tensor<8192x512xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>], iterator_types = ["reduction", "parallel"]}
      ins(%flat : tensor<8192x512xf32>) outs(%init : tensor<512xf32>) {
  ^bb0(%v: f32, %o: f32):
    %r = arith.addf %v, %o : f32
    linalg.yield %r : f32
  } -> tensor<512xf32>
  fsdp.return %rows, %s, %t : tensor<4x2048xf32>, tensor<512xf32>, tensor<512xf32>
}
