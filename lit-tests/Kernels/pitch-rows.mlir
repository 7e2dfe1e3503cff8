// RUN: fsdp-opt %s --fsdp-pitch-rows --split-input-file | FileCheck %s
// RUN: fsdp-opt %s --fsdp-pitch-rows --fsdp-match-matmuls --split-input-file | FileCheck %s --check-prefix=MATMUL
// RUN: fsdp-opt %s --fsdp-pitch-rows=alignment=2 --split-input-file | FileCheck %s --check-prefix=ANY
// RUN: not fsdp-opt %s --fsdp-pitch-rows=alignment=0 --split-input-file 2>&1 | FileCheck %s --check-prefix=ZERO

// ANY-NOT: 1008x

// ZERO: error: expected an alignment of at least 1 byte, got 0

// Logits that products and loops read and write have rows of 1008 elements; what the step returns keeps its own.

// CHECK-LABEL: fsdp.program @step
// CHECK:         %[[Y:.*]] = fsdp.launch @first(%{{.*}}, %{{.*}}) : (tensor<8x32xbf16>, tensor<1003x32xbf16>) -> tensor<8x1008xbf16>
// CHECK:         %[[Z:.*]]:2 = fsdp.launch @twice(%[[Y]]) : (tensor<8x1008xbf16>) -> (tensor<8x1008xbf16>, tensor<8x1003xbf16>)
// CHECK:         fsdp.launch @second(%[[Z]]#0, %{{.*}}) : (tensor<8x1008xbf16>, tensor<1003x32xbf16>) -> tensor<8x32xbf16>
fsdp.program @step(%x: tensor<8x32xbf16>, %w: tensor<1003x32xbf16>) -> (tensor<8x32xbf16>, tensor<8x1003xbf16>) {
  %y = fsdp.launch @first(%x, %w) : (tensor<8x32xbf16>, tensor<1003x32xbf16>) -> tensor<8x1003xbf16>
  %z:2 = fsdp.launch @twice(%y) : (tensor<8x1003xbf16>) -> (tensor<8x1003xbf16>, tensor<8x1003xbf16>)
  %r = fsdp.launch @second(%z#0, %w) : (tensor<8x1003xbf16>, tensor<1003x32xbf16>) -> tensor<8x32xbf16>
  fsdp.return %r, %z#1 : tensor<8x32xbf16>, tensor<8x1003xbf16>
}

// CHECK-LABEL: func.func private @first
// CHECK-SAME:    , %[[TO:[^ ]*]]: tensor<8x1008xbf16>) -> tensor<8x1008xbf16>
// CHECK:         %[[PLACE:.*]] = tensor.extract_slice %[[TO]][0, 0] [8, 1003] [1, 1]
// CHECK:         %[[S:.*]] = bufferization.materialize_in_destination %{{.*}} in %[[PLACE]]
// CHECK:         %[[ALL:.*]] = tensor.insert_slice %[[S]] into %[[TO]][0, 0] [8, 1003] [1, 1]
// CHECK:         return %[[ALL]]
// MATMUL-LABEL: func.func private @first
// MATMUL-SAME:    m = 8, n = 1003, k = 32, lda = 32, ldb = 32, ldc = 1008, transA = false, transB = true
func.func private @first(%a: tensor<8x32xbf16>, %b: tensor<1003x32xbf16>, %to: tensor<8x1003xbf16>) -> tensor<8x1003xbf16> {
  %zero = arith.constant 0.0 : bf16
  %e = tensor.empty() : tensor<8x1003xbf16>
  %f = linalg.fill ins(%zero : bf16) outs(%e : tensor<8x1003xbf16>) -> tensor<8x1003xbf16>
  %p = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (j, k)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : tensor<8x32xbf16>, tensor<1003x32xbf16>) outs(%f : tensor<8x1003xbf16>) {
  ^bb0(%x: bf16, %y: bf16, %o: bf16):
    %m = arith.mulf %x, %y : bf16
    %s = arith.addf %o, %m : bf16
    linalg.yield %s : bf16
  } -> tensor<8x1003xbf16>
  %r = bufferization.materialize_in_destination %p in %to : (tensor<8x1003xbf16>, tensor<8x1003xbf16>) -> tensor<8x1003xbf16>
  return %r : tensor<8x1003xbf16>
}

