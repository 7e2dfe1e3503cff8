// RUN: fsdp-opt %s --pass-pipeline='builtin.module(fsdp-cuda-kernels)' | FileCheck %s
// RUN: fsdp-opt %s --pass-pipeline='builtin.module(fsdp-cuda-kernels,gpu.module(fsdp-lower-cuda-kernels))' | FileCheck %s --check-prefix=NVVM

fsdp.program @step(%x: tensor<4x100xf32>, %rows: tensor<3xi64>, %table: tensor<10x100xf32>,
                   %many: tensor<30x1000xf32>) {
  %0 = fsdp.launch @join(%x, %x) : (tensor<4x100xf32>, tensor<4x100xf32>) -> tensor<8x100xf32>
  %1 = fsdp.launch @scatter(%rows, %x, %table) : (tensor<3xi64>, tensor<4x100xf32>, tensor<10x100xf32>) -> tensor<10x100xf32>
  %2 = fsdp.launch @scatter_large(%rows, %many, %many) : (tensor<3xi64>, tensor<30x1000xf32>, tensor<30x1000xf32>) -> tensor<30x1000xf32>
  %3 = fsdp.launch @scatter_rows(%rows, %many, %many) : (tensor<3xi64>, tensor<30x1000xf32>, tensor<30x1000xf32>) -> tensor<30x1000xf32>
  %4 = fsdp.launch @product(%x, %many) : (tensor<4x100xf32>, tensor<30x1000xf32>) -> tensor<4x1000xf32>
  fsdp.return
}

// A function per parallel loop, a thread per point.

// CHECK-LABEL: func.func private @join
// CHECK-SAME:    cuda_code<[<@cuda_kernels::@join_0, grid = 4, block = 128, shared = 0>, <@cuda_kernels::@join_1, grid = 4, block = 128, shared = 0>], traffic = 6400>
func.func private @join(%x: tensor<4x100xf32>, %y: tensor<4x100xf32>, %out: tensor<8x100xf32>) -> tensor<8x100xf32> {
  %c = tensor.concat dim(0) %x, %y : (tensor<4x100xf32>, tensor<4x100xf32>) -> tensor<8x100xf32>
  %s = bufferization.materialize_in_destination %c in %out : (tensor<8x100xf32>, tensor<8x100xf32>) -> tensor<8x100xf32>
  return %s : tensor<8x100xf32>
}

// Rows of a table, one after the other. Since the table is not updated in place,
// there is a copy in shared memory: one block, whose threads share columns.

// CHECK-LABEL: func.func private @scatter
// CHECK-SAME:    cuda_code<[<@cuda_kernels::@scatter, grid = 1, block = 1024, shared = 4032>]
func.func private @scatter(%rows: tensor<3xi64>, %x: tensor<4x100xf32>, %table: tensor<10x100xf32>,
                           %out: tensor<10x100xf32>) -> tensor<10x100xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %sum = scf.for %i = %c0 to %c3 step %c1 iter_args(%t = %table) -> (tensor<10x100xf32>) {
    %n = tensor.extract %rows[%i] : tensor<3xi64>
    %r = arith.index_cast %n : i64 to index
    %old = tensor.extract_slice %t[%r, 0] [1, 100] [1, 1] : tensor<10x100xf32> to tensor<100xf32>
    %new = tensor.extract_slice %x[%i, 0] [1, 100] [1, 1] : tensor<4x100xf32> to tensor<100xf32>
    %both = linalg.add ins(%old, %new : tensor<100xf32>, tensor<100xf32>) outs(%old : tensor<100xf32>) -> tensor<100xf32>
    %next = tensor.insert_slice %both into %t[%r, 0] [1, 100] [1, 1] : tensor<100xf32> into tensor<10x100xf32>
    scf.yield %next : tensor<10x100xf32>
  }
  %s = bufferization.materialize_in_destination %sum in %out : (tensor<10x100xf32>, tensor<10x100xf32>) -> tensor<10x100xf32>
  return %s : tensor<10x100xf32>
}

// What has more points than a block should have, or more buffers than it has
// memory, is a function per loop: buffers lie in the workspace, whose address is
// the last parameter of all.

// CHECK-LABEL: func.func private @scatter_large
// CHECK-SAME:    cuda_code<[<@cuda_kernels::@scatter_large_0, grid = 235, block = 128, shared = 0>,
// CHECK-SAME:      <@cuda_kernels::@scatter_large_1, grid = 8, block = 128, shared = 0>,
// CHECK-SAME:      <@cuda_kernels::@scatter_large_2, grid = 235, block = 128, shared = 0>],
// CHECK-SAME:      traffic = 360024, workspace = 120064>
func.func private @scatter_large(%rows: tensor<3xi64>, %x: tensor<30x1000xf32>, %table: tensor<30x1000xf32>,
                                 %out: tensor<30x1000xf32>) -> tensor<30x1000xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %sum = scf.for %i = %c0 to %c3 step %c1 iter_args(%t = %table) -> (tensor<30x1000xf32>) {
    %old = tensor.extract_slice %t[%i, 0] [1, 1000] [1, 1] : tensor<30x1000xf32> to tensor<1000xf32>
    %new = tensor.extract_slice %x[%i, 0] [1, 1000] [1, 1] : tensor<30x1000xf32> to tensor<1000xf32>
    %both = linalg.add ins(%old, %new : tensor<1000xf32>, tensor<1000xf32>) outs(%old : tensor<1000xf32>) -> tensor<1000xf32>
    %next = tensor.insert_slice %both into %t[%i, 0] [1, 1000] [1, 1] : tensor<1000xf32> into tensor<30x1000xf32>
    scf.yield %next : tensor<30x1000xf32>
  }
  %s = bufferization.materialize_in_destination %sum in %out : (tensor<30x1000xf32>, tensor<30x1000xf32>) -> tensor<30x1000xf32>
  return %s : tensor<30x1000xf32>
}

