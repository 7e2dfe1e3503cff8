// RUN: fsdp-opt %s --fsdp-verify-schedule=budget=256
// RUN: not fsdp-opt %s --fsdp-verify-schedule=budget=255 2>&1 | FileCheck %s
// RUN: not fsdp-opt %s --fsdp-verify-schedule=budget=-5 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// NEGATIVE: expected a budget of at least 0 bytes (0: any), got -5

// CHECK: expected an arena of at most 255 bytes, the budget, got 256
fsdp.program @step(%x: tensor<8xf32> {fsdp.offset = 0 : i64}) -> tensor<8xf32>
    attributes {arena = #fsdp.arena<bytes = 256, inputs = 256>} {
  fsdp.return %x : tensor<8xf32>
}
