// A step whose gradients are reduced: two units and one that is ignored.

fsdp.mesh @mesh [#fsdp.axis<"replicate" = 2>, #fsdp.axis<"shard" = 2>]
fsdp.flat_param @a on @mesh shard ["shard"] replicate ["replicate"] state f32 gather f32 reduce f32 numel 64 [
  <"a.w", tensor<64xf32> at 0>] {trainable, unit = "a"}
fsdp.flat_param @b on @mesh shard [] replicate ["replicate", "shard"] state f32 gather f32 reduce f32 numel 64 [
  <"b.w", tensor<64xf32> at 0>] {keep, trainable, unit = "b"}
fsdp.flat_param @i on @mesh shard [] replicate [] state f32 gather f32 reduce f32 numel 64 [
  <"i.w", tensor<64xf32> at 0>] {keep, trainable, unit = "i"}

fsdp.state @a.param parameter of @a : !fsdp.sharded<@a, f32>
fsdp.state @b.param parameter of @b : !fsdp.sharded<@b, f32>
fsdp.state @i.param parameter of @i : !fsdp.sharded<@i, f32>
fsdp.program @step(%a: !fsdp.sharded<@a, f32> {fsdp.state = @a.param}, %b: !fsdp.sharded<@b, f32> {fsdp.state = @b.param},
                   %i: !fsdp.sharded<@i, f32> {fsdp.state = @i.param}, %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss}, !fsdp.sharded<@a, f32> {fsdp.grad_shard = @a},
        !fsdp.sharded<@b, f32> {fsdp.grad_shard = @b}, !fsdp.sharded<@i, f32> {fsdp.grad_shard = @i}) {
  %ub = fsdp.unshard %b for forward : <@b, f32> -> <@b, f32>
  %wb = fsdp.member %ub["b.w"] : <@b, f32> -> tensor<64xf32>
  %loss = "test.loss"(%x, %wb) : (tensor<4xf32>, tensor<64xf32>) -> tensor<f32>
  %g:3 = "test.grad"(%x) : (tensor<4xf32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>)
  %ga = fsdp.reduce_grad @a(%g#0) : (tensor<64xf32>) -> !fsdp.sharded<@a, f32>
  %gb = fsdp.reduce_grad @b(%g#1) : (tensor<64xf32>) -> !fsdp.sharded<@b, f32>
  %gi = fsdp.reduce_grad @i(%g#2) : (tensor<64xf32>) -> !fsdp.sharded<@i, f32>
  "test.last_reader"(%wb) : (tensor<64xf32>) -> ()
  fsdp.reshard %ub : <@b, f32>
  "test.end"() : () -> ()
  fsdp.return %loss, %ga, %gb, %gi : tensor<f32>, !fsdp.sharded<@a, f32>, !fsdp.sharded<@b, f32>, !fsdp.sharded<@i, f32>
}

// SGD with momentum and a count of steps.
func.func @optimizer(%p: tensor<?xf32> {fsdp.optimizer = {role = "param", name = "p"}},
                     %g: tensor<?xf32> {fsdp.optimizer = {role = "grad", name = "g"}},
                     %m: tensor<?xf32> {fsdp.optimizer = {role = "state", name = "momentum", init = 0.5}},
                     %s: tensor<f32> {fsdp.optimizer = {role = "state", name = "step"}},
                     %lr: tensor<f32> {fsdp.optimizer = {role = "scalar", name = "lr", default = 0.25}})
    -> (tensor<?xf32> {fsdp.optimizer = {role = "param", name = "p"}},
        tensor<?xf32> {fsdp.optimizer = {role = "state", name = "momentum"}},
        tensor<f32> {fsdp.optimizer = {role = "state", name = "step"}}) {
  %sum = arith.addf %m, %g : tensor<?xf32>
  %new = arith.subf %p, %sum : tensor<?xf32>
  %next = arith.addf %s, %lr : tensor<f32>
  return %new, %sum, %next : tensor<?xf32>, tensor<?xf32>, tensor<f32>
}
