// RUN: fsdp-opt %s --fsdp-bufferize-kernels | FileCheck %s

#id = affine_map<(d0) -> (d0)>
#none = affine_map<(d0) -> ()>
#both = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#column = affine_map<(d0, d1) -> (d1)>
#diagonal = affine_map<(d0, d1) -> (d0 + d1)>
#all = affine_map<(d0, d1) -> ()>

// 4 results of 64 x 64 terms of one channel: rows of 64 are 2 blocks of 32, whose sums are a
// term of 16 rows, and 4 such blocks are the result.

// CHECK-LABEL: func.func @convolution
// CHECK-NOT:     linalg
// CHECK:         scf.parallel {{.*}} to (%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}})
// CHECK:           %[[INIT:.*]] = memref.load %arg2
// CHECK:           %[[SUM:.*]] = scf.for {{.*}} iter_args(%[[CHANNEL:.*]] = %[[INIT]])
// CHECK:             %[[INNER:.*]] = scf.for {{.*}} step %c16{{.*}} iter_args(%[[ALL:.*]] = %[[CHANNEL]])
// CHECK:             %[[BLOCK:.*]] = scf.for {{.*}} iter_args(%[[ROWS:.*]] = %cst{{.*}})
// CHECK:               %[[ROW:.*]] = scf.for {{.*}} step %c32{{.*}} iter_args(%[[PARTS:.*]] = %[[ROWS]])
// CHECK:                 %[[PART:.*]] = scf.for {{.*}} iter_args(%{{.*}} = %cst{{.*}})
// CHECK:                   memref.load %arg0
// CHECK:                   memref.load %arg1
// CHECK:                   arith.mulf
// CHECK:                   arith.addf
// CHECK:                 arith.addf %[[PARTS]], %[[PART]]
// CHECK:             arith.addf %[[ALL]], %[[BLOCK]]
// CHECK:           memref.store %[[SUM]], %arg2
func.func @convolution(%x: memref<1x1x65x65xf32>, %w: memref<1x1x64x64xf32>, %y: memref<1x1x2x2xf32>) {
  linalg.conv_2d_nchw_fchw ins(%x, %w : memref<1x1x65x65xf32>, memref<1x1x64x64xf32>) outs(%y : memref<1x1x2x2xf32>)
  return
}

// 32 terms are one block.

