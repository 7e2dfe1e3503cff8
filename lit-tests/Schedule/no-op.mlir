// RUN: fsdp-opt %s -o %t
// RUN: fsdp-opt %s --fsdp-plan-step | diff %t -
// RUN: fsdp-opt %s --fsdp-schedule-step | diff %t -
// RUN: not fsdp-opt %s --fsdp-verify-schedule 2>&1 | FileCheck %s

// Without a step nothing changes, and nothing is right.
// CHECK: error: expected a function @step to verify, got none
func.func @other(%x: tensor<4xf32> {fsdp.offset = 0 : i64}) -> tensor<4xf32> attributes {fsdp.arena = {bytes = 256 : i64}} {
  return %x : tensor<4xf32>
}
