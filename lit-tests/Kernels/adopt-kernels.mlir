// RUN: fsdp-opt %s --fsdp-adopt-kernels | FileCheck %s

fsdp.program @step(%x: tensor<4xf32>, %flags: tensor<4xi1>) {
  %0 = fsdp.launch @buffers(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = fsdp.launch @branch(%flags) : (tensor<4xi1>) -> tensor<4xf32>
  fsdp.return
}

// Two buffers get places in scratch memory, 64 bytes apart.

// CHECK-LABEL: func.func private @buffers(
// CHECK-SAME:    fsdp.impl = {cpu = #fsdp.cpu_kernel<@buffers_cpu, grid = 1, grain = 1, scratch = 128, traffic = 32>}
// CHECK:       func.func private @buffers_cpu(%{{.*}}: index, %{{.*}}: index, %[[SCRATCH:.*]]: memref<128xi8>, %{{.*}}: memref<4xf32>, %{{.*}}: memref<4xf32>) {
// CHECK:         %[[AT0:.*]] = arith.constant 0 : index
// CHECK-NEXT:    memref.view %[[SCRATCH]][%[[AT0]]]
// CHECK:         %[[AT1:.*]] = arith.constant 64 : index
// CHECK-NEXT:    memref.view %[[SCRATCH]][%[[AT1]]]
// CHECK-NOT:     memref.alloc
// CHECK:         return{{$}}
func.func private @buffers(%x: tensor<4xf32>, %out: tensor<4xf32>) -> tensor<4xf32> {
  return %out : tensor<4xf32>
}
// A branch in a loop makes a buffer that the iteration uses up.

// CHECK-LABEL: func.func private @branch_cpu
// CHECK-NOT:     memref.alloc
func.func private @branch(%flags: tensor<4xi1>, %out: tensor<4xf32>) -> tensor<4xf32> {
  return %out : tensor<4xf32>
}
// CHECK-NOT:   module @fallback
module @fallback {
  func.func @buffers_cpu(%x: memref<4xf32>, %out: memref<4xf32>) -> memref<4xf32> {
    %a = memref.alloc() : memref<4xf32>
    %b = memref.alloc() : memref<1xf32>
    %c0 = arith.constant 0 : index
    %v = memref.load %x[%c0] : memref<4xf32>
    memref.store %v, %a[%c0] : memref<4xf32>
    memref.store %v, %b[%c0] : memref<1xf32>
    return %out : memref<4xf32>
  }
  func.func @branch_cpu(%flags: memref<4xi1>, %out: memref<4xf32>) -> memref<4xf32> {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    scf.for %i = %c0 to %c4 step %c1 {
      %f = memref.load %flags[%i] : memref<4xi1>
      %b = scf.if %f -> (memref<4xf32>) {
        %a = memref.alloc() : memref<4xf32>
        scf.yield %a : memref<4xf32>
      } else {
        scf.yield %out : memref<4xf32>
      }
      %v = memref.load %b[%i] : memref<4xf32>
      memref.store %v, %out[%i] : memref<4xf32>
    }
    return %out : memref<4xf32>
  }
}
