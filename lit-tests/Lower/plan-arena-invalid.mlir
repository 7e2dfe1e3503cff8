// RUN: fsdp-opt %s --fsdp-plan-arena -split-input-file -verify-diagnostics

func.func @step(%x: tensor<4x4xf32>) -> tensor<2x4xf32> {
  // expected-error @below {{expected a step of launches, transfers and views (run fsdp-outline-kernels first)}}
  %0 = tensor.extract_slice %x[0, 0] [2, 4] [1, 1] : tensor<4x4xf32> to tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// -----

// expected-error @below {{expected a step that takes and returns tensors of the device, got '!fsdp.host<tensor<4xf32>>'}}
func.func @step(%h: !fsdp.host<tensor<4xf32>>) -> tensor<4xf32> {
  %x = fsdp.reload %h : !fsdp.host<tensor<4xf32>> -> tensor<4xf32>
  return %x : tensor<4xf32>
}

// -----

// expected-error @below {{expected a step that takes and returns tensors of the device, got '!fsdp.host<tensor<4xf32>>'}}
func.func @step(%x: tensor<4xf32>) -> !fsdp.host<tensor<4xf32>> {
  %h = fsdp.offload %x : tensor<4xf32> -> !fsdp.host<tensor<4xf32>>
  return %h : !fsdp.host<tensor<4xf32>>
}

// -----

// expected-error @below {{expected tensors of at most 9007199254740992 bytes in a step, got 'tensor<4611686018427387904xf32>'}}
func.func @step(%x: tensor<4611686018427387904xf32>) -> tensor<4611686018427387904xf32> {
  return %x : tensor<4611686018427387904xf32>
}

// -----

func.func private @k(tensor<9007199254740992xi8>) -> tensor<9007199254740992xi8>
func.func private @l(tensor<9007199254740993xi8>) -> tensor<9007199254740993xi8>
func.func @step() {
  %0 = fsdp.launch @k() : () -> tensor<9007199254740992xi8>
  // expected-error @below {{expected tensors of at most 9007199254740992 bytes in a step, got 'tensor<9007199254740993xi8>'}}
  %1 = fsdp.launch @l() : () -> tensor<9007199254740993xi8>
  return
}
