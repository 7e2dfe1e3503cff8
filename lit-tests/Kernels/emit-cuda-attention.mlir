// RUN: fsdp-opt %s --fsdp-emit-cuda-attention | FileCheck %s
// RUN: fsdp-opt %s --pass-pipeline='builtin.module(fsdp-emit-cuda-attention,gpu.module(fsdp-lower-cuda-kernels))' | FileCheck %s --check-prefix=NVVM

fsdp.program @step(%q: tensor<8x40x16xf32>, %k: tensor<4x48x16xf32>, %o: tensor<8x40x16xf32>, %s: tensor<640xf32>) {
  %0:2 = fsdp.launch @forward(%q, %k) : (tensor<8x40x16xf32>, tensor<4x48x16xf32>) -> (tensor<8x40x16xf32>, tensor<640xf32>)
  %1:2 = fsdp.launch @backward(%q, %k, %o, %s) : (tensor<8x40x16xf32>, tensor<4x48x16xf32>, tensor<8x40x16xf32>, tensor<640xf32>) -> (tensor<8x40x16xf32>, tensor<4x48x16xf32>)
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

// NVVM-LABEL: llvm.func @forward(
// NVVM-NOT:     {{(math|arith|scf|memref)\.}}
