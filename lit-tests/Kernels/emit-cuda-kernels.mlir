// RUN: fsdp-opt %s --fsdp-emit-cuda-kernels --remarks-filter='.*' 2>&1 | FileCheck %s
// RUN: fsdp-opt %s --fsdp-emit-cuda-kernels | fsdp-opt --pass-pipeline='builtin.module(gpu.module(fsdp-lower-cuda-kernels))' | FileCheck %s --check-prefix=NVVM

#id = affine_map<(d0) -> (d0)>
#id2 = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#column = affine_map<(d0, d1) -> (d1)>

// CHECK: remark: [Missed] Emitted | Category:fsdp-emit-cuda-kernels | Function=pad | Reason="it contains tensor.pad"

fsdp.program @step(%x: tensor<300xf32>, %m: tensor<8x1000xf32>, %t: tensor<64x100xf32>,
                   %n: tensor<64x512xbf16>, %l: tensor<8x524288xf32>) {
  %6 = fsdp.launch @vectors(%n, %n) : (tensor<64x512xbf16>, tensor<64x512xbf16>) -> tensor<64x512xbf16>
  %0 = fsdp.launch @tanh(%x) : (tensor<300xf32>) -> tensor<300xf32>
  %1 = fsdp.launch @rows(%m) : (tensor<8x1000xf32>) -> tensor<8xf32>
  %2 = fsdp.launch @columns(%m) : (tensor<8x1000xf32>) -> tensor<1000xf32>
  %5 = fsdp.launch @long_columns(%t) : (tensor<64x100xf32>) -> tensor<100xf32>
  %7 = fsdp.launch @long_rows(%l) : (tensor<8x524288xf32>) -> tensor<8xf32>
  %8 = fsdp.launch @largest(%l) : (tensor<8x524288xf32>) -> tensor<8xf32>
  %3 = fsdp.launch @pad(%x) : (tensor<300xf32>) -> tensor<301xf32>
  fsdp.return
}

// A thread per element; the last block has threads without one.

// CHECK-LABEL: func.func private @tanh
// CHECK-SAME:    fsdp.impl = {cuda = #fsdp.cuda_code<[<@cuda_kernels::@tanh, grid = 3, block = 128, shared = 0>], traffic = 2400>}
func.func private @tanh(%x: tensor<300xf32>, %out: tensor<300xf32>) -> tensor<300xf32> {
  %e = tensor.empty() : tensor<300xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<300xf32>) outs(%e : tensor<300xf32>) {
  ^bb0(%v: f32, %o: f32):
    %s = math.tanh %v : f32
    linalg.yield %s : f32
  } -> tensor<300xf32>
  %s = bufferization.materialize_in_destination %r in %out : (tensor<300xf32>, tensor<300xf32>) -> tensor<300xf32>
  return %s : tensor<300xf32>
}

// A block per row; 500 pairs of points of 256 threads.

