// RUN: split-file %s %t
// RUN: fsdp-opt %S/Inputs/two-blocks.mlir --allow-unregistered-dialect --fsdp-assign-units -o %t/units.mlir
// RUN: fsdp-opt %t/units.mlir --allow-unregistered-dialect --fsdp-flatten-parameters | FileCheck %s --check-prefixes=STEP,TWICE,FULL
// RUN: fsdp-opt %t/units.mlir --allow-unregistered-dialect --fsdp-flatten-parameters='strategy=full_shard' | FileCheck %s --check-prefixes=STEP,TWICE,FULL
// RUN: fsdp-opt %t/units.mlir --allow-unregistered-dialect --fsdp-flatten-parameters='strategy=shard_grad_op' | FileCheck %s --check-prefixes=STEP,ONCE,GRADOP
// RUN: fsdp-opt %t/units.mlir --allow-unregistered-dialect --fsdp-flatten-parameters='strategy=no_shard' | FileCheck %s --check-prefixes=STEP,ONCE,NOSHARD
// RUN: fsdp-opt %t/units.mlir --allow-unregistered-dialect --fsdp-flatten-parameters='mesh=shard=2,replicate=3' | FileCheck %s --check-prefixes=STEP,TWICE,HYBRID
// RUN: fsdp-opt %t/units.mlir --allow-unregistered-dialect --fsdp-flatten-parameters='mesh=replicate=3,shard=2 strategy=hybrid_shard' | FileCheck %s --check-prefixes=STEP,TWICE,HYBRID
// RUN: fsdp-opt %t/units.mlir --allow-unregistered-dialect --fsdp-flatten-parameters='mesh=shard=2,replicate=3 strategy=hybrid_shard_zero2' | FileCheck %s --check-prefixes=STEP,ONCE,ZERO2
// RUN: fsdp-opt %t/units.mlir --allow-unregistered-dialect --fsdp-flatten-parameters='mesh=shard=2,replicate=3 strategy=full_shard' | FileCheck %s --check-prefixes=STEP,TWICE,BOTH
// RUN: fsdp-opt %t/units.mlir --allow-unregistered-dialect --fsdp-flatten-parameters='mesh=shard=2,replicate=3 strategy=no_shard' | FileCheck %s --check-prefixes=STEP,ONCE,NEITHER
// RUN: fsdp-opt %t/units.mlir --allow-unregistered-dialect --fsdp-flatten-parameters='mesh=shard=1' | FileCheck %s --check-prefixes=STEP,TWICE,ALONE

// The strategy's name, the mesh's axes (replicate outermost), and per unit: the
// axes, whether it stays gathered (the root always does), and a length that is
// a multiple of the ranks. A block's weight of 28 elements ends before its
// bias, which begins at a multiple of 32; a rank holds a multiple of 32.

// FULL:        fsdp.strategy = "full_shard"
// FULL:        fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// FULL:        fsdp.flat_param @root on @mesh shard ["shard"] replicate [] state f32 gather f32 reduce f32 numel 64 [
// FULL-NEXT:     <"embed.weight", tensor<8x4xf32> at 0 tied ["head.weight"]>
// FULL-NEXT:   ] {keep, trainable, unit = ""}
// FULL:        fsdp.flat_param @blocks.0 on @mesh shard ["shard"] replicate [] state f32 gather f32 reduce f32 numel 64 [
// FULL-NEXT:     <"blocks.0.weight", tensor<4x7xf32> at 0 init {kind = "constant", value = 0.000000e+00 : f64}>,
// FULL-NEXT:     <"blocks.0.bias", tensor<4xf32> at 32>
// FULL-NEXT:   ] {trainable, unit = "blocks.0"}
// FULL:        fsdp.flat_param @blocks.1
// FULL-NOT:    fsdp.flat_param

// GRADOP:      fsdp.strategy = "shard_grad_op"
// GRADOP:      fsdp.flat_param @root on @mesh shard ["shard"] replicate [] {{.*}} numel 64 [
// GRADOP:      ] {keep, trainable, unit = ""}
// GRADOP:      fsdp.flat_param @blocks.0 on @mesh shard ["shard"] replicate [] {{.*}} numel 64 [
// GRADOP:      ] {keep, trainable, unit = "blocks.0"}
// GRADOP:      ] {keep, trainable, unit = "blocks.1"}

