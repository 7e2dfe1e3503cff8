// RUN: fsdp-opt %s --verify-diagnostics --allow-unregistered-dialect --fsdp-flatten-parameters
// RUN: fsdp-opt %S/Inputs/two-blocks.mlir --allow-unregistered-dialect --fsdp-assign-units -o %t
// DEFINE: %{refuse} = not fsdp-opt %t --allow-unregistered-dialect --fsdp-flatten-parameters=
// RUN: %{refuse}mesh= 2>&1 | FileCheck %s --check-prefix=EMPTY
// RUN: %{refuse}mesh=4 2>&1 | FileCheck %s --check-prefix=NUMBER
// RUN: %{refuse}mesh=shard=0 2>&1 | FileCheck %s --check-prefix=ZERO
// RUN: %{refuse}mesh=shard=-2 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: %{refuse}mesh=shard=2,replicate=0 2>&1 | FileCheck %s --check-prefix=ZERO-REPLICAS
// RUN: %{refuse}mesh=shard=3000000000 2>&1 | FileCheck %s --check-prefix=HUGE
// RUN: %{refuse}mesh=shard=65536,replicate=65536 2>&1 | FileCheck %s --check-prefix=PRODUCT
// RUN: %{refuse}mesh=tensor=2 2>&1 | FileCheck %s --check-prefix=AXIS
// RUN: %{refuse}mesh=shard=2,shard=4 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: %{refuse}strategy=zero3 2>&1 | FileCheck %s --check-prefix=STRATEGY
// RUN: %{refuse}strategy=hybrid_shard 2>&1 | FileCheck %s --check-prefix=HYBRID
// RUN: %{refuse}'mesh=shard=8 strategy=hybrid_shard_zero2' 2>&1 | FileCheck %s --check-prefix=ZERO2
// RUN: %{refuse}param-dtype=fp16 2>&1 | FileCheck %s --check-prefix=DTYPE
// RUN: %{refuse}reduce-dtype=i32 2>&1 | FileCheck %s --check-prefix=REDUCE-DTYPE
// RUN: %{refuse}buffer-dtype=half 2>&1 | FileCheck %s --check-prefix=BUFFER-DTYPE
// RUN: %{refuse}output-dtype=half 2>&1 | FileCheck %s --check-prefix=OUTPUT-DTYPE
// RUN: %{refuse}output-dtype=bf16 2>&1 | FileCheck %s --check-prefix=OUTPUT
// RUN: %{refuse}'param-dtype=bf16 eval-full-precision' 2>&1 | FileCheck %s --check-prefix=FULL
// RUN: %{refuse}'eval-full-precision' 2>&1 | FileCheck %s --check-prefix=FULL-ALONE
// RUN: %{refuse}param-dtype=f64 2>&1 | FileCheck %s --check-prefix=WIDER
// RUN: %{refuse}'ignore=decoder.*' 2>&1 | FileCheck %s --check-prefix=IGNORE
// RUN: %{refuse}'ignore=*' 2>&1 | FileCheck %s --check-prefix=ALL-IGNORED
// RUN: %{refuse}'replicate=norm.running_mean' 2>&1 | FileCheck %s --check-prefix=REPLICATE
// RUN: %{refuse}'ignore=blocks.* replicate=blocks.0.*' 2>&1 | FileCheck %s --check-prefix=BOTH
// RUN: %{refuse}'ignore=blocks.[0.weight' 2>&1 | FileCheck %s --check-prefix=PATTERN

// EMPTY:         error: expected a mesh such as shard=4 or shard=4,replicate=2, got ''
// NUMBER:        error: expected a mesh such as shard=4 or shard=4,replicate=2, got '4'
// ZERO:          error: expected 1 to 2147483647 ranks on axis shard, got 0
// NEGATIVE:      error: expected 1 to 2147483647 ranks on axis shard, got -2
// ZERO-REPLICAS: error: expected 1 to 2147483647 ranks on axis replicate, got 0
// HUGE:          error: expected 1 to 2147483647 ranks on axis shard, got 3000000000
// PRODUCT:       error: expected at most 2147483647 ranks in all, got 'shard=65536,replicate=65536'
// AXIS:          error: expected a mesh such as shard=4 or shard=4,replicate=2, got 'tensor=2'
// TWICE:         error: expected axis shard once, got 'shard=2,shard=4'
// STRATEGY:      error: expected strategy to be auto, full_shard, shard_grad_op, no_shard, hybrid_shard or hybrid_shard_zero2, got 'zero3'
// HYBRID:        error: expected a mesh with a replicate axis for hybrid_shard, got one with shard=2 alone
// ZERO2:         error: expected a mesh with a replicate axis for hybrid_shard_zero2, got one with shard=8 alone
// DTYPE:         error: expected f32, f64, bf16 or f16 as param-dtype, got 'fp16'
// REDUCE-DTYPE:  error: expected f32, f64, bf16 or f16 as reduce-dtype, got 'i32'
// BUFFER-DTYPE:  error: expected f32, f64, bf16 or f16 as buffer-dtype, got 'half'
// OUTPUT-DTYPE:  error: expected f32, f64, bf16 or f16 as output-dtype, got 'half'
// OUTPUT:        error: expected a function that evaluates (fsdp-export --eval) beside output-dtype, got none
// FULL:          error: expected a function that evaluates (fsdp-export --eval) beside eval-full-precision, got none
// FULL-ALONE:    error: expected a param-dtype beside eval-full-precision, got none
// WIDER:         error: expected 'f32', or a type of fewer bits, as param-dtype, since parameter "{{.*}}" is computed with in that type, got 'f64'
// IGNORE:        error: expected an ignore pattern that matches a parameter or buffer, got 'decoder.*'
// ALL-IGNORED:   error: expected a trainable parameter that is not ignored, got none among 5
// REPLICATE:     error: expected a replicate pattern that matches a parameter, got 'norm.running_mean'
// BOTH:          error: expected a replicate pattern that matches a parameter that is not ignored, got 'blocks.0.*'
// PATTERN:       error: expected an ignore pattern, got 'blocks.[0.weight': {{.+}}

// The plan is missing.
// expected-error@below {{expected fsdp.unit on parameter "b" (run fsdp-assign-units first)}}
func.func @forward_backward(
    %a: tensor<4xf32> {fsdp.param = {fqn = "a"}, fsdp.unit = ""},
    %b: tensor<4xf32> {fsdp.param = {fqn = "b"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "a"}}, tensor<4xf32> {fsdp.grad = {fqn = "b"}}) {
  %l, %g = "test.all"(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> (tensor<f32>, tensor<4xf32>)
  return %l, %g, %g : tensor<f32>, tensor<4xf32>, tensor<4xf32>
}
