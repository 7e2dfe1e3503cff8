// Ranks report the mean of their losses and the norm of the whole gradient. The
// kernel that ends the norm updates a shard besides. Of what is not reduced, the mean counts.
//
// RUN: fsdp-opt %s --fsdp-verify-schedule
// RUN: sed 's/all_reduce %l on @mesh."replicate", "shard"./all_reduce %l on @mesh["shard"]/' %s | not fsdp-opt --fsdp-verify-schedule 2>&1 | FileCheck %s --check-prefix=SOME
// RUN: sed 's/divisor 4/divisor 8/' %s | not fsdp-opt --fsdp-verify-schedule 2>&1 | FileCheck %s --check-prefix=MEAN
// RUN: sed '/all_reduce %l/d; s/return %m/return %l/' %s | not fsdp-opt --fsdp-verify-schedule 2>&1 | FileCheck %s --check-prefix=LOSS
// RUN: sed '/all_reduce %q/d; s/@root(%r/@root(%q/' %s | not fsdp-opt --fsdp-verify-schedule 2>&1 | FileCheck %s --check-prefix=NORM
// RUN: sed 's/shard ."shard". replicate/shard [] replicate/; s/replicate ."replicate"./replicate []/; s/numel 128/numel 64/; s/tensor<128xf32> at 0/tensor<64xf32> at 0/; /all_reduce %q/ s/"shard"]/"replicate", "shard"] divisor 4/' %s | fsdp-opt --fsdp-verify-schedule
// RUN: sed 's/shard ."shard". replicate/shard [] replicate/; s/replicate ."replicate"./replicate []/; s/numel 128/numel 64/; s/tensor<128xf32> at 0/tensor<64xf32> at 0/; /all_reduce %q/d; s/@root(%r/@root(%q/' %s | not fsdp-opt --fsdp-verify-schedule 2>&1 | FileCheck %s --check-prefix=OWN
// RUN: sed 's/^  %m = fsdp.all_reduce %l on @mesh."replicate", "shard".* divisor 4 \(.*\)/  %k = fsdp.all_reduce %l on @mesh["replicate"] divisor 5 \1\n  %m = fsdp.all_reduce %k on @mesh["shard"] divisor 3689348814741910324 \1/' %s | not fsdp-opt --fsdp-verify-schedule 2>&1 | FileCheck %s --check-prefix=WIDE
// WIDE: 'fsdp.all_reduce' op expected divisors whose product is below 2^63
// SOME: 'fsdp.all_reduce' op expected a loss that all ranks agree on, got one that differs along 'replicate'
// MEAN: 'fsdp.all_reduce' op expected a sum over 4 ranks to be divided by 4 for a loss, got divisor 8
// LOSS: 'fsdp.launch' op expected a loss that all ranks agree on, got one that differs along 'replicate', 'shard'
// RUN: sed '/all_reduce %q/ s/on @mesh."shard"./& divisor 2/' %s | not fsdp-opt --fsdp-verify-schedule 2>&1 | FileCheck %s --check-prefix=DIVIDED
//
// OWN: 'fsdp.launch' op expected a gradient norm that all ranks agree on, got one that differs along 'replicate', 'shard'
// NORM: 'fsdp.launch' op expected an all_reduce along 'shard' of operand 0, a sum over each rank's shard of 'w', before what is computed of it is no sum, got none
// DIVIDED: 'fsdp.all_reduce' op expected sums over the shards of 'w' not to be divided for a gradient norm, got divisor 2

fsdp.mesh @mesh [#fsdp.axis<"replicate" = 2>, #fsdp.axis<"shard" = 2>]
fsdp.flat_param @w on @mesh shard ["shard"] replicate ["replicate"] state f32 gather f32 reduce f32 numel 128 [
  <"w", tensor<128xf32> at 0 tied [] init {kind = "constant", value = 0.0 : f64}>
] {trainable, unit = ""}
func.func private @loss(%x: tensor<8xf32>, %out: tensor<1xf32>) -> tensor<1xf32> {
  return %out : tensor<1xf32>
}
func.func private @squares(%w: tensor<64xf32>, %out: tensor<1xf32>) -> tensor<1xf32> {
  %zero = arith.constant dense<0.0> : tensor<1xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(o, i) -> (i)>, affine_map<(o, i) -> (o)>], iterator_types = ["parallel", "reduction"]}
      ins(%w : tensor<64xf32>) outs(%zero : tensor<1xf32>) {
  ^bb0(%x: f32, %sum: f32):
    %square = arith.mulf %x, %x : f32
    %next = arith.addf %sum, %square : f32
    linalg.yield %next : f32
  } -> tensor<1xf32>
  %d = bufferization.materialize_in_destination %s in %out : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  return %d : tensor<1xf32>
}
func.func private @root(%q: tensor<1xf32>, %w: tensor<64xf32>, %root: tensor<1xf32>, %new: tensor<64xf32>) -> (tensor<1xf32>, tensor<64xf32>) {
  %r = math.sqrt %q : tensor<1xf32>
  %n = arith.addf %w, %w : tensor<64xf32>
  %dr = bufferization.materialize_in_destination %r in %root : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  %dn = bufferization.materialize_in_destination %n in %new : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %dr, %dn : tensor<1xf32>, tensor<64xf32>
}
fsdp.state @w.param parameter of @w : tensor<64xf32> at 0
fsdp.program @step(%w: tensor<64xf32> {fsdp.state = @w.param, fsdp.offset = 0 : i64}, %x: tensor<8xf32> {fsdp.input = {name = "x"}, fsdp.offset = 256 : i64})
    -> (tensor<1xf32> {fsdp.loss}, tensor<64xf32> {fsdp.state = @w.param}, tensor<1xf32> {fsdp.grad_norm})
    attributes {arena = #fsdp.arena<bytes = 1280, state = 256, inputs = 256, communicated = 768>} {
  %l = fsdp.launch @loss(%x) {fsdp.offsets = array<i64: 512>} : (tensor<8xf32>) -> tensor<1xf32>
  %m = fsdp.all_reduce %l on @mesh["replicate", "shard"] divisor 4 {fsdp.offsets = array<i64: 512>} : tensor<1xf32>
  %q = fsdp.launch @squares(%w) {fsdp.offsets = array<i64: 768>} : (tensor<64xf32>) -> tensor<1xf32>
  %r = fsdp.all_reduce %q on @mesh["shard"] {fsdp.offsets = array<i64: 768>} : tensor<1xf32>
  %n:2 = fsdp.launch @root(%r, %w) tied [-1, 1] {fsdp.offsets = array<i64: 1024, 0>} : (tensor<1xf32>, tensor<64xf32>) -> (tensor<1xf32>, tensor<64xf32>)
  fsdp.return %m, %n#1, %n#0 : tensor<1xf32>, tensor<64xf32>, tensor<1xf32>
}
