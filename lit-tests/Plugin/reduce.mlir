// fsdp-reduce keeps what the test asks for and drops the rest.
// RUN: fsdp-reduce %s -reduction-tree='traversal-mode=0 test=%S/Inputs/has-reduce-scatter.sh' -o %t
// RUN: FileCheck %s --input-file=%t
// RUN: fsdp-opt %t | FileCheck %s

// CHECK-NOT: @unrelated
// CHECK: fsdp.mesh
// CHECK-NOT: @unrelated
// CHECK: fsdp.reduce_scatter
// CHECK-NOT: @unrelated

func.func @unrelated_add(%a: f32) -> f32 {
  %0 = arith.addf %a, %a : f32
  return %0 : f32
}

func.func @unrelated_gather(%shard: tensor<4xf32>) -> tensor<8xf32> {
  %0 = fsdp.all_gather %shard on @mesh["shard"] for forward : tensor<4xf32> -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]

func.func @wanted(%grad: tensor<8xf32>) -> tensor<4xf32> {
  %0 = fsdp.reduce_scatter %grad on @mesh["shard"] : tensor<8xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
