//===- FSDPAttentionOps.td - Attention as one op -----------*- tablegen -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_DIALECT_FSDP_IR_FSDPATTENTIONOPS_TD
#define FSDP_DIALECT_FSDP_IR_FSDPATTENTIONOPS_TD

// Included by FSDPOps.td.

//===----------------------------------------------------------------------===//
// L2: attention
//===----------------------------------------------------------------------===//

// Elements that products widen to float32.
def FSDP_AttentionTensor
    : StaticShapeTensorOf<[F32, BF16, F16]>;

def FSDP_AttentionOp : FSDP_Op<"attention", [
    Pure, SingleBlock, IsolatedFromAbove]> {
  let summary = "softmax(f(q k^T)) v without its matrix of scores";
  let description = [{
    For every index of the batch (heads are batch dimensions):

    ```
    s[i, j] = score(scale * sum_d q[i, d] k[j, d], indices, captured[i, j]...)
    m[i]    = max_j s[i, j]             l[i] = sum_j exp(s[i, j] - m[i])
    p[i, j] = exp(s[i, j] - m[i]) / l[i]
    out[i]  = sum_j factor(indices, captured[i, j]...) * p[i, j] * v[j]
    ```

    `shape` names the sizes. Every tensor is seen through a #fsdp.strided, which
    says where the element at (batch..., row, column) lies: transposes, slices
    and heads that share keys are strides. Rows and columns are queries and
    features of q and out, keys and features of k and v, queries and keys of
    what is captured.

    The body is the score function: its arguments are the score, the indices
    (one per batch dimension, then query and key), and the elements of the
    captured tensors at that point. It yields the element that goes into the
    softmax. All arithmetic is done in float32 and the result is rounded once.

    `factor` is a second body, without the score: what a probability is
    multiplied by behind the softmax, as dropout does. Without it the factor
    is 1.

    `stats` holds, per row in the order of the batch, m and behind all of them
    1 / l: fsdp.attention_backward computes the probabilities again from these.

    With `causal`, scores of keys behind the query's own index are known to be
    minus infinity; they need not be looked at. With `zero_masked`, rows whose
    scores are all minus infinity are zero; otherwise they are not a number.

    Constraints:
    - attention_c1: sizes are at least 1, at least 2 keys, and there are at most
      four batch dimensions.
    - attention_c2: a view has one stride per batch dimension and two more, none
      negative, and lies inside its tensor.
    - attention_c3: `out` writes each element of its tensor once.
    - attention_c4: `stats` has two elements per row of the batch.
    - attention_c5: the body takes the score, the indices and an element of each
      captured tensor, and yields a score; `factor` takes the same but the
      score, and yields a factor.
    - attention_c6: as many captured views as captured tensors.
    - attention_c7: elements are f32, bf16 or f16; statistics are f32.

    Example:
    ```mlir
    %out, %stats = fsdp.attention <batch = [2, 4], queries = 32, keys = 32, head = 16, value = 16>
        q(%qkv <0, [6144, 16, 192, 1]> : tensor<64x192xf32>)
        k(%qkv <64, [6144, 16, 192, 1]> : tensor<64x192xf32>)
        v(%qkv <128, [6144, 16, 192, 1]> : tensor<64x192xf32>)
        captured() [] scale 0.25 causal {
    ^bb0(%s: f32, %b0: index, %b1: index, %query: index, %key: index):
      %minus_infinity = arith.constant 0xFF800000 : f32
      %seen = arith.cmpi ule, %key, %query : index
      %masked = arith.select %seen, %s, %minus_infinity : f32
      fsdp.yield %masked : f32
    } out(<0, [2048, 16, 64, 1]>) : tensor<2x32x4x16xf32>, tensor<512xf32>
    ```
  }];
  let arguments = (ins
    FSDP_AttentionShapeAttr:$shape,
    FSDP_AttentionTensor:$q, FSDP_StridedAttr:$qView, // attention_c7
    FSDP_AttentionTensor:$k, FSDP_StridedAttr:$kView,
    FSDP_AttentionTensor:$v, FSDP_StridedAttr:$vView,
    Variadic<FSDP_LocalTensor>:$captured,
    FSDP_StridedArrayAttr:$capturedViews,
    F64Attr:$scale, UnitAttr:$causal, UnitAttr:$zeroMasked,
    FSDP_StridedAttr:$outView);
  let results = (outs FSDP_AttentionTensor:$out,
                      StaticShapeTensorOf<[F32]>:$stats);
  let regions = (region SizedRegion<1>:$score, MaxSizedRegion<1>:$factor);
  let assemblyFormat = [{
    $shape `q` `(` $q $qView `:` type($q) `)`
    `k` `(` $k $kView `:` type($k) `)` `v` `(` $v $vView `:` type($v) `)`
    `captured` `(` ($captured^ `:` type($captured))? `)` $capturedViews
    `scale` $scale (`causal` $causal^)? (`zero_masked` $zeroMasked^)?
    $score (`factor` $factor^)? `out` `(` $outView `)` attr-dict `:` type($out) `,` type($stats)
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def FSDP_AttentionBackwardOp : FSDP_Op<"attention_backward", [
    Pure, SingleBlock, IsolatedFromAbove,
    AttrSizedResultSegments]> {
  let summary = "the gradients of an attention";
  let description = [{
    Computes the scores, probabilities p and factors f again, tile by tile, and
    from them

    ```
    dp[i, j] = f[i, j] * sum_e dout[i, e] v[j, e]
    ds[i, j] = p[i, j] * (dp[i, j] - sum_e dout[i, e] out[i, e])
    g[i, j]  = score_gradient(ds, scale * sum_d q[i, d] k[j, d], indices, captured...)
    dq[i] = dq_scale * sum_j g[i, j] k[j]     dk[j] = dk_scale * sum_i g[i, j] q[i]
    dv[j] = sum_i f[i, j] p[i, j] dout[i]
    ```

    Views, captured tensors, `score` and `factor` are those of fsdp.attention;
    the other body is the gradient of the score function and takes the gradient behind the
    softmax in front of what the first one takes. A batch stride of 0 in dk or
    dv sums over the dimension: heads that share keys. A gradient that nothing
    needs has neither view nor result.

    Constraints:
    - attention_backward_c1: sizes are at least 1, at least 2 keys, and there
      are at most four batch dimensions.
    - attention_backward_c2: a view has one stride per batch dimension and two
      more, none negative, and lies inside its tensor.
    - attention_backward_c3: a gradient writes each element of its tensor, once
      but for what it sums over: dq over nothing, dk and dv over the same
      dimensions.
    - attention_backward_c4: `stats` has two elements per row of the batch.
    - attention_backward_c5: the bodies take the gradient (`gradient`), the
      score (`factor` neither), the indices and an element of each captured
      tensor, and yield a score, a gradient and a factor.
    - attention_backward_c6: as many captured views as captured tensors, and a
      view for each gradient that there is.
    - attention_backward_c7: elements are f32, bf16 or f16; statistics are f32.

    Example:
    ```mlir
    %dq, %dk, %dv = fsdp.attention_backward <batch = [8], queries = 32, keys = 32, head = 16, value = 16>
        q(%q <0, [512, 16, 1]> : tensor<8x32x16xf32>) k(%k <0, [512, 16, 1]> : tensor<8x32x16xf32>)
        v(%v <0, [512, 16, 1]> : tensor<8x32x16xf32>) out(%out <0, [512, 16, 1]> : tensor<8x32x16xf32>)
        dout(%dout <0, [512, 16, 1]> : tensor<8x32x16xf32>) stats(%stats : tensor<512xf32>)
        captured() [] scale 0.25 {
    ^bb0(%s: f32, %b0: index, %query: index, %key: index):
      fsdp.yield %s : f32
    } gradient {
    ^bb0(%ds: f32, %s: f32, %b0: index, %query: index, %key: index):
      fsdp.yield %ds : f32
    } dq(<0, [512, 16, 1]> scale 0.25 : tensor<8x32x16xf32>)
      dk(<0, [512, 16, 1]> scale 0.25 : tensor<8x32x16xf32>)
      dv(<0, [512, 16, 1]> : tensor<8x32x16xf32>)
    ```
  }];
  let arguments = (ins
    FSDP_AttentionShapeAttr:$shape,
    FSDP_AttentionTensor:$q, FSDP_StridedAttr:$qView, // attention_backward_c7
    FSDP_AttentionTensor:$k, FSDP_StridedAttr:$kView,
    FSDP_AttentionTensor:$v, FSDP_StridedAttr:$vView,
    FSDP_AttentionTensor:$out, FSDP_StridedAttr:$outView,
    FSDP_AttentionTensor:$dout, FSDP_StridedAttr:$doutView,
    StaticShapeTensorOf<[F32]>:$stats,
    Variadic<FSDP_LocalTensor>:$captured,
    FSDP_StridedArrayAttr:$capturedViews,
    F64Attr:$scale, UnitAttr:$causal,
    OptionalAttr<FSDP_StridedAttr>:$dqView,
    DefaultValuedAttr<F64Attr, "1.0">:$dqScale,
    OptionalAttr<FSDP_StridedAttr>:$dkView,
    DefaultValuedAttr<F64Attr, "1.0">:$dkScale,
    OptionalAttr<FSDP_StridedAttr>:$dvView);
  let results = (outs Optional<FSDP_AttentionTensor>:$dq,
                      Optional<FSDP_AttentionTensor>:$dk,
                      Optional<FSDP_AttentionTensor>:$dv);
  let regions = (region SizedRegion<1>:$score, SizedRegion<1>:$gradient,
                        MaxSizedRegion<1>:$factor);
  let assemblyFormat = [{
    $shape `q` `(` $q $qView `:` type($q) `)`
    `k` `(` $k $kView `:` type($k) `)` `v` `(` $v $vView `:` type($v) `)`
    `out` `(` $out $outView `:` type($out) `)`
    `dout` `(` $dout $doutView `:` type($dout) `)`
    `stats` `(` $stats `:` type($stats) `)`
    `captured` `(` ($captured^ `:` type($captured))? `)` $capturedViews
    `scale` $scale (`causal` $causal^)? $score `gradient` $gradient
    (`factor` $factor^)?
    (`dq` `(` $dqView^ (`scale` $dqScale^)? `:` type($dq) `)`)?
    (`dk` `(` $dkView^ (`scale` $dkScale^)? `:` type($dk) `)`)?
    (`dv` `(` $dvView^ `:` type($dv) `)`)? attr-dict
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

#endif // FSDP_DIALECT_FSDP_IR_FSDPATTENTIONOPS_TD