// NOSHARD:     fsdp.strategy = "no_shard"
// NOSHARD:     fsdp.flat_param @root on @mesh shard [] replicate ["shard"] {{.*}} numel 32 [
// NOSHARD:     fsdp.flat_param @blocks.0 on @mesh shard [] replicate ["shard"] {{.*}} numel 64 [
// NOSHARD:     ] {keep, trainable, unit = "blocks.0"}

// HYBRID:      fsdp.strategy = "hybrid_shard"
// HYBRID:      fsdp.mesh @mesh [#fsdp.axis<"replicate" = 3>, #fsdp.axis<"shard" = 2>]
// HYBRID:      fsdp.flat_param @root on @mesh shard ["shard"] replicate ["replicate"] {{.*}} numel 64 [
// HYBRID:      ] {keep, trainable, unit = ""}
// HYBRID:      fsdp.flat_param @blocks.0 on @mesh shard ["shard"] replicate ["replicate"] {{.*}} numel 64 [
// HYBRID:      ] {trainable, unit = "blocks.0"}

// ZERO2:       fsdp.strategy = "hybrid_shard_zero2"
// ZERO2:       fsdp.flat_param @blocks.0 on @mesh shard ["shard"] replicate ["replicate"] {{.*}} numel 64 [
// ZERO2:       ] {keep, trainable, unit = "blocks.0"}

// An explicit full_shard shards over both axes: six pieces of 32.
// BOTH:        fsdp.strategy = "full_shard"
// BOTH:        fsdp.flat_param @root on @mesh shard ["replicate", "shard"] replicate [] {{.*}} numel 192 [
// BOTH:        fsdp.flat_param @blocks.0 on @mesh shard ["replicate", "shard"] replicate [] {{.*}} numel 192 [
// BOTH:        ] {trainable, unit = "blocks.0"}

// NEITHER:     fsdp.flat_param @blocks.0 on @mesh shard [] replicate ["replicate", "shard"] {{.*}} numel 64 [

// ALONE:       fsdp.mesh @mesh [#fsdp.axis<"shard" = 1>]
// ALONE:       fsdp.flat_param @blocks.0 on @mesh shard ["shard"] replicate [] {{.*}} numel 64 [

// What lasts between programs is named by the program's arguments.
// STEP-NOT:      @forward_backward
// STEP:          fsdp.state @root.param parameter of @root : !fsdp.sharded<@root, f32>
// STEP-NEXT:     fsdp.state @blocks.0.param parameter of @blocks.0 : !fsdp.sharded<@blocks.0, f32>
// STEP-NEXT:     fsdp.state @blocks.1.param parameter of @blocks.1 : !fsdp.sharded<@blocks.1, f32>
// STEP-NEXT:     fsdp.state @buffer.norm.running_mean buffer "norm.running_mean" : tensor<4xf32>
// STEP-NEXT:     fsdp.state @buffer.mask buffer "mask" : tensor<2xi64>
// STEP-NOT:      @forward_backward
// STEP:          fsdp.program @train(
// STEP-SAME:       %[[ROOT:[a-z0-9]+]]: !fsdp.sharded<@root, f32> {fsdp.state = @root.param}
// STEP-SAME:       %[[B0:[a-z0-9]+]]: !fsdp.sharded<@blocks.0, f32> {fsdp.state = @blocks.0.param}
// STEP-SAME:       %[[B1:[a-z0-9]+]]: !fsdp.sharded<@blocks.1, f32> {fsdp.state = @blocks.1.param}
// STEP-SAME:       tensor<4xf32> {fsdp.state = @buffer.norm.running_mean}
// STEP-SAME:       tensor<2xi64> {fsdp.input
// STEP-NOT:        fsdp.param
// STEP-SAME:     -> (tensor<f32> {fsdp.loss}, tensor<8x4xf32> {fsdp.grad = {fqn = "embed.weight"}}

