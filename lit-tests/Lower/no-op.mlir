// A module that is no step passes unchanged.

// RUN: fsdp-opt %s -o %t
// RUN: fsdp-opt %s --fsdp-layout-state | diff %t -
// RUN: fsdp-opt %s --fsdp-plan-arena | diff %t -
// RUN: fsdp-opt %s --convert-fsdp-to-runtime | diff %t -
// RUN: fsdp-opt %s --fsdp-expand-math | diff %t -
// RUN: fsdp-opt %s --fsdp-define-kernel-entries | diff %t -

func.func @no_step(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
llvm.func @plain(%x: i64) -> i64 {
  llvm.return %x : i64
}
