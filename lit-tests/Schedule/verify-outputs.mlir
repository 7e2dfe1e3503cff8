// An output of an evaluation, and its loss, is that of a rank's own batch: what other ranks' batches changed would be
// another one on another mesh.
//
// RUN: fsdp-opt %s --fsdp-verify-schedule
// RUN: sed 's/return %l, %y/return %l, %z/' %s | not fsdp-opt --fsdp-verify-schedule 2>&1 | FileCheck %s --check-prefixes=CHECK,OUTPUT
// RUN: sed 's/return %l, %y/return %m, %y/' %s | not fsdp-opt --fsdp-verify-schedule 2>&1 | FileCheck %s --check-prefixes=CHECK,LOSS
// OUTPUT: 'fsdp.launch' op
// LOSS: 'fsdp.all_reduce' op
// CHECK-SAME: expected an output that depends on this rank's batch, got one that depends on those of ranks along 'replicate', 'shard'

fsdp.mesh @mesh [#fsdp.axis<"replicate" = 2>, #fsdp.axis<"shard" = 2>]
func.func private @sum(%x: tensor<8xf32>, %out: tensor<1xf32>) -> tensor<1xf32> {
  return %out : tensor<1xf32>
}
func.func private @scale(%x: tensor<8xf32>, %m: tensor<1xf32>, %out: tensor<8xf32>) -> tensor<8xf32> {
  return %out : tensor<8xf32>
}
fsdp.program eval @evaluate(%x: tensor<8xf32> {fsdp.input = {name = "x"}, fsdp.offset = 0 : i64})
    -> (tensor<1xf32> {fsdp.loss}, tensor<8xf32> {fsdp.output = {name = "y"}})
    attributes {arena = #fsdp.arena<bytes = 1280, inputs = 256, communicated = 512, transient = 512>} {
  %l = fsdp.launch @sum(%x) {fsdp.offsets = array<i64: 256>} : (tensor<8xf32>) -> tensor<1xf32>
  %y = fsdp.launch @scale(%x, %l) {fsdp.offsets = array<i64: 768>} : (tensor<8xf32>, tensor<1xf32>) -> tensor<8xf32>
  %m = fsdp.all_reduce %l on @mesh["replicate", "shard"] divisor 4 {fsdp.offsets = array<i64: 512>} : tensor<1xf32>
  %z = fsdp.launch @scale(%x, %m) {fsdp.offsets = array<i64: 1024>} : (tensor<8xf32>, tensor<1xf32>) -> tensor<8xf32>
  fsdp.return %l, %y : tensor<1xf32>, tensor<8xf32>
}
