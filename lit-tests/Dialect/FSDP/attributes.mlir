// RUN: fsdp-opt %s --verify-roundtrip | FileCheck %s
// RUN: fsdp-opt %s --emit-bytecode | fsdp-opt | FileCheck %s

// A mesh without axes is one rank.
// CHECK: fsdp.mesh @one_rank []
fsdp.mesh @one_rank []

// The end of a parameter may be the largest number there is.
// CHECK-LABEL: @members
// CHECK-SAME:    a = #fsdp.member<"a", tensor<7xf32> at 9223372036854775800>
// CHECK-SAME:    b = #fsdp.member<"b", tensor<f64> at 0 tied ["c", "d"] init {kind = "constant", value = 1.000000e+00 : f64}>
// CHECK-SAME:    c = #fsdp.member<"", tensor<0x4xbf16> at 3>
func.func private @members() attributes {
  a = #fsdp.member<"a", tensor<7xf32> at 9223372036854775800>,
  b = #fsdp.member<"b", tensor<f64> at 0 tied ["c", "d"] init {kind = "constant", value = 1.0}>,
  c = #fsdp.member<"", tensor<0x4xbf16> at 3>
}

// CHECK-LABEL: @kernel
// CHECK-SAME:    fsdp.impl = {cpu = #fsdp.cpu_kernel<@kernel_cpu, grid = 256, grain = 16, scratch = 0, traffic = 8192>}
func.func private @kernel() attributes {
  fsdp.impl = {cpu = #fsdp.cpu_kernel<@kernel_cpu, grid = 256, grain = 16, scratch = 0, traffic = 8192>}
}

// CHECK-LABEL: @product
// CHECK-SAME:    fsdp.matmul = #fsdp.matmul<a = 0, b = 1, m = 64, n = 32, k = 16, lda = 16, ldb = 32, ldc = 32,
// CHECK-SAME:    transA = false, transB = true, accumulate = false, offsets = [0, 4, 0],
// CHECK-SAME:    batch = [8], strideA = [1024], strideB = [0], strideC = [2048], alpha = 5.000000e-01 : f64>
func.func private @product() attributes {
  fsdp.matmul = #fsdp.matmul<
    a = 0, b = 1, m = 64, n = 32, k = 16, lda = 16, ldb = 32, ldc = 32, transA = false, transB = true,
    accumulate = false, offsets = [0, 4, 0], batch = [8], strideA = [1024], strideB = [0], strideC = [2048],
    alpha = 0.5 : f64>
}

// CHECK-LABEL: @types
// CHECK-SAME:    !fsdp.sharded<@h0, f32>
// CHECK-SAME:    !fsdp.unsharded<@h0, f8E4M3FN>
func.func private @types(!fsdp.sharded<@h0, f32>, !fsdp.unsharded<@h0, f8E4M3FN>)
