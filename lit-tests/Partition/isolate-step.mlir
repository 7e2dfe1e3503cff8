// RUN: fsdp-opt %s --fsdp-isolate-step --split-input-file --mlir-print-debuginfo | FileCheck %s
// RUN: fsdp-opt %s --fsdp-verify-input --split-input-file -o /dev/null
// RUN: fsdp-opt %s --fsdp-partition=mesh=shard=2 --split-input-file | FileCheck %s --check-prefix=L2

// Helpers are inlined, of helpers too, in regions and in the optimizer, and are
// gone. What is not called goes as well. Their names, which kernels and the
// runtime have too, reach nothing.

// CHECK-LABEL: module {
// CHECK-NOT:     func.func private
// CHECK:         func.func @forward_backward(
// CHECK:           arith.mulf %{{.*}} loc(#[[INNER:.*]])
// CHECK:           linalg.generic
// CHECK:             arith.addf
// CHECK-NOT:       call
// CHECK:           return
// CHECK:         func.func @optimizer(
// CHECK-NOT:       call
// CHECK:           arith.addf
// CHECK:           return
// CHECK-NOT:     func.func
// An op says where it was called from.
// CHECK-DAG:   #[[INNER]] = loc(callsite(#[[AT:.*]] at #{{.*}}))
// CHECK-DAG:   #[[AT]] = loc(callsite(

// L2-LABEL: module
// L2-NOT:     call
// L2:         fsdp.program @train
// L2-NOT:     func.func
module {
  func.func private @malloc(%x: tensor<4xf32>) -> tensor<4xf32> {
    %y = arith.mulf %x, %x : tensor<4xf32>
    return %y : tensor<4xf32>
  }
  func.func private @k0_elementwise(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %y = call @malloc(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %y, %x : tensor<4xf32>, tensor<4xf32>
  }
  func.func private @fsdp_rt_matmul(%a: f32) -> f32 {
    %y = arith.addf %a, %a : f32
    return %y : f32
  }
  func.func private @unused() { return }
  func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}})
      -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
    %loss = arith.constant dense<0.0> : tensor<f32>
    %y, %x = call @k0_elementwise(%w) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    %e = tensor.empty() : tensor<4xf32>
    %g = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
        ins(%y : tensor<4xf32>) outs(%e : tensor<4xf32>) {
    ^bb0(%a: f32, %o: f32):
      %s = func.call @fsdp_rt_matmul(%a) : (f32) -> f32
      linalg.yield %s : f32
    } -> tensor<4xf32>
    return %loss, %g : tensor<f32>, tensor<4xf32>
  }
  func.func private @update(%p: tensor<?xf32>, %g: tensor<?xf32>) -> tensor<?xf32> {
    %s = arith.addf %p, %g : tensor<?xf32>
    return %s : tensor<?xf32>
  }
  func.func @optimizer(%p: tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}},
                       %g: tensor<?xf32> {fsdp.optimizer = {role = "grad", name = "grad"}})
      -> (tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}}) {
    %s = call @update(%p, %g) : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
    return %s : tensor<?xf32>
  }
}

// -----

// Attributes of others go, wherever they are; those of the contract and those
// that an op has of its own stay.

// CHECK-LABEL: module attributes {fsdp.modules = []} {
// CHECK:         func.func @forward_backward(%{{.*}}: tensor<4xf32> {fsdp.param = {fqn = "w"}} loc({{.*}}))
// CHECK-SAME:        -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
// CHECK:           arith.addf %{{.*}}, %{{.*}} fastmath<contract> : tensor<4xf32>
// Nor have integers that wrap, divisions with a rest and NaN promised anything.
// CHECK:           arith.addi %{{.*}}, %{{.*}} : i64
// CHECK-NEXT:      arith.divsi %{{.*}}, %{{.*}} : i64

// L2-LABEL: module attributes {fsdp.modules = []
// L2-NOT:     {{passthrough|mhlo|torch|section|hint}}
module attributes {fsdp.modules = [], torch.debug_module_name = "M", mhlo.num_partitions = 1 : i32} {
  func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}, mhlo.sharding = "x"})
      -> (tensor<f32> {fsdp.loss, torch.name = "loss"}, tensor<4xf32> {fsdp.grad = {fqn = "w"}})
      attributes {passthrough = ["naked"], section = ".init_array", "garbageCollector" = "x"} {
    %loss = arith.constant dense<0.0> : tensor<f32>
    %g = arith.addf %w, %w fastmath<contract,nnan> {hint = "x", passthrough = ["y"]} : tensor<4xf32>
    %big = arith.constant 9223372036854775807 : i64
    %i = arith.addi %big, %big overflow<nsw, nuw> : i64
    %third = arith.divsi %i, %big exact : i64
    return %loss, %g : tensor<f32>, tensor<4xf32>
  }
}

// -----

// A constant of a resource is one as others.

// CHECK-LABEL: module {
// CHECK:         arith.constant dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>

// L2-LABEL: module
// L2:         arith.constant dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>
module {
  func.func @forward_backward(%w: tensor<2xf32> {fsdp.param = {fqn = "w"}})
      -> (tensor<f32> {fsdp.loss}, tensor<2xf32> {fsdp.grad = {fqn = "w"}}) {
    %loss = arith.constant dense<0.0> : tensor<f32>
    %c = arith.constant dense_resource<two> : tensor<2xf32>
    %g = arith.addf %w, %c : tensor<2xf32>
    return %loss, %g : tensor<f32>, tensor<2xf32>
  }
}

{-#
  dialect_resources: {
    builtin: {
      two: "0x040000000000803F00000040"
    }
  }
#-}
