// RUN: fsdp-opt %s --fsdp-adopt-kernels --split-input-file -verify-diagnostics

fsdp.program @step(%x: tensor<4xf32>) {
  %0 = fsdp.launch @k(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fsdp.return
}
func.func private @k(%x: tensor<4xf32>, %out: tensor<4xf32>) -> tensor<4xf32> {
  return %out : tensor<4xf32>
}
module @fallback {
  func.func @k_cpu(%x: memref<4xf32>, %out: memref<4xf32>) -> memref<4xf32> {
    // expected-error @below {{cannot be lowered for this target}}
    linalg.copy ins(%x : memref<4xf32>) outs(%out : memref<4xf32>)
    return %out : memref<4xf32>
  }
}

// -----

fsdp.program @step(%x: tensor<4xf32>) {
  %0 = fsdp.launch @k(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fsdp.return
}
func.func private @k(%x: tensor<4xf32>, %out: tensor<4xf32>) -> tensor<4xf32> {
  return %out : tensor<4xf32>
}
module @fallback {
  func.func @k_cpu(%x: memref<4xf32>, %out: memref<4xf32>) -> memref<4xf32> {
    %n = arith.constant 4 : index
    // expected-error @below {{expected a buffer of static size in a kernel, got 'memref<?xf32>'}}
    %a = memref.alloc(%n) : memref<?xf32>
    return %out : memref<4xf32>
  }
}

// -----

// Each iteration makes a buffer while the one before it is still read.

fsdp.program @step(%x: tensor<4xf32>) {
  %0 = fsdp.launch @k(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fsdp.return
}
func.func private @k(%x: tensor<4xf32>, %out: tensor<4xf32>) -> tensor<4xf32> {
  return %out : tensor<4xf32>
}
module @fallback {
  func.func @k_cpu(%x: memref<4xf32>, %out: memref<4xf32>) -> memref<4xf32> {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %r = scf.for %i = %c0 to %c4 step %c1 iter_args(%t = %x) -> (memref<4xf32>) {
      // expected-error @below {{expected a buffer that is not handed from one iteration to the next}}
      %a = memref.alloc() : memref<4xf32>
      %v = memref.load %t[%i] : memref<4xf32>
      memref.store %v, %a[%i] : memref<4xf32>
      scf.yield %a : memref<4xf32>
    }
    return %out : memref<4xf32>
  }
}

// -----

fsdp.program @step(%x: tensor<4xf32>) {
  %0 = fsdp.launch @k(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fsdp.return
}
func.func private @k(%x: tensor<4xf32>, %out: tensor<4xf32>) -> tensor<4xf32> {
  return %out : tensor<4xf32>
}
module @fallback {
  // expected-error @below {{expected result #0 of kernel to lie in its destination}}
  func.func @k_cpu(%x: memref<4xf32>, %out: memref<4xf32>) -> memref<4xf32> {
    return %x : memref<4xf32>
  }
}

// -----

fsdp.program @step(%x: tensor<4xf32>) {
  %0 = fsdp.launch @k(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fsdp.return
}
func.func private @k(%x: tensor<4xf32>, %out: tensor<4xf32>) -> tensor<4xf32> {
  return %out : tensor<4xf32>
}
// expected-error @below {{expected an implementation of @k in @fallback, got none}}
module @fallback {
}
