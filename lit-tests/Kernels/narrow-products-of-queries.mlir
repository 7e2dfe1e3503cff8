// RUN: fsdp-opt %s --fsdp-fuse-attention --fsdp-narrow-products --canonicalize | FileCheck %s

// A model whose queries are parameters: they are gathered in bf16, widened, and
// multiplied as they are. Attention reads them before they are widened, and the
// program is still one of wide products, all of which become narrow.

#p3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#row = affine_map<(d0, d1, d2) -> (d0, d1)>
#t = affine_map<(d0, d1, d2) -> (d0, d2, d1)>

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @root on @mesh shard ["shard"] replicate []
    state f32 gather bf16 reduce f32 numel 60 [<"q", tensor<2x3x5xf32> at 0>, <"w", tensor<2x5x3xf32> at 30>] {trainable, unit = ""}
fsdp.state @w parameter of @root : tensor<30xf32>

// CHECK-LABEL: fsdp.program @step
// CHECK:         %[[GATHERED:.*]] = fsdp.all_gather
// CHECK-DAG:     %[[Q:.*]] = fsdp.view %[[GATHERED]][0] : tensor<60xbf16> -> tensor<2x3x5xbf16>
// CHECK-DAG:     %[[W:.*]] = fsdp.view %[[GATHERED]][30] : tensor<60xbf16> -> tensor<2x5x3xbf16>
// CHECK:         %[[OUT:.*]], %{{.*}} = fsdp.attention
// CHECK-SAME:      q(%[[Q]] {{.*}} : tensor<2x3x5xbf16>) k(%[[X:[0-9]+]] {{.*}} : tensor<2x4x5xbf16>) v(%[[X]] {{.*}} : tensor<2x4x5xbf16>)
// CHECK:         linalg.batch_matmul ins(%[[OUT]], %[[W]] : tensor<2x3x5xbf16>, tensor<2x5x3xbf16>)
fsdp.program @step(%shard: tensor<30xf32> {fsdp.state = @w}, %x: tensor<2x4x5xf32> {fsdp.input = {name = "x"}}) -> (tensor<2x3x3xf32>)
    attributes {product_type = bf16} {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %e0 = tensor.empty() : tensor<30xbf16>
  %narrow = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%shard : tensor<30xf32>) outs(%e0 : tensor<30xbf16>) {
  ^bb0(%a: f32, %o: bf16):
    %r = arith.truncf %a : f32 to bf16
    linalg.yield %r : bf16
  } -> tensor<30xbf16>
  %gathered = fsdp.all_gather %narrow on @mesh["shard"] for forward : tensor<30xbf16> -> tensor<60xbf16>
  %qn = fsdp.view %gathered[0] : tensor<60xbf16> -> tensor<2x3x5xbf16>
  %wn = fsdp.view %gathered[30] : tensor<60xbf16> -> tensor<2x5x3xbf16>
  %eq = tensor.empty() : tensor<2x3x5xf32>
  %q = linalg.generic {indexing_maps = [#p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%qn : tensor<2x3x5xbf16>) outs(%eq : tensor<2x3x5xf32>) {
  ^bb0(%a: bf16, %o: f32):
    %r = arith.extf %a : bf16 to f32
    linalg.yield %r : f32
  } -> tensor<2x3x5xf32>
  %ew = tensor.empty() : tensor<2x5x3xf32>
  %w = linalg.generic {indexing_maps = [#p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%wn : tensor<2x5x3xbf16>) outs(%ew : tensor<2x5x3xf32>) {
  ^bb0(%a: bf16, %o: f32):
    %r = arith.extf %a : bf16 to f32
    linalg.yield %r : f32
  } -> tensor<2x5x3xf32>
  %ek = tensor.empty() : tensor<2x5x4xf32>
  %kt = linalg.generic {indexing_maps = [#t, #p3], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<2x4x5xf32>) outs(%ek : tensor<2x5x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<2x5x4xf32>
  %es = tensor.empty() : tensor<2x3x4xf32>
  %is = linalg.fill ins(%zero : f32) outs(%es : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %scores = linalg.batch_matmul ins(%q, %kt : tensor<2x3x5xf32>, tensor<2x5x4xf32>) outs(%is : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %er = tensor.empty() : tensor<2x3xf32>
  %im = linalg.fill ins(%low : f32) outs(%er : tensor<2x3xf32>) -> tensor<2x3xf32>
  %max = linalg.generic {indexing_maps = [#p3, #row], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%scores : tensor<2x3x4xf32>) outs(%im : tensor<2x3xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.maximumf %a, %o : f32
    linalg.yield %r : f32
  } -> tensor<2x3xf32>
  %exp = linalg.generic {indexing_maps = [#p3, #row, #p3], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%scores, %max : tensor<2x3x4xf32>, tensor<2x3xf32>) outs(%es : tensor<2x3x4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %d = arith.subf %a, %b : f32
    %r = math.exp %d : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %i0 = linalg.fill ins(%zero : f32) outs(%er : tensor<2x3xf32>) -> tensor<2x3xf32>
  %sum = linalg.generic {indexing_maps = [#p3, #row], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%exp : tensor<2x3x4xf32>) outs(%i0 : tensor<2x3xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %a, %o : f32
    linalg.yield %r : f32
  } -> tensor<2x3xf32>
  %p = linalg.generic {indexing_maps = [#p3, #row, #p3], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%exp, %sum : tensor<2x3x4xf32>, tensor<2x3xf32>) outs(%es : tensor<2x3x4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.divf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %io = linalg.fill ins(%zero : f32) outs(%eq : tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  %out = linalg.batch_matmul ins(%p, %x : tensor<2x3x4xf32>, tensor<2x4x5xf32>) outs(%io : tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  %ey = tensor.empty() : tensor<2x3x3xf32>
  %iy = linalg.fill ins(%zero : f32) outs(%ey : tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  %y = linalg.batch_matmul ins(%out, %w : tensor<2x3x5xf32>, tensor<2x5x3xf32>) outs(%iy : tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  fsdp.return %y : tensor<2x3x3xf32>
}
