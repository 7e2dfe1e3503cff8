// Units whose states are in the host's memory, or are not where those of the others are.
//
// RUN: fsdp-opt %s --pass-pipeline='builtin.module(fsdp-offload-optimizer{all=false},fsdp-offload-parameters{all=false})' | FileCheck %s --check-prefix=MARKED
// RUN: fsdp-opt %s --fsdp-offload-optimizer --fsdp-offload-parameters | FileCheck %s --check-prefix=ALL

fsdp.mesh @mesh [#fsdp.axis<"shard" = 1>]
fsdp.flat_param @none on @mesh shard ["shard"] replicate [] state f32 gather f32 reduce f32 numel 8 [
  <"a", tensor<8xf32> at 0>] {trainable, unit = "none", offload = #fsdp<host_part none>}
fsdp.flat_param @first on @mesh shard ["shard"] replicate [] state f32 gather f32 reduce f32 numel 8 [
  <"b", tensor<8xf32> at 0>] {trainable, unit = "first", offload = #fsdp<host_part parameters>}
fsdp.flat_param @second on @mesh shard ["shard"] replicate [] state f32 gather f32 reduce f32 numel 8 [
  <"c", tensor<8xf32> at 0>] {trainable, unit = "second", offload = #fsdp<host_part optimizer>}
fsdp.flat_param @both on @mesh shard ["shard"] replicate [] state f32 gather f32 reduce f32 numel 8 [
  <"d", tensor<8xf32> at 0>] {trainable, unit = "both", offload = #fsdp<host_part all>}
fsdp.flat_param @silent on @mesh shard ["shard"] replicate [] state f32 gather f32 reduce f32 numel 8 [
  <"e", tensor<8xf32> at 0>] {trainable, unit = "silent"}
// MARKED: @none.param parameter of @none : tensor
// MARKED: @none.m optimizer "m" of @none : tensor
// MARKED: @first.param parameter of @first : !fsdp.host
// MARKED: @first.m optimizer "m" of @first : tensor
// MARKED: @second.param parameter of @second : tensor
// MARKED: @second.m optimizer "m" of @second : !fsdp.host
// MARKED: @both.param parameter of @both : !fsdp.host
// MARKED: @both.m optimizer "m" of @both : !fsdp.host
// MARKED: @silent.param parameter of @silent : tensor
// MARKED: @silent.m optimizer "m" of @silent : tensor
// ALL: @none.param parameter of @none : tensor
// ALL: @none.m optimizer "m" of @none : tensor
// ALL: @first.param parameter of @first : !fsdp.host
// ALL: @first.m optimizer "m" of @first : tensor
// ALL: @second.param parameter of @second : tensor
// ALL: @second.m optimizer "m" of @second : !fsdp.host
// ALL: @silent.param parameter of @silent : !fsdp.host
// ALL: @silent.m optimizer "m" of @silent : !fsdp.host
fsdp.state @none.param parameter of @none : tensor<8xf32>
fsdp.state @none.m optimizer "m" of @none : tensor<8xf32> init 0.0 : f64
fsdp.state @first.param parameter of @first : tensor<8xf32>
fsdp.state @first.m optimizer "m" of @first : tensor<8xf32> init 0.0 : f64
fsdp.state @second.param parameter of @second : tensor<8xf32>
fsdp.state @second.m optimizer "m" of @second : tensor<8xf32> init 0.0 : f64
fsdp.state @both.param parameter of @both : tensor<8xf32>
fsdp.state @both.m optimizer "m" of @both : tensor<8xf32> init 0.0 : f64
fsdp.state @silent.param parameter of @silent : tensor<8xf32>
fsdp.state @silent.m optimizer "m" of @silent : tensor<8xf32> init 0.0 : f64
