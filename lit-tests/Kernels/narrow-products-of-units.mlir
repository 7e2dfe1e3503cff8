// RUN: fsdp-opt %s --split-input-file --fsdp-narrow-products --cse --canonicalize --verify-diagnostics | FileCheck %s

// A product is computed in the type of the innermost unit that its location
// names: "model.head" is a unit of its own, "model.block.linear" is of the unit
// "model.block", all else of the root. What was fused across a border is in the
// wider type.

fsdp.mesh @mesh [#fsdp.axis<"shard" = 1>]
fsdp.flat_param @root on @mesh shard ["shard"] replicate []
    state f32 gather bf16 reduce f32 numel 64 [<"w", tensor<8x8xf32> at 0>] {trainable, unit = ""}
fsdp.flat_param @block on @mesh shard ["shard"] replicate []
    state f32 gather f16 reduce f32 numel 64 [<"v", tensor<8x8xf32> at 0>] {trainable, unit = "model.block"}
fsdp.flat_param @head on @mesh shard ["shard"] replicate []
    state f32 gather f32 reduce f32 numel 64 [<"u", tensor<8x8xf32> at 0>] {trainable, unit = "model.head"}
fsdp.state @w parameter of @root : tensor<64xf32>
fsdp.state @v parameter of @block : tensor<64xf32>
fsdp.state @u parameter of @head : tensor<64xf32>

// CHECK-LABEL: fsdp.program @units
// CHECK:         linalg.matmul {{.*}} -> tensor<8x8xbf16>
// CHECK:         linalg.matmul {{.*}} -> tensor<8x8xf16>
// CHECK:         linalg.matmul {{.*}} -> tensor<8x8xf32>
// CHECK:         linalg.matmul {{.*}} -> tensor<8x8xf32>
// CHECK:         linalg.matmul {{.*}} -> tensor<8x8xbf16>
fsdp.program @units(%w: tensor<64xf32> {fsdp.state = @w}, %v: tensor<64xf32> {fsdp.state = @v},
                    %u: tensor<64xf32> {fsdp.state = @u}, %x: tensor<8x8xf32> {fsdp.input = {name = "x"}})
    -> (tensor<8x8xf32>) attributes {product_type = bf16} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x8xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<8x8xf32>) -> tensor<8x8xf32>
  %mw = tensor.expand_shape %w [[0, 1]] output_shape [8, 8] : tensor<64xf32> into tensor<8x8xf32>
  %mv = tensor.expand_shape %v [[0, 1]] output_shape [8, 8] : tensor<64xf32> into tensor<8x8xf32>
  %mu = tensor.expand_shape %u [[0, 1]] output_shape [8, 8] : tensor<64xf32> into tensor<8x8xf32>
  %a = linalg.matmul ins(%x, %mw : tensor<8x8xf32>, tensor<8x8xf32>) outs(%init : tensor<8x8xf32>) -> tensor<8x8xf32> loc("model.norm")
  %b = linalg.matmul ins(%a, %mv : tensor<8x8xf32>, tensor<8x8xf32>) outs(%init : tensor<8x8xf32>) -> tensor<8x8xf32> loc("model.block.linear")
  %c = linalg.matmul ins(%b, %mu : tensor<8x8xf32>, tensor<8x8xf32>) outs(%init : tensor<8x8xf32>) -> tensor<8x8xf32> loc("model.head")
  %d = linalg.matmul ins(%c, %mv : tensor<8x8xf32>, tensor<8x8xf32>) outs(%init : tensor<8x8xf32>) -> tensor<8x8xf32> loc(fused["model.block", "model.head"])
  // No unit of this name: a unit's name ends where its module's does.
  %f = linalg.matmul ins(%d, %mw : tensor<8x8xf32>, tensor<8x8xf32>) outs(%init : tensor<8x8xf32>) -> tensor<8x8xf32> loc("model.header")
  fsdp.return %f : tensor<8x8xf32>
}

// -----

// Without locations nobody knows whose a product is.

fsdp.mesh @mesh [#fsdp.axis<"shard" = 1>]
// expected-note@+1 {{it is gathered in that type}}
fsdp.flat_param @head on @mesh shard ["shard"] replicate []
    state f32 gather bf16 reduce f32 numel 64 [<"u", tensor<8x8xf32> at 0>] {trainable, unit = "model.head"}
fsdp.state @u parameter of @head : tensor<64xf32>
// expected-error@+1 {{expected locations that name modules, since products of unit 'model.head' are in 'bf16', got none inside of it}}
fsdp.program @unnamed(%u: tensor<64xf32> {fsdp.state = @u}, %x: tensor<8x8xf32> {fsdp.input = {name = "x"}})
    -> (tensor<8x8xf32>) attributes {product_type = f32} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x8xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<8x8xf32>) -> tensor<8x8xf32>
  %mu = tensor.expand_shape %u [[0, 1]] output_shape [8, 8] : tensor<64xf32> into tensor<8x8xf32>
  %c = linalg.matmul ins(%x, %mu : tensor<8x8xf32>, tensor<8x8xf32>) outs(%init : tensor<8x8xf32>) -> tensor<8x8xf32>
  fsdp.return %c : tensor<8x8xf32>
}
