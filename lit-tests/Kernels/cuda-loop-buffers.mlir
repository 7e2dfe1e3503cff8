// RUN: fsdp-opt %s --pass-pipeline='builtin.module(fsdp-cuda-kernels)' | FileCheck %s

// Each point of the loop has a buffer, too large for a block's memory: threads
// would share its place in the workspace, so the points run one after another.

// CHECK-LABEL: gpu.func @rows
// CHECK:         %[[THREAD:.*]] = gpu.thread_id x
// CHECK-NOT:     scf.for %{{.*}} = %[[THREAD]] to
// CHECK:         scf.for
// CHECK:           memref.view %{{.*}} : memref<80384xi8> to memref<20000xf32>

fsdp.program @step(%x: tensor<20000xf32>) {
  %0 = fsdp.launch @rows(%x) : (tensor<20000xf32>) -> tensor<64xf32>
  fsdp.return
}
func.func private @rows(%x: tensor<20000xf32>, %out: tensor<64xf32>) -> tensor<64xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c7 = arith.constant 7 : index
  %n = arith.constant 20000 : index
  %r = tensor.generate {
  ^bb0(%i: index):
    %v = tensor.extract %x[%i] : tensor<20000xf32>
    %e = tensor.empty() : tensor<20000xf32>
    %f = linalg.fill ins(%v : f32) outs(%e : tensor<20000xf32>) -> tensor<20000xf32>
    %l = scf.for %j = %c1 to %n step %c1 iter_args(%t = %f) -> tensor<20000xf32> {
      %p = arith.subi %j, %c1 : index
      %a = tensor.extract %t[%p] : tensor<20000xf32>
      %b = tensor.extract %x[%j] : tensor<20000xf32>
      %s = arith.addf %a, %b : f32
      %u = tensor.insert %s into %t[%j] : tensor<20000xf32>
      scf.yield %u : tensor<20000xf32>
    }
    %last = tensor.extract %l[%c7] : tensor<20000xf32>
    tensor.yield %last : f32
  } : tensor<64xf32>
  %s = bufferization.materialize_in_destination %r in %out : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %s : tensor<64xf32>
}
