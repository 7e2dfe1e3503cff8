// RUN: fsdp-opt %s --fsdp-logical="mesh=shard=2,replicate=2 reduce-dtype=bf16 accumulate-in=shard clip-norm=true" | FileCheck %s --check-prefixes=L1,SHARD1
// RUN: fsdp-opt %s --fsdp-logical="mesh=shard=2,replicate=2 reduce-dtype=bf16 accumulate-in=whole clip-norm=true" | FileCheck %s --check-prefixes=L1,WHOLE1
// RUN: fsdp-opt %s --fsdp-partition="mesh=shard=2,replicate=2 reduce-dtype=bf16 accumulate-in=shard" | FileCheck %s --check-prefix=SHARD2
// RUN: fsdp-opt %s --fsdp-partition="mesh=shard=2,replicate=2 reduce-dtype=bf16 accumulate-in=whole" | FileCheck %s --check-prefix=WHOLE2
// RUN: fsdp-opt %s --fsdp-partition="mesh=shard=2" | FileCheck %s --check-prefix=NONE
// RUN: fsdp-opt %s --fsdp-logical="mesh=shard=2 param-dtype=bf16 reshard-after-backward=false accumulate-in=whole" | FileCheck %s --check-prefix=STAYS
// RUN: fsdp-opt %s --fsdp-partition="mesh=shard=2 param-dtype=bf16 reshard-after-backward=false accumulate-in=whole" | FileCheck %s --check-prefix=STAYS2
// RUN: not fsdp-opt %s --fsdp-logical="mesh=shard=2 reshard-after-backward=false" 2>&1 | FileCheck %s --check-prefix=ALONE
// ALONE: error: {{.*}}expected accumulate-in beside reshard-after-backward=false, got none: in a step of one batch no other waits for what it gathers

// The step of one batch gathers for itself, the first micro-batch for all, and
// the others read what it left.
// STAYS: fsdp.state @root.gathered gathered of @root : !fsdp.unsharded<@root, bf16>
// STAYS-LABEL: fsdp.program @train(
// STAYS:         fsdp.unshard %
// STAYS:         fsdp.reshard
// STAYS-LABEL: fsdp.program accumulate_first @accumulate_first(
// STAYS-SAME:    {fsdp.state = @root.param}
// STAYS-SAME:    -> ({{.*}}!fsdp.unsharded<@root, bf16> {fsdp.state = @root.gathered}
// STAYS:         %[[WHOLE:.*]] = fsdp.unshard %
// STAYS-NOT:     fsdp.reshard
// STAYS:         fsdp.return {{.*}}%[[WHOLE]]
// STAYS-LABEL: fsdp.program accumulate @accumulate(
// STAYS-NOT:     @root.param
// STAYS-SAME:    %[[KEPT:arg[0-9]+]]: !fsdp.unsharded<@root, bf16> {fsdp.state = @root.gathered}
// STAYS-NOT:     fsdp.unshard %
// STAYS:         fsdp.member %[[KEPT]]
// STAYS-LABEL: fsdp.program train_accumulated @train_accumulated(
// STAYS-SAME:    {fsdp.state = @root.param}
// STAYS-SAME:    {fsdp.state = @root.gathered}
// STAYS-NOT:     fsdp.unshard %

// STAYS2-LABEL: fsdp.program accumulate_first
// STAYS2:         fsdp.all_gather
// STAYS2-LABEL: fsdp.program accumulate @
// STAYS2-NOT:     fsdp.all_gather

// NONE-NOT: accumulat

// SHARD1: fsdp.state @root.accumulated accumulator of @root : !fsdp.sharded<@root, f32>
// WHOLE1: fsdp.state @root.accumulated accumulator of @root : !fsdp.unsharded<@root, f32>

// The step of one batch knows nothing of accumulators.
// L1-LABEL: fsdp.program @train(
// L1-NOT:     accumulat
// L1:         fsdp.reduce_grad @root
// L1-NOT:     accumulat

// L1-LABEL: fsdp.program accumulate @accumulate(
// L1-SAME:    %[[COUNT:arg[0-9]+]]: tensor<f32> {fsdp.scalar = {default = 0.000000e+00 : f64, name = "accumulated"}}
// L1-SAME:    %[[OLD:arg[0-9]+]]: {{[^{]*}} {fsdp.state = @root.accumulated})
// L1-SAME:    -> (tensor<f32> {fsdp.loss}, tensor<f32> {fsdp.state = @buffer.count},
// L1-SAME:        {fsdp.state = @root.accumulated})
// L1:         %[[SUM:.*]] = fsdp.accumulate_grad @root %[[OLD]] after %[[COUNT]](
// L1-NOT:     fsdp.update
// L1:         fsdp.return %{{.*}}, %{{.*}}, %[[SUM]] :

