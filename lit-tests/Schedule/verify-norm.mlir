// The norm of two gradients, by which both are clipped. One is sharded: its
// squares are added up over ranks before they meet those of the other, which is
// whole on every rank, and counts once (pytorch/pytorch#88955).
//
// RUN: fsdp-opt %s --fsdp-verify-schedule
// RUN: sed '/all_reduce %qa/d; s/@norm(%ra, /@norm(%qa, /' %s | not fsdp-opt --fsdp-verify-schedule 2>&1 | FileCheck %s --check-prefix=FIRST
// RUN: sed '/all_reduce %qa/d; s/@norm(%ra, %qb)/@norm(%qb, %qa)/' %s | not fsdp-opt --fsdp-verify-schedule 2>&1 | FileCheck %s --check-prefix=SECOND
// RUN: sed '/all_reduce %qa/d; s/@norm(%ra, %qb)/@norm(%qa, %qa)/' %s | not fsdp-opt --fsdp-verify-schedule 2>&1 | FileCheck %s --check-prefix=ROOT
// RUN: sed 's/@norm(%ra, %qb)/@norm(%ra, %ra)/' %s | not fsdp-opt --fsdp-verify-schedule 2>&1 | FileCheck %s --check-prefix=COUNTED
// RUN: sed 's/@update(%a, %ga, %n#1)/@update(%a, %ga, %qa)/' %s | not fsdp-opt --fsdp-verify-schedule 2>&1 | FileCheck %s --check-prefix=SCALE
//
// FIRST: 'fsdp.launch' op expected an all_reduce along 'shard' of operand 0, a sum over each rank's shard of 'a', before it meets operand 1, which needs none, got none
// FIRST: note: the operand is made here
// SECOND: 'fsdp.launch' op expected an all_reduce along 'shard' of operand 1, a sum over each rank's shard of 'a', before it meets operand 0, which needs none, got none
// ROOT: 'fsdp.launch' op expected an all_reduce along 'shard' of operand 0, a sum over each rank's shard of 'a', before what is computed of it is no sum, got none
// COUNTED: 'fsdp.launch' op expected a gradient norm that counts every gradient of the step, got one without that of 'b'
// COUNTED: note: it is reduced here
// SCALE: 'fsdp.launch' op expected an all_reduce along 'shard' of operand 2, a sum over each rank's shard of 'a', before it meets operand 1, which needs none, got none
//
// Two sums that are divided by different wrong numbers, in both orders; and one.
//
// RUN: sed '/%ga = / s/divisor 2/divisor 4/; /%gb = / s/divisor 2/divisor 8/' %s | not fsdp-opt --fsdp-verify-schedule 2>&1 | FileCheck %s --check-prefix=SUMS
// RUN: sed '/%ga = / s/divisor 2/divisor 4/; /%gb = / s/divisor 2/divisor 8/; s/@norm(%ra, %qb)/@norm(%qb, %ra)/' %s | not fsdp-opt --fsdp-verify-schedule 2>&1 | FileCheck %s --check-prefix=SWAPPED
// RUN: sed '/%gb = / s/divisor 2/divisor 3/' %s | not fsdp-opt --fsdp-verify-schedule 2>&1 | FileCheck %s --check-prefix=DIVISOR
//
// SUMS: 'fsdp.launch' op expected sums that are divided alike, got operand 0 with divisor 4 of 2 ranks and operand 1 with divisor 8 of 2 ranks
// SWAPPED: 'fsdp.launch' op expected sums that are divided alike, got operand 1 with divisor 4 of 2 ranks and operand 0 with divisor 8 of 2 ranks
// DIVISOR: 'fsdp.all_reduce' op expected a sum over 2 ranks to be divided by 2 for a shard of 'a', got divisor 3
//
// Collectives in another type than the flat parameter declares.
//
// RUN: sed '/param @a/s/reduce f32/reduce bf16/' %s | not fsdp-opt --fsdp-verify-schedule 2>&1 | FileCheck %s --check-prefix=REDUCE
// RUN: sed '/param @b/s/reduce f32/reduce bf16/' %s | not fsdp-opt --fsdp-verify-schedule 2>&1 | FileCheck %s --check-prefix=REDUCEB
// RUN: sed '/param @a/s/state f32 gather f32/state f64 gather f64/' %s | not fsdp-opt --fsdp-verify-schedule 2>&1 | FileCheck %s --check-prefix=GATHER
//
// REDUCE: 'fsdp.reduce_scatter' op expected a reduction of 'bf16' for 'a', as that declares, got one of 'f32'
// REDUCE: note: the flat parameter is here
// REDUCEB: 'fsdp.all_reduce' op expected a reduction of 'bf16' for 'b', as that declares, got one of 'f32'
// GATHER: expected a gather of 'f64' for 'a', as that declares, got one of 'f32'
//
// The sum of floats' bits is no sum of theirs.
//
// RUN: sed 's/bytes = 4096/bytes = 4608/; s/communicated = 3328/communicated = 3840/; /^  %ra = /{s/%ra = \(.*\) %qa \(.*\)3328>\(.*\)f32>/%ia = fsdp.launch @to_bits(%qa) {fsdp.offsets = array<i64: 4096>} : (tensor<f32>) -> tensor<i32>\n  %ib = \1 %ia \24352>\3i32>\n  %ra = fsdp.launch @from_bits(%ib) {fsdp.offsets = array<i64: 3328>} : (tensor<i32>) -> tensor<f32>/}' %s | not fsdp-opt --fsdp-verify-schedule 2>&1 | FileCheck %s --check-prefix=BITS
//
// BITS: 'fsdp.launch' op expected an all_reduce along 'shard' of operand 0, a sum over each rank's shard of 'a', before what is computed of it is no sum, got none

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @a on @mesh shard ["shard"] replicate [] state f32 gather f32 reduce f32 numel 128 [
  <"a", tensor<128xf32> at 0 tied [] init {kind = "constant", value = 0.0 : f64}>
] {trainable, unit = "a"}
fsdp.flat_param @b on @mesh shard [] replicate ["shard"] state f32 gather f32 reduce f32 numel 64 [
  <"b", tensor<64xf32> at 0 tied [] init {kind = "constant", value = 0.0 : f64}>
] {trainable, unit = "b"}
func.func private @backward(%a: tensor<128xf32>, %b: tensor<64xf32>, %x: tensor<64xf32>, %da: tensor<128xf32>, %db: tensor<64xf32>) -> (tensor<128xf32>, tensor<64xf32>) {
  return %da, %db : tensor<128xf32>, tensor<64xf32>
}
func.func private @squares(%g: tensor<64xf32>, %out: tensor<f32>) -> tensor<f32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<f32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<f32>) -> tensor<f32>
  %sum = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>], iterator_types = ["reduction"]}
      ins(%g : tensor<64xf32>) outs(%init : tensor<f32>) {
  ^bb0(%in: f32, %so_far: f32):
    %square = arith.mulf %in, %in : f32
    %next = arith.addf %so_far, %square : f32
    linalg.yield %next : f32
  } -> tensor<f32>
  %placed = bufferization.materialize_in_destination %sum in %out : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %placed : tensor<f32>
}
func.func private @to_bits(%x: tensor<f32>, %out: tensor<i32>) -> tensor<i32> {
  %bits = arith.bitcast %x : tensor<f32> to tensor<i32>
  %placed = bufferization.materialize_in_destination %bits in %out : (tensor<i32>, tensor<i32>) -> tensor<i32>
  return %placed : tensor<i32>
}
func.func private @from_bits(%bits: tensor<i32>, %out: tensor<f32>) -> tensor<f32> {
  %x = arith.bitcast %bits : tensor<i32> to tensor<f32>
  %placed = bufferization.materialize_in_destination %x in %out : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %placed : tensor<f32>
}
func.func private @norm(%first: tensor<f32>, %second: tensor<f32>, %out: tensor<f32>, %scale: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %sum = arith.addf %first, %second : tensor<f32>
  %root = math.sqrt %sum : tensor<f32>
  %one = arith.constant dense<1.0> : tensor<f32>
  %inverse = arith.divf %one, %root : tensor<f32>
  %placed = bufferization.materialize_in_destination %root in %out : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %placed_scale = bufferization.materialize_in_destination %inverse in %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %placed, %placed_scale : tensor<f32>, tensor<f32>
}
func.func private @update(%w: tensor<64xf32>, %g: tensor<64xf32>, %scale: tensor<f32>, %out: tensor<64xf32>) -> tensor<64xf32> {
  %new = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> ()>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%w, %g, %scale : tensor<64xf32>, tensor<64xf32>, tensor<f32>) outs(%out : tensor<64xf32>) {
  ^bb0(%old: f32, %grad: f32, %factor: f32, %unused: f32):
    %clipped = arith.mulf %grad, %factor : f32
    %moved = arith.subf %old, %clipped : f32
    linalg.yield %moved : f32
  } -> tensor<64xf32>
  return %new : tensor<64xf32>
}
fsdp.state @a.param parameter of @a : tensor<64xf32> at 0
fsdp.state @b.param parameter of @b : tensor<64xf32> at 256
fsdp.program @step(%a: tensor<64xf32> {fsdp.state = @a.param, fsdp.offset = 0 : i64}, %b: tensor<64xf32> {fsdp.state = @b.param, fsdp.offset = 256 : i64}, %x: tensor<64xf32> {fsdp.input = {name = "x"}, fsdp.offset = 512 : i64})
    -> (tensor<64xf32> {fsdp.state = @a.param}, tensor<64xf32> {fsdp.state = @b.param}, tensor<f32> {fsdp.grad_norm})
    attributes {arena = #fsdp.arena<bytes = 4096, state = 512, inputs = 256, communicated = 3328>} {
  %w = fsdp.all_gather %a on @mesh["shard"] for forward {fsdp.offsets = array<i64: 1024>} : tensor<64xf32> -> tensor<128xf32>
  %d:2 = fsdp.launch @backward(%w, %b, %x) {fsdp.offsets = array<i64: 1536, 2048>} : (tensor<128xf32>, tensor<64xf32>, tensor<64xf32>) -> (tensor<128xf32>, tensor<64xf32>)
  %ga = fsdp.reduce_scatter %d#0 on @mesh["shard"] divisor 2 {fsdp.offsets = array<i64: 2304>} : tensor<128xf32> -> tensor<64xf32>
  %gb = fsdp.all_reduce %d#1 on @mesh["shard"] divisor 2 {fsdp.offsets = array<i64: 2560>} : tensor<64xf32>
  %qa = fsdp.launch @squares(%ga) {fsdp.offsets = array<i64: 2816>} : (tensor<64xf32>) -> tensor<f32>
  %qb = fsdp.launch @squares(%gb) {fsdp.offsets = array<i64: 3072>} : (tensor<64xf32>) -> tensor<f32>
  %ra = fsdp.all_reduce %qa on @mesh["shard"] {fsdp.offsets = array<i64: 3328>} : tensor<f32>
  %n:2 = fsdp.launch @norm(%ra, %qb) {fsdp.offsets = array<i64: 3584, 3840>} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  %na = fsdp.launch @update(%a, %ga, %n#1) tied [0] {fsdp.offsets = array<i64: 0>} : (tensor<64xf32>, tensor<64xf32>, tensor<f32>) -> tensor<64xf32>
  %nb = fsdp.launch @update(%b, %gb, %n#1) tied [0] {fsdp.offsets = array<i64: 256>} : (tensor<64xf32>, tensor<64xf32>, tensor<f32>) -> tensor<64xf32>
  fsdp.return %na, %nb, %n#0 : tensor<64xf32>, tensor<64xf32>, tensor<f32>
}
