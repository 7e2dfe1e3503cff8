// Code for CUDA devices with stock tools: kernels and calls to the LLVM dialect,
// and from there MLIR's own serializer to PTX.
// RUN: mlir-opt --load-dialect-plugin=%plugin %fixtures/mixed/model.mlir \
// RUN:   --pass-pipeline='builtin.module(fsdp-partition{mesh=shard=1},fsdp-kernels,fsdp-cuda-kernels,fsdp-arena,convert-fsdp-to-runtime{cuda=sm_80},fsdp-lower-to-llvm)' -o %t
// RUN: FileCheck %s --input-file=%t
// RUN: env -u CUDA_HOME -u CUDA_PATH -u CUDA_ROOT mlir-opt --load-dialect-plugin=%plugin %t \
// RUN:   --pass-pipeline='builtin.module(nvvm-attach-target{chip=sm_80 features=+ptx80},gpu-module-to-binary{format=isa})' \
// RUN:   | FileCheck %s --check-prefix=PTX

// Attention of bf16 tensors by tensor cores.
// RUN: mlir-opt --load-dialect-plugin=%plugin %fixtures/gpt2-bf16/model.mlir \
// RUN:   --pass-pipeline='builtin.module(fsdp-partition{mesh=shard=1},fsdp-kernels,fsdp-cuda-kernels,fsdp-arena,convert-fsdp-to-runtime{cuda=sm_80},fsdp-lower-to-llvm)' -o %t.bf16
// RUN: env -u CUDA_HOME -u CUDA_PATH -u CUDA_ROOT mlir-opt --load-dialect-plugin=%plugin %t.bf16 \
// RUN:   --pass-pipeline='builtin.module(nvvm-attach-target{chip=sm_80 features=+ptx80},gpu-module-to-binary{format=isa})' \
// RUN:   | FileCheck %s --check-prefix=MATRIX

// MATRIX: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32

// CHECK-DAG: llvm.mlir.global external constant @fsdp_cuda_ptx()
// CHECK-DAG: @fsdp_rt_artifact_entry
// CHECK-DAG: gpu.module @cuda_kernels
// CHECK-DAG: llvm.func @{{.*}}nvvm.kernel

// PTX: gpu.binary @cuda_kernels
// PTX-SAME: .target sm_80
