// Dimensions of affine maps are 32 bits wide, so upstream's verifier takes this for 0.
//
// RUN: not fsdp-opt %s 2>&1 | FileCheck %s
// RUN: not fsdp-compile %s -o %t 2>&1 | FileCheck %s
// RUN: sed 's/4294967296/0/' %s | fsdp-opt -o /dev/null

// CHECK: reassociation.mlir:[[#@LINE+2]]:{{.*}}'tensor.collapse_shape' op expected reassociation indices that count from 0, here 0, got 4294967296
func.func @forward_backward(%x: tensor<6x8x8xf32>) -> tensor<6x64xf32> {
  %0 = tensor.collapse_shape %x [[4294967296], [1, 2]] : tensor<6x8x8xf32> into tensor<6x64xf32>
  return %0 : tensor<6x64xf32>
}
