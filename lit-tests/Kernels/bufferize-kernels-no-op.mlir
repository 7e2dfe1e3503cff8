// RUN: fsdp-opt %s -o %t
// RUN: fsdp-opt %s --fsdp-bufferize-kernels | diff %t -

func.func @no_tensors(%x: memref<4xf32>, %i: index) -> f32 {
  %v = memref.load %x[%i] : memref<4xf32>
  return %v : f32
}
