// All the way down to calls of the runtime, and from there to LLVM IR, with
// stock tools only.
// RUN: mlir-opt --load-dialect-plugin=%plugin %fixtures/mixed/model.mlir \
// RUN:   --pass-pipeline='builtin.module(fsdp-partition,fsdp-kernels,fsdp-cpu-kernels,fsdp-arena,convert-fsdp-to-runtime,fsdp-lower-to-llvm)' \
// RUN:   | mlir-translate --mlir-to-llvmir | FileCheck %s

// CHECK: @fsdp_rt_artifact_entry = constant
// CHECK: define i32 @fsdp_run_train(ptr %0)
// CHECK: call i32 @fsdp_rt_start(ptr %0,
// CHECK: call i32 @fsdp_rt_launch(ptr %0,
// CHECK: call i32 @fsdp_rt_start(ptr %0,
