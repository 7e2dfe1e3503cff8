// RUN: fsdp-opt %s --fsdp-emit-cuda-attention | FileCheck %s
// RUN: fsdp-opt %s --fsdp-emit-cuda-attention=math=exact | FileCheck %s --check-prefix=EXACT
// RUN: fsdp-opt %s --pass-pipeline='builtin.module(fsdp-emit-cuda-attention,gpu.module(fsdp-lower-cuda-kernels))' | FileCheck %s --check-prefix=NVVM

fsdp.program @step(%q: tensor<8x40x16xf32>, %k: tensor<4x48x16xf32>, %o: tensor<8x40x16xf32>, %s: tensor<640xf32>,
                   %nq: tensor<2x40x64xbf16>, %nk: tensor<2x48x64xbf16>, %nv: tensor<2x48x64xf32>, %ns: tensor<160xf32>) {
  %0:2 = fsdp.launch @forward(%q, %k) : (tensor<8x40x16xf32>, tensor<4x48x16xf32>) -> (tensor<8x40x16xf32>, tensor<640xf32>)
  %1:2 = fsdp.launch @backward(%q, %k, %o, %s) : (tensor<8x40x16xf32>, tensor<4x48x16xf32>, tensor<8x40x16xf32>, tensor<640xf32>) -> (tensor<8x40x16xf32>, tensor<4x48x16xf32>)
  %2 = fsdp.launch @narrow(%nq, %nk) : (tensor<2x40x64xbf16>, tensor<2x48x64xbf16>) -> tensor<2x40x64xbf16>
  %3:2 = fsdp.launch @narrow_backward(%nq, %nk, %ns) : (tensor<2x40x64xbf16>, tensor<2x48x64xbf16>, tensor<160xf32>) -> (tensor<2x40x64xbf16>, tensor<2x48x64xbf16>)
  %4 = fsdp.launch @mixed(%nq, %nk, %nv) : (tensor<2x40x64xbf16>, tensor<2x48x64xbf16>, tensor<2x48x64xf32>) -> tensor<2x40x64xbf16>
  fsdp.return
}

// Heads in pairs share keys. 8 batches of 40 queries, 16 a block; what goes
// out are the output and its statistics.

// CHECK-LABEL: func.func private @forward
// CHECK-SAME:    cuda_code<[<@cuda_kernels::@forward, grid = 24, block = 128, shared = {{[0-9]+}}>]
func.func private @forward(%q: tensor<8x40x16xf32>, %k: tensor<4x48x16xf32>, %out: tensor<8x40x16xf32>, %stats: tensor<640xf32>)
    -> (tensor<8x40x16xf32>, tensor<640xf32>) {
  %o, %s = fsdp.attention <batch = [4, 2], queries = 40, keys = 48, head = 16, value = 16>
      q(%q <0, [1280, 640, 16, 1]> : tensor<8x40x16xf32>)
      k(%k <0, [768, 0, 16, 1]> : tensor<4x48x16xf32>) v(%k <0, [768, 0, 16, 1]> : tensor<4x48x16xf32>)
      captured() [] scale 0.25 {
  ^bb0(%score: f32, %b0: index, %b1: index, %query: index, %key: index):
    fsdp.yield %score : f32
  } out(<0, [1280, 640, 16, 1]>) : tensor<8x40x16xf32>, tensor<640xf32>
  %0 = bufferization.materialize_in_destination %o in %out : (tensor<8x40x16xf32>, tensor<8x40x16xf32>) -> tensor<8x40x16xf32>
  %1 = bufferization.materialize_in_destination %s in %stats : (tensor<640xf32>, tensor<640xf32>) -> tensor<640xf32>
  return %0, %1 : tensor<8x40x16xf32>, tensor<640xf32>
}

// One function for dq, one for dk: 4 batches of 48 keys, since gradients of
// keys are summed over the heads that share them. Nobody wants dv.

