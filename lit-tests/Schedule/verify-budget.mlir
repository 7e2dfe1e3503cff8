// RUN: fsdp-opt %s --fsdp-verify-schedule=budget=256
// RUN: not fsdp-opt %s --fsdp-verify-schedule=budget=255 2>&1 | FileCheck %s
// RUN: not fsdp-opt %s --fsdp-verify-schedule=budget=-5 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// NEGATIVE: expected a budget of at least 0 bytes (0: any), got -5

// CHECK: expected an arena of at most 255 bytes, the budget, got 256
func.func @step(%x: tensor<8xf32> {fsdp.offset = 0 : i64}) -> tensor<8xf32>
    attributes {fsdp.arena = {bytes = 256, state_offset = 0, state_bytes = 256, communicated_offset = 256, communicated_bytes = 0, transient_offset = 256, transient_bytes = 0}} {
  return %x : tensor<8xf32>
}
