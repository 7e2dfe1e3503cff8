// RUN: fsdp-opt %s -split-input-file --fsdp-partition='mesh=shard=2 optimizer=sgd' | FileCheck %s

// A loss in bf16 is averaged over the ranks in f32.

// CHECK-LABEL: fsdp.program @train
// CHECK-SAME:    -> (tensor<f32> {fsdp.loss}
// CHECK:         %[[NARROW:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<bf16>)
// CHECK:           arith.addf %{{.*}}, %{{.*}} : bf16
// CHECK:         %[[WIDE:.*]] = linalg.generic {{.*}} ins(%[[NARROW]] : tensor<bf16>) outs(%{{.*}} : tensor<f32>)
// CHECK:           arith.extf
// CHECK:         %[[MEAN:[0-9]+]] = fsdp.all_reduce %[[WIDE]] on @mesh["shard"] divisor 2 : tensor<f32>
// CHECK:         return %[[MEAN]]
func.func @forward_backward(
    %w: tensor<4xbf16> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xbf16> {fsdp.input = {name = "x"}})
    -> (tensor<bf16> {fsdp.loss}, tensor<4xbf16> {fsdp.grad = {fqn = "w"}}) {
  %zero = arith.constant dense<0.0> : tensor<bf16>
  %e = tensor.empty() : tensor<4xbf16>
  %p = linalg.mul ins(%w, %x : tensor<4xbf16>, tensor<4xbf16>) outs(%e : tensor<4xbf16>) -> tensor<4xbf16>
  %loss = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>], iterator_types = ["reduction"]}
      ins(%p : tensor<4xbf16>) outs(%zero : tensor<bf16>) {
  ^bb0(%a: bf16, %o: bf16):
    %s = arith.addf %a, %o : bf16
    linalg.yield %s : bf16
  } -> tensor<bf16>
  return %loss, %x : tensor<bf16>, tensor<4xbf16>
}

// -----

// What is only rounded at its end is not rounded at all.

// CHECK-LABEL: fsdp.program @train
// CHECK-SAME:    -> (tensor<f32> {fsdp.loss}
// CHECK-NOT:     arith.truncf
// CHECK:         %[[MEAN:[0-9]+]] = fsdp.all_reduce %[[LOSS:[0-9]+]] on @mesh["shard"] divisor 2 : tensor<f32>
// CHECK-NOT:     arith.truncf
// CHECK:         return %[[MEAN]]
func.func @forward_backward(
    %w: tensor<f32> {fsdp.param = {fqn = "w"}},
    %x: tensor<f32> {fsdp.input = {name = "x"}})
    -> (tensor<bf16> {fsdp.loss}, tensor<f32> {fsdp.grad = {fqn = "w"}}) {
  %e = tensor.empty() : tensor<bf16>
  %loss = linalg.generic {indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = []}
      ins(%w, %x : tensor<f32>, tensor<f32>) outs(%e : tensor<bf16>) {
  ^bb0(%a: f32, %b: f32, %o: bf16):
    %q = arith.divf %a, %b : f32
    %n = arith.truncf %q : f32 to bf16
    linalg.yield %n : bf16
  } -> tensor<bf16>
  return %loss, %x : tensor<bf16>, tensor<f32>
}
