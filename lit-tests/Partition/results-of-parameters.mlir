// RUN: fsdp-opt %s --split-input-file --fsdp-partition='mesh=shard=2 wrap=size:1 optimizer=sgd' | FileCheck %s
// RUN: fsdp-opt %s --split-input-file --fsdp-partition='mesh=shard=2 wrap=size:1 optimizer=sgd' \
// RUN:   | fsdp-opt --split-input-file --fsdp-kernels --fsdp-plan-arena --fsdp-verify-schedule -o /dev/null

// The return reads results in their phases: the loss and new buffers in forward,
// gradients in backward.

// A loss of parameters alone is computed in forward, although only the return
// reads it: forward's gather is over before backward's begins.
// CHECK-LABEL: fsdp.program @train
// CHECK:         %[[F:.*]] = fsdp.all_gather {{.*}} for forward
// CHECK:         %[[W:.*]] = fsdp.view %[[F]][0]
// CHECK:         %[[B:.*]] = arith.mulf %{{.*}}, %[[W]]
// CHECK:         %[[E:.*]] = tensor.extract %[[W]]
// CHECK:         %[[LOSS:.*]] = tensor.from_elements %[[E]]
// CHECK:         fsdp.all_gather {{.*}} for backward
// CHECK:         fsdp.all_reduce %[[LOSS]]
// CHECK:         return %{{.*}}, %[[B]],
module attributes {fsdp.modules = [{fqn = "", class = "M"}, {fqn = "a", class = "L"}]} {
func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "a.w"}},
                            %b: tensor<4xf32> {fsdp.buffer = {fqn = "b"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "a.w"}}, tensor<4xf32> {fsdp.buffer_update = {fqn = "b"}}) {
  %grad = arith.mulf %w, %w : tensor<4xf32>
  %next = arith.mulf %b, %w : tensor<4xf32>
  %one = arith.constant 1 : index
  %e = tensor.extract %w[%one] : tensor<4xf32>
  %loss = tensor.from_elements %e : tensor<f32>
  return %loss, %grad, %next : tensor<f32>, tensor<4xf32>, tensor<4xf32>
}
}

// -----

// What is a buffer and a gradient, too, is computed once for each.
// CHECK-LABEL: fsdp.program @train
// CHECK:         %[[F:.*]] = fsdp.all_gather {{.*}} for forward
// CHECK:         %[[W:.*]] = fsdp.view %[[F]][0]
// CHECK:         %[[NEXT:.*]] = arith.mulf %[[W]], %[[W]]
// CHECK:         %[[G:.*]] = fsdp.all_gather {{.*}} for backward
// CHECK:         %[[V:.*]] = fsdp.view %[[G]][0]
// CHECK:         %[[GRAD:.*]] = arith.mulf %[[V]], %[[V]]
// CHECK:         fsdp.pack %[[GRAD]]
// CHECK:         return %{{.*}}, %[[NEXT]],
module attributes {fsdp.modules = [{fqn = "", class = "M"}, {fqn = "a", class = "L"}]} {
func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "a.w"}},
                            %b: tensor<4xf32> {fsdp.buffer = {fqn = "b"}},
                            %x: tensor<f32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "a.w"}}, tensor<4xf32> {fsdp.buffer_update = {fqn = "b"}}) {
  %square = arith.mulf %w, %w : tensor<4xf32>
  return %x, %square, %square : tensor<f32>, tensor<4xf32>, tensor<4xf32>
}
}

// -----

// A buffer takes a parameter's value, as the loss reads it or a view of it: one
// gather does for both, and it is forward's.
// CHECK-LABEL: fsdp.program @train
// CHECK:         %[[F:.*]] = fsdp.all_gather {{.*}} for forward
// CHECK:         %[[W:.*]] = fsdp.view %[[F]][0]
// CHECK:         %[[P:.*]] = arith.mulf %[[W]], %{{.*}}
// CHECK:         %[[E:.*]] = tensor.expand_shape %[[W]]
// CHECK-NOT:     fsdp.all_gather
// CHECK:         return %{{.*}}, %[[W]], %[[E]],
module attributes {fsdp.modules = [{fqn = "", class = "M"}, {fqn = "a", class = "L"}]} {
func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "a.w"}},
                            %snap: tensor<4xf32> {fsdp.buffer = {fqn = "snap"}},
                            %square: tensor<2x2xf32> {fsdp.buffer = {fqn = "square"}},
                            %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "a.w"}}, tensor<4xf32> {fsdp.buffer_update = {fqn = "snap"}},
        tensor<2x2xf32> {fsdp.buffer_update = {fqn = "square"}}) {
  %p = arith.mulf %w, %x : tensor<4xf32>
  %one = arith.constant 1 : index
  %e = tensor.extract %p[%one] : tensor<4xf32>
  %loss = tensor.from_elements %e : tensor<f32>
  %v = tensor.expand_shape %w [[0, 1]] output_shape [2, 2] : tensor<4xf32> into tensor<2x2xf32>
  return %loss, %x, %w, %v : tensor<f32>, tensor<4xf32>, tensor<4xf32>, tensor<2x2xf32>
}
}
