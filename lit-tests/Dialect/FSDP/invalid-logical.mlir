// RUN: fsdp-opt %s -split-input-file -verify-diagnostics

// unshard_c1
func.func @unshard_unknown(%shard: !fsdp.sharded<@h0, f32>) {
  // expected-error @below {{expected a flat parameter named @h0 in the module, got none}}
  %w = fsdp.unshard %shard for forward : <@h0, f32> -> <@h0, f32>
  return
}

// -----

func.func @unshard_into_another(%shard: !fsdp.sharded<@h0, f32>) {
  // expected-error @below {{expected shard and result of one flat parameter, got @h0 and @h1}}
  %w = fsdp.unshard %shard for forward : <@h0, f32> -> <@h1, f32>
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// expected-note @below {{the flat parameter is here}}
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate []
    state f32 gather bf16 reduce f32 numel 8 [<"w", tensor<8xf32> at 0>] {trainable, unit = ""}
// unshard_c2
func.func @unshard_in_another_type(%shard: !fsdp.sharded<@h0, f32>) {
  // expected-error @below {{expected a result of 'bf16' or 'f32', got 'f16'}}
  %w = fsdp.unshard %shard for forward : <@h0, f32> -> <@h0, f16>
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// expected-note @below {{the flat parameter is here}}
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate []
    state f32 gather bf16 reduce f32 numel 8 [<"w", tensor<8xf32> at 0>] {trainable, unit = ""}
func.func @unshard_of_narrow_shard(%shard: !fsdp.sharded<@h0, bf16>) {
  // expected-error @below {{expected a shard of 'f32', got 'bf16'}}
  %w = fsdp.unshard %shard for forward : <@h0, bf16> -> <@h0, bf16>
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// expected-note @below {{the flat parameter is here}}
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate []
    state f32 gather f32 reduce f32 numel 8 [<"w", tensor<8xf32> at 0 tied ["head"]>] {trainable, unit = ""}
// member_c1
func.func @member_by_tied_name(%whole: !fsdp.unsharded<@h0, f32>) {
  // expected-error @below {{expected the name of a member, got "head"}}
  %w = fsdp.member %whole["head"] : <@h0, f32> -> tensor<8xf32>
  return
}

// -----

// expected-note @below {{it is here}}
fsdp.mesh @h0 [#fsdp.axis<"shard" = 2>]
func.func @member_of_a_mesh(%whole: !fsdp.unsharded<@h0, f32>) {
  // expected-error @below {{expected a flat parameter named @h0 in the module, got fsdp.mesh}}
  %w = fsdp.member %whole["w"] : <@h0, f32> -> tensor<8xf32>
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// expected-note @below {{the flat parameter is here}}
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate []
    state f32 gather f32 reduce f32 numel 8 [<"w", tensor<2x4xf32> at 0>] {trainable, unit = ""}
// member_c2
func.func @member_of_another_shape(%whole: !fsdp.unsharded<@h0, f32>) {
  // expected-error @below {{expected 'tensor<2x4xf32>' for "w", got 'tensor<4x2xf32>'}}
  %w = fsdp.member %whole["w"] : <@h0, f32> -> tensor<4x2xf32>
  return
}

// -----

// reshard_c1
func.func @reshard_of_an_argument(%whole: !fsdp.unsharded<@h0, f32>) {
  // expected-error @below {{expected the result of fsdp.unshard, got a block argument}}
  fsdp.reshard %whole : <@h0, f32>
  return
}

// -----

func.func @reshard_of_a_cast(%shard: !fsdp.sharded<@h0, f32>) {
  // expected-note @below {{it is here}}
  %whole = builtin.unrealized_conversion_cast %shard : !fsdp.sharded<@h0, f32> to !fsdp.unsharded<@h0, f32>
  // expected-error @below {{expected the result of fsdp.unshard, got one of builtin.unrealized_conversion_cast}}
  fsdp.reshard %whole : <@h0, f32>
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate []
    state f32 gather f32 reduce f32 numel 8 [<"w", tensor<8xf32> at 0>] {trainable, unit = ""}
// reshard_c2
func.func @reshard_twice(%shard: !fsdp.sharded<@h0, f32>) {
  %whole = fsdp.unshard %shard for forward : <@h0, f32> -> <@h0, f32>
  // expected-error @below {{expected one reshard of each unshard, got another}}
  fsdp.reshard %whole : <@h0, f32>
  // expected-note @below {{the other one is here}}
  fsdp.reshard %whole : <@h0, f32>
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate []
    state f32 gather f32 reduce f32 numel 8 [<"w", tensor<8xf32> at 0>] {trainable, unit = ""}
// reshard_c3
func.func @reshard_under_a_condition(%shard: !fsdp.sharded<@h0, f32>, %condition: i1) {
  // expected-note @below {{the unshard is here}}
  %whole = fsdp.unshard %shard for forward : <@h0, f32> -> <@h0, f32>
  scf.if %condition {
    // expected-error @below {{expected a reshard in the block of its unshard, got one in another block}}
    fsdp.reshard %whole : <@h0, f32>
  }
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// expected-note @below {{the flat parameter is here}}
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate []
    state f32 gather f32 reduce f32 numel 8 [<"w", tensor<8xf32> at 0>] {unit = ""}
// reduce_grad_c1
func.func @reduce_grad_of_frozen(%g: tensor<8xf32>) {
  // expected-error @below {{expected a trainable flat parameter, got a frozen one}}
  %s = fsdp.reduce_grad @h0(%g) : (tensor<8xf32>) -> !fsdp.sharded<@h0, f32>
  return
}

// -----

func.func @reduce_grad_of_unknown(%g: tensor<8xf32>) {
  // expected-error @below {{expected a flat parameter named @h0 in the module, got none}}
  %s = fsdp.reduce_grad @h0(%g) : (tensor<8xf32>) -> !fsdp.sharded<@h0, f32>
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// expected-note @below {{the flat parameter is here}}
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate []
    state f32 gather f32 reduce f32 numel 8 [<"w", tensor<4xf32> at 0>, <"b", tensor<4xf32> at 4>] {trainable, unit = ""}
// reduce_grad_c2
func.func @reduce_grad_of_some(%g: tensor<4xf32>) {
  // expected-error @below {{expected a gradient for each of 2 members, got 1}}
  %s = fsdp.reduce_grad @h0(%g) : (tensor<4xf32>) -> !fsdp.sharded<@h0, f32>
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// expected-note @below {{the flat parameter is here}}
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate []
    state f32 gather f32 reduce f32 numel 8 [<"w", tensor<4xf32> at 0>] {trainable, unit = ""}
func.func @reduce_grad_of_another_type(%g: tensor<4xbf16>) {
  // expected-error @below {{expected a gradient of 'tensor<4xf32>' for "w", got 'tensor<4xbf16>'}}
  %s = fsdp.reduce_grad @h0(%g) : (tensor<4xbf16>) -> !fsdp.sharded<@h0, f32>
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// expected-note @below {{the flat parameter is here}}
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate []
    state f32 gather bf16 reduce bf16 numel 8 [<"w", tensor<8xf32> at 0>] {trainable, unit = ""}
// reduce_grad_c3
func.func @reduce_grad_in_reduce_type(%g: tensor<8xf32>) {
  // expected-error @below {{expected a result of type '!fsdp.sharded<@h0, f32>', got '!fsdp.sharded<@h0, bf16>'}}
  %s = fsdp.reduce_grad @h0(%g) : (tensor<8xf32>) -> !fsdp.sharded<@h0, bf16>
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// expected-note @below {{the flat parameter is here}}
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate []
    state f32 gather f32 reduce f32 numel 8 [<"w", tensor<8xf32> at 0>] {unit = ""}
// accumulate_grad_c1
func.func @accumulate_grad_of_frozen(%a: !fsdp.sharded<@h0, f32>, %g: tensor<8xf32>, %n: tensor<f32>) {
  // expected-error @below {{expected a trainable flat parameter, got a frozen one}}
  %s = fsdp.accumulate_grad @h0 %a after %n(%g) : !fsdp.sharded<@h0, f32>, tensor<f32>, tensor<8xf32>
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// expected-note @below {{the flat parameter is here}}
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate []
    state f32 gather f32 reduce f32 numel 8 [<"w", tensor<8xf32> at 0>] {trainable, unit = ""}
// accumulate_grad_c2
func.func @accumulate_grad_of_none(%a: !fsdp.sharded<@h0, f32>, %n: tensor<f32>) {
  // expected-error @below {{expected a gradient for each of 1 members, got 0}}
  %s = "fsdp.accumulate_grad"(%a, %n) {flat_param = @h0, operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (!fsdp.sharded<@h0, f32>, tensor<f32>) -> !fsdp.sharded<@h0, f32>
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate []
    state f32 gather f32 reduce f32 numel 8 [<"w", tensor<8xf32> at 0>] {trainable, unit = ""}
// accumulate_grad_c3
func.func @accumulate_grad_of_another_type(%a: !fsdp.sharded<@h0, f32>, %g: tensor<8xf32>, %n: tensor<f32>) {
  // expected-error @below {{failed to verify that all of {accumulator, result} have same type}}
  %s = "fsdp.accumulate_grad"(%a, %n, %g) {flat_param = @h0, operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (!fsdp.sharded<@h0, f32>, tensor<f32>, tensor<8xf32>) -> !fsdp.unsharded<@h0, f32>
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// expected-note @below {{the flat parameter is here}}
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate []
    state f32 gather f32 reduce f32 numel 8 [<"w", tensor<8xf32> at 0>] {trainable, unit = ""}
// accumulate_grad_c4
func.func @accumulate_grad_in_another(%a: !fsdp.unsharded<@h1, f32>, %g: tensor<8xf32>, %n: tensor<f32>) {
  // expected-error @below {{expected an accumulator of @h0, got one of @h1}}
  %s = fsdp.accumulate_grad @h0 %a after %n(%g) : !fsdp.unsharded<@h1, f32>, tensor<f32>, tensor<8xf32>
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// expected-note @below {{the flat parameter is here}}
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate []
    state f32 gather f32 reduce f32 numel 8 [<"w", tensor<8xf32> at 0>] {unit = ""}
// reduce_accumulated_c1
func.func @reduce_accumulated_of_frozen(%a: !fsdp.sharded<@h0, f32>, %n: tensor<f32>) {
  // expected-error @below {{expected a trainable flat parameter, got a frozen one}}
  %s = fsdp.reduce_accumulated %a over %n : !fsdp.sharded<@h0, f32>, tensor<f32> -> !fsdp.sharded<@h0, f32>
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// expected-note @below {{the flat parameter is here}}
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate []
    state f32 gather f32 reduce f32 numel 8 [<"w", tensor<8xf32> at 0>] {trainable, unit = ""}
// reduce_accumulated_c2
func.func @reduce_accumulated_in_another_type(%a: !fsdp.sharded<@h0, f32>, %n: tensor<f32>) {
  // expected-error @below {{expected a result of type '!fsdp.sharded<@h0, f32>', got '!fsdp.sharded<@h0, bf16>'}}
  %s = fsdp.reduce_accumulated %a over %n : !fsdp.sharded<@h0, f32>, tensor<f32> -> !fsdp.sharded<@h0, bf16>
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// expected-note @below {{the flat parameter is here}}
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate []
    state f32 gather f32 reduce f32 numel 8 [<"w", tensor<8xf32> at 0>] {trainable, unit = ""}
// reduce_accumulated_c3
func.func @reduce_accumulated_of_another(%a: !fsdp.unsharded<@h0, f32>, %n: tensor<f32>) {
  // expected-error @below {{expected a result of type '!fsdp.sharded<@h0, f32>', got '!fsdp.sharded<@h1, f32>'}}
  %s = fsdp.reduce_accumulated %a over %n : !fsdp.unsharded<@h0, f32>, tensor<f32> -> !fsdp.sharded<@h1, f32>
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate []
    state f32 gather f32 reduce f32 numel 8 [<"w", tensor<8xf32> at 0>] {trainable, unit = ""}
// grad_norm_c1
func.func @norm_counts_one_twice(%g: !fsdp.sharded<@h0, f32>) {
  // expected-error @below {{expected each flat parameter once, got @h0 twice}}
  %n = fsdp.grad_norm %g, %g : !fsdp.sharded<@h0, f32>, !fsdp.sharded<@h0, f32> -> tensor<f32>
  return
}

// -----

func.func @norm_of_unknown(%g: !fsdp.sharded<@h0, f32>) {
  // expected-error @below {{expected a flat parameter named @h0 in the module, got none}}
  %n = fsdp.grad_norm %g : !fsdp.sharded<@h0, f32> -> tensor<f32>
  return
}

// -----

// grad_norm_c2
func.func @norm_of_nothing() {
  // expected-error @below {{expected at least one gradient, got none}}
  %n = "fsdp.grad_norm"() : () -> tensor<f32>
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate []
    state f32 gather f32 reduce f32 numel 8 [<"w", tensor<8xf32> at 0>] {trainable, unit = ""}
// scalar_tensor_c1
func.func @norm_as_a_list(%g: !fsdp.sharded<@h0, f32>) {
  // expected-error @below {{result #0 must be 0D tensor of floating-point values, but got 'tensor<1xf32>'}}
  %n = fsdp.grad_norm %g : !fsdp.sharded<@h0, f32> -> tensor<1xf32>
  return
}

// -----

// count_tensor_c1
func.func @average_in_f32(%n: tensor<f32>) {
  // expected-error @below {{operand #0 must be a count of type tensor<f64>, but got 'tensor<f32>'}}
  %m = "fsdp.average"(%n) : (tensor<f32>) -> tensor<f64>
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate []
    state f32 gather f32 reduce f32 numel 8 [<"w", tensor<8xf32> at 0>] {trainable, unit = ""}
// update_c1
func.func @update_by_unknown(%p: !fsdp.sharded<@h0, f32>) {
  // expected-error @below {{expected a function named @sgd in the module, got none}}
  %p1 = fsdp.update @sgd(%p) : (!fsdp.sharded<@h0, f32>) -> (!fsdp.sharded<@h0, f32>)
  return
}

// -----

// expected-note @below {{the optimizer is here}}
func.func private @sgd(tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
// update_c2
func.func @update_with_shards_of_two(%p: !fsdp.sharded<@h0, f32>, %g: !fsdp.sharded<@h1, f32>) {
  // expected-error @below {{expected argument #1 to fit tensor<?xf32>, got !fsdp.sharded<@h1, f32>}}
  %p1 = fsdp.update @sgd(%p, %g) : (!fsdp.sharded<@h0, f32>, !fsdp.sharded<@h1, f32>) -> (!fsdp.sharded<@h0, f32>)
  return
}

// -----

// expected-note @below {{the optimizer is here}}
func.func private @sgd(tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
func.func @update_without_gradient(%p: !fsdp.sharded<@h0, f32>) {
  // expected-error @below {{expected 2 arguments, got 1}}
  %p1 = fsdp.update @sgd(%p) : (!fsdp.sharded<@h0, f32>) -> (!fsdp.sharded<@h0, f32>)
  return
}

// -----

// expected-note @below {{the optimizer is here}}
func.func private @sgd(tensor<?xf32>, tensor<f32>) -> tensor<?xf32>
func.func @update_with_a_shard_as_scalar(%p: !fsdp.sharded<@h0, f32>) {
  // expected-error @below {{expected argument #1 to fit tensor<f32>, got !fsdp.sharded<@h0, f32>}}
  %p1 = fsdp.update @sgd(%p, %p) : (!fsdp.sharded<@h0, f32>, !fsdp.sharded<@h0, f32>) -> (!fsdp.sharded<@h0, f32>)
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// expected-note @below {{the flat parameter is here}}
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate []
    state f32 gather f32 reduce f32 numel 8 [<"w", tensor<8xf32> at 0>] {unit = ""}
func.func private @sgd(tensor<?xf32>) -> tensor<?xf32>
// update_c3
func.func @update_of_frozen(%p: !fsdp.sharded<@h0, f32>) {
  // expected-error @below {{expected a trainable flat parameter, got a frozen one}}
  %p1 = fsdp.update @sgd(%p) : (!fsdp.sharded<@h0, f32>) -> (!fsdp.sharded<@h0, f32>)
  return
}

// -----

func.func private @sgd(tensor<?xf32>) -> tensor<?xf32>
func.func @update_of_unknown(%p: !fsdp.sharded<@h0, f32>) {
  // expected-error @below {{expected a flat parameter named @h0 in the module, got none}}
  %p1 = fsdp.update @sgd(%p) : (!fsdp.sharded<@h0, f32>) -> (!fsdp.sharded<@h0, f32>)
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// expected-note @below {{the flat parameter is here}}
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate []
    state f32 gather f32 reduce f32 numel 16 [<"w", tensor<8xf32> at 0>, <"b", tensor<8xf32> at 8 group "no_decay">] {trainable, unit = ""}
func.func private @sgd(tensor<?xf32>, tensor<f32> {fsdp.optimizer = {role = "scalar", name = "lr"}}) -> tensor<?xf32>
// update_c4
func.func @update_without_scalars_of_a_run(%p: !fsdp.sharded<@h0, f32>, %lr: tensor<f32>) {
  // expected-error @below {{expected a rank and 1 scalars of the types of those of @sgd for 2 runs of groups, got no rank and 0}}
  %p1 = fsdp.update @sgd(%p, %lr) : (!fsdp.sharded<@h0, f32>, tensor<f32>) -> (!fsdp.sharded<@h0, f32>)
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// expected-note @below {{the flat parameter is here}}
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate []
    state f32 gather f32 reduce f32 numel 8 [<"w", tensor<8xf32> at 0>] {trainable, unit = ""}
func.func private @sgd(tensor<?xf32>, tensor<f32> {fsdp.optimizer = {role = "scalar", name = "lr"}}) -> tensor<?xf32>
func.func @update_with_a_rank_for_one_run(%p: !fsdp.sharded<@h0, f32>, %lr: tensor<f32>, %rank: tensor<i64>) {
  // expected-error @below {{expected no rank and 0 scalars of the types of those of @sgd for 1 runs of groups, got a rank and 0}}
  %p1 = fsdp.update @sgd(%p, %lr) rank %rank : tensor<i64> : (!fsdp.sharded<@h0, f32>, tensor<f32>) -> (!fsdp.sharded<@h0, f32>)
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// expected-note @below {{the flat parameter is here}}
fsdp.flat_param @h0 on @mesh shard [] replicate ["shard"]
    state f32 gather f32 reduce f32 numel 8 [<"w", tensor<8xf32> at 0>] {trainable, unit = ""}
func.func @reduce_replicas_without_a_hook(%g: tensor<8xf32>) {
  // reduce_replicas_c1
  // expected-error @below {{expected a flat parameter with a reduction_hook, got one without}}
  %m = fsdp.reduce_replicas @h0(%g) : tensor<8xf32>
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"replicate" = 2>, #fsdp.axis<"shard" = 2>]
// expected-note @below {{the flat parameter is here}}
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate ["replicate"]
    state f32 gather f32 reduce f32 numel 8 [<"w", tensor<8xf32> at 0>] {trainable, unit = "", reduction_hook = "sign"}
func.func @reduce_replicas_of_the_whole(%g: tensor<8xf32>) {
  // reduce_replicas_c2
  // expected-error @below {{expected a gradient of 4 elements, got 'tensor<8xf32>'}}
  %m = fsdp.reduce_replicas @h0(%g) : tensor<8xf32>
  return
}

// -----

func.func @reduce_replicas_to_another_type(%g: tensor<8xf32>) {
  // reduce_replicas_c3
  // expected-error @below {{requires the same type for all operands and results}}
  %m = "fsdp.reduce_replicas"(%g) {flat_param = @h0} : (tensor<8xf32>) -> tensor<4xf32>
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"outer" = 2>, #fsdp.axis<"inner" = 2>]
// expected-note @below {{the flat parameter is here}}
fsdp.flat_param @h0 on @mesh shard ["inner", "outer"] secondary ["inner"] replicate []
    state f32 gather bf16 reduce f32 numel 8 [<"w", tensor<8xf32> at 0>] {trainable, unit = ""}
func.func @unshard_of_narrower_secondary(%s: !fsdp.secondary<@h0, bf16>) {
  // expected-error @below {{expected a secondary shard of 'f32', the result's type, got 'bf16'}}
  %w = fsdp.unshard %s for forward : !fsdp.secondary<@h0, bf16> -> !fsdp.unsharded<@h0, f32>
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"outer" = 2>, #fsdp.axis<"inner" = 2>]
// expected-note @below {{the flat parameter is here}}
fsdp.flat_param @h0 on @mesh shard ["inner", "outer"] secondary ["inner"] replicate []
    state f32 gather bf16 reduce f32 numel 8 [<"w", tensor<8xf32> at 0>] {trainable, unit = ""}
// unshard_c3
func.func @unshard_past_secondary(%shard: !fsdp.sharded<@h0, f32>) {
  // expected-error @below {{expected a secondary shard of what has secondary axes, got '!fsdp.sharded<@h0, f32>'}}
  %w = fsdp.unshard %shard for forward : !fsdp.sharded<@h0, f32> -> !fsdp.unsharded<@h0, bf16>
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"outer" = 2>, #fsdp.axis<"inner" = 2>]
// expected-note @below {{the flat parameter is here}}
fsdp.flat_param @h0 on @mesh shard ["outer", "inner"] replicate []
    state f32 gather bf16 reduce f32 numel 8 [<"w", tensor<8xf32> at 0>] {trainable, unit = ""}
func.func @unshard_of_unknown_secondary(%s: !fsdp.secondary<@h0, bf16>) {
  // expected-error @below {{expected a shard of what has no secondary axes, got '!fsdp.secondary<@h0, bf16>'}}
  %w = fsdp.unshard %s for forward : !fsdp.secondary<@h0, bf16> -> !fsdp.unsharded<@h0, bf16>
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"outer" = 2>, #fsdp.axis<"inner" = 2>]
// expected-note @below {{the flat parameter is here}}
fsdp.flat_param @h0 on @mesh shard ["outer", "inner"] replicate []
    state f32 gather bf16 reduce f32 numel 8 [<"w", tensor<8xf32> at 0>] {trainable, unit = ""}
// gather_secondary_c1
func.func @secondary_of_none(%shard: !fsdp.sharded<@h0, f32>) {
  // expected-error @below {{expected a flat parameter with secondary axes, got @h0}}
  %s = fsdp.gather_secondary %shard : <@h0, f32> -> <@h0, bf16>
  return
}

// -----

func.func @secondary_of_another(%shard: !fsdp.sharded<@h0, f32>) {
  // expected-error @below {{expected shard and result of one flat parameter, got @h0 and @h1}}
  %s = fsdp.gather_secondary %shard : <@h0, f32> -> <@h1, f32>
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"outer" = 2>, #fsdp.axis<"inner" = 2>]
// expected-note @below {{the flat parameter is here}}
fsdp.flat_param @h0 on @mesh shard ["inner", "outer"] secondary ["inner"] replicate []
    state f32 gather bf16 reduce f32 numel 8 [<"w", tensor<8xf32> at 0>] {trainable, unit = ""}
// gather_secondary_c2
func.func @secondary_in_another_type(%shard: !fsdp.sharded<@h0, f32>) {
  // expected-error @below {{expected a result of 'bf16' or 'f32', got 'f16'}}
  %s = fsdp.gather_secondary %shard : <@h0, f32> -> <@h0, f16>
  return
}
