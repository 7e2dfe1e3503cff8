// A function is no program, whatever its name: passes leave it alone. A program without a body is none.

// RUN: split-file %s %t
// RUN: fsdp-opt %t/function.mlir -o %t.same
// RUN: fsdp-opt %t/function.mlir --fsdp-normalize-compute --fsdp-fuse-attention --fsdp-form-kernels --fsdp-recompute-cheap-values --fsdp-outline-kernels | diff %t.same -
// RUN: fsdp-opt %t/function.mlir --fsdp-insert-reshards --fsdp-recompute-activations --fsdp-offload-activations --fsdp-layout-state --fsdp-plan-arena | diff %t.same -
// RUN: fsdp-opt %t/function.mlir --fsdp-kernels --fsdp-cpu-kernels | diff %t.same -
// RUN: fsdp-opt %t/function.mlir --fsdp-verify-schedule | diff %t.same -
// RUN: fsdp-opt %t/function.mlir --convert-fsdp-to-runtime | diff %t.same -
// RUN: not fsdp-opt %t/program.mlir 2>&1 | FileCheck %s
// CHECK: error: 'fsdp.program' op region #0 ('body') failed to verify constraint: region with 1 blocks

//--- function.mlir
func.func private @declared(tensor<4xf32>) -> tensor<4xf32>
func.func @step(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.addf %x, %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

//--- program.mlir
fsdp.program @step(tensor<4xf32>) -> tensor<4xf32>
