// RUN: fsdp-opt %s -split-input-file -verify-diagnostics

// all_gather_c1
func.func @gather_on_unknown_mesh(%a: tensor<4xf32>) {
  // expected-error @below {{expected a mesh named @mesh in the module, got none}}
  %w = fsdp.all_gather %a on @mesh["shard"] : tensor<4xf32> -> tensor<8xf32>
  return
}

// -----

// expected-note @below {{the mesh is here: [#fsdp.axis<"shard" = 2>]}}
fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// all_gather_c2
func.func @gather_over_one_axis_twice(%a: tensor<4xf32>) {
  // expected-error @below {{expected axes of mesh "mesh" in its order, each once, got ["shard", "shard"]}}
  %w = fsdp.all_gather %a on @mesh["shard", "shard"] : tensor<4xf32> -> tensor<16xf32>
  return
}

// -----

// expected-note @below {{the mesh is here: [#fsdp.axis<"replicate" = 2>, #fsdp.axis<"shard" = 4>]}}
fsdp.mesh @mesh [#fsdp.axis<"replicate" = 2>, #fsdp.axis<"shard" = 4>]
// all_gather_c3
func.func @gather_of_two_into_four(%a: tensor<4xf32>) {
  // expected-error @below {{expected a result of 'tensor<16xf32>' on 4 ranks, got 'tensor<8xf32>'}}
  %w = fsdp.all_gather %a on @mesh["shard"] : tensor<4xf32> -> tensor<8xf32>
  return
}

// -----

// expected-note @below {{the mesh is here}}
fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
func.func @gather_that_casts(%a: tensor<4xf32>) {
  // expected-error @below {{expected a result of 'tensor<8xf32>' on 2 ranks, got 'tensor<8xbf16>'}}
  %w = fsdp.all_gather %a on @mesh["shard"] : tensor<4xf32> -> tensor<8xbf16>
  return
}

// -----

// expected-note @below {{the mesh is here}}
fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
func.func @gather_along_the_second_dimension(%a: tensor<4x3xf32>) {
  // expected-error @below {{expected a result of 'tensor<8x3xf32>' on 2 ranks, got 'tensor<4x6xf32>'}}
  %w = fsdp.all_gather %a on @mesh["shard"] : tensor<4x3xf32> -> tensor<4x6xf32>
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
func.func @gather_of_a_scalar(%a: tensor<f32>) {
  // expected-error @below {{expected tensors with a first dimension, got 'tensor<f32>'}}
  %w = fsdp.all_gather %a on @mesh["shard"] : tensor<f32> -> tensor<f32>
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 4>]
func.func @gather_of_too_much(%a: tensor<4611686018427387904xi8>) {
  // expected-error @below {{expected a result of fewer than 2^63 elements, got 4 times 'tensor<4611686018427387904xi8>'}}
  %w = fsdp.all_gather %a on @mesh["shard"] : tensor<4611686018427387904xi8> -> tensor<8xi8>
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// local_tensor_c1
func.func @gather_of_dynamic_shape(%a: tensor<?xf32>) {
  // expected-error @below {{operand #0 must be statically shaped tensor of floating-point or signless integer values, but got 'tensor<?xf32>'}}
  %w = fsdp.all_gather %a on @mesh["shard"] : tensor<?xf32> -> tensor<?xf32>
  return
}

// -----

// reduce_scatter_c1
func.func @scatter_on_unknown_mesh(%a: tensor<8xf32>) {
  // expected-error @below {{expected a mesh named @mesh in the module, got none}}
  %w = fsdp.reduce_scatter %a on @mesh["shard"] : tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

// expected-note @below {{the mesh is here}}
fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// reduce_scatter_c2
func.func @scatter_over_unknown_axis(%a: tensor<8xf32>) {
  // expected-error @below {{expected axes of mesh "mesh" in its order, each once, got ["replicate"]}}
  %w = fsdp.reduce_scatter %a on @mesh["replicate"] : tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

// expected-note @below {{the mesh is here}}
fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// reduce_scatter_c3
func.func @scatter_of_an_odd_number(%a: tensor<7xf32>) {
  // expected-error @below {{expected an input of 'tensor<8xf32>' on 2 ranks, got 'tensor<7xf32>'}}
  %w = fsdp.reduce_scatter %a on @mesh["shard"] : tensor<7xf32> -> tensor<4xf32>
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// reduce_scatter_c4
func.func @scatter_divided_by_zero(%a: tensor<8xf32>) {
  // expected-error @below {{attribute 'divisor' failed to satisfy constraint}}
  %w = fsdp.reduce_scatter %a on @mesh["shard"] divisor 0 : tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// reduce_scatter_c5
func.func @scatter_of_booleans(%a: tensor<8xi1>) {
  // expected-error @below {{operand #0 must be statically shaped tensor}}
  %w = fsdp.reduce_scatter %a on @mesh["shard"] : tensor<8xi1> -> tensor<4xi1>
  return
}

// -----

// all_reduce_c1
func.func @reduce_on_unknown_mesh(%a: tensor<8xf32>) {
  // expected-error @below {{expected a mesh named @mesh in the module, got none}}
  %w = fsdp.all_reduce %a on @mesh["shard"] : tensor<8xf32>
  return
}

// -----

// expected-note @below {{the mesh is here}}
fsdp.mesh @mesh [#fsdp.axis<"replicate" = 2>, #fsdp.axis<"shard" = 2>]
// all_reduce_c2
func.func @reduce_in_another_order(%a: tensor<8xf32>) {
  // expected-error @below {{expected axes of mesh "mesh" in its order, each once, got ["shard", "replicate"]}}
  %w = fsdp.all_reduce %a on @mesh["shard", "replicate"] : tensor<8xf32>
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// all_reduce_c3
func.func @reduce_into_another_shape(%a: tensor<8xf32>) {
  // expected-error @below {{requires the same type for all operands and results}}
  %w = "fsdp.all_reduce"(%a) <{mesh = @mesh, axes = ["shard"]}> : (tensor<8xf32>) -> tensor<4xf32>
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// all_reduce_c4
func.func @reduce_divided_by_less_than_one(%a: tensor<8xf32>) {
  // expected-error @below {{attribute 'divisor' failed to satisfy constraint}}
  %w = fsdp.all_reduce %a on @mesh["shard"] divisor -2 : tensor<8xf32>
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// all_reduce_c5
func.func @reduce_of_booleans(%a: tensor<i1>) {
  // expected-error @below {{operand #0 must be statically shaped tensor}}
  %w = fsdp.all_reduce %a on @mesh["shard"] : tensor<i1>
  return
}

// -----

// all_to_all_c1
func.func @exchange_on_unknown_mesh(%a: tensor<8xf32>) {
  // expected-error @below {{expected a mesh named @mesh in the module, got none}}
  %w = fsdp.all_to_all %a on @mesh["shard"] : tensor<8xf32>
  return
}

// -----

// expected-note @below {{the mesh is here}}
fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// all_to_all_c2
func.func @exchange_over_unknown_axis(%a: tensor<8xf32>) {
  // expected-error @below {{expected axes of mesh "mesh" in its order, each once, got ["replicate"]}}
  %w = fsdp.all_to_all %a on @mesh["replicate"] : tensor<8xf32>
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// all_to_all_c3
func.func @exchange_into_another_shape(%a: tensor<8xf32>) {
  // expected-error @below {{requires the same type for all operands and results}}
  %w = "fsdp.all_to_all"(%a) <{mesh = @mesh, axes = ["shard"]}> : (tensor<8xf32>) -> tensor<2x4xf32>
  return
}

// -----

// expected-note @below {{the mesh is here: [#fsdp.axis<"replicate" = 2>, #fsdp.axis<"shard" = 4>]}}
fsdp.mesh @mesh [#fsdp.axis<"replicate" = 2>, #fsdp.axis<"shard" = 4>]
// all_to_all_c4
func.func @exchange_of_six_parts_among_four(%a: tensor<6x4xf32>) {
  // expected-error @below {{expected a first dimension that is a multiple of 4 ranks, got 'tensor<6x4xf32>'}}
  %w = fsdp.all_to_all %a on @mesh["shard"] : tensor<6x4xf32>
  return
}

// -----

// expected-note @below {{the mesh is here}}
fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
func.func @exchange_of_a_scalar(%a: tensor<f32>) {
  // expected-error @below {{expected a first dimension that is a multiple of 2 ranks, got 'tensor<f32>'}}
  %w = fsdp.all_to_all %a on @mesh["shard"] : tensor<f32>
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// all_to_all_c5
func.func @exchange_divided_by_zero(%a: tensor<8xf32>) {
  // expected-error @below {{attribute 'divisor' failed to satisfy constraint}}
  %w = fsdp.all_to_all %a on @mesh["shard"] divisor 0 : tensor<8xf32>
  return
}
