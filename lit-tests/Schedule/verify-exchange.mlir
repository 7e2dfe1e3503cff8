// A gradient's parts go to the ranks whose shard they are of, and a kernel there
// adds them up, over a dimension or one by one; then replicas' are added.
//
// RUN: fsdp-opt %s --fsdp-verify-schedule
// RUN: sed 's/@sum(%got)/@sum_views(%got)/' %s | fsdp-opt --fsdp-verify-schedule
// RUN: sed '/%got = / s/ divisor 2//' %s | not fsdp-opt --fsdp-verify-schedule 2>&1 | FileCheck %s --check-prefix=DIVISOR
// RUN: sed '/%got = / s/ divisor 2//; /%a = / s/divisor 2/divisor 4/' %s | fsdp-opt --fsdp-verify-schedule
// RUN: sed '/all_reduce/d; s/update(%w, %a)/update(%w, %r)/' %s | not fsdp-opt --fsdp-verify-schedule 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: sed 's/all_to_all %d on @mesh."shard"./all_to_all %d on @mesh["replicate"]/' %s | not fsdp-opt --fsdp-verify-schedule 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: sed 's/^  %got = \(.*\)1536\(.*\)/  %q = \1512\2/; s/^  %r = /  %got = fsdp.all_to_all %q on @mesh["shard"] {fsdp.offsets = array<i64: 1536>} : tensor<128xf32>\n&/' %s | not fsdp-opt --fsdp-verify-schedule 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: sed '/%got = / s/i64: 1536/i64: 1280/' %s | not fsdp-opt --fsdp-verify-schedule 2>&1 | FileCheck %s --check-prefix=APART
//
// DIVISOR: 'fsdp.all_reduce' op expected a sum over 4 ranks to be divided by 4 for a shard of 'w', got divisor 2
// MISSING: expected gradients that are reduced along all axes before they update a shard of 'w', got ones that differ along 'replicate'
// OTHER: expected gradients that are reduced along all axes before they update a shard of 'w', got ones that differ along 'shard'
// TWICE: 'fsdp.all_to_all' op expected to reduce what differs along 'shard', got what is reduced along 'shard' already
// APART: expected all_to_all (op 3) to read and write apart
//
// It is planned as a transfer of the queue of reductions, for the unit of the
// shard that the sum updates.
//
// RUN: fsdp-opt %s --pass-pipeline='builtin.module(fsdp.program(fsdp-plan-arena,fsdp-schedule-step{cluster=%clusters/h100-sxm.json},fsdp-plan-arena,fsdp-verify-schedule))' | FileCheck %s --check-prefix=PLANNED
//
// PLANNED: %[[START:.*]] = fsdp.start({{.*}}) on reduce event 1
// PLANNED:   fsdp.all_to_all %{{.*}} on @mesh["shard"] divisor 2
// PLANNED: %[[PARTS:.*]] = fsdp.wait %[[START]]
// PLANNED: fsdp.launch @sum(%[[PARTS]])

fsdp.mesh @mesh [#fsdp.axis<"replicate" = 2>, #fsdp.axis<"shard" = 2>]
fsdp.flat_param @w on @mesh shard ["shard"] replicate ["replicate"] state f32 gather f32 reduce f32 numel 128 [
  <"w", tensor<128xf32> at 0 tied [] init {kind = "constant", value = 0.0 : f64}>
] {trainable, unit = ""}
func.func private @grad(%w: tensor<128xf32>, %x: tensor<8xf32>, %out: tensor<128xf32>) -> tensor<128xf32> {
  return %out : tensor<128xf32>
}
func.func private @sum(%got: tensor<128xf32>, %out: tensor<64xf32>) -> tensor<64xf32> {
  %zero = arith.constant 0.0 : f32
  %half = arith.constant 0.5 : f32
  %rows = tensor.expand_shape %got [[0, 1]] output_shape [2, 64] : tensor<128xf32> into tensor<2x64xf32>
  %empty = tensor.empty() : tensor<64xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<64xf32>) -> tensor<64xf32>
  %sum = linalg.generic {indexing_maps = [affine_map<(i, r) -> (r, i)>, affine_map<(i, r) -> (i)>], iterator_types = ["parallel", "reduction"]}
      ins(%rows : tensor<2x64xf32>) outs(%init : tensor<64xf32>) {
  ^bb0(%in: f32, %so_far: f32):
    %scaled = arith.mulf %in, %half : f32
    %next = arith.addf %so_far, %scaled : f32
    linalg.yield %next : f32
  } -> tensor<64xf32>
  %placed = bufferization.materialize_in_destination %sum in %out : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %placed : tensor<64xf32>
}
func.func private @sum_views(%got: tensor<128xf32>, %out: tensor<64xf32>) -> tensor<64xf32> {
  %first = tensor.extract_slice %got[0] [64] [1] : tensor<128xf32> to tensor<64xf32>
  %second = tensor.extract_slice %got[64] [64] [1] : tensor<128xf32> to tensor<64xf32>
  %half = arith.constant dense<0.5> : tensor<64xf32>
  %sum = arith.addf %first, %second : tensor<64xf32>
  %mean = arith.mulf %sum, %half : tensor<64xf32>
  %placed = bufferization.materialize_in_destination %mean in %out : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %placed : tensor<64xf32>
}
func.func private @update(%w: tensor<64xf32>, %g: tensor<64xf32>, %out: tensor<64xf32>) -> tensor<64xf32> {
  %new = arith.addf %w, %g : tensor<64xf32>
  %placed = bufferization.materialize_in_destination %new in %out : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %placed : tensor<64xf32>
}
fsdp.state @w.param parameter of @w : tensor<64xf32> at 0
fsdp.program @step(%w: tensor<64xf32> {fsdp.state = @w.param, fsdp.offset = 0 : i64}, %x: tensor<8xf32> {fsdp.input = {name = "x"}, fsdp.offset = 256 : i64}) -> (tensor<64xf32> {fsdp.state = @w.param})
    attributes {arena = #fsdp.arena<bytes = 2048, state = 256, inputs = 256, communicated = 1536>} {
  %g = fsdp.all_gather %w on @mesh["shard"] for forward {fsdp.offsets = array<i64: 512>} : tensor<64xf32> -> tensor<128xf32>
  %d = fsdp.launch @grad(%g, %x) {fsdp.offsets = array<i64: 1024>} : (tensor<128xf32>, tensor<8xf32>) -> tensor<128xf32>
  %got = fsdp.all_to_all %d on @mesh["shard"] divisor 2 {fsdp.offsets = array<i64: 1536>} : tensor<128xf32>
  %r = fsdp.launch @sum(%got) {fsdp.offsets = array<i64: 1024>} : (tensor<128xf32>) -> tensor<64xf32>
  %a = fsdp.all_reduce %r on @mesh["replicate"] divisor 2 {fsdp.offsets = array<i64: 1024>} : tensor<64xf32>
  %n = fsdp.launch @update(%w, %a) {tied = array<i64: 0>, fsdp.offsets = array<i64: 0>} : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  fsdp.return %n : tensor<64xf32>
}