// What is sequential between the loops runs on a block of its own.

// CHECK-LABEL: func.func private @scatter_rows
// CHECK-SAME:    cuda_code<[<@cuda_kernels::@scatter_rows_0, grid = 235, block = 128, shared = 0>,
// CHECK-SAME:      <@cuda_kernels::@scatter_rows_1, grid = 1, block = 1024, shared = 0>,
// CHECK-SAME:      <@cuda_kernels::@scatter_rows_2, grid = 235, block = 128, shared = 0>],
// CHECK-SAME:      traffic = 360024, workspace = 120064>
func.func private @scatter_rows(%rows: tensor<3xi64>, %x: tensor<30x1000xf32>, %table: tensor<30x1000xf32>,
                                %out: tensor<30x1000xf32>) -> tensor<30x1000xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %sum = scf.for %i = %c0 to %c3 step %c1 iter_args(%t = %table) -> (tensor<30x1000xf32>) {
    %n = tensor.extract %rows[%i] : tensor<3xi64>
    %r = arith.index_cast %n : i64 to index
    %v = tensor.extract %x[%i, %r] : tensor<30x1000xf32>
    %next = tensor.insert %v into %t[%r, %i] : tensor<30x1000xf32>
    scf.yield %next : tensor<30x1000xf32>
  }
  %s = bufferization.materialize_in_destination %sum in %out : (tensor<30x1000xf32>, tensor<30x1000xf32>) -> tensor<30x1000xf32>
  return %s : tensor<30x1000xf32>
}

// cuBLASLt multiplies; it may use as much of the workspace.

// CHECK-LABEL: func.func private @product
// CHECK-SAME:    fsdp.impl = {cuda = #fsdp.cuda_product<workspace = 33554432>}
// CHECK-SAME:    fsdp.matmul
// SMALL:       fsdp.impl = {cuda = #fsdp.cuda_product<workspace = 1024>}
func.func private @product(%x: tensor<4x100xf32>, %y: tensor<30x1000xf32>, %out: tensor<4x1000xf32>) -> tensor<4x1000xf32> {
  %b = tensor.extract_slice %y[0, 0] [30, 1000] [1, 1] : tensor<30x1000xf32> to tensor<30x1000xf32>
  %a = tensor.extract_slice %x[0, 0] [4, 30] [1, 1] : tensor<4x100xf32> to tensor<4x30xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x1000xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x1000xf32>) -> tensor<4x1000xf32>
  %m = linalg.matmul ins(%a, %b : tensor<4x30xf32>, tensor<30x1000xf32>) outs(%f : tensor<4x1000xf32>) -> tensor<4x1000xf32>
  %s = bufferization.materialize_in_destination %m in %out : (tensor<4x1000xf32>, tensor<4x1000xf32>) -> tensor<4x1000xf32>
  return %s : tensor<4x1000xf32>
}

// CHECK-LABEL: gpu.func @join_0(
// CHECK:         gpu.block_id
// CHECK:         scf.if
// CHECK:           memref.load
// CHECK:           memref.store

// CHECK-LABEL: gpu.func @scatter(
// CHECK:         %[[THREAD:.*]] = gpu.thread_id x
// CHECK:         gpu.barrier
// CHECK:         scf.for %{{.*}} = %[[THREAD]] to
// CHECK:         gpu.barrier
// CHECK:         scf.for %{{.*}} = %[[THREAD]] to
// CHECK:           scf.for
// CHECK:             memref.load %{{.*}} : memref<3xi64>
// CHECK:             arith.addf
// CHECK:         gpu.barrier

// NVVM-LABEL: llvm.func @scatter(
// NVVM:         nvvm.barrier

// CHECK-LABEL: gpu.func @scatter_rows_0(
// CHECK-SAME:    %{{[^:]*}}: memref<3xi64>, {{.*}}, %[[WORKSPACE:[^:]*]]: memref<120064xi8>)
// CHECK:         memref.view %[[WORKSPACE]]
// CHECK-LABEL: gpu.func @scatter_rows_1(
// CHECK-SAME:    %[[WORKSPACE:[^:]*]]: memref<120064xi8>)
// CHECK:         memref.view %[[WORKSPACE]]
// CHECK:         gpu.barrier
