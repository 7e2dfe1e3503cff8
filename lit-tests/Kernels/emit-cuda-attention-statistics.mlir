// RUN: fsdp-opt %s --split-input-file --fsdp-emit-cuda-attention | FileCheck %s

// Statistics alone: the output is stored nowhere.

// CHECK-LABEL: gpu.func @a(
// CHECK:         memref.store %{{.*}} : memref<160xf32, #gpu.address_space<global>>

fsdp.program @step(%q: tensor<2x40x64xbf16>, %k: tensor<2x48x64xbf16>) {
  %0 = fsdp.launch @a(%q, %k) : (tensor<2x40x64xbf16>, tensor<2x48x64xbf16>) -> tensor<160xf32>
  fsdp.return
}
func.func private @a(%q: tensor<2x40x64xbf16>, %k: tensor<2x48x64xbf16>, %out: tensor<160xf32>) -> tensor<160xf32> {
  %o, %s = fsdp.attention <batch = [2], queries = 40, keys = 48, head = 64, value = 64>
      q(%q <0, [2560, 64, 1]> : tensor<2x40x64xbf16>)
      k(%k <0, [3072, 64, 1]> : tensor<2x48x64xbf16>) v(%k <0, [3072, 64, 1]> : tensor<2x48x64xbf16>)
      captured() [] scale 0.125 {
  ^bb0(%score: f32, %b0: index, %query: index, %key: index):
    fsdp.yield %score : f32
  } out(<0, [2560, 64, 1]>) : tensor<2x40x64xbf16>, tensor<160xf32>
  %0 = bufferization.materialize_in_destination %s in %out : (tensor<160xf32>, tensor<160xf32>) -> tensor<160xf32>
  return %0 : tensor<160xf32>
}

// -----

// CHECK-LABEL: gpu.func @a(
// CHECK:         memref.store %{{.*}} : memref<160xf32, #gpu.address_space<global>>

fsdp.program @step(%q: tensor<2x40x64xf32>, %k: tensor<2x48x64xf32>) {
  %0 = fsdp.launch @a(%q, %k) : (tensor<2x40x64xf32>, tensor<2x48x64xf32>) -> tensor<160xf32>
  fsdp.return
}
func.func private @a(%q: tensor<2x40x64xf32>, %k: tensor<2x48x64xf32>, %out: tensor<160xf32>) -> tensor<160xf32> {
  %o, %s = fsdp.attention <batch = [2], queries = 40, keys = 48, head = 64, value = 64>
      q(%q <0, [2560, 64, 1]> : tensor<2x40x64xf32>)
      k(%k <0, [3072, 64, 1]> : tensor<2x48x64xf32>) v(%k <0, [3072, 64, 1]> : tensor<2x48x64xf32>)
      captured() [] scale 0.125 {
  ^bb0(%score: f32, %b0: index, %query: index, %key: index):
    fsdp.yield %score : f32
  } out(<0, [2560, 64, 1]>) : tensor<2x40x64xf32>, tensor<160xf32>
  %0 = bufferization.materialize_in_destination %s in %out : (tensor<160xf32>, tensor<160xf32>) -> tensor<160xf32>
  return %0 : tensor<160xf32>
}
