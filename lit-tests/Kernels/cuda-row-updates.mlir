// RUN: fsdp-opt %s --pass-pipeline='builtin.module(fsdp-cuda-kernels)' | FileCheck %s

fsdp.program @step(%ids: tensor<2000xi64>, %x: tensor<2000x200xf32>) {
  %0 = fsdp.launch @named_by_data(%ids, %x) : (tensor<2000xi64>, tensor<2000x200xf32>) -> tensor<50x200xf32>
  %1 = fsdp.launch @few(%ids, %x) : (tensor<2000xi64>, tensor<2000x200xf32>) -> tensor<50x200xf32>
  %2 = fsdp.launch @in_order(%x) : (tensor<2000x200xf32>) -> tensor<2000x200xf32>
  fsdp.return
}

// Rows that data names are divided among 128 blocks for each 128 columns. Of a
// tile, 8 iterations a thread, a block lists those whose rows are its own, in
// their order; each thread updates its column by these, 8 at a time, and holds
// an element as long as the row is the same.

// CHECK-LABEL: func.func private @named_by_data
// CHECK-SAME:    cuda_code<[<@cuda_kernels::@named_by_data, grid = 256, block = 128, shared = 0>]
func.func private @named_by_data(%ids: tensor<2000xi64>, %x: tensor<2000x200xf32>, %out: tensor<50x200xf32>)
    -> tensor<50x200xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2000 = arith.constant 2000 : index
  %sum = scf.for %i = %c0 to %c2000 step %c1 iter_args(%t = %out) -> (tensor<50x200xf32>) {
    %n = tensor.extract %ids[%i] : tensor<2000xi64>
    %r = arith.index_cast %n : i64 to index
    %old = tensor.extract_slice %t[%r, 0] [1, 200] [1, 1] : tensor<50x200xf32> to tensor<200xf32>
    %new = tensor.extract_slice %x[%i, 0] [1, 200] [1, 1] : tensor<2000x200xf32> to tensor<200xf32>
    %both = linalg.add ins(%old, %new : tensor<200xf32>, tensor<200xf32>) outs(%old : tensor<200xf32>) -> tensor<200xf32>
    %next = tensor.insert_slice %both into %t[%r, 0] [1, 200] [1, 1] : tensor<200xf32> into tensor<50x200xf32>
    scf.yield %next : tensor<50x200xf32>
  }
  return %sum : tensor<50x200xf32>
}

// Where there are few iterations, a thread per column takes them in order.

// CHECK-LABEL: func.func private @few
// CHECK-SAME:    cuda_code<[<@cuda_kernels::@few, grid = 2, block = 128, shared = 0>]
func.func private @few(%ids: tensor<2000xi64>, %x: tensor<2000x200xf32>, %out: tensor<50x200xf32>)
    -> tensor<50x200xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c400 = arith.constant 400 : index
  %sum = scf.for %i = %c0 to %c400 step %c1 iter_args(%t = %out) -> (tensor<50x200xf32>) {
    %n = tensor.extract %ids[%i] : tensor<2000xi64>
    %r = arith.index_cast %n : i64 to index
    %old = tensor.extract_slice %t[%r, 0] [1, 200] [1, 1] : tensor<50x200xf32> to tensor<200xf32>
    %new = tensor.extract_slice %x[%i, 0] [1, 200] [1, 1] : tensor<2000x200xf32> to tensor<200xf32>
    %both = linalg.add ins(%old, %new : tensor<200xf32>, tensor<200xf32>) outs(%old : tensor<200xf32>) -> tensor<200xf32>
    %next = tensor.insert_slice %both into %t[%r, 0] [1, 200] [1, 1] : tensor<200xf32> into tensor<50x200xf32>
    scf.yield %next : tensor<50x200xf32>
  }
  return %sum : tensor<50x200xf32>
}

// And where data names no rows.

// CHECK-LABEL: func.func private @in_order
// CHECK-SAME:    cuda_code<[<@cuda_kernels::@in_order, grid = 2, block = 128, shared = 0>]
func.func private @in_order(%x: tensor<2000x200xf32>, %out: tensor<2000x200xf32>) -> tensor<2000x200xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2000 = arith.constant 2000 : index
  %sum = scf.for %i = %c0 to %c2000 step %c1 iter_args(%t = %out) -> (tensor<2000x200xf32>) {
    %old = tensor.extract_slice %t[%i, 0] [1, 200] [1, 1] : tensor<2000x200xf32> to tensor<200xf32>
    %new = tensor.extract_slice %x[%i, 0] [1, 200] [1, 1] : tensor<2000x200xf32> to tensor<200xf32>
    %both = linalg.add ins(%old, %new : tensor<200xf32>, tensor<200xf32>) outs(%old : tensor<200xf32>) -> tensor<200xf32>
    %next = tensor.insert_slice %both into %t[%i, 0] [1, 200] [1, 1] : tensor<200xf32> into tensor<2000x200xf32>
    scf.yield %next : tensor<2000x200xf32>
  }
  return %sum : tensor<2000x200xf32>
}

// CHECK-LABEL: gpu.func @named_by_data
// CHECK-SAME:    workgroup(%[[SLOTS:.*]] : memref<2080xi64, #gpu.address_space<workgroup>>)
// CHECK:         scf.for %{{.*}} = %{{.*}} to %{{.*}} step %{{.*}} iter_args
// CHECK-COUNT-8:   nvvm.vote.sync
// CHECK-NOT:       nvvm.vote.sync
// CHECK:           gpu.barrier
// CHECK:           gpu.barrier
// CHECK:           scf.for
// CHECK:             arith.minui
// CHECK-COUNT-8:     memref.store %{{.*}}, %{{.*}} : memref<50x200xf32>
// CHECK-NOT:         gpu.barrier
// CHECK:         memref.store %{{.*}}, %{{.*}} : memref<50x200xf32>
// CHECK:         gpu.return
