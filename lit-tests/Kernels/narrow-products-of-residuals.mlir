// RUN: fsdp-opt %s --fsdp-narrow-products | FileCheck %s

// What a reduction hook multiplies is no product of the model's: it is as wide
// as the hook has it, as is what is computed of that.
fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @root on @mesh shard [] replicate ["shard"]
    state f32 gather bf16 reduce f32 numel 64 [<"w", tensor<8x8xf32> at 0>] {trainable, unit = "", reduction_hook = "powersgd"}
fsdp.state @w parameter of @root : tensor<64xf32>
fsdp.state @q residual "w.q" of @root : tensor<1x8xf32> init {kind = "normal", mean = 0.0, std = 1.0}
// CHECK: fsdp.program @train
fsdp.program @train(%w: tensor<64xf32> {fsdp.state = @w}, %q: tensor<1x8xf32> {fsdp.state = @q}, %x: tensor<8x8xf32> {fsdp.input = {name = "x"}})
    -> (tensor<8x8xf32>, tensor<1x8xf32>) attributes {product_type = bf16} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x8xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<8x8xf32>) -> tensor<8x8xf32>
  %er = tensor.empty() : tensor<1x8xf32>
  %row = linalg.fill ins(%zero : f32) outs(%er : tensor<1x8xf32>) -> tensor<1x8xf32>
  %m = fsdp.view %w[0] : tensor<64xf32> -> tensor<8x8xf32>
  // CHECK: %[[Y:.*]] = linalg.matmul ins(%{{.*}}, %{{.*}} : tensor<8x8xbf16>, tensor<8x8xbf16>)
  %y = linalg.matmul ins(%x, %m : tensor<8x8xf32>, tensor<8x8xf32>) outs(%init : tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: %[[P:.*]] = linalg.matmul ins(%{{.*}}, %{{.*}} : tensor<1x8xf32>, tensor<8x8xf32>)
  %p = linalg.matmul ins(%q, %y : tensor<1x8xf32>, tensor<8x8xf32>) outs(%row : tensor<1x8xf32>) -> tensor<1x8xf32>
  // CHECK: linalg.matmul ins(%[[P]], %{{.*}} : tensor<1x8xf32>, tensor<8x8xf32>)
  %r = linalg.matmul ins(%p, %y : tensor<1x8xf32>, tensor<8x8xf32>) outs(%row : tensor<1x8xf32>) -> tensor<1x8xf32>
  fsdp.return %y, %r : tensor<8x8xf32>, tensor<1x8xf32>
}
