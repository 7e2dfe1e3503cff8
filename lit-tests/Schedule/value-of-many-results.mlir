// RUN: fsdp-compile %s --mesh shard=2 --replicate a.w --cluster h100-sxm --emit ir:L3 -o %t
// RUN: fsdp-opt %t --fsdp-verify-schedule -o /dev/null

// One value is the gradient of a replicated parameter, that of a sharded one, and a buffer's next state. It needs no
// transfer, and lies in one of the packs: the other one may not be made before it.
func.func @forward_backward(%a: tensor<4xf32> {fsdp.param = {fqn = "a.w"}}, %b: tensor<4xf32> {fsdp.param = {fqn = "b.w"}},
                            %c: tensor<4xf32> {fsdp.buffer = {fqn = "c"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "a.w"}}, tensor<4xf32> {fsdp.grad = {fqn = "b.w"}},
        tensor<4xf32> {fsdp.buffer_update = {fqn = "c"}}) {
  %square = arith.mulf %a, %a : tensor<4xf32>
  %i = arith.constant 0 : index
  %first = tensor.extract %b[%i] : tensor<4xf32>
  %loss = tensor.from_elements %first : tensor<f32>
  return %loss, %square, %square, %square : tensor<f32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
