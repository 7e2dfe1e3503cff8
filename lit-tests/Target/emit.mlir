// Every form of output, from one step.

// RUN: fsdp-compile %s --mesh shard=2 --emit ir:L1 -o - | FileCheck %s --check-prefix=L1
// RUN: fsdp-compile %s --mesh shard=2 --emit ir:L2 -o - | FileCheck %s --check-prefix=L2
// RUN: fsdp-compile %s --mesh shard=2 --emit llvm -o - | FileCheck %s --check-prefix=LLVM
// RUN: rm -rf %t && mkdir %t
// RUN: fsdp-compile %s --mesh shard=2 -o %t/program
// RUN: %t/program --describe | FileCheck %s --check-prefix=MANIFEST
// RUN: fsdp-compile %s --mesh shard=2 --emit so -o %t/program.so
// RUN: llvm-nm -D --defined-only %t/program.so | FileCheck %s --check-prefix=SO

// Nothing but the outputs is left behind.
// RUN: ls -A %t | FileCheck %s --check-prefix=FILES
// FILES:     {{^}}program{{$}}
// FILES-NEXT:{{^}}program.h{{$}}
// FILES-NEXT:{{^}}program.so{{$}}
// FILES-NOT: {{.}}

// L1:       fsdp.flat_param
// L1:       fsdp.program @train
// L1-DAG:   fsdp.unshard
// L1-DAG:   fsdp.reduce_grad
// L2:       fsdp.program @train
// L2-DAG:   fsdp.all_gather
// L2-DAG:   fsdp.launch
// L2-DAG:   fsdp.reduce_scatter
// LLVM:     target triple = "x86_64
// LLVM:     define {{.*}}i32 @fsdp_run_train
// MANIFEST: "mesh"
// SO:       fsdp_rt_artifact_entry

#id = affine_map<(d0, d1) -> (d0, d1)>
#none = affine_map<(d0, d1) -> ()>

func.func @forward_backward(%w: tensor<4x8xf32> {fsdp.param = {fqn = "w"}}, %x: tensor<4x8xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4x8xf32> {fsdp.grad = {fqn = "w"}}) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %p = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%w, %x : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.mulf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<4x8xf32>
  %e0 = tensor.empty() : tensor<f32>
  %f = linalg.fill ins(%zero : f32) outs(%e0 : tensor<f32>) -> tensor<f32>
  %loss = linalg.generic {indexing_maps = [#id, #none], iterator_types = ["reduction", "reduction"]}
      ins(%p : tensor<4x8xf32>) outs(%f : tensor<f32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %a, %o : f32
    linalg.yield %r : f32
  } -> tensor<f32>
  return %loss, %x : tensor<f32>, tensor<4x8xf32>
}