// CHECK-LABEL: func.func private @backward
// CHECK-SAME:    cuda_code<[<@cuda_kernels::@backward_dq, grid = 24, block = 128, shared = {{[0-9]+}}>, <@cuda_kernels::@backward_dkdv, grid = 12, block = 128, shared = {{[0-9]+}}>]
func.func private @backward(%q: tensor<8x40x16xf32>, %k: tensor<4x48x16xf32>, %o: tensor<8x40x16xf32>, %stats: tensor<640xf32>,
                            %outq: tensor<8x40x16xf32>, %outk: tensor<4x48x16xf32>)
    -> (tensor<8x40x16xf32>, tensor<4x48x16xf32>) {
  %dq, %dk, %dv = fsdp.attention_backward <batch = [4, 2], queries = 40, keys = 48, head = 16, value = 16>
      q(%q <0, [1280, 640, 16, 1]> : tensor<8x40x16xf32>)
      k(%k <0, [768, 0, 16, 1]> : tensor<4x48x16xf32>) v(%k <0, [768, 0, 16, 1]> : tensor<4x48x16xf32>)
      out(%o <0, [1280, 640, 16, 1]> : tensor<8x40x16xf32>) dout(%o <0, [1280, 640, 16, 1]> : tensor<8x40x16xf32>)
      stats(%stats : tensor<640xf32>) captured() [] scale 0.25 {
  ^bb0(%score: f32, %b0: index, %b1: index, %query: index, %key: index):
    fsdp.yield %score : f32
  } gradient {
  ^bb0(%ds: f32, %score: f32, %b0: index, %b1: index, %query: index, %key: index):
    fsdp.yield %ds : f32
  } dq(<0, [1280, 640, 16, 1]> scale 0.25 : tensor<8x40x16xf32>)
    dk(<0, [768, 0, 16, 1]> scale 0.25 : tensor<4x48x16xf32>)
    dv(<0, [768, 0, 16, 1]> : tensor<4x48x16xf32>)
  %0 = bufferization.materialize_in_destination %dq in %outq : (tensor<8x40x16xf32>, tensor<8x40x16xf32>) -> tensor<8x40x16xf32>
  %1 = bufferization.materialize_in_destination %dk in %outk : (tensor<4x48x16xf32>, tensor<4x48x16xf32>) -> tensor<4x48x16xf32>
  return %0, %1 : tensor<8x40x16xf32>, tensor<4x48x16xf32>
}

// Tensor cores multiply bf16: 64 rows a block, a warp for each 16.

// CHECK-LABEL: func.func private @narrow
// CHECK-SAME:    cuda_code<[<@cuda_kernels::@narrow, grid = 2, block = 128, shared = 27648>]
func.func private @narrow(%q: tensor<2x40x64xbf16>, %k: tensor<2x48x64xbf16>, %out: tensor<2x40x64xbf16>) -> tensor<2x40x64xbf16> {
  %o, %s = fsdp.attention <batch = [2], queries = 40, keys = 48, head = 64, value = 64>
      q(%q <0, [2560, 64, 1]> : tensor<2x40x64xbf16>)
      k(%k <0, [3072, 64, 1]> : tensor<2x48x64xbf16>) v(%k <0, [3072, 64, 1]> : tensor<2x48x64xbf16>)
      captured() [] scale 0.125 {
  ^bb0(%score: f32, %b0: index, %query: index, %key: index):
    fsdp.yield %score : f32
  } out(<0, [2560, 64, 1]>) : tensor<2x40x64xbf16>, tensor<160xf32>
  %0 = bufferization.materialize_in_destination %o in %out : (tensor<2x40x64xbf16>, tensor<2x40x64xbf16>) -> tensor<2x40x64xbf16>
  return %0 : tensor<2x40x64xbf16>
}

// Behind the tiles lie the statistics of 64 queries.

// CHECK-LABEL: func.func private @narrow_backward
// CHECK-SAME:    cuda_code<[<@cuda_kernels::@narrow_backward_dq, grid = 2, block = 128, shared = 36864>, <@cuda_kernels::@narrow_backward_dkdv, grid = 2, block = 128, shared = 37632>], traffic = {{[0-9]+}}, workspace = 640>
func.func private @narrow_backward(%q: tensor<2x40x64xbf16>, %k: tensor<2x48x64xbf16>, %stats: tensor<160xf32>,
                                   %outq: tensor<2x40x64xbf16>, %outk: tensor<2x48x64xbf16>)
    -> (tensor<2x40x64xbf16>, tensor<2x48x64xbf16>) {
  %dq, %dk, %dv = fsdp.attention_backward <batch = [2], queries = 40, keys = 48, head = 64, value = 64>
      q(%q <0, [2560, 64, 1]> : tensor<2x40x64xbf16>)
      k(%k <0, [3072, 64, 1]> : tensor<2x48x64xbf16>) v(%k <0, [3072, 64, 1]> : tensor<2x48x64xbf16>)
      out(%q <0, [2560, 64, 1]> : tensor<2x40x64xbf16>) dout(%q <0, [2560, 64, 1]> : tensor<2x40x64xbf16>)
      stats(%stats : tensor<160xf32>) captured() [] scale 0.125 {
  ^bb0(%score: f32, %b0: index, %query: index, %key: index):
    fsdp.yield %score : f32
  } gradient {
  ^bb0(%ds: f32, %score: f32, %b0: index, %query: index, %key: index):
    fsdp.yield %ds : f32
  } dq(<0, [2560, 64, 1]> scale 0.125 : tensor<2x40x64xbf16>)
    dk(<0, [3072, 64, 1]> scale 0.125 : tensor<2x48x64xbf16>)
    dv(<0, [3072, 64, 1]> : tensor<2x48x64xbf16>)
  %0 = bufferization.materialize_in_destination %dq in %outq : (tensor<2x40x64xbf16>, tensor<2x40x64xbf16>) -> tensor<2x40x64xbf16>
  %1 = bufferization.materialize_in_destination %dk in %outk : (tensor<2x48x64xbf16>, tensor<2x48x64xbf16>) -> tensor<2x48x64xbf16>
  return %0, %1 : tensor<2x40x64xbf16>, tensor<2x48x64xbf16>
}

// Operands of different types are multiplied in float32.

