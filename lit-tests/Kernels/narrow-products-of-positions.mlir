// RUN: fsdp-opt %s --split-input-file --fsdp-narrow-products --cse --canonicalize | FileCheck %s

// A parameter times positions is an angle: that product, and the one that is its
// gradient, stay as wide as they were traced. Others are narrowed.

#id = affine_map<(d0) -> (d0)>
#id2 = affine_map<(d0, d1) -> (d0, d1)>

fsdp.mesh @mesh [#fsdp.axis<"shard" = 1>]
fsdp.flat_param @root on @mesh shard ["shard"] replicate []
    state f32 gather bf16 reduce f32 numel 16 [<"w", tensor<16x1xf32> at 0>] {trainable, unit = ""}
fsdp.state @w parameter of @root : tensor<16xf32>

// CHECK-LABEL: fsdp.program @angles
// CHECK:         linalg.matmul ins(%{{.*}}, %{{.*}} : tensor<16x1xf32>, tensor<1x2048xf32>)
// CHECK:         math.cos
// CHECK:         linalg.matmul ins(%{{.*}}, %{{.*}} : tensor<16x2048xf32>, tensor<2048x1xf32>)
// CHECK:         linalg.matmul ins(%{{.*}}, %{{.*}} : tensor<1x16xbf16>, tensor<16x2048xbf16>)
fsdp.program @angles(%w: tensor<16xf32> {fsdp.state = @w}, %position: tensor<2048xi64> {fsdp.input = {name = "position"}})
    -> (tensor<16x1xf32>, tensor<1x2048xf32>) attributes {product_type = bf16} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2048xf32>
  %float = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%position : tensor<2048xi64>) outs(%e : tensor<2048xf32>) {
  ^bb0(%a: i64, %o: f32):
    %r = arith.sitofp %a : i64 to f32
    linalg.yield %r : f32
  } -> tensor<2048xf32>
  %row = tensor.expand_shape %float [[0, 1]] output_shape [1, 2048] : tensor<2048xf32> into tensor<1x2048xf32>
  %column = tensor.expand_shape %float [[0, 1]] output_shape [2048, 1] : tensor<2048xf32> into tensor<2048x1xf32>
  %f = tensor.expand_shape %w [[0, 1]] output_shape [16, 1] : tensor<16xf32> into tensor<16x1xf32>
  %line = tensor.expand_shape %w [[0, 1]] output_shape [1, 16] : tensor<16xf32> into tensor<1x16xf32>
  %ea = tensor.empty() : tensor<16x2048xf32>
  %ia = linalg.fill ins(%zero : f32) outs(%ea : tensor<16x2048xf32>) -> tensor<16x2048xf32>
  %angle = linalg.matmul ins(%f, %row : tensor<16x1xf32>, tensor<1x2048xf32>) outs(%ia : tensor<16x2048xf32>) -> tensor<16x2048xf32>
  %cos = linalg.generic {indexing_maps = [#id2, #id2], iterator_types = ["parallel", "parallel"]}
      ins(%angle : tensor<16x2048xf32>) outs(%ea : tensor<16x2048xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = math.cos %a : f32
    linalg.yield %r : f32
  } -> tensor<16x2048xf32>
  %eg = tensor.empty() : tensor<16x1xf32>
  %ig = linalg.fill ins(%zero : f32) outs(%eg : tensor<16x1xf32>) -> tensor<16x1xf32>
  %gradient = linalg.matmul ins(%cos, %column : tensor<16x2048xf32>, tensor<2048x1xf32>) outs(%ig : tensor<16x1xf32>) -> tensor<16x1xf32>
  %er = tensor.empty() : tensor<1x2048xf32>
  %ir = linalg.fill ins(%zero : f32) outs(%er : tensor<1x2048xf32>) -> tensor<1x2048xf32>
  %result = linalg.matmul ins(%line, %cos : tensor<1x16xf32>, tensor<16x2048xf32>) outs(%ir : tensor<1x2048xf32>) -> tensor<1x2048xf32>
  fsdp.return %gradient, %result : tensor<16x1xf32>, tensor<1x2048xf32>
}

// -----

// Bytes are exact in bf16, counts that go into no angle are rounded as others.

#id = affine_map<(d0, d1) -> (d0, d1)>

fsdp.mesh @mesh [#fsdp.axis<"shard" = 1>]
fsdp.flat_param @root on @mesh shard ["shard"] replicate []
    state f32 gather bf16 reduce f32 numel 64 [<"w", tensor<8x8xf32> at 0>] {trainable, unit = ""}
fsdp.state @w parameter of @root : tensor<64xf32>

// CHECK-LABEL: fsdp.program @integers
// CHECK:         linalg.matmul ins(%{{.*}}, %{{.*}} : tensor<8x8xbf16>, tensor<8x8xbf16>)
// CHECK:         linalg.matmul ins(%{{.*}}, %{{.*}} : tensor<8x8xbf16>, tensor<8x8xbf16>)
fsdp.program @integers(%w: tensor<64xf32> {fsdp.state = @w},
                       %bytes: tensor<8x8xi8> {fsdp.input = {name = "bytes"}},
                       %counts: tensor<8x8xi64> {fsdp.input = {name = "counts"}})
    -> (tensor<8x8xf32>, tensor<8x8xf32>) attributes {product_type = bf16} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x8xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<8x8xf32>) -> tensor<8x8xf32>
  %m = tensor.expand_shape %w [[0, 1]] output_shape [8, 8] : tensor<64xf32> into tensor<8x8xf32>
  %small = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%bytes : tensor<8x8xi8>) outs(%e : tensor<8x8xf32>) {
  ^bb0(%a: i8, %o: f32):
    %r = arith.uitofp %a : i8 to f32
    linalg.yield %r : f32
  } -> tensor<8x8xf32>
  %large = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%counts : tensor<8x8xi64>) outs(%e : tensor<8x8xf32>) {
  ^bb0(%a: i64, %o: f32):
    %r = arith.sitofp %a : i64 to f32
    linalg.yield %r : f32
  } -> tensor<8x8xf32>
  %y = linalg.matmul ins(%small, %m : tensor<8x8xf32>, tensor<8x8xf32>) outs(%init : tensor<8x8xf32>) -> tensor<8x8xf32>
  %exp = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%y : tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = math.exp %a : f32
    linalg.yield %r : f32
  } -> tensor<8x8xf32>
  %z = linalg.matmul ins(%large, %m : tensor<8x8xf32>, tensor<8x8xf32>) outs(%init : tensor<8x8xf32>) -> tensor<8x8xf32>
  fsdp.return %exp, %z : tensor<8x8xf32>, tensor<8x8xf32>
}
