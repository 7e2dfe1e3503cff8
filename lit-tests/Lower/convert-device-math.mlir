// RUN: fsdp-opt %s --pass-pipeline='builtin.module(gpu.module(fsdp-convert-device-math))' | FileCheck %s

// Instructions that round as IEEE 754 says are intrinsics, functions calls.

gpu.module @cuda_kernels {
  // CHECK-DAG: llvm.func @_Z3powdd(f64, f64) -> f64
  // CHECK-DAG: llvm.func @_Z4fmodff(f32, f32) -> f32

  // CHECK-LABEL: gpu.func @k
  gpu.func @k(%d: f64, %f: f32, %b: bf16, %i: i32, %m: memref<8xf32>) kernel {
    // CHECK: llvm.call @_Z3powdd(%{{.*}}, %{{.*}}) : (f64, f64) -> f64
    %0 = math.powf %d, %d : f64
    // CHECK: llvm.call @_Z4fmodff
    %1 = arith.remf %f, %f : f32
    // CHECK: llvm.call_intrinsic "llvm.sqrt"(%{{.*}}) : (f32) -> f32
    %2 = math.sqrt %f : f32
    // CHECK: %[[ROOT:.*]] = llvm.call_intrinsic "llvm.sqrt"
    // CHECK: arith.divf %{{.*}}, %[[ROOT]] : f32
    %3 = math.rsqrt %f : f32
    // Narrow floats are computed in f32.
    // CHECK: arith.extf %{{.*}} : bf16 to f32
    // CHECK: llvm.call @_Z4tanhf
    // CHECK: arith.truncf %{{.*}} : f32 to bf16
    %4 = math.tanh %b : bf16
    // CHECK: %[[NEGATED:.*]] = arith.subi %{{.*}}, %[[I:.*]] : i32
    // CHECK: arith.maxsi %[[I]], %[[NEGATED]] : i32
    %6 = math.absi %i : i32
    // CHECK-NOT: math.ipowi
    // CHECK: scf.while
    // CHECK:   arith.muli
    // CHECK:   arith.shrui
    %7 = math.ipowi %i, %i : i32
    // CHECK: math.ctpop
    %5 = math.ctpop %i : i32
    %c0 = arith.constant 0 : index
    memref.store %3, %m[%c0] : memref<8xf32>
    gpu.return
  }
}