// The root is gathered once for its first and its last reader; a block once per
// phase, right before its reader, or once in all.
// TWICE:         %[[R:.*]] = fsdp.unshard %[[ROOT]] for forward
// TWICE-NEXT:    %[[E:.*]] = fsdp.member %[[R]]["embed.weight"]
// TWICE-NEXT:    "nn.embed"(%{{.*}}, %{{.*}}, %[[E]])
// TWICE:         %[[F0:.*]] = fsdp.unshard %[[B0]] for forward
// TWICE-NEXT:    %[[W:.*]] = fsdp.member %[[F0]]["blocks.0.weight"]
// TWICE-NEXT:    %[[B:.*]] = fsdp.member %[[F0]]["blocks.0.bias"]
// TWICE-NEXT:    "nn.block"(%{{.*}}, %[[W]], %[[B]])
// TWICE-NEXT:    fsdp.unshard %[[B1]] for forward
// TWICE:         "nn.head"(%{{.*}}, %[[E]])
// TWICE-NEXT:    "nn.head_grad"(%{{.*}}, %[[E]])
// TWICE-NEXT:    fsdp.unshard %[[B1]] for backward
// TWICE:         %[[A0:.*]] = fsdp.unshard %[[B0]] for backward
// TWICE-NEXT:    %[[W:.*]] = fsdp.member %[[A0]]["blocks.0.weight"]
// TWICE-NEXT:    %[[B:.*]] = fsdp.member %[[A0]]["blocks.0.bias"]
// TWICE-NEXT:    "nn.block_grad"(%{{.*}}, %{{.*}}, %[[W]], %[[B]])
// TWICE-NOT:     fsdp.unshard

// ONCE:          fsdp.unshard %[[ROOT]] for forward
// ONCE:          fsdp.unshard %[[B0]] for forward
// ONCE-NEXT:     %[[W:.*]] = fsdp.member
// ONCE-NEXT:     %[[B:.*]] = fsdp.member
// ONCE:          fsdp.unshard %[[B1]] for forward
// ONCE-NOT:      fsdp.unshard
// ONCE:          "nn.block_grad"
// ONCE:          "nn.block_grad"(%{{.*}}, %{{.*}}, %[[W]], %[[B]])
// ONCE-NOT:      fsdp.unshard

// RUN: fsdp-opt %t/alone.mlir --allow-unregistered-dialect --fsdp-flatten-parameters | FileCheck %s --check-prefix=KINDS
// RUN: fsdp-opt %t/names.mlir --allow-unregistered-dialect --fsdp-flatten-parameters | FileCheck %s --check-prefix=NAMES
// RUN: fsdp-opt %t/empty.mlir --allow-unregistered-dialect --fsdp-flatten-parameters='mesh=shard=3' | FileCheck %s --check-prefix=EMPTY

// The plan that fsdp-assign-units writes, by hand: what is trainable, frozen or
// unused, and each element type of a unit, makes a flat parameter of its own.
// A parameter that nothing reads is never gathered; it stays in the state.
// KINDS:       fsdp.flat_param @m.f32 on {{.*}} state f32 {{.*}} [
// KINDS-NEXT:    <"m.a", tensor<4xf32> at 0>,
// KINDS-NEXT:    <"m.d", tensor<4xf32> at 32>
// KINDS-NEXT:  ] {trainable, unit = "m"}
// KINDS:       fsdp.flat_param @m.bf16 on {{.*}} state bf16 gather bf16 reduce bf16 {{.*}} [
// KINDS-NEXT:    <"m.b", tensor<4xbf16> at 0>
// KINDS-NEXT:  ] {trainable, unit = "m"}
// KINDS:       fsdp.flat_param @m.f32.frozen on {{.*}} [
// KINDS-NEXT:    <"m.c", tensor<4xf32> at 0>
// KINDS-NEXT:  ] {unit = "m"}
// KINDS:       fsdp.flat_param @n.frozen on {{.*}} [
// KINDS-NEXT:    <"n.unused", tensor<4xf32> at 0>
// KINDS-NEXT:  ] {unit = "n"}
// KINDS:       fsdp.program @train(
// KINDS-SAME:    %[[A:[a-z0-9]+]]: !fsdp.sharded<@m.f32, f32>
// KINDS-SAME:    %[[B:[a-z0-9]+]]: !fsdp.sharded<@m.bf16, bf16>
// KINDS-SAME:    %[[C:[a-z0-9]+]]: !fsdp.sharded<@m.f32.frozen, f32>
// KINDS-SAME:    %[[U:[a-z0-9]+]]: !fsdp.sharded<@n.frozen, f32>
// KINDS-NOT:   fsdp.unshard %[[U]]
// A frozen parameter that the backward pass reads is gathered for it, a trained
// one that it does not read is not.
// KINDS:       fsdp.unshard %[[C]] for forward
// KINDS-NOT:   for backward
// KINDS:       fsdp.unshard %[[C]] for backward
// KINDS-NOT:   for backward
// KINDS-NOT:   fsdp.unshard %[[U]]
// KINDS:       return

