// RUN: fsdp-opt %s -o %t.before && fsdp-opt %s --fsdp-assign-units -o %t.after && diff %t.before %t.after
// Options are not even read: the step may be at another level.
// RUN: fsdp-opt %s --fsdp-assign-units=wrap=module:Nothing -o %t.after && diff %t.before %t.after

fsdp.program @step(%x: tensor<4xf32>) -> tensor<4xf32> {
  fsdp.return %x : tensor<4xf32>
}
