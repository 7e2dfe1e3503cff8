// RUN: fsdp-opt %s --split-input-file --allow-unregistered-dialect --fsdp-insert-reshards | FileCheck %s
// RUN: fsdp-opt %s --split-input-file --allow-unregistered-dialect --fsdp-insert-reshards --fsdp-insert-reshards --fsdp-verify-lifetimes | FileCheck %s

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @a on @mesh shard ["shard"] replicate [] state f32 gather f32 reduce f32 numel 64 [
  <"a.w", tensor<2x4xf32> at 0>] {trainable, unit = "a"}
// Behind the last reader of a member, of a view of one, and of what a region
// captures; what depends on more than the parameters may live on.
// CHECK-LABEL: fsdp.program @step
// CHECK:         %[[U:.*]] = fsdp.unshard
// CHECK:         linalg.generic
// CHECK:           tensor.extract
// CHECK:         fsdp.reshard %[[U]]
// CHECK-NEXT:    "test.other"
// CHECK:         %[[V:.*]] = fsdp.unshard
// CHECK-NEXT:    fsdp.member %[[V]]
// CHECK-NEXT:    "test.use"
// CHECK-NEXT:    fsdp.reshard %[[V]]
// CHECK-NEXT:    return
fsdp.state @a.param parameter of @a : !fsdp.sharded<@a, f32>
fsdp.program @step(%a: !fsdp.sharded<@a, f32> {fsdp.state = @a.param}, %x: tensor<8xindex>) -> (tensor<f32> {fsdp.loss}) {
  %u = fsdp.unshard %a for forward : <@a, f32> -> <@a, f32>
  %w = fsdp.member %u["a.w"] : <@a, f32> -> tensor<2x4xf32>
  %c = tensor.collapse_shape %w [[0, 1]] : tensor<2x4xf32> into tensor<8xf32>
  %e = tensor.empty() : tensor<8xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<8xindex>) outs(%e : tensor<8xf32>) {
  ^bb0(%i: index, %o: f32):
    %v = tensor.extract %c[%i] : tensor<8xf32>
    linalg.yield %v : f32
  } -> tensor<8xf32>
  %l = "test.other"(%y) : (tensor<8xf32>) -> tensor<f32>
  %b = fsdp.unshard %a for backward : <@a, f32> -> <@a, f32>
  %m = fsdp.member %b["a.w"] : <@a, f32> -> tensor<2x4xf32>
  "test.use"(%m, %y) : (tensor<2x4xf32>, tensor<8xf32>) -> ()
  fsdp.return %l : tensor<f32>
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @a on @mesh shard ["shard"] replicate [] state f32 gather f32 reduce f32 numel 64 [
  <"a.w", tensor<8xf32> at 0>] {trainable, unit = "a"}
// A step may return what it computed from parameters alone (a buffer that
// copies them, a loss of them alone): that is no reader. A reshard that is
// there stays where it is.
// CHECK-LABEL: fsdp.program @step
// CHECK:         %[[U:.*]] = fsdp.unshard
// CHECK-NEXT:    %[[W:.*]] = fsdp.member
// CHECK-NEXT:    %[[S:.*]] = math.sqrt %[[W]]
// CHECK-NEXT:    fsdp.reshard %[[U]]
// CHECK-NEXT:    %[[V:.*]] = fsdp.unshard
// CHECK-NEXT:    "test.between"
// CHECK-NEXT:    fsdp.reshard %[[V]]
// CHECK-NEXT:    return %[[W]], %[[S]]
fsdp.state @a.param parameter of @a : !fsdp.sharded<@a, f32>
fsdp.program @step(%a: !fsdp.sharded<@a, f32> {fsdp.state = @a.param}) -> (tensor<8xf32>, tensor<8xf32>) {
  %u = fsdp.unshard %a for forward : <@a, f32> -> <@a, f32>
  %w = fsdp.member %u["a.w"] : <@a, f32> -> tensor<8xf32>
  %s = math.sqrt %w : tensor<8xf32>
  %v = fsdp.unshard %a for backward : <@a, f32> -> <@a, f32>
  "test.between"() : () -> ()
  fsdp.reshard %v : <@a, f32>
  fsdp.return %w, %s : tensor<8xf32>, tensor<8xf32>
}

// -----

// CHECK-LABEL: func.func @not_a_step
// CHECK-NEXT:    return
func.func @not_a_step() {
  return
}