// The mean is what is counted and clipped; no accumulator is written.
// L1-LABEL: fsdp.program train_accumulated @train_accumulated(
// L1-SAME:    %[[COUNT:arg[0-9]+]]: tensor<f32> {fsdp.scalar = {default = 0.000000e+00 : f64, name = "accumulated"}}
// L1-SAME:    %[[WEIGHT:arg[0-9]+]]: tensor<f32> {fsdp.scalar = {default = 1.000000e+00 : f64, name = "accumulation_weight"}}
// L1-SAME:    %[[OLD:arg[0-9]+]]: {{[^{]*}} {fsdp.state = @root.accumulated}
// L1-SAME:    -> ({{.*}})
// L1-NOT:     {fsdp.state = @root.accumulated}
// L1:         %[[SUM:.*]] = fsdp.accumulate_grad @root %[[OLD]] after %[[COUNT]](
// L1:         %[[GRAD:.*]] = fsdp.reduce_accumulated %[[SUM]] over %[[WEIGHT]]
// L1:         %[[NORM:.*]] = fsdp.grad_norm %[[GRAD]]
// L1:         %[[CLIP:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %[[NORM]]
// L1:         fsdp.update @optimizer(%{{.*}}, %[[GRAD]], {{.*}}) scale %[[CLIP]]

// What is reduced is narrow, what is summed up and divided is not; replicas meet
// once.
// SHARD2: fsdp.program accumulate @accumulate(
// SHARD2:   %[[PART:.*]] = fsdp.reduce_scatter %{{.*}} on @mesh["shard"] : tensor<64xbf16> -> tensor<32xbf16>
// SHARD2:   %[[WIDE:.*]] = linalg.generic {{.*}} ins(%[[PART]] : tensor<32xbf16>)
// SHARD2:   linalg.generic {{.*}} ins(%[[OLD:.*]], %[[WIDE]], %[[COUNT:.*]] : tensor<32xf32>, tensor<32xf32>, tensor<f32>)
// SHARD2:     %[[SUM:.*]] = arith.addf %[[A:.*]], %[[G:.*]] : f32
// SHARD2:     %[[ISLATER:.*]] = arith.cmpf ogt
// SHARD2:     arith.select %[[ISLATER]], %[[SUM]], %[[G]] : f32
// SHARD2-NOT: ["replicate"]
// SHARD2: fsdp.program train_accumulated @train_accumulated(
// SHARD2:   fsdp.reduce_scatter %{{.*}} on @mesh["shard"] : tensor<64xbf16> -> tensor<32xbf16>
// SHARD2:   %[[SUM:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %{{.*}}, %{{.*}} : tensor<32xf32>, tensor<32xf32>, tensor<f32>)
// SHARD2:   %[[MEAN:.*]] = linalg.generic {{.*}} ins(%[[SUM]], %{{.*}} : tensor<32xf32>, tensor<f32>)
// SHARD2:     arith.divf
// SHARD2:   %[[NARROW:.*]] = linalg.generic {{.*}} ins(%[[MEAN]] : tensor<32xf32>)
// SHARD2:   fsdp.all_reduce %[[NARROW]] on @mesh["replicate"] divisor 4 : tensor<32xbf16>

// WHOLE2: fsdp.program accumulate @accumulate(
// WHOLE2:   %[[PART:.*]] = fsdp.pack %{{.*}} at 0 : tensor<4xf32> -> tensor<64xf32>
// WHOLE2:   linalg.generic {{.*}} ins(%{{.*}}, %[[PART]], %{{.*}} : tensor<64xf32>, tensor<64xf32>, tensor<f32>)
// WHOLE2-NOT: fsdp.reduce_scatter
// WHOLE2: fsdp.program train_accumulated @train_accumulated(
// WHOLE2:   %[[SUM:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %{{.*}}, %{{.*}} : tensor<64xf32>, tensor<64xf32>, tensor<f32>)
// WHOLE2:   %[[MEAN:.*]] = linalg.generic {{.*}} ins(%[[SUM]], %{{.*}} : tensor<64xf32>, tensor<f32>)
// WHOLE2:   %[[NARROW:.*]] = linalg.generic {{.*}} ins(%[[MEAN]] : tensor<64xf32>)
// WHOLE2:   %[[PIECE:.*]] = fsdp.reduce_scatter %[[NARROW]] on @mesh["shard"] : tensor<64xbf16> -> tensor<32xbf16>
// WHOLE2:   fsdp.all_reduce %[[PIECE]] on @mesh["replicate"] divisor 4 : tensor<32xbf16>

func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %count: tensor<f32> {fsdp.buffer = {fqn = "count"}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}},
        tensor<f32> {fsdp.buffer_update = {fqn = "count"}}) {
  %zero = arith.constant dense<0.0> : tensor<f32>
  %loss = linalg.dot ins(%w, %x : tensor<4xf32>, tensor<4xf32>) outs(%zero : tensor<f32>) -> tensor<f32>
  %e = tensor.empty() : tensor<f32>
  %next = linalg.add ins(%count, %loss : tensor<f32>, tensor<f32>) outs(%e : tensor<f32>) -> tensor<f32>
  return %loss, %x, %next : tensor<f32>, tensor<4xf32>, tensor<f32>
}