// CHECK-LABEL: func.func private @rows
// CHECK-SAME:    <@cuda_kernels::@rows, grid = 8, block = 256, shared = 0>
func.func private @rows(%x: tensor<8x1000xf32>, %out: tensor<8xf32>) -> tensor<8xf32> {
  %one = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<8xf32>
  %f = linalg.fill ins(%one : f32) outs(%e : tensor<8xf32>) -> tensor<8xf32>
  %r = linalg.generic {indexing_maps = [#id2, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<8x1000xf32>) outs(%f : tensor<8xf32>) {
  ^bb0(%v: f32, %o: f32):
    %s = arith.addf %v, %o : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %s = bufferization.materialize_in_destination %r in %out : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %s : tensor<8xf32>
}

// 128 vectors of 4 of each of 1024 threads: 4 blocks of 32.

func.func private @long_rows(%x: tensor<8x524288xf32>, %out: tensor<8xf32>) -> tensor<8xf32> {
  %c = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<8xf32>
  %f = linalg.fill ins(%c : f32) outs(%e : tensor<8xf32>) -> tensor<8xf32>
  %r = linalg.generic {indexing_maps = [#id2, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<8x524288xf32>) outs(%f : tensor<8xf32>) {
  ^bb0(%v: f32, %o: f32):
    %s = arith.addf %v, %o : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %s = bufferization.materialize_in_destination %r in %out : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %s : tensor<8xf32>
}

// Which are no sums.

func.func private @largest(%x: tensor<8x524288xf32>, %out: tensor<8xf32>) -> tensor<8xf32> {
  %c = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<8xf32>
  %f = linalg.fill ins(%c : f32) outs(%e : tensor<8xf32>) -> tensor<8xf32>
  %r = linalg.generic {indexing_maps = [#id2, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<8x524288xf32>) outs(%f : tensor<8xf32>) {
  ^bb0(%v: f32, %o: f32):
    %s = arith.maximumf %v, %o : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %s = bufferization.materialize_in_destination %r in %out : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %s : tensor<8xf32>
}

// A thread per column, one addition after the other.

// CHECK-LABEL: func.func private @columns
// CHECK-SAME:    <@cuda_kernels::@columns, grid = 8, block = 128, shared = 0>
func.func private @columns(%x: tensor<8x1000xf32>, %out: tensor<1000xf32>) -> tensor<1000xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1000xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1000xf32>) -> tensor<1000xf32>
  %r = linalg.generic {indexing_maps = [#id2, #column], iterator_types = ["reduction", "parallel"]}
      ins(%x : tensor<8x1000xf32>) outs(%f : tensor<1000xf32>) {
  ^bb0(%v: f32, %o: f32):
    %s = arith.addf %v, %o : f32
    linalg.yield %s : f32
  } -> tensor<1000xf32>
  %s = bufferization.materialize_in_destination %r in %out : (tensor<1000xf32>, tensor<1000xf32>) -> tensor<1000xf32>
  return %s : tensor<1000xf32>
}

// Sixteen threads per column. The last block has columns that do not exist.

// CHECK-LABEL: func.func private @long_columns
// CHECK-SAME:    <@cuda_kernels::@long_columns, grid = 4, block = 512, shared = 0>
func.func private @long_columns(%x: tensor<64x100xf32>, %out: tensor<100xf32>) -> tensor<100xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<100xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<100xf32>) -> tensor<100xf32>
  %r = linalg.generic {indexing_maps = [#id2, #column], iterator_types = ["reduction", "parallel"]}
      ins(%x : tensor<64x100xf32>) outs(%f : tensor<100xf32>) {
  ^bb0(%v: f32, %o: f32):
    %s = arith.addf %v, %o : f32
    linalg.yield %s : f32
  } -> tensor<100xf32>
  %s = bufferization.materialize_in_destination %r in %out : (tensor<100xf32>, tensor<100xf32>) -> tensor<100xf32>
  return %s : tensor<100xf32>
}

// Eight elements of each thread, 16 bytes, are loaded, computed one by one, and stored.

// CHECK-LABEL: func.func private @vectors
// CHECK-SAME:    <@cuda_kernels::@vectors, grid = 32, block = 128, shared = 0>
func.func private @vectors(%x: tensor<64x512xbf16>, %y: tensor<64x512xbf16>, %out: tensor<64x512xbf16>) -> tensor<64x512xbf16> {
  %e = tensor.empty() : tensor<64x512xbf16>
  %r = linalg.generic {indexing_maps = [#id2, #id2, #id2], iterator_types = ["parallel", "parallel"]}
      ins(%x, %y : tensor<64x512xbf16>, tensor<64x512xbf16>) outs(%e : tensor<64x512xbf16>) {
  ^bb0(%v: bf16, %w: bf16, %o: bf16):
    %s = arith.mulf %v, %w : bf16
    linalg.yield %s : bf16
  } -> tensor<64x512xbf16>
  %s = bufferization.materialize_in_destination %r in %out : (tensor<64x512xbf16>, tensor<64x512xbf16>) -> tensor<64x512xbf16>
  return %s : tensor<64x512xbf16>
}

func.func private @pad(%x: tensor<300xf32>, %out: tensor<301xf32>) -> tensor<301xf32> {
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %x low[0] high[1] {
  ^bb0(%i: index):
    tensor.yield %zero : f32
  } : tensor<300xf32> to tensor<301xf32>
  %s = bufferization.materialize_in_destination %p in %out : (tensor<301xf32>, tensor<301xf32>) -> tensor<301xf32>
  return %s : tensor<301xf32>
}

// CHECK: gpu.module @cuda_kernels

// CHECK-LABEL: gpu.func @vectors(
// CHECK-SAME:    %{{.*}}: memref<32768xbf16, #gpu.address_space<global>> {llvm.align = 16 : i64}, %{{.*}} {llvm.align = 16 : i64}, %{{.*}} {llvm.align = 16 : i64}
// CHECK:         arith.muli %{{.*}}, %c8
// CHECK-COUNT-2: vector.load {{.*}} {alignment = 16 : i64} : {{.*}}, vector<8xbf16>
// CHECK-COUNT-8: arith.mulf {{.*}} : bf16
// CHECK-NOT:     arith.mulf
// CHECK:         vector.store {{.*}} {alignment = 16 : i64} : {{.*}}, vector<8xbf16>

// CHECK-LABEL: gpu.func @tanh(
// CHECK-SAME:    memref<300xf32, #gpu.address_space<global>>, %{{.*}}: memref<300xf32, #gpu.address_space<global>>) kernel
// CHECK-SAME:    known_block_size = array<i32: 128, 1, 1>
// CHECK:         %[[EXISTS:.*]] = arith.cmpi ult, %{{.*}}, %c300
// CHECK:         scf.if %[[EXISTS]]
// CHECK:           math.tanh

// Eight warps: five exchanges in each, and three of their results, which begin
// with the neutral element and meet the 1 at the end.

// CHECK-LABEL: gpu.func @rows(
// CHECK-SAME:    workgroup(%{{.*}} : memref<8xi64, #gpu.address_space<workgroup>>) kernel
// CHECK:         %[[THREAD:.*]] = gpu.thread_id x
// CHECK:         %[[ROW:.*]] = gpu.block_id x
// CHECK:         scf.for %{{.*}} = %[[THREAD]] to %c500{{.*}} step %c256
// CHECK:           vector.load %{{.*}} {alignment = 8 : i64} : {{.*}}, vector<2xf32>
// CHECK-COUNT-5: gpu.shuffle xor
// CHECK:         gpu.barrier
// CHECK-COUNT-3: gpu.shuffle xor
// CHECK-NOT:     gpu.shuffle
// CHECK:         arith.addf %{{.*}}, %cst
// CHECK:         scf.if
// CHECK:           memref.store

// CHECK-LABEL: gpu.func @columns(
// CHECK:         scf.if
// CHECK:           scf.for
// CHECK:             arith.addf
// CHECK-NOT:     gpu.barrier

// CHECK-LABEL: gpu.func @long_columns(
// CHECK-SAME:    workgroup(%{{.*}} : memref<512xi64, #gpu.address_space<workgroup>>) kernel
// CHECK:         %[[EXISTS:.*]] = arith.cmpi ult, %{{.*}}, %c100
// CHECK:         arith.minui
// CHECK:         scf.for %{{.*}} = %{{.*}} to %c64{{.*}} step %c16
// CHECK-COUNT-6: gpu.barrier
// CHECK:         %[[FIRST:.*]] = arith.andi %{{.*}}, %[[EXISTS]]
// CHECK:         scf.if %[[FIRST]]
// CHECK:           memref.store

// CHECK-LABEL: gpu.func @long_rows(
// CHECK:         %[[THREAD:.*]] = gpu.thread_id x
// CHECK:         scf.for %[[FIRST:.*]] = %[[THREAD]] to %c131072{{.*}} step %c32768{{.*}}
// CHECK:           %[[END:.*]] = arith.addi %[[FIRST]], %c32768
// CHECK:           scf.for %{{.*}} = %[[FIRST]] to %[[END]] step %c1024
// CHECK:             vector.load %{{.*}} {alignment = 16 : i64} : {{.*}}, vector<4xf32>
// CHECK-COUNT-4:     arith.addf
// CHECK:             scf.yield
// CHECK-COUNT-4:   arith.addf
// CHECK:           scf.yield

// CHECK-LABEL: gpu.func @largest(
// CHECK:         scf.for
// CHECK-NOT:     scf.for
// CHECK:         gpu.shuffle

// Nothing but LLVM and NVVM is left; parameters are addresses.

// NVVM-LABEL: llvm.func @tanh(%{{.*}}: !llvm.ptr<1>, %{{.*}}: !llvm.ptr<1>) attributes {{.*}}nvvm.kernel
// NVVM-NOT:     {{(math|arith|scf|memref)\.}}
// NVVM-LABEL: llvm.func @rows(
// NVVM:         nvvm.shfl.sync  bfly
// NVVM:         nvvm.barrier
