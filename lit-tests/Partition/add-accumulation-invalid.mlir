// RUN: fsdp-opt %s --split-input-file --verify-diagnostics --fsdp-add-accumulation=in=shard
// RUN: not fsdp-opt %s --fsdp-add-accumulation=in=auto 2>&1 | FileCheck %s --check-prefix=AUTO

// AUTO: error: expected accumulators that hold shard or whole, got auto: fsdp-compile and fsdp-plan choose

// expected-error @below {{expected a name other than @accumulate for a traced function, beside accumulation}}
module {
fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @a on @mesh shard ["shard"] replicate [] state f32 gather f32 reduce f32 numel 64 [
  <"a.w", tensor<8xf32> at 0>] {trainable, unit = "a"}
fsdp.state @a.param parameter of @a : !fsdp.sharded<@a, f32>
fsdp.program @train(%a: !fsdp.sharded<@a, f32> {fsdp.state = @a.param}, %g: tensor<8xf32> {fsdp.input = {name = "g"}})
    -> (!fsdp.sharded<@a, f32> {fsdp.grad_shard = @a}) {
  %s = fsdp.reduce_grad @a(%g) : (tensor<8xf32>) -> !fsdp.sharded<@a, f32>
  fsdp.return %s : !fsdp.sharded<@a, f32>
}
// expected-note @below {{it is here}}
fsdp.program eval @accumulate(%x: tensor<4xf32> {fsdp.input = {name = "x"}}) -> (tensor<4xf32> {fsdp.output = {name = "y"}}) {
  fsdp.return %x : tensor<4xf32>
}
}

// -----

// expected-error @below {{expected a step with gradients to accumulate, got none}}
module {
fsdp.program eval @evaluate(%x: tensor<4xf32> {fsdp.input = {name = "x"}}) -> (tensor<4xf32> {fsdp.output = {name = "y"}}) {
  fsdp.return %x : tensor<4xf32>
}
}

// -----

// expected-error @below {{expected a name other than @accumulate_first for a traced function, beside accumulation}}
module {
fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @a on @mesh shard ["shard"] replicate [] state f32 gather f32 reduce f32 numel 64 [
  <"a.w", tensor<8xf32> at 0>] {keep, persistent, trainable, unit = "a"}
fsdp.state @a.param parameter of @a : !fsdp.sharded<@a, f32>
fsdp.program @train(%a: !fsdp.sharded<@a, f32> {fsdp.state = @a.param}, %g: tensor<8xf32> {fsdp.input = {name = "g"}})
    -> (!fsdp.sharded<@a, f32> {fsdp.grad_shard = @a}) {
  %s = fsdp.reduce_grad @a(%g) : (tensor<8xf32>) -> !fsdp.sharded<@a, f32>
  fsdp.return %s : !fsdp.sharded<@a, f32>
}
// expected-note @below {{it is here}}
fsdp.program eval @accumulate_first(%x: tensor<4xf32> {fsdp.input = {name = "x"}}) -> (tensor<4xf32> {fsdp.output = {name = "y"}}) {
  fsdp.return %x : tensor<4xf32>
}
}
