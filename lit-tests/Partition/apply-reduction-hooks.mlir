// RUN: fsdp-opt %s --split-input-file --verify-diagnostics --fsdp-apply-reduction-hooks | FileCheck %s

// A matrix of 16 x 32 with rank 1 and a vector: P, with what is sent whole, and
// Q are a mean each. Both are kept, what was not sent and Q, unless the norm is
// not finite.
module attributes {fsdp.skips_nonfinite} {
fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @a on @mesh shard [] replicate ["shard"] state f32 gather f32 reduce bf16 numel 576 [
  <"w", tensor<16x32xf32> at 0>, <"b", tensor<16xf32> at 512>] {trainable, unit = "a", reduction_hook = "powersgd"}
// CHECK: fsdp.state @a.param
// CHECK: fsdp.state @residual.w.powersgd_error residual "w.powersgd_error" of @a : tensor<16x32xf32> init {kind = "constant", value = 0.000000e+00 : f64}
// CHECK: fsdp.state @residual.w.powersgd_q residual "w.powersgd_q" of @a : tensor<1x32xf32> init {kind = "normal", mean = 0.000000e+00 : f64, std = 1.000000e+00 : f64}
fsdp.state @a.param parameter of @a : tensor<576xf32>
// CHECK: fsdp.program @train(%{{.*}}, %[[G:.*]]: tensor<576xf32> {{.*}}, %[[ERROR:.*]]: tensor<16x32xf32> {fsdp.state = @residual.w.powersgd_error}, %[[Q:.*]]: tensor<1x32xf32> {fsdp.state = @residual.w.powersgd_q})
// CHECK-SAME: tensor<f32> {fsdp.grad_norm}, tensor<16x32xf32> {fsdp.state = @residual.w.powersgd_error}, tensor<1x32xf32> {fsdp.state = @residual.w.powersgd_q}
fsdp.program @train(%w: tensor<576xf32> {fsdp.state = @a.param}, %g: tensor<576xf32> {fsdp.input = {name = "g"}}, %n: tensor<f32>)
    -> (tensor<576xf32> {fsdp.state = @a.param}, tensor<f32> {fsdp.grad_norm}) {
  // CHECK: %[[M:.*]] = fsdp.view %[[G]][0] : tensor<576xf32> -> tensor<16x32xf32>
  // CHECK: %[[SUM:.*]] = linalg.generic {{.*}} ins(%[[M]], %[[ERROR]]
  // CHECK: linalg.matmul ins(%{{.*}}, %{{.*}} : tensor<1x32xf32>, tensor<32x16xf32>)
  // CHECK: fsdp.view %[[G]][512] : tensor<576xf32> -> tensor<16xf32>
  // CHECK: fsdp.pack %{{.*}} at 0, %{{.*}} at 16 : tensor<1x16xf32>, tensor<16xf32> -> tensor<32xf32>
  // CHECK: fsdp.all_reduce %{{.*}} on @mesh["shard"] divisor 2 : tensor<32xbf16>
  // CHECK: linalg.matmul ins(%{{.*}}, %[[SUM]] : tensor<1x16xf32>, tensor<16x32xf32>)
  // CHECK: fsdp.all_reduce %{{.*}} on @mesh["shard"] divisor 2 : tensor<32xbf16>
  // CHECK: linalg.matmul ins(%{{.*}}, %{{.*}} : tensor<16x1xf32>, tensor<1x32xf32>)
  // CHECK: %[[MEAN:.*]] = fsdp.pack %{{.*}} at 0, %{{.*}} at 512 : tensor<16x32xf32>, tensor<16xf32> -> tensor<576xf32>
  %m = fsdp.reduce_replicas @a(%g) : tensor<576xf32>
  // CHECK: math.absf
  // CHECK: arith.select
  // CHECK: fsdp.return %[[MEAN]],
  fsdp.return %m, %n : tensor<576xf32>, tensor<f32>
}
}

// -----

// What is kept is of gradients of one scale.
// expected-error @below {{expected a loss-scale that stays as it is beside a reduction hook that keeps what it has not sent, got dynamic}}
module attributes {fsdp.loss_scale = {backoff = 0.5, min = 1.0}} {
fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// expected-note @below {{of this flat parameter}}
fsdp.flat_param @a on @mesh shard [] replicate ["shard"] state f32 gather f32 reduce f32 numel 512 [
  <"w", tensor<16x32xf32> at 0>] {trainable, unit = "a", reduction_hook = "powersgd"}
fsdp.state @a.param parameter of @a : tensor<512xf32>
fsdp.program @train(%w: tensor<512xf32> {fsdp.state = @a.param}, %g: tensor<512xf32> {fsdp.input = {name = "g"}})
    -> (tensor<512xf32> {fsdp.state = @a.param}) {
  %m = fsdp.reduce_replicas @a(%g) : tensor<512xf32>
  fsdp.return %m : tensor<512xf32>
}
}

// -----

// A hook that this compiler does not have, at L2.
fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// expected-error @below {{reduction hook 'unknown': expected one of bf16, fp16, powersgd, or of a plugin that is loaded}}
fsdp.flat_param @a on @mesh shard [] replicate ["shard"] state f32 gather f32 reduce f32 numel 512 [
  <"w", tensor<16x32xf32> at 0>] {trainable, unit = "a", reduction_hook = "unknown"}
fsdp.state @a.param parameter of @a : tensor<512xf32>
fsdp.program @train(%w: tensor<512xf32> {fsdp.state = @a.param}, %g: tensor<512xf32> {fsdp.input = {name = "g"}})
    -> (tensor<512xf32> {fsdp.state = @a.param}) {
  %m = fsdp.reduce_replicas @a(%g) : tensor<512xf32>
  fsdp.return %m : tensor<512xf32>
}
