// RUN: fsdp-opt %s --split-input-file --fsdp-narrow-products --cse --canonicalize | FileCheck %s

// Products of parameters are computed in the program's product type; what a
// product gives to the next one is not widened in between. All else is as it
// was.

#id = affine_map<(d0, d1) -> (d0, d1)>
#t = affine_map<(d0, d1) -> (d1, d0)>
#row = affine_map<(d0, d1) -> (d0)>

fsdp.mesh @mesh [#fsdp.axis<"shard" = 1>]
fsdp.flat_param @root on @mesh shard ["shard"] replicate []
    state f32 gather bf16 reduce f32 numel 64 [<"w", tensor<8x8xf32> at 0>] {trainable, unit = ""}
fsdp.state @w parameter of @root : tensor<64xf32>

// CHECK-LABEL: fsdp.program @products
// CHECK-SAME:    %[[W:[a-z0-9]+]]: tensor<64xf32> {fsdp.state = @w}, %[[X:[a-z0-9]+]]: tensor<8x8xf32>
// CHECK-SAME:    product_type = bf16
// The gathered parameter is bf16 already: it is moved as that.
// CHECK-DAG:     %[[WN:.*]] = linalg.generic {{.*}} ins(%[[W]] : tensor<64xf32>) outs(%{{.*}} : tensor<64xbf16>)
// CHECK-DAG:     %[[WM:.*]] = tensor.expand_shape %[[WN]] {{.*}} : tensor<64xbf16> into tensor<8x8xbf16>
// CHECK-DAG:     %[[WT:.*]] = linalg.generic {indexing_maps = [#[[T:.*]], #{{.*}}], {{.*}} ins(%[[WM]] : tensor<8x8xbf16>) outs(%{{.*}} : tensor<8x8xbf16>)
// CHECK-DAG:     %[[XN:.*]] = linalg.generic {{.*}} ins(%[[X]] : tensor<8x8xf32>) outs(%{{.*}} : tensor<8x8xbf16>)
// CHECK-DAG:     %[[ZERO:.*]] = linalg.fill ins(%{{.*}} : bf16) outs(%{{.*}} : tensor<8x8xbf16>)
// CHECK:         %[[Y:.*]] = linalg.matmul ins(%[[XN]], %[[WT]] : tensor<8x8xbf16>, tensor<8x8xbf16>) outs(%[[ZERO]] : tensor<8x8xbf16>) -> tensor<8x8xbf16>
// CHECK:         %[[YW:.*]] = linalg.generic {{.*}} ins(%[[Y]] : tensor<8x8xbf16>) outs(%{{.*}} : tensor<8x8xf32>)
// CHECK-NEXT:    ^bb0(%[[IN:.*]]: bf16, %{{.*}}: f32):
// CHECK-NEXT:      arith.extf %[[IN]] : bf16 to f32
// CHECK:         %[[Z:.*]] = linalg.matmul ins(%[[Y]], %[[WT]] : tensor<8x8xbf16>, tensor<8x8xbf16>)
// The sum over rows, a reduction, reads the wide values.
// CHECK:         linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]} ins(%[[YW]] : tensor<8x8xf32>) outs(%{{.*}} : tensor<8xf32>)
fsdp.program @products(%w: tensor<64xf32> {fsdp.state = @w}, %x: tensor<8x8xf32> {fsdp.input = {name = "x"}})
    -> (tensor<8xf32>, tensor<8x8xf32>) attributes {product_type = bf16} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x8xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<8x8xf32>) -> tensor<8x8xf32>
  %en = tensor.empty() : tensor<64xbf16>
  %narrow = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%w : tensor<64xf32>) outs(%en : tensor<64xbf16>) {
  ^bb0(%a: f32, %o: bf16):
    %r = arith.truncf %a : f32 to bf16
    linalg.yield %r : bf16
  } -> tensor<64xbf16>
  %ew = tensor.empty() : tensor<64xf32>
  %wide = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%narrow : tensor<64xbf16>) outs(%ew : tensor<64xf32>) {
  ^bb0(%a: bf16, %o: f32):
    %r = arith.extf %a : bf16 to f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %m = tensor.expand_shape %wide [[0, 1]] output_shape [8, 8] : tensor<64xf32> into tensor<8x8xf32>
  %et = tensor.empty() : tensor<8x8xf32>
  %mt = linalg.generic {indexing_maps = [#t, #id], iterator_types = ["parallel", "parallel"]}
      ins(%m : tensor<8x8xf32>) outs(%et : tensor<8x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<8x8xf32>
  %y = linalg.matmul ins(%x, %mt : tensor<8x8xf32>, tensor<8x8xf32>) outs(%init : tensor<8x8xf32>) -> tensor<8x8xf32>
  %z = linalg.matmul ins(%y, %mt : tensor<8x8xf32>, tensor<8x8xf32>) outs(%init : tensor<8x8xf32>) -> tensor<8x8xf32>
  %es = tensor.empty() : tensor<8xf32>
  %is = linalg.fill ins(%zero : f32) outs(%es : tensor<8xf32>) -> tensor<8xf32>
  %sum = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%y : tensor<8x8xf32>) outs(%is : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %a, %o : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  fsdp.return %sum, %z : tensor<8xf32>, tensor<8x8xf32>
}

// -----

// Convolutions are products, pooling is none.

fsdp.mesh @mesh [#fsdp.axis<"shard" = 1>]
fsdp.flat_param @root on @mesh shard ["shard"] replicate []
    state f32 gather bf16 reduce f32 numel 36 [<"w", tensor<2x2x3x3xf32> at 0>] {trainable, unit = ""}
fsdp.state @w parameter of @root : tensor<36xf32>

// CHECK-LABEL: fsdp.program @convolution
// CHECK:         linalg.conv_2d_nchw_fchw {{.*}}ins(%{{.*}}, %{{.*}} : tensor<1x2x8x8xbf16>, tensor<2x2x3x3xbf16>) outs(%{{.*}} : tensor<1x2x6x6xbf16>)
// CHECK:         linalg.pooling_nchw_sum {{.*}}ins(%{{.*}}, %{{.*}} : tensor<1x2x6x6xf32>, tensor<2x2xf32>) outs(%{{.*}} : tensor<1x2x5x5xf32>)
fsdp.program @convolution(%w: tensor<36xf32> {fsdp.state = @w}, %x: tensor<1x2x8x8xf32> {fsdp.input = {name = "x"}})
    -> (tensor<1x2x5x5xf32>) attributes {product_type = bf16} {
  %zero = arith.constant 0.0 : f32
  %k = tensor.expand_shape %w [[0, 1, 2, 3]] output_shape [2, 2, 3, 3] : tensor<36xf32> into tensor<2x2x3x3xf32>
  %e = tensor.empty() : tensor<1x2x6x6xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<1x2x6x6xf32>) -> tensor<1x2x6x6xf32>
  %y = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
      ins(%x, %k : tensor<1x2x8x8xf32>, tensor<2x2x3x3xf32>) outs(%init : tensor<1x2x6x6xf32>) -> tensor<1x2x6x6xf32>
  %window = tensor.empty() : tensor<2x2xf32>
  %e1 = tensor.empty() : tensor<1x2x5x5xf32>
  %init1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<1x2x5x5xf32>) -> tensor<1x2x5x5xf32>
  %p = linalg.pooling_nchw_sum {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
      ins(%y, %window : tensor<1x2x6x6xf32>, tensor<2x2xf32>) outs(%init1 : tensor<1x2x5x5xf32>) -> tensor<1x2x5x5xf32>
  fsdp.return %p : tensor<1x2x5x5xf32>
}

// -----

// What no parameter enters, such as the angles of rotary embeddings, is as
// exact as it was traced; without a product type, everything is.

fsdp.mesh @mesh [#fsdp.axis<"shard" = 1>]
fsdp.flat_param @root on @mesh shard ["shard"] replicate []
    state f32 gather bf16 reduce f32 numel 64 [<"w", tensor<8x8xf32> at 0>] {trainable, unit = ""}
fsdp.state @w parameter of @root : tensor<64xf32>

// CHECK-LABEL: fsdp.program @positions
// CHECK-NOT:     bf16
// CHECK-LABEL: fsdp.program eval @full
// CHECK-NOT:     bf16
// CHECK:         fsdp.return
fsdp.program @positions(%w: tensor<64xf32> {fsdp.state = @w}, %p: tensor<8x1xf32> {fsdp.input = {name = "p"}},
                        %f: tensor<1x8xf32> {fsdp.input = {name = "f"}}) -> (tensor<8x8xf32>) attributes {product_type = f16} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x8xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<8x8xf32>) -> tensor<8x8xf32>
  %angles = linalg.matmul ins(%p, %f : tensor<8x1xf32>, tensor<1x8xf32>) outs(%init : tensor<8x8xf32>) -> tensor<8x8xf32>
  fsdp.return %angles : tensor<8x8xf32>
}
fsdp.program eval @full(%w: tensor<64xf32> {fsdp.state = @w}, %x: tensor<8x8xf32> {fsdp.input = {name = "x"}}) -> (tensor<8x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %m = tensor.expand_shape %w [[0, 1]] output_shape [8, 8] : tensor<64xf32> into tensor<8x8xf32>
  %e = tensor.empty() : tensor<8x8xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<8x8xf32>) -> tensor<8x8xf32>
  %y = linalg.matmul ins(%x, %m : tensor<8x8xf32>, tensor<8x8xf32>) outs(%init : tensor<8x8xf32>) -> tensor<8x8xf32>
  fsdp.return %y : tensor<8x8xf32>
}

// -----

// A program that has a product in the type as it was traced says itself which
// are wide: of a model in narrow floats, or under autocast.

fsdp.mesh @mesh [#fsdp.axis<"shard" = 1>]
fsdp.flat_param @root on @mesh shard ["shard"] replicate []
    state f32 gather bf16 reduce f32 numel 64 [<"w", tensor<8x8xf32> at 0>] {trainable, unit = ""}
fsdp.state @w parameter of @root : tensor<64xf32>

// CHECK-LABEL: fsdp.program @autocast
// CHECK:         linalg.matmul ins(%{{.*}}, %{{.*}} : tensor<8x8xbf16>, tensor<8x8xbf16>)
// CHECK:         linalg.matmul ins(%{{.*}}, %{{.*}} : tensor<8x8xf32>, tensor<8x8xf32>)
fsdp.program @autocast(%w: tensor<64xf32> {fsdp.state = @w}, %x: tensor<8x8xbf16> {fsdp.input = {name = "x"}})
    -> (tensor<8x8xf32>) attributes {product_type = bf16} {
  %zero = arith.constant 0.0 : f32
  %zeron = arith.constant 0.0 : bf16
  %m = tensor.expand_shape %w [[0, 1]] output_shape [8, 8] : tensor<64xf32> into tensor<8x8xf32>
  %en = tensor.empty() : tensor<8x8xbf16>
  %mn = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>],
                        iterator_types = ["parallel", "parallel"]}
      ins(%m : tensor<8x8xf32>) outs(%en : tensor<8x8xbf16>) {
  ^bb0(%a: f32, %o: bf16):
    %r = arith.truncf %a : f32 to bf16
    linalg.yield %r : bf16
  } -> tensor<8x8xbf16>
  %initn = linalg.fill ins(%zeron : bf16) outs(%en : tensor<8x8xbf16>) -> tensor<8x8xbf16>
  %y = linalg.matmul ins(%x, %mn : tensor<8x8xbf16>, tensor<8x8xbf16>) outs(%initn : tensor<8x8xbf16>) -> tensor<8x8xbf16>
  %e = tensor.empty() : tensor<8x8xf32>
  %yw = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>],
                        iterator_types = ["parallel", "parallel"]}
      ins(%y : tensor<8x8xbf16>) outs(%e : tensor<8x8xf32>) {
  ^bb0(%a: bf16, %o: f32):
    %r = arith.extf %a : bf16 to f32
    linalg.yield %r : f32
  } -> tensor<8x8xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<8x8xf32>) -> tensor<8x8xf32>
  %z = linalg.matmul ins(%yw, %m : tensor<8x8xf32>, tensor<8x8xf32>) outs(%init : tensor<8x8xf32>) -> tensor<8x8xf32>
  fsdp.return %z : tensor<8x8xf32>
}

