// RUN: fsdp-opt %s --fsdp-cpu-kernels --fsdp-plan-arena --convert-fsdp-to-runtime="manifest='{\"name\":1}'" | FileCheck %s
// RUN: fsdp-opt %s --fsdp-cpu-kernels --fsdp-plan-arena --convert-fsdp-to-runtime="manifest='{\"programs\":[{\"name\":\"step\",\"certificate\":1}]}'" | FileCheck %s --check-prefix=CERTIFIED
// RUN: not fsdp-opt %s --fsdp-cpu-kernels --fsdp-plan-arena --convert-fsdp-to-runtime="manifest='text'" 2>&1 | FileCheck %s --check-prefix=TEXT

// Each launch and collective is one call with a constant descriptor; the step
// leaves where a call fails. What the kernels were made from is gone.

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]

// CHECK-DAG:   llvm.mlir.global internal constant @{{.*}}("{\22name\22:1}\00")
// CHECK:       func.func private @square_cpu
// CHECK:       llvm.func @fsdp_run_step
// CHECK:         llvm.call @fsdp_rt_launch
// CHECK:         llvm.icmp "eq"
// CHECK:         llvm.cond_br
// CHECK:         llvm.call @fsdp_rt_matmul
// CHECK:         llvm.call @fsdp_rt_start
// CHECK:         llvm.call @fsdp_rt_check
// CHECK:       llvm.func @square_entry
// CHECK:       llvm.func @fsdp_rt_launch(!llvm.ptr, !llvm.ptr) -> i32
// CHECK:       llvm.func @fsdp_rt_matmul(!llvm.ptr, !llvm.ptr) -> i32
// CHECK:       llvm.func @fsdp_rt_start(!llvm.ptr, !llvm.ptr) -> i32
// CHECK:       llvm.mlir.global private constant @fsdp_rt_programs
// CHECK:         llvm.mlir.addressof @fsdp_run_step
// CHECK:         llvm.mlir.zero : !llvm.ptr
// CHECK:         llvm.mlir.addressof @fsdp_run_evaluate
// CHECK:       llvm.mlir.global external constant @fsdp_rt_artifact_entry
// CHECK:         llvm.mlir.constant(2 : i32) : i32
// CHECK:         llvm.mlir.addressof @fsdp_rt_programs
// CHECK-NOT:   fsdp.mesh
// CHECK-NOT:   fsdp.launch

// With a manifest that certifies a program, the code says what it is: a digest
// of what was lowered. It also has one of the manifest.
// CERTIFIED-DAG: llvm.mlir.global internal constant @[[DIGEST:.*]]("{{[0-9a-f]+}}\00")
// CERTIFIED-DAG: llvm.mlir.global internal constant @[[STEP:.*]]("step\00")
// CERTIFIED-DAG: llvm.mlir.global internal constant @[[CERTIFICATE:.*]]("{{[0-9a-f]+}}\00")
// CERTIFIED:     llvm.mlir.global private constant @fsdp_rt_programs
// CERTIFIED:     llvm.mlir.addressof @fsdp_run_step
// CERTIFIED:     llvm.mlir.addressof @[[CERTIFICATE]]
// CERTIFIED:     llvm.mlir.addressof @fsdp_run_evaluate
// CERTIFIED:     llvm.mlir.zero : !llvm.ptr
// CERTIFIED:     llvm.mlir.global external constant @fsdp_rt_artifact_entry
// CERTIFIED:     llvm.mlir.addressof @[[DIGEST]]

// TEXT: error: expected the manifest to be JSON, got
fsdp.program @step(%x: tensor<4x4xf32>, %ok: tensor<i1>) -> tensor<4x4xf32> {
  %0 = fsdp.launch @square(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = fsdp.launch @product(%0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = fsdp.all_reduce %1 on @mesh["shard"] divisor 2 : tensor<4x4xf32>
  fsdp.check %ok, "message" : tensor<i1>
  fsdp.return %2 : tensor<4x4xf32>
}
fsdp.program eval @evaluate(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = fsdp.launch @square(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  fsdp.return %0 : tensor<4x4xf32>
}
func.func private @square(%x: tensor<4x4xf32>, %out: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %e = tensor.empty() : tensor<4x4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %t = arith.mulf %a, %a : f32
    linalg.yield %t : f32
  } -> tensor<4x4xf32>
  %s = bufferization.materialize_in_destination %r in %out : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %s : tensor<4x4xf32>
}
func.func private @product(%x: tensor<4x4xf32>, %out: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  %r = linalg.matmul ins(%x, %x : tensor<4x4xf32>, tensor<4x4xf32>) outs(%f : tensor<4x4xf32>) -> tensor<4x4xf32>
  %s = bufferization.materialize_in_destination %r in %out : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %s : tensor<4x4xf32>
}
