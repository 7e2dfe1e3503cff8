// RUN: fsdp-opt %s --fsdp-logical=mesh=shard=2 | FileCheck %s --check-prefix=L1
// RUN: fsdp-opt %s --fsdp-partition=mesh=shard=2 | FileCheck %s --check-prefix=L2
// RUN: fsdp-opt %s --fsdp-partition='mesh=shard=2 param-dtype=bf16 buffer-dtype=bf16 output-dtype=bf16' | FileCheck %s --check-prefixes=NARROW,OUTPUT
// RUN: fsdp-opt %s --fsdp-partition='mesh=shard=2 param-dtype=bf16 buffer-dtype=bf16 output-dtype=bf16 eval-full-precision' | FileCheck %s --check-prefixes=FULL,OUTPUT

// An evaluation beside the step: both read the same states; the evaluation has
// its own batch, takes only the units that it reads, and writes nothing.

// L1-DAG: fsdp.state @[[A:[a-z0-9_.]+]] parameter of @root
// L1-DAG: fsdp.state @[[C:buffer.count]] buffer "count"
// L1-DAG: fsdp.state @[[S:optimizer.step]] optimizer "step"

// L1-LABEL: fsdp.program @train(
// L1-SAME:    {fsdp.state = @root.param}
// L1-SAME:    {fsdp.state = @buffer.count}
// L1-SAME:    tensor<4xf32> {fsdp.input = {name = "x"}}

// L1-LABEL: fsdp.program eval @evaluate(
// L1-SAME:    {fsdp.state = @root.param}
// L1-SAME:    {fsdp.state = @buffer.count}
// L1-SAME:    tensor<2xf32> {fsdp.input = {name = "x"}}
// L1-SAME:    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.output = {name = "y"}})
// L1:         fsdp.unshard %{{.*}} for forward
// L1-NOT:     fsdp.unshard
// L1-NOT:     fsdp.update
// L1:         fsdp.return %{{.*}}, %{{.*}} : tensor<f32>, tensor<4xf32>

// States have one place, whatever the programs' batches are.
// L2-DAG:   fsdp.state @root.param parameter of @root : tensor<32xf32> at 0
// L2:       fsdp.program eval @evaluate(
// L2:         fsdp.all_gather
// Its loss is the rank's own: who runs it knows how many batches count.
// L2-NOT:     fsdp.reduce_scatter
// L2-NOT:     fsdp.all_reduce
// L2:         fsdp.return

// In full precision, what trains is narrow still. Buffers and shards are kept in
// the types that were traced; what is returned is narrow either way.
// NARROW:   fsdp.state @buffer.count buffer "count" : tensor<f32>
// NARROW:   fsdp.program @train(
// NARROW-SAME: product_type = bf16
// NARROW:     fsdp.all_gather {{.*}} : tensor<32xbf16> -> tensor<64xbf16>
// NARROW:   fsdp.program eval @evaluate(
// NARROW-SAME: product_type = bf16
// NARROW:     arith.truncf %{{.*}} : f32 to bf16
// NARROW:     fsdp.all_gather {{.*}} : tensor<32xbf16> -> tensor<64xbf16>
// FULL:     fsdp.program @train(
// FULL-SAME:  product_type = bf16
// FULL:       fsdp.all_gather {{.*}} : tensor<32xbf16> -> tensor<64xbf16>
// FULL:     fsdp.program eval @evaluate(
// FULL-NOT:   product_type
// FULL-NOT:   arith.truncf
// FULL:       fsdp.all_gather {{.*}} : tensor<32xf32> -> tensor<64xf32>
// OUTPUT:     linalg.add
// OUTPUT:     %[[Y:.*]] = linalg.add {{.*}} -> tensor<4xf32>
// OUTPUT:     %[[OUT:.*]] = linalg.generic {{.*}} ins(%[[Y]] : tensor<4xf32>) outs(%{{.*}} : tensor<4xbf16>)
// OUTPUT:     fsdp.return %{{.*}}, %[[OUT]] : tensor<f32>, tensor<4xbf16>

#id = affine_map<(i) -> (i)>
#sum = affine_map<(i) -> ()>
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

func.func @evaluate(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %count: tensor<f32> {fsdp.buffer = {fqn = "count"}},
    %x: tensor<2xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.output = {name = "y"}})
    attributes {fsdp.program = "eval"} {
  %zero = arith.constant dense<0.0> : tensor<f32>
  %part = tensor.extract_slice %w[0] [2] [1] : tensor<4xf32> to tensor<2xf32>
  %dot = linalg.dot ins(%part, %x : tensor<2xf32>, tensor<2xf32>) outs(%zero : tensor<f32>) -> tensor<f32>
  %e = tensor.empty() : tensor<f32>
  %loss = linalg.add ins(%dot, %count : tensor<f32>, tensor<f32>) outs(%e : tensor<f32>) -> tensor<f32>
  %e4 = tensor.empty() : tensor<4xf32>
  %y = linalg.add ins(%w, %w : tensor<4xf32>, tensor<4xf32>) outs(%e4 : tensor<4xf32>) -> tensor<4xf32>
  return %loss, %y : tensor<f32>, tensor<4xf32>
}
