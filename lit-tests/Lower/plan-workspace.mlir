// RUN: fsdp-opt %s --fsdp-layout-state --fsdp-plan-arena --fsdp-verify-schedule | FileCheck %s
// RUN: fsdp-opt %s --fsdp-layout-state=guard=true --fsdp-plan-arena=guard=true --fsdp-verify-schedule \
// RUN:   | FileCheck %s --check-prefix=GUARD
// RUN: fsdp-opt %s --fsdp-layout-state --fsdp-plan-arena --convert-fsdp-to-runtime=cuda=sm_80 | FileCheck %s --check-prefix=LOWER
// RUN: fsdp-opt %s --fsdp-layout-state=guard=true --fsdp-plan-arena=guard=true --convert-fsdp-to-runtime=cuda=sm_80 \
// RUN:   | FileCheck %s --check-prefix=FILL

fsdp.mesh @mesh [#fsdp.axis<"shard" = 1>]

// The workspace lies behind all values, as large as the launch that needs most.

// CHECK-LABEL: fsdp.program @step
// CHECK-SAME:    arena = #fsdp.arena<bytes = 1792, inputs = 256, transient = 512, workspace = 1024, peak = [0, 0, 0, 0, 512, 256, 1024]>
// CHECK:         fsdp.launch @few({{.*}}) {fsdp.offsets = array<i64: {{256|512}}>}
// CHECK:         fsdp.launch @product({{.*}}) {fsdp.offsets = array<i64: {{256|512}}>}
// GUARD-LABEL: fsdp.program @step
// GUARD-SAME:    arena = #fsdp.arena<bytes = 2560, inputs = 512, transient = 1024, workspace = 1024, border = 256, peak = [0, 0, 0, 0, 1024, 512, 1024]>
fsdp.program @step(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = fsdp.launch @few(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = fsdp.launch @product(%0, %x) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  fsdp.return %1 : tensor<8x8xf32>
}

// A program whose launches need none has none.

// CHECK-LABEL: fsdp.program eval @none
// CHECK-SAME:    arena = #fsdp.arena<bytes = 512, inputs = 256, transient = 256, peak = [0, 0, 0, 0, 256, 256, 0]>
fsdp.program eval @none(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = fsdp.launch @nothing(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  fsdp.return %0 : tensor<8x8xf32>
}

// Calls say where it is; code says what it needs.

// LOWER:       @fsdp_cuda_code
// LOWER:         %[[NEEDS:.*]] = llvm.mlir.constant(1000 : i64)
// LOWER-NEXT:    llvm.insertvalue %[[NEEDS]], %{{.*}}[2]
// LOWER:       @fsdp_launch
// LOWER:         %[[AT:.*]] = llvm.mlir.constant(768 : i64)
// LOWER-NEXT:    llvm.insertvalue %[[AT]], %{{.*}}[5]
// LOWER:         %[[HAS:.*]] = llvm.mlir.constant(1000 : i64)
// LOWER-NEXT:    llvm.insertvalue %[[HAS]], %{{.*}}[6]
// LOWER:       @fsdp_matmul
// LOWER:         %[[AT:.*]] = llvm.mlir.constant(768 : i64)
// LOWER-NEXT:    llvm.insertvalue %[[AT]], %{{.*}}[14]
// LOWER:         %[[HAS:.*]] = llvm.mlir.constant(512 : i64)
// LOWER-NEXT:    llvm.insertvalue %[[HAS]], %{{.*}}[15]
// LOWER:       \22bytes\22:1024,\22name\22:\22workspace\22,\22offset\22:768
// LOWER-SAME:  \22workspace\22:1024

// No guard fills or searches it: free are the bytes below, from 512 to 1536.

// FILL:      ("all but state, inputs and the workspace\00")
// FILL:      @fsdp_guarded
// FILL:        %[[FROM:.*]] = llvm.mlir.constant(512 : i64)
// FILL-NEXT:   llvm.insertvalue %[[FROM]], %{{.*}}[1]
// FILL-NEXT:   %[[BYTES:.*]] = llvm.mlir.constant(1024 : i64)
// FILL-NEXT:   llvm.insertvalue %[[BYTES]], %{{.*}}[2]

func.func private @few(%x: tensor<8x8xf32>, %out: tensor<8x8xf32>) -> tensor<8x8xf32> attributes {
    fsdp.impl = {cuda = #fsdp.cuda_code<[<@cuda_kernels::@few, grid = 1, block = 32, shared = 0>], traffic = 512, workspace = 1000>}} {
  return %out : tensor<8x8xf32>
}
func.func private @nothing(%x: tensor<8x8xf32>, %out: tensor<8x8xf32>) -> tensor<8x8xf32> attributes {
    fsdp.impl = {cuda = #fsdp.cuda_code<[<@cuda_kernels::@few, grid = 1, block = 32, shared = 0>], traffic = 512>}} {
  return %out : tensor<8x8xf32>
}
func.func private @product(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>, %out: tensor<8x8xf32>) -> tensor<8x8xf32> attributes {
    fsdp.impl = {cuda = #fsdp.cuda_product<workspace = 512>},
    fsdp.matmul = #fsdp.matmul<a = 0, b = 1, m = 8, n = 8, k = 8, lda = 8, ldb = 8, ldc = 8,
                               transA = false, transB = false, accumulate = false,
                               offsets = [0, 0, 0], batch = [1, 1, 1, 1], strideA = [0, 0, 0, 0],
                               strideB = [0, 0, 0, 0], strideC = [0, 0, 0, 0], alpha = 1.0 : f64>} {
  return %out : tensor<8x8xf32>
}
