// A shard is gathered, its gradient reduced over both axes and the shard updated.
// A sum that is divided once for each axis, or misses one, is refused
// (pytorch/pytorch#106034).
//
// RUN: fsdp-opt %s --fsdp-verify-schedule
// RUN: sed 's/all_reduce %r on @mesh."replicate"./all_reduce %r on @mesh["shard"]/' %s | not fsdp-opt --fsdp-verify-schedule 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: sed 's/all_reduce %r on @mesh."replicate"./all_reduce %r on @mesh["replicate", "shard"]/' %s | not fsdp-opt --fsdp-verify-schedule 2>&1 | FileCheck %s --check-prefix=BOTH
// RUN: sed 's/all_gather %w on @mesh."shard"./all_gather %w on @mesh["replicate"]/' %s | not fsdp-opt --fsdp-verify-schedule 2>&1 | FileCheck %s --check-prefix=GATHER
// RUN: sed 's/^  %a = /  %b = /; s/^  %n = /  %a = fsdp.all_reduce %b on @mesh["replicate"] {fsdp.offsets = array<i64: 1536>} : tensor<64xf32>\n  %n = /' %s | not fsdp-opt --fsdp-verify-schedule 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: sed '/all_reduce/d; s/update(%w, %a)/update(%w, %r)/' %s | not fsdp-opt --fsdp-verify-schedule 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: sed 's/divisor 4/divisor 2/' %s | not fsdp-opt --fsdp-verify-schedule 2>&1 | FileCheck %s --check-prefix=DIVISOR
// RUN: sed 's/^  %a = \(.*\)/  %b = \1\n  %a = fsdp.all_reduce %b on @mesh["shard"] {fsdp.offsets = array<i64: 1536>} : tensor<64xf32>/' %s | not fsdp-opt --fsdp-verify-schedule 2>&1 | FileCheck %s --check-prefix=OTHER
//
// OTHER: 'fsdp.all_reduce' op expected to add up what ranks computed of their shards along 'shard', got the shards of 'w'
// BOTH: 'fsdp.all_reduce' op expected to reduce batches or shards, not both along 'replicate', 'shard', got shards along 'shard'
// GATHER: 'fsdp.all_gather' op expected to gather what is sharded along 'replicate', got shards along 'shard'
// TWICE: 'fsdp.all_reduce' op expected to reduce what differs along 'replicate', got what is reduced along 'replicate', 'shard' already
// DIVISOR: 'fsdp.all_reduce' op expected a sum over 4 ranks to be divided by 4 for a shard of 'w', got divisor 2
// MISSING: expected gradients that are reduced along all axes before they update a shard of 'w', got ones that differ along 'replicate'
//
// A step has one mesh, whoever reads it: no other one's sizes say what is right.
//
// RUN: sed 's/^fsdp.mesh /fsdp.mesh @first [#fsdp.axis<"replicate" = 3>, #fsdp.axis<"shard" = 2>]\n&/' %s > %t
// RUN: not fsdp-opt %t --fsdp-verify-schedule 2>&1 | FileCheck %s --check-prefix=MESHES
// RUN: not fsdp-opt %t --pass-pipeline='builtin.module(fsdp.program(fsdp-plan-arena,fsdp-plan-step{cluster=%clusters/h100-sxm.json}))' 2>&1 | FileCheck %s --check-prefix=MESHES
// RUN: not fsdp-opt %t --pass-pipeline='builtin.module(fsdp.program(fsdp-plan-arena,fsdp-schedule-step{order=in_order}))' 2>&1 | FileCheck %s --check-prefix=MESHES
//
// MESHES: 'fsdp.mesh' op expected one mesh, got a second: @mesh
// MESHES: note: the first one is here

fsdp.mesh @mesh [#fsdp.axis<"replicate" = 2>, #fsdp.axis<"shard" = 2>]
fsdp.flat_param @w on @mesh shard ["shard"] replicate ["replicate"] state f32 gather f32 reduce f32 numel 128 [
  <"w", tensor<128xf32> at 0 tied [] init {kind = "constant", value = 0.0 : f64}>
] {trainable, unit = ""}
func.func private @grad(%w: tensor<128xf32>, %x: tensor<8xf32>, %out: tensor<128xf32>) -> tensor<128xf32> {
  return %out : tensor<128xf32>
}
func.func private @update(%w: tensor<64xf32>, %g: tensor<64xf32>, %out: tensor<64xf32>) -> tensor<64xf32> {
  %new = arith.addf %w, %g : tensor<64xf32>
  %placed = bufferization.materialize_in_destination %new in %out : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %placed : tensor<64xf32>
}
fsdp.state @w.param parameter of @w : tensor<64xf32> at 0
fsdp.program @step(%w: tensor<64xf32> {fsdp.state = @w.param, fsdp.offset = 0 : i64}, %x: tensor<8xf32> {fsdp.input = {name = "x"}, fsdp.offset = 256 : i64}) -> (tensor<64xf32> {fsdp.state = @w.param})
    attributes {arena = #fsdp.arena<bytes = 1792, state = 256, inputs = 256, communicated = 1280>} {
  %g = fsdp.all_gather %w on @mesh["shard"] for forward {fsdp.offsets = array<i64: 512>} : tensor<64xf32> -> tensor<128xf32>
  %d = fsdp.launch @grad(%g, %x) {fsdp.offsets = array<i64: 1024>} : (tensor<128xf32>, tensor<8xf32>) -> tensor<128xf32>
  %r = fsdp.reduce_scatter %d on @mesh["shard"] {fsdp.offsets = array<i64: 1536>} : tensor<128xf32> -> tensor<64xf32>
  %a = fsdp.all_reduce %r on @mesh["replicate"] divisor 4 {fsdp.offsets = array<i64: 1536>} : tensor<64xf32>
  %n = fsdp.launch @update(%w, %a) {tied = array<i64: 0>, fsdp.offsets = array<i64: 0>} : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  fsdp.return %n : tensor<64xf32>
}
