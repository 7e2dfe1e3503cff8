// A buffer may be called like a program, a state of the optimizer or a unit's
// shard: each has a symbol, and what checkpoints know it by, of its own.
//
// RUN: sed 's/NAME/train/' %s | fsdp-opt --fsdp-partition='mesh=shard=2' | FileCheck %s -DNAME=train
// RUN: sed 's/NAME/step/' %s | fsdp-opt --fsdp-partition='mesh=shard=2' | FileCheck %s -DNAME=step
// RUN: sed 's/NAME/root.param/' %s | fsdp-opt --fsdp-partition='mesh=shard=2' | FileCheck %s -DNAME=root.param
// RUN: sed 's/NAME/optimizer.step/' %s | fsdp-opt --fsdp-partition='mesh=shard=2' | FileCheck %s -DNAME=optimizer.step

// CHECK:       fsdp.state @[[SHARD:.*]] parameter of @root : tensor<32xf32> at
// CHECK:       fsdp.state @[[BUFFER:.*]] buffer "[[NAME]]" : tensor<f32> at
// CHECK:       fsdp.state @[[STEP:.*]] optimizer "step" : tensor<f32> at
// CHECK-LABEL: fsdp.program @train(
// CHECK-SAME:    %{{.*}}: tensor<32xf32> {fsdp.state = @[[SHARD]]}, %{{.*}}: tensor<f32> {fsdp.state = @[[BUFFER]]},
// CHECK-SAME:    %{{.*}}: tensor<f32> {fsdp.state = @[[STEP]]}
// CHECK-SAME:    -> (tensor<f32> {fsdp.loss},
// CHECK-SAME:    tensor<f32> {fsdp.state = @[[BUFFER]]}
// CHECK-SAME:    tensor<f32> {fsdp.state = @[[STEP]]}
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %s: tensor<f32> {fsdp.buffer = {fqn = "NAME"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}},
        tensor<f32> {fsdp.buffer_update = {fqn = "NAME"}}) {
  %t = arith.addf %s, %s : tensor<f32>
  return %s, %w, %t : tensor<f32>, tensor<4xf32>, tensor<f32>
}
