// RUN: fsdp-opt %s --fsdp-assign-reduction-hooks="hook=powersgd:rank=2,epsilon=1e-8" | FileCheck %s
// RUN: fsdp-opt %s -o %t.plain
// RUN: fsdp-opt %s --fsdp-assign-reduction-hooks | diff - %t.plain
// RUN: fsdp-opt %s --fsdp-assign-reduction-hooks=hook=bf16 | diff - %t.plain

// bf16 is the reduce type, which fsdp-flatten-parameters writes.
// RUN: fsdp-opt %fixtures/mixed/model.mlir --fsdp-partition='mesh=shard=2 reduction-hook=bf16' -o %t.hook
// RUN: fsdp-opt %fixtures/mixed/model.mlir --fsdp-partition='mesh=shard=2 reduce-dtype=bf16' | diff - %t.hook
// RUN: fsdp-opt %fixtures/mixed/model.mlir --fsdp-partition='mesh=shard=2 reduction-hook=fp16' -o %t.hook
// RUN: fsdp-opt %fixtures/mixed/model.mlir --fsdp-partition='mesh=shard=2 reduce-dtype=f16' | diff - %t.hook
// RUN: not fsdp-opt %s --fsdp-assign-reduction-hooks='hook=bf16 reduce-dtype=f32' 2>&1 | FileCheck %s --check-prefix=TWO
// TWO: error: expected no reduce-dtype beside reduction-hook bf16, which is reduce-dtype bf16, got f32

// RUN: not fsdp-opt %s --fsdp-assign-reduction-hooks=hook=powersdg 2>&1 | FileCheck %s --check-prefix=NAME
// NAME: error: reduction hook 'powersdg': expected one of bf16, fp16, powersgd, or of a plugin that is loaded
// RUN: not fsdp-opt %s --fsdp-assign-reduction-hooks=hook=powersgd:rank=0 2>&1 | FileCheck %s --check-prefix=RANK
// RANK: error: reduction hook 'powersgd': expected a rank from 1 to 16, got '0'
// RUN: not fsdp-opt %s --fsdp-assign-reduction-hooks=hook=powersgd:rank=1,rank=2 2>&1 | FileCheck %s --check-prefix=TWICE
// TWICE: error: reduction hook 'powersgd': expected rank once, got it twice
// RUN: not fsdp-opt %s --fsdp-assign-reduction-hooks=hook=powersgd:start-iter=10 2>&1 | FileCheck %s --check-prefix=START
// START: error: reduction hook 'powersgd': expected no start-iter, got '10': a program reduces alike in all steps; train the first ones by one without the hook, and --resume by one with it
// RUN: not fsdp-opt %s --fsdp-assign-reduction-hooks=hook=powersgd: 2>&1 | FileCheck %s --check-prefix=EMPTY
// EMPTY: error: reduction hook 'powersgd': expected KEY=VALUE after ':', got none
// RUN: not fsdp-opt %s --fsdp-assign-reduction-hooks=hook=powersgd:warm 2>&1 | FileCheck %s --check-prefix=PAIR
// PAIR: error: reduction hook 'powersgd': expected KEY=VALUE, got 'warm'
// RUN: not fsdp-opt %s --fsdp-assign-reduction-hooks=hook=powersgd:warm-start=true 2>&1 | FileCheck %s --check-prefix=KEY
// KEY: error: reduction hook 'powersgd': expected rank, min-compression-rate, epsilon or error-feedback before '=', got 'warm-start'

// RUN: not fsdp-opt %s --fsdp-assign-reduction-hooks=hook=powersgd:epsilon=1e300 2>&1 | FileCheck %s --check-prefix=LARGE
// LARGE: error: reduction hook 'powersgd': expected an epsilon from 0 to 1, got '1e300'
// RUN: not fsdp-opt %s --fsdp-assign-reduction-hooks=hook=bf16:x=1 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: error: reduction hook 'bf16': expected no options, got 'x=1'

// What it keeps would be in the unit of the gradients.
// RUN: not fsdp-opt %s --fsdp-assign-reduction-hooks='hook=powersgd loss-scale=1024' 2>&1 | FileCheck %s --check-prefix=SCALE
// SCALE: error: {{.*}}expected no loss-scale beside reduction-hook powersgd, got 1024: what the hook keeps of gradients would be in that unit, and a resumed run may have another
// RUN: not fsdp-opt %s --fsdp-assign-reduction-hooks='hook=powersgd gradient-divide-factor=3' 2>&1 | FileCheck %s --check-prefix=FACTOR
// FACTOR: error: {{.*}}expected no gradient-divide-factor beside reduction-hook powersgd, got 3

// What has shards alone, or pieces, has nothing that this hook could reduce.
// RUN: not fsdp-opt %fixtures/mixed/model.mlir --fsdp-partition='mesh=shard=2 reduction-hook=powersgd' 2>&1 | FileCheck %s --check-prefix=SHARDS
// SHARDS: error: expected replicas to reduce over beside reduction-hook powersgd, got unit '{{.*}}' with shards alone: a reduce_scatter leaves a rank the mean of its piece, and nothing that a hook could reduce
// SHARDS: note: {{.*}}the mesh is here
// RUN: not fsdp-opt %fixtures/mixed/model.mlir --fsdp-partition='mesh=shard=1 reduction-hook=powersgd' 2>&1 | FileCheck %s --check-prefix=ONE
// ONE: error: expected replicas to reduce over beside reduction-hook powersgd, got unit '{{.*}}' on one rank
// RUN: not fsdp-opt %fixtures/mixed/model.mlir --fsdp-partition='mesh=shard=2,replicate=2 reduction-hook=powersgd' 2>&1 | FileCheck %s --check-prefix=PIECES
// PIECES: error: reduction hook 'powersgd': expected strategy no_shard, with the gradients of whole matrices on each rank, got pieces of '{{.*}}', which cut through rows

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// CHECK: fsdp.flat_param @a
// CHECK: ] {reduction_hook = "powersgd:rank=2,epsilon=1e-8", trainable, unit = "a"}
fsdp.flat_param @a on @mesh shard [] replicate ["shard"] state f32 gather f32 reduce f32 numel 256 [
  <"a.w", tensor<16x16xf32> at 0>] {trainable, unit = "a"}
// What is frozen, or each rank's own, is not reduced.
// CHECK: fsdp.flat_param @frozen
// CHECK: ] {unit = "b"}
fsdp.flat_param @frozen on @mesh shard ["shard"] replicate [] state f32 gather f32 reduce f32 numel 64 [
  <"b.w", tensor<4xf32> at 0>] {unit = "b"}
// CHECK: fsdp.flat_param @own
// CHECK: ] {trainable, unit = "c"}
fsdp.flat_param @own on @mesh shard [] replicate [] state f32 gather f32 reduce f32 numel 64 [
  <"c.w", tensor<4xf32> at 0>] {trainable, unit = "c"}
