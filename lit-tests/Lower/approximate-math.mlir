// RUN: fsdp-opt %s --pass-pipeline='builtin.module(gpu.module(fsdp-expand-math{approximate=true},fsdp-convert-device-math))' | FileCheck %s
// RUN: fsdp-opt %s --pass-pipeline='builtin.module(gpu.module(fsdp-expand-math,fsdp-convert-device-math))' | FileCheck %s --check-prefix=EXACT

// Functions that may be approximated become instructions. Without
// `approximate`, which code for processors is expanded without, they do not.

gpu.module @cuda_kernels {
  // CHECK-LABEL: gpu.func @functions
  // EXACT-LABEL: gpu.func @functions
  gpu.func @functions(%x: f32, %b: bf16, %m: memref<8xf32>, %n: memref<8xbf16>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    // Results below 2^-126 matter.
    // CHECK: %[[SCALED:.*]] = arith.mulf %{{.*}}, %{{.*}} : f32
    // CHECK: llvm.call_intrinsic "llvm.nvvm.ex2.approx"(%[[SCALED]])
    // EXACT-NOT: approx
    %0 = math.exp %x fastmath<afn> : f32
    memref.store %0, %m[%c0] : memref<8xf32>
    // Beside 1 they do not.
    // CHECK: llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz"
    // CHECK: llvm.call_intrinsic "llvm.nvvm.rcp.approx.ftz.f"
    // CHECK: llvm.call_intrinsic "llvm.copysign"
    %1 = math.tanh %x fastmath<afn> : f32
    memref.store %1, %m[%c1] : memref<8xf32>
    // CHECK: arith.extf %{{.*}} : bf16 to f32
    // CHECK: llvm.call_intrinsic "llvm.nvvm.ex2.approx"
    // CHECK: arith.truncf
    %2 = math.exp2 %b fastmath<afn> : bf16
    memref.store %2, %n[%c0] : memref<8xbf16>
    // Others keep their arithmetic.
    // CHECK-NOT: approx
    // CHECK: gpu.return
    %3 = math.exp %x : f32
    memref.store %3, %m[%c1] : memref<8xf32>
    gpu.return
  }

  // CHECK-LABEL: gpu.func @quotients
  gpu.func @quotients(%x: f32, %y: f32, %m: memref<8xf32>) kernel {
    %c0 = arith.constant 0 : index
    %one = arith.constant 1.0 : f32
    %three = arith.constant 3.0 : f32
    // CHECK: llvm.call_intrinsic "llvm.nvvm.div.full"
    %0 = arith.divf %x, %y fastmath<afn> : f32
    memref.store %0, %m[%c0] : memref<8xf32>
    // CHECK: arith.divf %{{.*}}, %{{.*}} fastmath<afn> : f32
    %1 = arith.divf %one, %y fastmath<afn> : f32
    memref.store %1, %m[%c0] : memref<8xf32>
    // CHECK: %[[THIRD:.*]] = arith.constant 0.333333343 : f32
    // CHECK: arith.mulf %{{.*}}, %[[THIRD]] : f32
    %2 = arith.divf %x, %three fastmath<afn> : f32
    memref.store %2, %m[%c0] : memref<8xf32>
    // CHECK: arith.divf %{{.*}}, %{{.*}} : f32
    %3 = arith.divf %x, %y : f32
    memref.store %3, %m[%c0] : memref<8xf32>
    gpu.return
  }

  // CHECK-LABEL: gpu.func @extremes
  gpu.func @extremes(%x: f32, %y: f32, %m: memref<8xf32>) kernel {
    %c0 = arith.constant 0 : index
    // CHECK: llvm.call_intrinsic "llvm.maxnum"
    %0 = arith.maxnumf %x, %y : f32
    memref.store %0, %m[%c0] : memref<8xf32>
    // CHECK: llvm.call_intrinsic "llvm.maximum"
    %1 = arith.maximumf %x, %y : f32
    memref.store %1, %m[%c0] : memref<8xf32>
    // CHECK: llvm.call_intrinsic "llvm.minnum"
    %2 = arith.minnumf %x, %y : f32
    memref.store %2, %m[%c0] : memref<8xf32>
    // CHECK: llvm.call_intrinsic "llvm.minimum"
    %3 = arith.minimumf %x, %y : f32
    memref.store %3, %m[%c0] : memref<8xf32>
    gpu.return
  }
}