// CHECK-LABEL: func.func private @twice
// CHECK-SAME:    %{{.*}}: tensor<8x1008xbf16>, %{{.*}}: tensor<8x1008xbf16>, %{{.*}}: tensor<8x1003xbf16>) -> (tensor<8x1008xbf16>, tensor<8x1003xbf16>)
func.func private @twice(%a: tensor<8x1003xbf16>, %to: tensor<8x1003xbf16>, %also: tensor<8x1003xbf16>) -> (tensor<8x1003xbf16>, tensor<8x1003xbf16>) {
  %e = tensor.empty() : tensor<8x1003xbf16>
  %p = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%a : tensor<8x1003xbf16>) outs(%e : tensor<8x1003xbf16>) {
  ^bb0(%x: bf16, %o: bf16):
    %s = arith.addf %x, %x : bf16
    linalg.yield %s : bf16
  } -> tensor<8x1003xbf16>
  %n = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%p : tensor<8x1003xbf16>) outs(%e : tensor<8x1003xbf16>) {
  ^bb0(%x: bf16, %o: bf16):
    %s = arith.negf %x : bf16
    linalg.yield %s : bf16
  } -> tensor<8x1003xbf16>
  %r = bufferization.materialize_in_destination %p in %to : (tensor<8x1003xbf16>, tensor<8x1003xbf16>) -> tensor<8x1003xbf16>
  %q = bufferization.materialize_in_destination %n in %also : (tensor<8x1003xbf16>, tensor<8x1003xbf16>) -> tensor<8x1003xbf16>
  return %r, %q : tensor<8x1003xbf16>, tensor<8x1003xbf16>
}

// MATMUL-LABEL: func.func private @second
// MATMUL-SAME:    m = 8, n = 32, k = 1003, lda = 1008, ldb = 32, ldc = 32
func.func private @second(%a: tensor<8x1003xbf16>, %b: tensor<1003x32xbf16>, %to: tensor<8x32xbf16>) -> tensor<8x32xbf16> {
  %zero = arith.constant 0.0 : bf16
  %e = tensor.empty() : tensor<8x32xbf16>
  %f = linalg.fill ins(%zero : bf16) outs(%e : tensor<8x32xbf16>) -> tensor<8x32xbf16>
  %p = linalg.matmul ins(%a, %b : tensor<8x1003xbf16>, tensor<1003x32xbf16>) outs(%f : tensor<8x32xbf16>) -> tensor<8x32xbf16>
  %r = bufferization.materialize_in_destination %p in %to : (tensor<8x32xbf16>, tensor<8x32xbf16>) -> tensor<8x32xbf16>
  return %r : tensor<8x32xbf16>
}

// -----

// One kernel, of whose launches one hands its rows to a product and one returns them, becomes two.

// CHECK-LABEL: fsdp.program @apart
// CHECK:         fsdp.launch @negate(%{{.*}}) : (tensor<8x131xf32>) -> tensor<8x131xf32>
// CHECK:         %[[Y:.*]] = fsdp.launch @[[COPY:negate_0]](%{{.*}}) : (tensor<8x131xf32>) -> tensor<8x132xf32>
// CHECK:         fsdp.launch @multiply(%[[Y]], %{{.*}})
// CHECK:       func.func private @negate(%{{.*}}: tensor<8x131xf32>, %{{.*}}: tensor<8x131xf32>)
// CHECK:       func.func private @[[COPY]](%{{.*}}: tensor<8x131xf32>, %{{.*}}: tensor<8x132xf32>)
fsdp.program @apart(%x: tensor<8x131xf32>, %w: tensor<131x32xf32>) -> (tensor<8x131xf32>, tensor<8x32xf32>) {
  %k = fsdp.launch @negate(%x) : (tensor<8x131xf32>) -> tensor<8x131xf32>
  %y = fsdp.launch @negate(%x) : (tensor<8x131xf32>) -> tensor<8x131xf32>
  %r = fsdp.launch @multiply(%y, %w) : (tensor<8x131xf32>, tensor<131x32xf32>) -> tensor<8x32xf32>
  fsdp.return %k, %r : tensor<8x131xf32>, tensor<8x32xf32>
}
func.func private @negate(%a: tensor<8x131xf32>, %to: tensor<8x131xf32>) -> tensor<8x131xf32> {
  %e = tensor.empty() : tensor<8x131xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%a : tensor<8x131xf32>) outs(%e : tensor<8x131xf32>) {
  ^bb0(%x: f32, %o: f32):
    %s = arith.negf %x : f32
    linalg.yield %s : f32
  } -> tensor<8x131xf32>
  %r = bufferization.materialize_in_destination %p in %to : (tensor<8x131xf32>, tensor<8x131xf32>) -> tensor<8x131xf32>
  return %r : tensor<8x131xf32>
}
func.func private @multiply(%a: tensor<8x131xf32>, %b: tensor<131x32xf32>, %to: tensor<8x32xf32>) -> tensor<8x32xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x32xf32>) -> tensor<8x32xf32>
  %p = linalg.matmul ins(%a, %b : tensor<8x131xf32>, tensor<131x32xf32>) outs(%f : tensor<8x32xf32>) -> tensor<8x32xf32>
  %r = bufferization.materialize_in_destination %p in %to : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
  return %r : tensor<8x32xf32>
}

// -----

// Rows stay where a kernel that is neither a product nor loops reads them, where they would be more than an eighth
// longer, and where a product is written over what it adds to.

