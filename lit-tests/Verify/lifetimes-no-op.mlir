// RUN: fsdp-opt %s -o %t
// RUN: fsdp-opt %s --fsdp-verify-lifetimes | diff %t -

// A program without units: there is nothing to find, and nothing changes.
func.func private @declared(tensor<4xf32>) -> tensor<4xf32>
func.func @somebody_elses(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = arith.addf %x, %x : tensor<4xf32>
  %z = call @declared(%y) : (tensor<4xf32>) -> tensor<4xf32>
  return %z : tensor<4xf32>
}
fsdp.program @without_units(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = func.call @declared(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fsdp.return %y : tensor<4xf32>
}
