// All the way down to calls of the runtime, and from there to LLVM IR, with
// stock tools only.
// RUN: mlir-opt --load-dialect-plugin=%plugin %fixtures/mixed/model.mlir \
// RUN:   --pass-pipeline='builtin.module(fsdp-partition,fsdp-kernels,fsdp-cpu-kernels,fsdp-arena,convert-fsdp-to-runtime,fsdp-lower-to-llvm)' \
// RUN:   | mlir-translate --mlir-to-llvmir | FileCheck %s

// Starts in the order of the computation: event -1, kind, queue 0, no guard.
// CHECK-DAG: = internal constant { ptr, ptr, i64, ptr, i64, i64, i32, i32, ptr } { {{.*}}, i64 1, ptr null, i64 0, i64 -1, i32 0, i32 0, ptr null }
// CHECK-DAG: = internal constant { ptr, ptr, i64, ptr, i64, i64, i32, i32, ptr } { {{.*}}, i64 1, ptr null, i64 0, i64 -1, i32 1, i32 0, ptr null }
// CHECK-DAG: = internal constant { ptr, ptr, i64, ptr, i64, i64, i32, i32, ptr } { {{.*}}, i64 1, ptr null, i64 0, i64 -1, i32 2, i32 0, ptr null }
// CHECK-DAG: @fsdp_rt_artifact_entry = constant
// CHECK: define i32 @fsdp_run_train(ptr %0)
// CHECK: call i32 @fsdp_rt_start(ptr %0,
// CHECK: call i32 @fsdp_rt_launch(ptr %0,
// CHECK: call i32 @fsdp_rt_start(ptr %0,
