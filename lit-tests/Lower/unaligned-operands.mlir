// RUN: not fsdp-opt %s --fsdp-layout-state --fsdp-plan-arena --convert-fsdp-to-runtime=cuda=sm_80 2>&1 | FileCheck %s

// Code that loads 16 bytes at once takes no operand that begins elsewhere. (Members of flat parameters begin at multiples
// of 32 elements.)

fsdp.mesh @mesh [#fsdp.axis<"shard" = 1>]

// CHECK: unaligned-operands.mlir:[[@LINE+4]]:8: error: 'fsdp.launch' op expected operand 0 of @copy at a multiple of 16 bytes, got offset 12
// CHECK: unaligned-operands.mlir:{{[0-9]+}}:3: note: its code for CUDA devices is here
fsdp.program @step(%x: tensor<80xf32>) -> tensor<64xf32> {
  %0 = fsdp.view %x[3] : tensor<80xf32> -> tensor<64xf32>
  %1 = fsdp.launch @copy(%0) : (tensor<64xf32>) -> tensor<64xf32>
  fsdp.return %1 : tensor<64xf32>
}

func.func private @copy(%x: tensor<64xf32>, %out: tensor<64xf32>) -> tensor<64xf32> attributes {
  fsdp.impl = {cuda = #fsdp.cuda_code<[#fsdp.cuda_kernel<@cuda_kernels::@copy, grid = 1, block = 64, shared = 0>], traffic = 512>}} {
  %0 = bufferization.materialize_in_destination %x in %out : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}

gpu.module @cuda_kernels {
  gpu.func @copy(%x: memref<64xf32, #gpu.address_space<global>> {llvm.align = 16 : i64},
                 %out: memref<64xf32, #gpu.address_space<global>> {llvm.align = 16 : i64}) kernel {
    gpu.return
  }
}
