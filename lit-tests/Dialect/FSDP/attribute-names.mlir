// RUN: fsdp-opt %s -split-input-file -verify-diagnostics | FileCheck %s

// A name that is known may stand anywhere; others' names are theirs.
// CHECK: func.func @known(%{{.*}}: tensor<f32> {fsdp.input = {name = "x"}, other.kep})
func.func @known(%x: tensor<f32> {fsdp.input = {name = "x"}, other.kep}) -> (tensor<f32> {fsdp.loss}) {
  return {kep, other.kep} %x : tensor<f32>
}

// -----

func.func @op(%x: tensor<f32>) -> tensor<f32> {
  // discardable_c1
  // expected-error @below {{expected an attribute of the fsdp dialect, got 'fsdp.kep'; did you mean 'fsdp.keep'?}}
  return {fsdp.kep} %x : tensor<f32>
}

// -----

// expected-error @below {{expected an attribute of the fsdp dialect on argument 1, got 'fsdp.parm'; did you mean 'fsdp.param'?}}
func.func @argument(%x: tensor<f32>, %y: tensor<f32> {fsdp.parm = {fqn = "w"}}) {
  return
}

// -----

// expected-error @below {{expected an attribute of the fsdp dialect on result 0, got 'fsdp.buffer_updates'; did you mean 'fsdp.buffer_update'?}}
func.func @result(%x: tensor<f32>) -> (tensor<f32> {fsdp.buffer_updates = {fqn = "w"}}) {
  return %x : tensor<f32>
}

// -----

// Nothing is like it.
// expected-error-re @below {{expected an attribute of the fsdp dialect, got 'fsdp.pipeline'{{$}}}}
module attributes {fsdp.pipeline = 4 : i64} {
}
