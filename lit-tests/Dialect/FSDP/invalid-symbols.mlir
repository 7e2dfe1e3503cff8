// RUN: fsdp-opt %s -split-input-file -verify-diagnostics

// mesh_c1
// expected-error @below {{expected axes with names of their own, got "shard" twice}}
fsdp.mesh @axis_twice [#fsdp.axis<"shard" = 2>, #fsdp.axis<"shard" = 4>]

// -----

// expected-error @below {{expected axes with names, got an empty one}}
fsdp.mesh @axis_without_name [#fsdp.axis<"" = 2>]

// -----

// mesh_c2
// expected-error @below {{expected at least one rank on axis "shard", got 0}}
fsdp.mesh @axis_without_ranks [#fsdp.axis<"shard" = 0>]

// -----

// expected-error @below {{expected at most 2147483647 ranks in all, got more with axis "shard" = 65536}}
fsdp.mesh @too_many_ranks [#fsdp.axis<"replicate" = 65536>, #fsdp.axis<"shard" = 65536>]

// -----

func.func @mesh_in_a_function() {
  // mesh_c3
  // expected-error @below {{expects parent op 'builtin.module'}}
  fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
  return
}

// -----

// flat_param_c1
// expected-error @below {{expected a mesh named @nowhere in the module, got none}}
fsdp.flat_param @unknown_mesh on @nowhere shard [] replicate []
    state f32 gather f32 reduce f32 numel 4 [<"w", tensor<4xf32> at 0>] {trainable, unit = ""}

// -----

// expected-note @below {{it is here}}
func.func private @mesh()
// expected-error @below {{expected a mesh named @mesh in the module, got func.func}}
fsdp.flat_param @function_as_mesh on @mesh shard [] replicate []
    state f32 gather f32 reduce f32 numel 4 [<"w", tensor<4xf32> at 0>] {trainable, unit = ""}

// -----

// expected-note @below {{the mesh is here: [#fsdp.axis<"shard" = 2>]}}
fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// flat_param_c2
// expected-error @below {{expected axes of mesh "mesh" in its order, each once, got ["tensor"]}}
fsdp.flat_param @unknown_axis on @mesh shard ["tensor"] replicate []
    state f32 gather f32 reduce f32 numel 4 [<"w", tensor<4xf32> at 0>] {trainable, unit = ""}

// -----

fsdp.mesh @mesh [#fsdp.axis<"replicate" = 2>, #fsdp.axis<"shard" = 2>]
// expected-error @below {{expected each axis either sharded or replicated, got "shard" in both}}
fsdp.flat_param @axis_in_both on @mesh shard ["shard"] replicate ["replicate", "shard"]
    state f32 gather f32 reduce f32 numel 4 [<"w", tensor<4xf32> at 0>] {trainable, unit = ""}

// -----

// expected-note @below {{the mesh is here}}
fsdp.mesh @mesh [#fsdp.axis<"replicate" = 2>, #fsdp.axis<"shard" = 2>]
// expected-error @below {{expected axes of mesh "mesh" in its order, each once, got ["shard", "replicate"]}}
fsdp.flat_param @axes_in_another_order on @mesh shard ["shard", "replicate"] replicate []
    state f32 gather f32 reduce f32 numel 4 [<"w", tensor<4xf32> at 0>] {trainable, unit = ""}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// flat_param_c3
// expected-error @below {{expected "b" at or after element 8, got 4}}
fsdp.flat_param @members_overlap on @mesh shard ["shard"] replicate []
    state f32 gather f32 reduce f32 numel 16 [
      <"a", tensor<8xf32> at 0>, <"b", tensor<8xf32> at 4>
    ] {trainable, unit = ""}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// expected-error @below {{expected members of one element type, got 'bf16' for "b" after 'f32'}}
fsdp.flat_param @member_of_another_type on @mesh shard ["shard"] replicate []
    state f32 gather f32 reduce f32 numel 16 [
      <"a", tensor<8xf32> at 0>, <"b", tensor<8xbf16> at 8>
    ] {trainable, unit = ""}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// flat_param_c4
// expected-error @below {{expected members with names of their own, got 'a' twice}}
fsdp.flat_param @tied_name_of_another_member on @mesh shard ["shard"] replicate []
    state f32 gather f32 reduce f32 numel 16 [
      <"a", tensor<8xf32> at 0>, <"b", tensor<8xf32> at 8 tied ["a"]>
    ] {trainable, unit = ""}

// -----

// expected-note @below {{the mesh is here}}
fsdp.mesh @mesh [#fsdp.axis<"shard" = 3>]
// flat_param_c5
// expected-error @below {{expected numel to be a multiple of the 3 ranks it is sharded over, got 16}}
fsdp.flat_param @numel_not_divisible on @mesh shard ["shard"] replicate []
    state f32 gather f32 reduce f32 numel 16 [<"a", tensor<8xf32> at 0>] {trainable, unit = ""}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// expected-error @below {{expected numel of at least 12, the end of the last member, got 8}}
fsdp.flat_param @member_past_the_end on @mesh shard ["shard"] replicate []
    state f32 gather f32 reduce f32 numel 8 [<"a", tensor<8xf32> at 4>] {trainable, unit = ""}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// flat_param_c6
// expected-error @below {{expected at least one member, got none}}
fsdp.flat_param @without_members on @mesh shard ["shard"] replicate []
    state f32 gather f32 reduce f32 numel 8 [] {trainable, unit = ""}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
func.func @flat_param_in_a_function() {
  // flat_param_c7
  // expected-error @below {{expects parent op 'builtin.module'}}
  fsdp.flat_param @h0 on @mesh shard ["shard"] replicate []
      state f32 gather f32 reduce f32 numel 8 [<"a", tensor<8xf32> at 0>] {trainable, unit = ""}
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// flat_param_c8
// expected-error @below {{attribute 'element_type' failed to satisfy constraint: type attribute of floating-point}}
fsdp.flat_param @integer_state on @mesh shard ["shard"] replicate []
    state i32 gather f32 reduce f32 numel 8 [<"a", tensor<8xf32> at 0>] {trainable, unit = ""}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// expected-note @below {{it is here}}
fsdp.flat_param @first on @mesh shard ["shard"] replicate []
    state f32 gather f32 reduce f32 numel 8 [<"a", tensor<8xf32> at 0 tied ["b"]>] {trainable, unit = ""}
// flat_param_c9
// expected-error @below {{expected members that no other flat parameter has, got "b" of @first}}
fsdp.flat_param @second on @mesh shard ["shard"] replicate []
    state f32 gather f32 reduce f32 numel 8 [<"c", tensor<4xf32> at 0>, <"b", tensor<4xf32> at 4>] {trainable, unit = ""}

// -----

// flat_param_c10
fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// expected-error @below {{expected shard axes beside persistent, got none}}
fsdp.flat_param @whole on @mesh shard [] replicate ["shard"]
    state f32 gather f32 reduce f32 numel 8 [<"a", tensor<8xf32> at 0>] {keep, persistent, trainable, unit = ""}

// -----

fsdp.mesh @mesh [#fsdp.axis<"replicate" = 2>, #fsdp.axis<"shard" = 2>]
// flat_param_c11
// expected-error @below {{expected a trainable flat parameter with more than one replica beside reduction_hook, got 1}}
fsdp.flat_param @without_replicas on @mesh shard ["replicate", "shard"] replicate []
    state f32 gather f32 reduce f32 numel 8 [<"a", tensor<8xf32> at 0>] {trainable, unit = "", reduction_hook = "powersgd"}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// expected-error @below {{expected keep beside persistent, got none}}
fsdp.flat_param @freed on @mesh shard ["shard"] replicate []
    state f32 gather f32 reduce f32 numel 8 [<"a", tensor<8xf32> at 0>] {persistent, trainable, unit = ""}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// expected-error @below {{beside reduction_hook, got a frozen one with 2}}
fsdp.flat_param @frozen on @mesh shard [] replicate ["shard"]
    state f32 gather f32 reduce f32 numel 8 [<"a", tensor<8xf32> at 0>] {unit = "", reduction_hook = "powersgd"}

// -----

// expected-note @below {{the mesh is here}}
fsdp.mesh @mesh [#fsdp.axis<"outer" = 2>, #fsdp.axis<"inner" = 2>]
// expected-error @below {{expected axes of mesh "mesh" in its order, each once, got ["inner", "outer"]}}
fsdp.flat_param @secondary_in_another_order on @mesh shard ["inner", "outer"] replicate []
    state f32 gather bf16 reduce f32 numel 8 [<"w", tensor<8xf32> at 0>] {trainable, unit = ""}

// -----

fsdp.mesh @mesh [#fsdp.axis<"outer" = 2>, #fsdp.axis<"inner" = 2>]
// flat_param_c12
// expected-error @below {{expected secondary axes that the axes of shard begin with, some and not all of them, got ["inner"] beside ["outer", "inner"]}}
fsdp.flat_param @secondary_behind_others on @mesh shard ["outer", "inner"] secondary ["inner"] replicate []
    state f32 gather bf16 reduce f32 numel 8 [<"w", tensor<8xf32> at 0>] {trainable, unit = ""}

// -----

fsdp.mesh @mesh [#fsdp.axis<"outer" = 2>, #fsdp.axis<"inner" = 2>]
// expected-error @below {{expected secondary axes that the axes of shard begin with, some and not all of them, got ["inner"] beside ["inner"]}}
fsdp.flat_param @secondary_of_all on @mesh shard ["inner"] secondary ["inner"] replicate []
    state f32 gather bf16 reduce f32 numel 8 [<"w", tensor<8xf32> at 0>] {trainable, unit = ""}

// -----

fsdp.mesh @mesh [#fsdp.axis<"outer" = 2>, #fsdp.axis<"inner" = 2>]
// expected-error @below {{expected secondary axes that the axes of shard begin with, some and not all of them, got [] beside ["inner"]}}
fsdp.flat_param @secondary_of_none on @mesh shard ["inner"] secondary [] replicate []
    state f32 gather bf16 reduce f32 numel 8 [<"w", tensor<8xf32> at 0>] {trainable, unit = ""}

// -----

fsdp.mesh @mesh [#fsdp.axis<"outer" = 2>, #fsdp.axis<"inner" = 2>]
// expected-error @below {{expected each axis of shard once, got "inner" twice}}
fsdp.flat_param @secondary_twice on @mesh shard ["inner", "inner"] secondary ["inner"] replicate []
    state f32 gather bf16 reduce f32 numel 8 [<"w", tensor<8xf32> at 0>] {trainable, unit = ""}

// -----

fsdp.mesh @mesh [#fsdp.axis<"outer" = 2>, #fsdp.axis<"inner" = 2>]
// expected-error @below {{expected no keep beside secondary axes, got it}}
fsdp.flat_param @secondary_and_kept on @mesh shard ["inner", "outer"] secondary ["inner"] replicate []
    state f32 gather bf16 reduce f32 numel 8 [<"w", tensor<8xf32> at 0>] {keep, trainable, unit = ""}