// Units may be called like anything else in the module.
// NAMES:       fsdp.mesh @mesh
// NAMES:       fsdp.flat_param @mesh_1
// NAMES:       fsdp.flat_param @train_1
// NAMES:       fsdp.flat_param @optimizer_1
// NAMES:       fsdp.flat_param @helper_1
// NAMES:       fsdp.flat_param @root on
// NAMES:       ] {trainable, unit = "root"}
// NAMES:       fsdp.flat_param @root_1 on
// NAMES:       ] {keep, trainable, unit = ""}

// EMPTY:       fsdp.flat_param @root {{.*}} numel 96 [
// EMPTY-NEXT:    <"w", tensor<0xf32> at 0>

//--- alone.mlir
func.func @forward_backward(
    %a: tensor<4xf32> {fsdp.param = {fqn = "m.a"}, fsdp.unit = "m"},
    %b: tensor<4xbf16> {fsdp.param = {fqn = "m.b"}, fsdp.unit = "m"},
    %c: tensor<4xf32> {fsdp.param = {fqn = "m.c", requires_grad = false}, fsdp.unit = "m"},
    %d: tensor<4xf32> {fsdp.param = {fqn = "m.d"}, fsdp.unit = "m"},
    %u: tensor<4xf32> {fsdp.param = {fqn = "n.unused", unused = true}, fsdp.unit = "n"},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "m.a"}},
        tensor<4xbf16> {fsdp.grad = {fqn = "m.b"}}, tensor<4xf32> {fsdp.grad = {fqn = "m.d"}}) {
  %loss = "test.loss"(%x, %a, %b, %c, %d) : (tensor<4xf32>, tensor<4xf32>, tensor<4xbf16>, tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
  %g:3 = "test.grad"(%x, %c) : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xbf16>, tensor<4xf32>)
  return %loss, %g#0, %g#1, %g#2 : tensor<f32>, tensor<4xf32>, tensor<4xbf16>, tensor<4xf32>
}

//--- names.mlir
func.func private @helper()
func.func @forward_backward(
    %a: tensor<4xf32> {fsdp.param = {fqn = "mesh.w"}, fsdp.unit = "mesh"},
    %b: tensor<4xf32> {fsdp.param = {fqn = "train.w"}, fsdp.unit = "train"},
    %c: tensor<4xf32> {fsdp.param = {fqn = "optimizer.w"}, fsdp.unit = "optimizer"},
    %d: tensor<4xf32> {fsdp.param = {fqn = "helper.w"}, fsdp.unit = "helper"},
    %e: tensor<4xf32> {fsdp.param = {fqn = "root.w"}, fsdp.unit = "root"},
    %f: tensor<4xf32> {fsdp.param = {fqn = "w"}, fsdp.unit = ""})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "mesh.w"}},
        tensor<4xf32> {fsdp.grad = {fqn = "train.w"}}, tensor<4xf32> {fsdp.grad = {fqn = "optimizer.w"}},
        tensor<4xf32> {fsdp.grad = {fqn = "helper.w"}}, tensor<4xf32> {fsdp.grad = {fqn = "root.w"}},
        tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %l, %g = "test.all"(%a, %b, %c, %d, %e, %f) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<f32>, tensor<4xf32>)
  return %l, %g, %g, %g, %g, %g, %g : tensor<f32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

//--- empty.mlir
func.func @forward_backward(%w: tensor<0xf32> {fsdp.param = {fqn = "w"}, fsdp.unit = ""})
    -> (tensor<f32> {fsdp.loss}, tensor<0xf32> {fsdp.grad = {fqn = "w"}}) {
  %l, %g = "test.all"(%w) : (tensor<0xf32>) -> (tensor<f32>, tensor<0xf32>)
  return %l, %g : tensor<f32>, tensor<0xf32>
}