// -----

// Attention reads and gives narrow tensors; its statistics stay wide.

fsdp.mesh @mesh [#fsdp.axis<"shard" = 1>]
fsdp.flat_param @root on @mesh shard ["shard"] replicate []
    state f32 gather bf16 reduce f32 numel 40 [<"k", tensor<2x4x5xf32> at 0>] {trainable, unit = ""}
fsdp.state @w parameter of @root : tensor<40xf32>

// CHECK-LABEL: fsdp.program @attention
// CHECK:         fsdp.attention
// CHECK-SAME:      q(%{{.*}} : tensor<2x3x5xbf16>) k(%{{.*}} : tensor<2x4x5xbf16>)
// CHECK-SAME:      v(%{{.*}} : tensor<2x4x6xbf16>)
// CHECK:         } out({{.*}}) : tensor<2x3x6xbf16>, tensor<12xf32>
fsdp.program @attention(%w: tensor<40xf32> {fsdp.state = @w}, %q: tensor<2x3x5xf32> {fsdp.input = {name = "q"}},
                        %v: tensor<2x4x6xf32> {fsdp.input = {name = "v"}}) -> (tensor<2x3x6xf32>) attributes {product_type = bf16} {
  %k = tensor.expand_shape %w [[0, 1, 2]] output_shape [2, 4, 5] : tensor<40xf32> into tensor<2x4x5xf32>
  %out, %stats = fsdp.attention <batch = [2], queries = 3, keys = 4, head = 5, value = 6>
      q(%q <0, [15, 5, 1]> : tensor<2x3x5xf32>) k(%k <0, [20, 5, 1]> : tensor<2x4x5xf32>)
      v(%v <0, [24, 6, 1]> : tensor<2x4x6xf32>) captured() [] scale 1.0 {
  ^bb0(%s: f32, %b: index, %i: index, %j: index):
    fsdp.yield %s : f32
  } out(<0, [18, 6, 1]>) : tensor<2x3x6xf32>, tensor<12xf32>
  fsdp.return %out : tensor<2x3x6xf32>
}

// -----

// Attention reads a gathered parameter as it is, before it was widened. Its
// result says that it was traced in wide floats: both passes, and every product
// beside them, become narrow.

fsdp.mesh @mesh [#fsdp.axis<"shard" = 1>]
fsdp.flat_param @root on @mesh shard ["shard"] replicate []
    state f32 gather bf16 reduce f32 numel 30 [<"q", tensor<2x3x5xf32> at 0>] {trainable, unit = ""}
fsdp.state @w parameter of @root : tensor<30xf32>

// CHECK-LABEL: fsdp.program @queries
// CHECK:         %[[OUT:.*]], %[[STATS:.*]] = fsdp.attention
// CHECK-SAME:      q(%[[Q:[a-z0-9]+]] <0, [15, 5, 1]> : tensor<2x3x5xbf16>) k(%[[K:[a-z0-9]+]] <0, [20, 5, 1]> : tensor<2x4x5xbf16>)
// CHECK-SAME:      v(%[[K]] <0, [20, 5, 1]> : tensor<2x4x5xbf16>)
// CHECK:         } out({{.*}}) : tensor<2x3x5xbf16>, tensor<12xf32>
// CHECK:         linalg.batch_matmul ins(%[[OUT]], %{{.*}} : tensor<2x3x5xbf16>, tensor<2x5x4xbf16>)
// CHECK:         %[[DQ:.*]], %{{.*}}, %{{.*}} = fsdp.attention_backward
// CHECK-SAME:      q(%[[Q]] {{.*}} : tensor<2x3x5xbf16>) k(%[[K]] {{.*}} : tensor<2x4x5xbf16>) v(%[[K]] {{.*}} : tensor<2x4x5xbf16>)
// CHECK-SAME:      out(%[[OUT]] {{.*}} : tensor<2x3x5xbf16>) dout(%{{.*}} : tensor<2x3x5xbf16>) stats(%[[STATS]] : tensor<12xf32>)
// CHECK:         } dq({{.*}} : tensor<2x3x5xbf16>) dk({{.*}} : tensor<2x4x5xbf16>) dv({{.*}} : tensor<2x4x5xbf16>)
// CHECK:         linalg.generic {{.*}} ins(%[[DQ]] : tensor<2x3x5xbf16>) outs(%{{.*}} : tensor<2x3x5xf32>)
fsdp.program @queries(%w: tensor<30xf32> {fsdp.state = @w}, %x: tensor<2x4x5xf32> {fsdp.input = {name = "x"}},
                      %dout: tensor<2x3x5xf32> {fsdp.input = {name = "d"}}) -> (tensor<2x3x4xf32>, tensor<2x3x5xf32>)
    attributes {product_type = bf16} {
  %m = tensor.expand_shape %w [[0, 1, 2]] output_shape [2, 3, 5] : tensor<30xf32> into tensor<2x3x5xf32>
  %en = tensor.empty() : tensor<2x3x5xbf16>
  %q = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>],
                       iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%m : tensor<2x3x5xf32>) outs(%en : tensor<2x3x5xbf16>) {
  ^bb0(%a: f32, %o: bf16):
    %r = arith.truncf %a : f32 to bf16
    linalg.yield %r : bf16
  } -> tensor<2x3x5xbf16>
  %out, %stats = fsdp.attention <batch = [2], queries = 3, keys = 4, head = 5, value = 5>
      q(%q <0, [15, 5, 1]> : tensor<2x3x5xbf16>) k(%x <0, [20, 5, 1]> : tensor<2x4x5xf32>)
      v(%x <0, [20, 5, 1]> : tensor<2x4x5xf32>) captured() [] scale 1.0 {
  ^bb0(%s: f32, %b: index, %i: index, %j: index):
    fsdp.yield %s : f32
  } out(<0, [15, 5, 1]>) : tensor<2x3x5xf32>, tensor<12xf32>
  %zero = arith.constant 0.0 : f32
  %et = tensor.empty() : tensor<2x5x4xf32>
  %xt = linalg.transpose ins(%x : tensor<2x4x5xf32>) outs(%et : tensor<2x5x4xf32>) permutation = [0, 2, 1]
  %e = tensor.empty() : tensor<2x3x4xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %y = linalg.batch_matmul ins(%out, %xt : tensor<2x3x5xf32>, tensor<2x5x4xf32>) outs(%init : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %dq, %dk, %dv = fsdp.attention_backward <batch = [2], queries = 3, keys = 4, head = 5, value = 5>
      q(%q <0, [15, 5, 1]> : tensor<2x3x5xbf16>) k(%x <0, [20, 5, 1]> : tensor<2x4x5xf32>)
      v(%x <0, [20, 5, 1]> : tensor<2x4x5xf32>) out(%out <0, [15, 5, 1]> : tensor<2x3x5xf32>)
      dout(%dout <0, [15, 5, 1]> : tensor<2x3x5xf32>) stats(%stats : tensor<12xf32>) captured() [] scale 1.0 {
  ^bb0(%s: f32, %b: index, %i: index, %j: index):
    fsdp.yield %s : f32
  } gradient {
  ^bb0(%ds: f32, %s: f32, %b: index, %i: index, %j: index):
    fsdp.yield %ds : f32
  } dq(<0, [15, 5, 1]> : tensor<2x3x5xf32>) dk(<0, [20, 5, 1]> : tensor<2x4x5xf32>) dv(<0, [20, 5, 1]> : tensor<2x4x5xf32>)
  fsdp.return %y, %dq : tensor<2x3x4xf32>, tensor<2x3x5xf32>
}

// -----

// One product reads tanh(x) as it is and one transposed, as the gradient of a weight does: it is rounded once, and then
// transposed, which products do by strides.

#id = affine_map<(d0, d1) -> (d0, d1)>
#t = affine_map<(d0, d1) -> (d1, d0)>

fsdp.mesh @mesh [#fsdp.axis<"shard" = 1>]
fsdp.flat_param @root on @mesh shard ["shard"] replicate []
    state f32 gather bf16 reduce f32 numel 64 [<"w", tensor<8x8xf32> at 0>] {trainable, unit = ""}
fsdp.state @w parameter of @root : tensor<64xf32>

// CHECK-LABEL: fsdp.program @transposed
// CHECK:         math.tanh
// CHECK:         %[[N:.*]] = linalg.generic {{.*}} ins(%{{.*}} : tensor<4x8xf32>) outs(%{{.*}} : tensor<4x8xbf16>)
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      arith.truncf
// CHECK:         linalg.matmul ins(%[[N]], %{{.*}} : tensor<4x8xbf16>, tensor<8x8xbf16>)
// CHECK-NOT:     arith.truncf {{.*}} : f32 to bf16
// CHECK:         %[[T:.*]] = linalg.generic {{.*}} ins(%[[N]] : tensor<4x8xbf16>) outs(%{{.*}} : tensor<8x4xbf16>)
// CHECK:         linalg.matmul ins(%[[T]], %{{.*}} : tensor<8x4xbf16>, tensor<4x8xbf16>)
fsdp.program @transposed(%w: tensor<64xf32> {fsdp.state = @w}, %x: tensor<4x8xf32> {fsdp.input = {name = "x"}})
    -> (tensor<4x8xf32>, tensor<8x8xf32>) attributes {product_type = bf16} {
  %zero = arith.constant 0.0 : f32
  %m = tensor.expand_shape %w [[0, 1]] output_shape [8, 8] : tensor<64xf32> into tensor<8x8xf32>
  %e = tensor.empty() : tensor<4x8xf32>
  %h = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = math.tanh %a : f32
    linalg.yield %r : f32
  } -> tensor<4x8xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = linalg.matmul ins(%h, %m : tensor<4x8xf32>, tensor<8x8xf32>) outs(%init : tensor<4x8xf32>) -> tensor<4x8xf32>
  %et = tensor.empty() : tensor<8x4xf32>
  %ht = linalg.generic {indexing_maps = [#t, #id], iterator_types = ["parallel", "parallel"]} ins(%h : tensor<4x8xf32>) outs(%et : tensor<8x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<8x4xf32>
  %eg = tensor.empty() : tensor<8x8xf32>
  %initg = linalg.fill ins(%zero : f32) outs(%eg : tensor<8x8xf32>) -> tensor<8x8xf32>
  %g = linalg.matmul ins(%ht, %y : tensor<8x4xf32>, tensor<4x8xf32>) outs(%initg : tensor<8x8xf32>) -> tensor<8x8xf32>
  fsdp.return %y, %g : tensor<4x8xf32>, tensor<8x8xf32>
}

// -----

// Who reads a slice of a product's result, in another shape, widens that slice.

#id = affine_map<(d0, d1) -> (d0, d1)>

fsdp.mesh @mesh [#fsdp.axis<"shard" = 1>]
fsdp.flat_param @root on @mesh shard ["shard"] replicate []
    state f32 gather bf16 reduce f32 numel 64 [<"w", tensor<8x8xf32> at 0>] {trainable, unit = ""}
fsdp.state @w parameter of @root : tensor<64xf32>

// CHECK-LABEL: fsdp.program @sliced
// CHECK:         %[[Y:.*]] = linalg.matmul ins({{.*}} : tensor<4x8xbf16>, tensor<8x8xbf16>)
// CHECK-NOT:     tensor<4x8xf32>
// CHECK:         %[[S:.*]] = tensor.extract_slice %{{.*}} : tensor<4x2x4xbf16> to tensor<4x1x4xbf16>
// CHECK:         linalg.generic {{.*}} ins(%{{.*}} : tensor<4x1x4xbf16>) outs(%{{.*}} : tensor<4x1x4xf32>)
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      arith.extf
fsdp.program @sliced(%w: tensor<64xf32> {fsdp.state = @w}, %x: tensor<4x8xf32> {fsdp.input = {name = "x"}})
    -> tensor<4x1x4xf32> attributes {product_type = bf16} {
  %zero = arith.constant 0.0 : f32
  %m = tensor.expand_shape %w [[0, 1]] output_shape [8, 8] : tensor<64xf32> into tensor<8x8xf32>
  %e = tensor.empty() : tensor<4x8xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = linalg.matmul ins(%x, %m : tensor<4x8xf32>, tensor<8x8xf32>) outs(%init : tensor<4x8xf32>) -> tensor<4x8xf32>
  %h = tensor.expand_shape %y [[0], [1, 2]] output_shape [4, 2, 4] : tensor<4x8xf32> into tensor<4x2x4xf32>
  %s = tensor.extract_slice %h[0, 1, 0] [4, 1, 4] [1, 1, 1] : tensor<4x2x4xf32> to tensor<4x1x4xf32>
  fsdp.return %s : tensor<4x1x4xf32>
}
