// RUN: fsdp-opt %s -split-input-file -verify-diagnostics

// view_c1
func.func @view_that_casts(%w: tensor<16xf32>) {
  // expected-error @below {{expected a result of 'f32', got 'bf16'}}
  %v = fsdp.view %w[0] : tensor<16xf32> -> tensor<4xbf16>
  return
}

// -----

// view_c2
func.func @view_past_the_end(%w: tensor<16xf32>) {
  // expected-error @below {{expected a part inside the source's 16 elements, got 8 from 12}}
  %v = fsdp.view %w[12] : tensor<16xf32> -> tensor<2x4xf32>
  return
}

// -----

func.func @view_end_overflows(%w: tensor<16xf32>) {
  // expected-error @below {{expected a part inside the source's 16 elements, got 8 from 9223372036854775807}}
  %v = fsdp.view %w[9223372036854775807] : tensor<16xf32> -> tensor<8xf32>
  return
}

// -----

func.func @view_from_before_the_start(%w: tensor<16xf32>) {
  // expected-error @below {{attribute 'offset' failed to satisfy constraint}}
  %v = fsdp.view %w[-4] : tensor<16xf32> -> tensor<4xf32>
  return
}

// -----

// flat_tensor_c1
func.func @view_of_a_matrix(%w: tensor<4x4xf32>) {
  // expected-error @below {{operand #0 must be flat tensor (one static dimension), but got 'tensor<4x4xf32>'}}
  %v = fsdp.view %w[0] : tensor<4x4xf32> -> tensor<4xf32>
  return
}

// -----

// pack_c1
func.func @pack_without_an_offset(%a: tensor<4xf32>, %b: tensor<4xf32>) {
  // expected-error @below {{expected an offset for each of 2 parts, got 1}}
  %w = "fsdp.pack"(%a, %b) <{offsets = array<i64: 0>}> : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @pack_of_nothing() {
  // expected-error @below {{expected at least one part, got none}}
  %w = "fsdp.pack"() <{offsets = array<i64>}> : () -> tensor<8xf32>
  return
}

// -----

func.func @pack_of_another_type(%a: tensor<4xbf16>) {
  // expected-error @below {{expected parts of 'f32', got 'tensor<4xbf16>'}}
  %w = fsdp.pack %a at 0 : tensor<4xbf16> -> tensor<8xf32>
  return
}

// -----

// pack_c2
func.func @pack_of_overlapping_parts(%a: tensor<4xf32>, %b: tensor<4xf32>) {
  // expected-error @below {{expected a part at or after element 4, got 2}}
  %w = fsdp.pack %a at 0, %b at 2 : tensor<4xf32>, tensor<4xf32> -> tensor<8xf32>
  return
}

// -----

func.func @pack_past_the_end(%a: tensor<4xf32>) {
  // expected-error @below {{expected parts inside the result's 8 elements, got 4 from 6}}
  %w = fsdp.pack %a at 6 : tensor<4xf32> -> tensor<8xf32>
  return
}

// -----

func.func @pack_end_overflows(%a: tensor<4xf32>) {
  // expected-error @below {{expected parts inside the result's 8 elements, got 4 from 9223372036854775807}}
  %w = fsdp.pack %a at 9223372036854775807 : tensor<4xf32> -> tensor<8xf32>
  return
}

// -----

// check_c1
func.func @check_of_many(%ok: tensor<4xi1>) {
  // expected-error @below {{operand #0 must be 0D tensor of 1-bit signless integer values, but got 'tensor<4xi1>'}}
  fsdp.check %ok, "index in range" : tensor<4xi1>
  return
}

// -----

// launch_c1
func.func @launch_of_unknown(%x: tensor<4xf32>) {
  // expected-error @below {{expected a kernel named @k in the module, got none}}
  %y = fsdp.launch @k(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// expected-note @below {{it is here}}
fsdp.mesh @k [#fsdp.axis<"shard" = 2>]
func.func @launch_of_a_mesh(%x: tensor<4xf32>) {
  // expected-error @below {{expected a kernel named @k in the module, got fsdp.mesh}}
  %y = fsdp.launch @k(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// expected-note @below {{the kernel is here}}
func.func private @k(tensor<4xf32>) -> tensor<4xf32>
// launch_c2
func.func @launch_without_destination(%x: tensor<4xf32>) {
  // expected-error @below {{expected a kernel of type '(tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>', got '(tensor<4xf32>) -> tensor<4xf32>'}}
  %y = fsdp.launch @k(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func private @k(tensor<4xf32>, tensor<8xf32>, tensor<4xf32>) -> tensor<4xf32>
// launch_c3
func.func @launch_tied_to_another_type(%x: tensor<4xf32>, %y: tensor<8xf32>) {
  // expected-error @below {{expected result #0 tied to an input of 'tensor<4xf32>' of its own, got #1 of 'tensor<8xf32>'}}
  %z = fsdp.launch @k(%x, %y) tied [1] : (tensor<4xf32>, tensor<8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func private @k(tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
func.func @launch_tied_twice(%x: tensor<4xf32>) {
  // expected-error @below {{expected result #1 tied to an input of 'tensor<4xf32>' of its own, got #0}}
  %z:2 = fsdp.launch @k(%x) tied [0, 0] : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func private @k(tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
func.func @launch_tied_to_no_input(%x: tensor<4xf32>) {
  // expected-error @below {{expected result #0 tied to an input of 'tensor<4xf32>' of its own, got #1}}
  %z = fsdp.launch @k(%x) tied [1] : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func private @k(tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
func.func @launch_without_a_tied_entry(%x: tensor<4xf32>) {
  // expected-error @below {{expected a tied entry for each of 1 results, got 0}}
  %z = fsdp.launch @k(%x) tied [] : (tensor<4xf32>) -> tensor<4xf32>
  return
}