// CHECK-LABEL: func.func @short
// CHECK:         linalg.generic
func.func @short(%x: memref<32xf32>, %y: memref<f32>) {
  linalg.generic {indexing_maps = [#id, #none], iterator_types = ["reduction"]}
      ins(%x : memref<32xf32>) outs(%y : memref<f32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.subf %o, %a : f32
    linalg.yield %s : f32
  }
  return
}

// 33 terms: 2 blocks, the last of one term.

// CHECK-LABEL: func.func @shorter_last_block
// CHECK:         scf.for %[[FIRST:.*]] = {{.*}} step %c32
// CHECK:           %[[NEXT:.*]] = arith.addi %[[FIRST]], %c32
// CHECK:           %[[END:.*]] = arith.minui %[[NEXT]], %c33
// CHECK:           scf.for %{{.*}} = %[[FIRST]] to %[[END]]
func.func @shorter_last_block(%x: memref<33xf32>, %y: memref<f32>) {
  linalg.generic {indexing_maps = [#id, #none], iterator_types = ["reduction"]}
      ins(%x : memref<33xf32>) outs(%y : memref<f32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.subf %o, %a : f32
    linalg.yield %s : f32
  }
  return
}

// How many there are is not known: four levels.

// CHECK-LABEL: func.func @dynamic
// CHECK-COUNT-5: scf.for
func.func @dynamic(%x: memref<?xf32>, %y: memref<f32>) {
  linalg.generic {indexing_maps = [#id, #none], iterator_types = ["reduction"]}
      ins(%x : memref<?xf32>) outs(%y : memref<f32>) {
  ^bb0(%a: f32, %o: f32):
    %s = math.fma %a, %a, %o : f32
    linalg.yield %s : f32
  }
  return
}

// A count that the mean is made of begins at no zero of its own: no sum is cut.

// CHECK-LABEL: func.func @running_mean
// CHECK:         linalg.generic
func.func @running_mean(%x: memref<4096xf32>, %n: memref<f32>, %m: memref<f32>) {
  linalg.generic {indexing_maps = [#id, #none, #none], iterator_types = ["reduction"]}
      ins(%x : memref<4096xf32>) outs(%n, %m : memref<f32>, memref<f32>) {
  ^bb0(%a: f32, %k: f32, %mean: f32):
    %one = arith.constant 1.0 : f32
    %count = arith.addf %k, %one : f32
    %d = arith.subf %a, %mean : f32
    %part = arith.divf %d, %count : f32
    %next = arith.addf %mean, %part : f32
    linalg.yield %count, %next : f32, f32
  }
  return
}

// The sum is cut, the largest goes through all iterations.

// CHECK-LABEL: func.func @sum_and_largest
// CHECK:         %[[SUM:.*]] = memref.load %arg1
// CHECK:         %[[LARGEST:.*]] = memref.load %arg2
// CHECK:         scf.for {{.*}} iter_args(%[[S:.*]] = %[[SUM]], %[[L:.*]] = %[[LARGEST]])
// CHECK:           %[[BLOCK:.*]]:2 = scf.for {{.*}} iter_args(%{{.*}} = %cst{{.*}}, %{{.*}} = %[[L]])
// CHECK:           %[[NEXT:.*]] = arith.addf %[[S]], %[[BLOCK]]#0
// CHECK:           scf.yield %[[NEXT]], %[[BLOCK]]#1
func.func @sum_and_largest(%x: memref<64xf32>, %s: memref<f32>, %l: memref<f32>) {
  linalg.generic {indexing_maps = [#id, #none, #none], iterator_types = ["reduction"]}
      ins(%x : memref<64xf32>) outs(%s, %l : memref<f32>, memref<f32>) {
  ^bb0(%a: f32, %sum: f32, %largest: f32):
    %c0 = linalg.index 0 : index
    %i = arith.index_cast %c0 : index to i32
    %f = arith.sitofp %i : i32 to f32
    %v = arith.mulf %a, %f : f32
    %t = arith.addf %v, %sum : f32
    %u = arith.maximumf %a, %largest : f32
    linalg.yield %t, %u : f32, f32
  }
  return
}

// A result for each point of the reduction loop stands beside the sum.

// CHECK-LABEL: func.func @sum_and_each
// CHECK-NOT:     scf
// CHECK:         linalg.generic
func.func @sum_and_each(%x: memref<4x64xf32>, %s: memref<4xf32>, %y: memref<4x64xf32>) {
  linalg.generic {indexing_maps = [#both, #row, #both], iterator_types = ["parallel", "reduction"]}
      ins(%x : memref<4x64xf32>) outs(%s, %y : memref<4xf32>, memref<4x64xf32>) {
  ^bb0(%a: f32, %sum: f32, %old: f32):
    %t = arith.addf %sum, %a : f32
    %u = arith.addf %a, %a : f32
    linalg.yield %t, %u : f32, f32
  }
  return
}

// Sums along diagonals: the reduction loops say which.

// CHECK-LABEL: func.func @diagonals
// CHECK-NOT:     scf
// CHECK:         linalg.generic
func.func @diagonals(%x: memref<64xf32>, %w: memref<64xf32>, %y: memref<127xf32>) {
  linalg.generic {indexing_maps = [#row, #column, #diagonal], iterator_types = ["reduction", "reduction"]}
      ins(%x, %w : memref<64xf32>, memref<64xf32>) outs(%y : memref<127xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  }
  return
}

// All points of the parallel loop add to one number.

// CHECK-LABEL: func.func @shared
// CHECK-NOT:     scf
// CHECK:         linalg.generic
func.func @shared(%x: memref<4x64xf32>, %y: memref<f32>) {
  linalg.generic {indexing_maps = [#both, #all], iterator_types = ["parallel", "reduction"]}
      ins(%x : memref<4x64xf32>) outs(%y : memref<f32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.subf %o, %a : f32
    linalg.yield %s : f32
  }
  return
}
