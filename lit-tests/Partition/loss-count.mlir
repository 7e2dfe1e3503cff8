// RUN: fsdp-opt %s --fsdp-logical="mesh=shard=2,replicate=2 accumulate-in=shard clip-norm=true" | FileCheck %s --check-prefix=L1
// RUN: fsdp-opt %s --fsdp-partition="mesh=shard=2,replicate=2" | FileCheck %s --check-prefix=L2
// RUN: fsdp-opt %s --fsdp-partition="mesh=shard=2,replicate=2 reduce-dtype=f16 accumulate-in=shard optimizer=sgd" | FileCheck %s --check-prefix=F16
// RUN: fsdp-opt %s --fsdp-partition="mesh=shard=2 reduce-dtype=f16 accumulate-in=whole" | FileCheck %s --check-prefix=WHOLE

// What a loss is a sum over becomes its mean over all ranks, is asserted to be
// above 0, and divides the gradient.
// L1-LABEL: fsdp.program @train(
// L1-SAME:    -> (tensor<f32> {fsdp.loss}, tensor<f64> {fsdp.loss_count},
// L1:         %[[WIDE:.*]] = linalg.generic {{.*}} ins(%[[N:.*]] : tensor<i64>)
// L1:           arith.sitofp
// L1:         %[[COUNT:.*]] = fsdp.average %[[WIDE]]
// L1:         %[[NUMBER:.*]] = tensor.extract %[[COUNT]][]
// L1:         %[[HOLDS:.*]] = arith.cmpf ogt, %[[NUMBER]], %{{.*}} : f64
// L1:         cf.assert %[[HOLDS]], "expected a loss_count above 0
// L1:         %[[GRAD:.*]] = fsdp.reduce_grad @root(%{{.*}}) over %[[COUNT]]
// L1:         fsdp.grad_norm %[[GRAD]]
// L1:         fsdp.return %{{.*}}, %[[COUNT]],

// An evaluation's stays the rank's own.
// L1-LABEL: fsdp.program eval @evaluate(
// L1-SAME:    -> (tensor<f32> {fsdp.loss}, tensor<i64> {fsdp.loss_count})
// L1-NOT:     fsdp.average

// A micro-batch may count nothing.
// L1-LABEL: fsdp.program accumulate @accumulate(
// L1-SAME:    -> (tensor<f32> {fsdp.loss}, tensor<f64> {fsdp.loss_count},
// L1-NOT:     cf.assert
// L1:         %[[COUNT:.*]] = fsdp.average
// L1-NOT:     cf.assert
// L1:         fsdp.accumulate_grad @root %{{.*}} after %{{.*}}(%{{.*}}) of %[[COUNT]]

// All of a step divide its sum, and there is no other weight.
// L1-LABEL: fsdp.program train_accumulated @train_accumulated(
// L1-NOT:     accumulation_weight
// L1-SAME:    %[[BEFORE:arg[0-9]+]]: tensor<f64> {fsdp.scalar = {default = 0.000000e+00 : f64, name = "accumulated_count"}}
// L1:         %[[COUNT:.*]] = fsdp.average
// L1:         %[[ALL:.*]] = linalg.generic {{.*}} ins(%[[BEFORE]], %[[COUNT]] : tensor<f64>, tensor<f64>)
// L1:         tensor.extract %[[ALL]][]
// L1:         cf.assert
// L1:         fsdp.reduce_accumulated %{{.*}} over %[[ALL]]
// L1:         fsdp.return %{{.*}}, %[[COUNT]],

// L2-LABEL: fsdp.program @train(
// L2:         %[[COUNT:.*]] = fsdp.all_reduce %{{.*}} on @mesh["replicate", "shard"] divisor 4 : tensor<f64>
// L2:         fsdp.reduce_scatter
// L2:         %[[MEAN:.*]] = fsdp.all_reduce %{{.*}} on @mesh["replicate"] divisor 4 : tensor<32xf32>
// L2:         linalg.generic {{.*}} ins(%[[MEAN]], %[[COUNT]] : tensor<32xf32>, tensor<f64>)
// L2:           arith.truncf %{{.*}} : f64 to f32
// L2:           arith.divf %{{.*}} : f32
// L2-LABEL: fsdp.program eval @evaluate(
// L2-NOT:     all_reduce

// In f16 nothing travels that is larger than the gradient of a mean.
// F16-LABEL: fsdp.program @train(
// F16:         %[[COUNT:.*]] = fsdp.all_reduce %{{.*}} : tensor<f64>
// F16:         %[[SMALL:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %[[COUNT]] : tensor<4xf32>, tensor<f64>)
// F16:           arith.divf
// F16:         linalg.generic {{.*}} ins(%[[SMALL]] : tensor<4xf32>)
// F16:           arith.truncf %{{.*}} : f32 to f16
// F16:         fsdp.reduce_scatter
// F16-NOT:     arith.divf
// F16-LABEL: fsdp.program accumulate @accumulate(
// F16:         %[[COUNT:.*]] = fsdp.all_reduce %{{.*}} : tensor<f64>
// F16:         %[[SCALE:.*]] = linalg.generic {{.*}} ins(%[[COUNT]] : tensor<f64>)
// F16:           arith.select
// F16:         linalg.generic {{.*}} ins(%{{.*}}, %[[SCALE]] : tensor<4xf32>, tensor<f64>)
// F16:           arith.divf
// F16:         %[[PART:.*]] = fsdp.reduce_scatter
// F16:         %[[CAST:.*]] = linalg.generic {{.*}} ins(%[[PART]] : tensor<32xf16>)
// F16:         linalg.generic {{.*}} ins(%[[CAST]], %[[SCALE]] : tensor<32xf32>, tensor<f64>)
// F16:           arith.mulf

// WHOLE-LABEL: fsdp.program accumulate @accumulate(
// WHOLE-NOT:     arith.divf
// WHOLE-LABEL: fsdp.program train_accumulated @train_accumulated(
// WHOLE:         %[[MEAN:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<64xf32>, tensor<f64>)
// WHOLE:           arith.divf
// WHOLE:         linalg.generic {{.*}} ins(%[[MEAN]] : tensor<64xf32>)
// WHOLE:         fsdp.reduce_scatter

func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}},
    %n: tensor<i64> {fsdp.input = {name = "n"}})
    -> (tensor<f32> {fsdp.loss}, tensor<i64> {fsdp.loss_count}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %zero = arith.constant dense<0.0> : tensor<f32>
  %loss = linalg.dot ins(%w, %x : tensor<4xf32>, tensor<4xf32>) outs(%zero : tensor<f32>) -> tensor<f32>
  %e = tensor.empty() : tensor<i64>
  %count = linalg.add ins(%n, %n : tensor<i64>, tensor<i64>) outs(%e : tensor<i64>) -> tensor<i64>
  return %loss, %count, %x : tensor<f32>, tensor<i64>, tensor<4xf32>
}
func.func @evaluate(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}},
    %n: tensor<i64> {fsdp.input = {name = "n"}})
    -> (tensor<f32> {fsdp.loss}, tensor<i64> {fsdp.loss_count}) attributes {fsdp.program = "eval"} {
  %zero = arith.constant dense<0.0> : tensor<f32>
  %loss = linalg.dot ins(%w, %x : tensor<4xf32>, tensor<4xf32>) outs(%zero : tensor<f32>) -> tensor<f32>
  return %loss, %n : tensor<f32>, tensor<i64>
}
