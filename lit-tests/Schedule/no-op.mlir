// RUN: fsdp-opt %s -o %t
// RUN: fsdp-opt %s --fsdp-plan-step | diff %t -
// RUN: fsdp-opt %s --fsdp-schedule-step | diff %t -
// RUN: fsdp-opt %s --fsdp-verify-schedule | diff %t -

// Without a step nothing changes.
func.func @other(%x: tensor<4xf32> {fsdp.offset = 0 : i64}) -> tensor<4xf32> attributes {fsdp.arena = {bytes = 256 : i64}} {
  return %x : tensor<4xf32>
}