// CHECK-LABEL: fsdp.program @stay
// CHECK:         fsdp.launch @narrow(%{{.*}}) : (tensor<8x5xf32>) -> tensor<8x5xf32>
// CHECK:         fsdp.launch @add(%{{.*}}, %{{.*}}, %{{.*}}) tied [2] : (tensor<8x4xf32>, tensor<4x131xf32>, tensor<8x131xf32>) -> tensor<8x131xf32>
// CHECK:         fsdp.launch @copy(%{{.*}}) : (tensor<8x131xf32>) -> tensor<8x131xf32>
// CHECK:         fsdp.launch @pad(%{{.*}}) : (tensor<8x131xf32>) -> tensor<8x140xf32>
fsdp.program @stay(%x: tensor<8x5xf32>, %w: tensor<5x4xf32>, %v: tensor<4x131xf32>, %c: tensor<8x131xf32>, %u: tensor<131x4xf32>) -> (tensor<8x140xf32>, tensor<8x4xf32>) {
  %n = fsdp.launch @narrow(%x) : (tensor<8x5xf32>) -> tensor<8x5xf32>
  %y = fsdp.launch @small(%n, %w) : (tensor<8x5xf32>, tensor<5x4xf32>) -> tensor<8x4xf32>
  %z = fsdp.launch @add(%y, %v, %c) tied [2] : (tensor<8x4xf32>, tensor<4x131xf32>, tensor<8x131xf32>) -> tensor<8x131xf32>
  %k = fsdp.launch @copy(%z) : (tensor<8x131xf32>) -> tensor<8x131xf32>
  %p = fsdp.launch @pad(%k) : (tensor<8x131xf32>) -> tensor<8x140xf32>
  %r = fsdp.launch @multiply(%k, %u) : (tensor<8x131xf32>, tensor<131x4xf32>) -> tensor<8x4xf32>
  fsdp.return %p, %r : tensor<8x140xf32>, tensor<8x4xf32>
}
func.func private @narrow(%a: tensor<8x5xf32>, %to: tensor<8x5xf32>) -> tensor<8x5xf32> {
  %e = tensor.empty() : tensor<8x5xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%a : tensor<8x5xf32>) outs(%e : tensor<8x5xf32>) {
  ^bb0(%x: f32, %o: f32):
    %s = arith.negf %x : f32
    linalg.yield %s : f32
  } -> tensor<8x5xf32>
  %r = bufferization.materialize_in_destination %p in %to : (tensor<8x5xf32>, tensor<8x5xf32>) -> tensor<8x5xf32>
  return %r : tensor<8x5xf32>
}
func.func private @small(%a: tensor<8x5xf32>, %b: tensor<5x4xf32>, %to: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x4xf32>) -> tensor<8x4xf32>
  %p = linalg.matmul ins(%a, %b : tensor<8x5xf32>, tensor<5x4xf32>) outs(%f : tensor<8x4xf32>) -> tensor<8x4xf32>
  %r = bufferization.materialize_in_destination %p in %to : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}
func.func private @add(%a: tensor<8x4xf32>, %b: tensor<4x131xf32>, %c: tensor<8x131xf32>, %to: tensor<8x131xf32>) -> tensor<8x131xf32> {
  %p = linalg.matmul ins(%a, %b : tensor<8x4xf32>, tensor<4x131xf32>) outs(%to : tensor<8x131xf32>) -> tensor<8x131xf32>
  %r = bufferization.materialize_in_destination %p in %to : (tensor<8x131xf32>, tensor<8x131xf32>) -> tensor<8x131xf32>
  return %r : tensor<8x131xf32>
}
func.func private @copy(%a: tensor<8x131xf32>, %to: tensor<8x131xf32>) -> tensor<8x131xf32> {
  %e = tensor.empty() : tensor<8x131xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%a : tensor<8x131xf32>) outs(%e : tensor<8x131xf32>) {
  ^bb0(%x: f32, %o: f32):
    linalg.yield %x : f32
  } -> tensor<8x131xf32>
  %r = bufferization.materialize_in_destination %p in %to : (tensor<8x131xf32>, tensor<8x131xf32>) -> tensor<8x131xf32>
  return %r : tensor<8x131xf32>
}
func.func private @pad(%a: tensor<8x131xf32>, %to: tensor<8x140xf32>) -> tensor<8x140xf32> {
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %a low[0, 9] high[0, 0] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f32
  } : tensor<8x131xf32> to tensor<8x140xf32>
  %r = bufferization.materialize_in_destination %p in %to : (tensor<8x140xf32>, tensor<8x140xf32>) -> tensor<8x140xf32>
  return %r : tensor<8x140xf32>
}
func.func private @multiply(%a: tensor<8x131xf32>, %b: tensor<131x4xf32>, %to: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x4xf32>) -> tensor<8x4xf32>
  %p = linalg.matmul ins(%a, %b : tensor<8x131xf32>, tensor<131x4xf32>) outs(%f : tensor<8x4xf32>) -> tensor<8x4xf32>
  %r = bufferization.materialize_in_destination %p in %to : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}