// CHECK-LABEL: func.func private @mixed
// CHECK-SAME:    cuda_code<[<@cuda_kernels::@mixed, grid = 6, block = 128
func.func private @mixed(%q: tensor<2x40x64xbf16>, %k: tensor<2x48x64xbf16>, %v: tensor<2x48x64xf32>, %out: tensor<2x40x64xbf16>) -> tensor<2x40x64xbf16> {
  %o, %s = fsdp.attention <batch = [2], queries = 40, keys = 48, head = 64, value = 64>
      q(%q <0, [2560, 64, 1]> : tensor<2x40x64xbf16>)
      k(%k <0, [3072, 64, 1]> : tensor<2x48x64xbf16>) v(%v <0, [3072, 64, 1]> : tensor<2x48x64xf32>)
      captured() [] scale 0.125 {
  ^bb0(%score: f32, %b0: index, %query: index, %key: index):
    fsdp.yield %score : f32
  } out(<0, [2560, 64, 1]>) : tensor<2x40x64xbf16>, tensor<160xf32>
  %0 = bufferization.materialize_in_destination %o in %out : (tensor<2x40x64xbf16>, tensor<2x40x64xbf16>) -> tensor<2x40x64xbf16>
  return %0 : tensor<2x40x64xbf16>
}

// Tiles of 32 keys: features to shared memory, scores, their maximum over the
// eight threads of a row, exponentials, features of the output.

// CHECK-LABEL: gpu.func @forward(
// CHECK:         gpu.dynamic_shared_memory
// CHECK:         scf.for %{{.*}} = %{{.*}} to %c48{{.*}} step %c32
// CHECK:           gpu.barrier
// CHECK:           gpu.barrier
// CHECK-COUNT-3:   gpu.shuffle xor
// CHECK:           math.exp
// CHECK-COUNT-3:   gpu.shuffle xor
// CHECK:           gpu.barrier
// CHECK:         arith.divf

// CHECK-LABEL: gpu.func @backward_dq(
// CHECK-LABEL: gpu.func @backward_dkdv(
// 80 queries of both heads.
// CHECK:         scf.for %{{.*}} = %{{.*}} to %c80{{.*}} step %c32

// Scores: per 16 features 16 rows of q and, twice 8, the keys; their maximum over
// the four threads of a row; weights, in pairs; values, across. Only the last
// tile has keys that are none. Weights are of 16 bits, so exponentials are the
// device's, unless they have to be exact.

// CHECK-LABEL: gpu.func @narrow(
// CHECK:         scf.for %{{.*}} = %{{.*}} to %c48{{.*}} step %c64
// CHECK:           gpu.barrier
// CHECK:           llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
// CHECK:           llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<3>
// CHECK:           llvm.load %{{.*}} {alignment = 2 : i64} : !llvm.ptr<1> -> i16
// CHECK:           gpu.barrier
// CHECK-NOT:       gpu.barrier
// CHECK-COUNT-2:   nvvm.ldmatrix %{{.*}} {eltType = {{.*}}b16>, layout = #nvvm.mma_layout<row>, num = 4 : i32
// CHECK:           nvvm.mma.sync A[{{.*}}] B[{{.*}}] C[{{.*}}] {{.*}}multiplicandAPtxType = #nvvm.mma_type<bf16>{{.*}}shape = #nvvm.shape<m = 16, n = 8, k = 16>
// CHECK:           scf.if
// CHECK-NEXT:        scf.yield
// CHECK:             arith.select %{{.*}}, %{{.*}}, %cst
// CHECK:             scf.yield
// CHECK-COUNT-2:   gpu.shuffle xor
// CHECK:           math.fma
// CHECK:           llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz"
// CHECK:           arith.truncf %{{.*}} : vector<2xf32> to vector<2xbf16>
// CHECK:           nvvm.ldmatrix %{{.*}} {{.*}}layout = #nvvm.mma_layout<col>
// CHECK:           nvvm.mma.sync
// CHECK:         arith.divf

// Per query dq leaves the sum of dout * out, and the logarithm of the sum of the
// scores' exponentials.

// CHECK-LABEL: gpu.func @narrow_backward_dq(
// CHECK-COUNT-2: memref.store %{{.*}} : memref<160xf32, #gpu.address_space<global>>
// CHECK:         nvvm.mma.sync
// CHECK-LABEL: gpu.func @narrow_backward_dkdv(
// CHECK:         nvvm.mma.sync
// CHECK-LABEL: gpu.func @mixed(
// CHECK-NOT:     nvvm.mma.sync

// EXACT-LABEL: gpu.func @narrow(
// EXACT-NOT:     approx
// EXACT:         math.exp
// EXACT-LABEL: gpu.func @narrow_backward_dq(
// EXACT-NOT:     approx
// EXACT:         memref.store %{{.*}} : memref<80xf32, #gpu.address_space<global>>
// EXACT-LABEL: gpu.func @mixed(

// NVVM-LABEL: llvm.func @forward(
// NVVM-NOT:     {{(math|arith|scf|memref)\.}}
