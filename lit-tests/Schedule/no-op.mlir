// RUN: fsdp-opt %s -o %t
// RUN: fsdp-opt %s --fsdp-plan-step | diff %t -
// RUN: fsdp-opt %s --fsdp-schedule-step | diff %t -
// RUN: fsdp-opt %s --fsdp-verify-schedule | diff %t -

// Without a program nothing changes, and there is nothing to verify.
func.func @step(%x: tensor<4xf32> {fsdp.offset = 0 : i64}) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
