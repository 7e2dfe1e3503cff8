// RUN: fsdp-opt %s --convert-fsdp-to-runtime --split-input-file -verify-diagnostics

// expected-error @below {{expected a planned arena (run fsdp-plan-arena first)}}
fsdp.program @step(%x: tensor<4xf32>) -> tensor<4xf32> {
  fsdp.return %x : tensor<4xf32>
}

// -----

fsdp.program @step(%x: tensor<4xf32> {fsdp.offset = 0 : i64}) attributes {arena = #fsdp.arena<bytes = 512, inputs = 256, transient = 256>} {
  // expected-error @below {{expected a kernel with code, got @k without fsdp.impl or fsdp.matmul}}
  %0 = fsdp.launch @k(%x) {fsdp.offsets = array<i64: 256>} : (tensor<4xf32>) -> tensor<4xf32>
  fsdp.return
}
func.func private @k(%x: tensor<4xf32>, %out: tensor<4xf32>) -> tensor<4xf32> {
  return %out : tensor<4xf32>
}

// -----

fsdp.program @step(%x: tensor<4xf32> {fsdp.offset = 0 : i64}) attributes {arena = #fsdp.arena<bytes = 512, inputs = 256, transient = 256>} {
  // expected-error @below {{expected a launch, a transfer, a pack, a check or a view in a planned step}}
  %0 = tensor.extract_slice %x[0] [2] [1] {fsdp.offsets = array<i64: 0>} : tensor<4xf32> to tensor<2xf32>
  fsdp.return
}

// -----

// Places that are none are not read.
fsdp.program @step(%x: tensor<4xf32> {fsdp.offset = 0 : i64}) attributes {arena = #fsdp.arena<bytes = 512, inputs = 256, transient = 256>} {
  // expected-error @below {{expected fsdp.offsets = array<i64> of 1 places, got 1 : index}}
  %0 = fsdp.view %x[0] {fsdp.offsets = 1 : index} : tensor<4xf32> -> tensor<2x2xf32>
  fsdp.return
}

// -----

// A factor that the launch does not have.
fsdp.program @step(%x: tensor<8x4xf32> {fsdp.offset = 0 : i64}, %y: tensor<4xf32> {fsdp.offset = 128 : i64}) attributes {arena = #fsdp.arena<bytes = 512, inputs = 256, transient = 256>} {
  %0 = fsdp.launch @k(%x, %y) {fsdp.offsets = array<i64: 256>} : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8xf32>
  fsdp.return
}
// expected-error @below {{expected factors among the 2 inputs of the kernel in fsdp.matmul, got input 3}}
func.func private @k(%x: tensor<8x4xf32>, %y: tensor<4xf32>, %out: tensor<8xf32>) -> tensor<8xf32>
    attributes {fsdp.matmul = #fsdp.matmul<a = 0, b = 3, m = 1, n = 8, k = 4, lda = 4, ldb = 4, ldc = 8, transA = false, transB = true, accumulate = false, offsets = [0, 0, 0], batch = [1, 1, 1, 1], strideA = [0, 0, 0, 0], strideB = [0, 0, 0, 0], strideC = [0, 0, 0, 0], alpha = 2.500000e-01 : f64>} {
  return %out : tensor<8xf32>
}
