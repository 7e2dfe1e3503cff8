// Element types, and parameters and buffers that are treated otherwise.
//
// RUN: fsdp-opt %S/Inputs/two-blocks.mlir --allow-unregistered-dialect --fsdp-assign-units -o %t
// RUN: fsdp-opt %t --allow-unregistered-dialect --fsdp-flatten-parameters='param-dtype=bf16 reduce-dtype=f32' | FileCheck %s --check-prefix=BOTH
// RUN: fsdp-opt %t --allow-unregistered-dialect --fsdp-flatten-parameters='param-dtype=f16' | FileCheck %s --check-prefix=PARAM
// RUN: fsdp-opt %t --allow-unregistered-dialect --fsdp-flatten-parameters='reduce-dtype=bf16' | FileCheck %s --check-prefix=REDUCE
// RUN: fsdp-opt %t --allow-unregistered-dialect --fsdp-flatten-parameters='buffer-dtype=bf16' | FileCheck %s --check-prefix=BUFFER
// RUN: fsdp-opt %t --allow-unregistered-dialect --fsdp-flatten-parameters='buffer-dtype=f32' 2> %t.same | FileCheck %s --check-prefix=SAME
// RUN: FileCheck %s --check-prefix=NOTHING < %t.same
// RUN: fsdp-opt %t --allow-unregistered-dialect --fsdp-flatten-parameters='param-dtype=bf16 buffer-dtype=bf16 ignore=blocks.1.*,norm.*' 2> %t.ignored | FileCheck %s --check-prefix=IGNORE
// RUN: FileCheck %s --check-prefix=NOTHING < %t.ignored
// NOTHING: warning: buffer-dtype {{.*}} changes nothing: no buffer that is not ignored has floats of more bits
// RUN: fsdp-opt %t --allow-unregistered-dialect --fsdp-flatten-parameters='replicate=*.bias,head.weight' | FileCheck %s --check-prefix=REPLICATE
// RUN: fsdp-opt %t --allow-unregistered-dialect --fsdp-flatten-parameters='replicate=* ignore=blocks.0.*' | FileCheck %s --check-prefix=PRECEDENCE

// BOTH: @root {{.*}} state f32 gather bf16 reduce f32
// BOTH: @blocks.0 {{.*}} state f32 gather bf16 reduce f32
// The members keep the traced type: the step computes in it.
// BOTH: <"blocks.0.weight", tensor<4x7xf32> at 0
// BOTH: fsdp.unshard %{{.*}} for forward : <@root, f32> -> <@root, bf16>
// BOTH: fsdp.member %{{.*}}["embed.weight"] : <@root, bf16> -> tensor<8x4xf32>

// As in FSDP, gradients are reduced in the type that is gathered.
// PARAM:  @blocks.0 {{.*}} state f32 gather f16 reduce f16
// REDUCE: @blocks.0 {{.*}} state f32 gather f32 reduce bf16

// A buffer is rounded to the type where it is read; what is kept is not, and
// integers stay.
// BUFFER:      fsdp.state @buffer.norm.running_mean buffer "norm.running_mean" : tensor<4xf32>
// BUFFER-NEXT: fsdp.state @buffer.mask buffer "mask" : tensor<2xi64>
// BUFFER:      fsdp.program @train(
// BUFFER-SAME:   %[[MEAN:[a-z0-9]+]]: tensor<4xf32> {fsdp.state = @buffer.norm.running_mean}
// BUFFER-SAME:   tensor<2xi64> {fsdp.state = @buffer.mask}
// BUFFER-SAME: -> ({{.*}}, tensor<4xf32> {fsdp.state = @buffer.norm.running_mean})
// BUFFER:        %[[NARROW:.*]] = linalg.generic {{.*}} ins(%[[MEAN]] : tensor<4xf32>) outs(%{{.*}} : tensor<4xbf16>)
// BUFFER:          arith.truncf
// BUFFER:        %[[ROUNDED:.*]] = linalg.generic {{.*}} ins(%[[NARROW]] : tensor<4xbf16>) outs(%{{.*}} : tensor<4xf32>)
// BUFFER:          arith.extf
// BUFFER:        %[[NORM:.*]]:2 = "nn.norm"(%{{.*}}, %[[ROUNDED]])
// BUFFER:        "nn.norm_grad"(%{{.*}}, %{{.*}}, %[[ROUNDED]])
// BUFFER:        return {{.*}}, %[[NORM]]#1 :
// SAME-NOT:    linalg.generic

// What is ignored is left alone: whole, neither cast nor reduced.
// IGNORE:      @blocks.0 on @mesh shard ["shard"] {{.*}} gather bf16 reduce bf16
// IGNORE:      @blocks.1.ignored on @mesh shard [] replicate [] state f32 gather f32 reduce f32 numel 64 [
// IGNORE-NEXT:   "blocks.1.weight"
// IGNORE-NEXT:   "blocks.1.bias"
// IGNORE-NEXT: ] {keep, trainable, unit = "blocks.1"}
// IGNORE:      tensor<4xf32> {fsdp.state = @buffer.norm.running_mean}
// IGNORE-SAME: -> ({{.*}}tensor<4xf32> {fsdp.state = @buffer.norm.running_mean}
// IGNORE-NOT:  linalg.generic

// A parameter is matched by any of its names; replicated ones of a unit are a
// flat parameter of their own.
// REPLICATE:      @root.replicated on @mesh shard [] replicate ["shard"] {{.*}} numel 32 [
// REPLICATE:      @blocks.0 on @mesh shard ["shard"] replicate [] {{.*}} numel 64 [
// REPLICATE-NEXT:   "blocks.0.weight"
// REPLICATE-NEXT: ] {trainable
// REPLICATE:      @blocks.0.replicated on @mesh shard [] replicate ["shard"] {{.*}} numel 32 [
// REPLICATE-NEXT:   "blocks.0.bias"
// REPLICATE-NEXT: ] {keep, trainable, unit = "blocks.0"}

// Ignoring is the stronger word.
// PRECEDENCE: @root.replicated
// PRECEDENCE: @blocks.0.ignored
// PRECEDENCE: @blocks.1.replicated
