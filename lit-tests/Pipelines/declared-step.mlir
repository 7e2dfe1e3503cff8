// A step without a body is none: passes leave it alone, and what needs one says so.

// RUN: fsdp-opt %s -o %t
// RUN: fsdp-opt %s --fsdp-normalize-compute --fsdp-fuse-attention --fsdp-form-kernels --fsdp-recompute-cheap-values --fsdp-outline-kernels | diff %t -
// RUN: fsdp-opt %s --fsdp-insert-reshards --fsdp-recompute-activations --fsdp-offload-activations --fsdp-plan-arena | diff %t -
// RUN: fsdp-opt %s --fsdp-kernels --fsdp-cpu-kernels | diff %t -
// RUN: not fsdp-opt %s --fsdp-verify-schedule 2>&1 | FileCheck %s
// RUN: not fsdp-opt %s --convert-fsdp-to-runtime 2>&1 | FileCheck %s
// CHECK: error: {{.*}}expected a step with one block
func.func private @step(tensor<4xf32>) -> tensor<4xf32>
