// A step without gradients (all parameters frozen), and no step at all.
//
// RUN: fsdp-opt %s --split-input-file -o %t.before && fsdp-opt %s --split-input-file --fsdp-apply-optimizer=clip -o %t.after && diff %t.before %t.after

fsdp.program @step(%x: tensor<f32>) -> (tensor<f32> {fsdp.loss}) {
  fsdp.return %x : tensor<f32>
}

// -----

func.func @main(%x: tensor<f32>) -> tensor<f32> {
  return %x : tensor<f32>
}
