// RUN: fsdp-opt %s -split-input-file -verify-diagnostics | FileCheck %s

// Others' names are theirs.
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

// -----

// Each in its place, in functions of any name and on ops of any dialect.
module attributes {fsdp.modules = [], fsdp.strategy = "full_shard", fsdp.wrap = "none"} {
  fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
  func.func private @kernel(tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> attributes {fsdp.impl = {cpu = #fsdp.cpu_kernel<@cpu, grid = 1, grain = 1, scratch = 0, traffic = 0>}}
  func.func @other(%x: tensor<2xf32> {fsdp.param = {fqn = "w"}, fsdp.unit = "", fsdp.offset = 0 : i64}, %y: tensor<4xf32> {fsdp.optimizer = {}})
      -> (tensor<4xf32> {fsdp.optimizer = {}}) {
    %f = fsdp.all_gather %x on @mesh["shard"] for forward {fsdp.group = 1 : i64, fsdp.offsets = array<i64: 0>} : tensor<2xf32> -> tensor<4xf32>
    %g = fsdp.all_gather %x on @mesh["shard"] for backward {fsdp.keep} : tensor<2xf32> -> tensor<4xf32>
    %l = fsdp.launch @kernel(%g) {fsdp.recompute = array<i64: 0>, fsdp.offload = array<i64>} : (tensor<4xf32>) -> tensor<4xf32>
    %s = arith.addf %l, %y {fsdp.kernel = 0 : i64, fsdp.offsets = array<i64: 0>} : tensor<4xf32>
    return %s : tensor<4xf32>
  }
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.program @step(%p: tensor<8xf32>) -> tensor<4xf32> {
  // discardable_c2
  // expected-error @below {{expected 'fsdp.keep' on fsdp.all_gather, got it on fsdp.reduce_scatter}}
  %w = fsdp.reduce_scatter %p on @mesh["shard"] divisor 2 {fsdp.keep} : tensor<8xf32> -> tensor<4xf32>
  fsdp.return %w : tensor<4xf32>
}

// -----

// expected-error @below {{expected 'fsdp.matmul' on a function, got it on builtin.module}}
module attributes {fsdp.matmul = {}} {
}

// -----

// expected-error @below {{expected 'fsdp.state' on an argument of a function or a result of a function, got it on func.func}}
func.func @state(%p: tensor<8xf32>) attributes {fsdp.state = @w} {
  return
}

// -----

// expected-error @below {{expected 'fsdp.loss' on a result of a function, got it on argument 0 of func.func}}
func.func @loss(%p: tensor<f32> {fsdp.loss}) {
  return
}

// -----

// expected-error @below {{expected 'fsdp.scalar' on an argument of a function, got it on result 0 of func.func}}
func.func @scalar(%p: tensor<f32>) -> (tensor<f32> {fsdp.scalar = {name = "lr"}}) {
  return %p : tensor<f32>
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
func.func @gather(%p: tensor<4xf32>) -> tensor<8xf32> {
  // expected-error @below {{expected 'fsdp.kernel' on an op that computes in a function, got it on fsdp.all_gather}}
  %g = fsdp.all_gather %p on @mesh["shard"] {fsdp.kernel = 0 : i64} : tensor<4xf32> -> tensor<8xf32>
  return %g : tensor<8xf32>
}

// -----

func.func @places(%p: tensor<4xf32>) {
  // expected-error @below {{expected 'fsdp.offsets' on an op with results in memory, got it on func.return}}
  return {fsdp.offsets = array<i64>}
}
