// RUN: fsdp-opt %s --fsdp-widen-accumulators --split-input-file | FileCheck %s

// A sum over rows, of squares: f32 inside, rounded once. The product that is
// only added is not rounded either.

// CHECK-LABEL: fsdp.program @step
// CHECK-SAME: (%[[X:.*]]: tensor<9x4xbf16>)
// CHECK: %[[ZERO:.*]] = linalg.fill ins(%{{.*}} : f32) outs(%{{.*}} : tensor<4xf32>)
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}} ins(%[[X]] : tensor<9x4xbf16>) outs(%[[ZERO]] : tensor<4xf32>)
// CHECK-NEXT: ^bb0(%[[A:.*]]: bf16, %[[O:.*]]: f32):
// CHECK-COUNT-2: arith.extf %[[A]] : bf16 to f32
// CHECK: %[[P:.*]] = arith.mulf %{{.*}}, %{{.*}} : f32
// CHECK-NEXT: %[[S:.*]] = arith.addf %[[O]], %[[P]] : f32
// CHECK-NEXT: linalg.yield %[[S]] : f32
// CHECK: %[[ROUNDED:.*]] = linalg.generic {{.*}} ins(%[[SUM]] : tensor<4xf32>) outs(%{{.*}} : tensor<4xbf16>)
// CHECK: arith.truncf %{{.*}} : f32 to bf16
// CHECK: return %[[ROUNDED]] : tensor<4xbf16>
fsdp.program @step(%x: tensor<9x4xbf16>) -> tensor<4xbf16> {
  %zero = arith.constant 0.0 : bf16
  %e = tensor.empty() : tensor<4xbf16>
  %f = linalg.fill ins(%zero : bf16) outs(%e : tensor<4xbf16>) -> tensor<4xbf16>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>], iterator_types = ["reduction", "parallel"]}
      ins(%x : tensor<9x4xbf16>) outs(%f : tensor<4xbf16>) {
  ^bb0(%a: bf16, %o: bf16):
    %p = arith.mulf %a, %a : bf16
    %s = arith.addf %o, %p : bf16
    linalg.yield %s : bf16
  } -> tensor<4xbf16>
  fsdp.return %r : tensor<4xbf16>
}

// -----

// A scatter: the table is of f32 as long as rows are added to it. A product
// that is stored, too, is rounded as it is stored.

// CHECK-LABEL: fsdp.program @step
// CHECK: %[[LOOP:.*]]:2 = scf.for {{.*}} iter_args(%[[T:.*]] = %{{.*}}, %[[LAST:.*]] = %{{.*}}) -> (tensor<3x2xf32>, tensor<2xf16>)
// CHECK: %[[ROW:.*]] = tensor.extract_slice %[[T]]{{.*}} : tensor<3x2xf32> to tensor<2xf32>
// CHECK: %[[NEW:.*]] = linalg.generic {{.*}} ins(%{{.*}} : tensor<2xf16>) outs(%[[ROW]] : tensor<2xf32>)
// CHECK: arith.extf %{{.*}} : f16 to f32
// CHECK: arith.addf %{{.*}}, %{{.*}} : f32
// CHECK: tensor.insert_slice %[[NEW]] into %[[T]]{{.*}} : tensor<2xf32> into tensor<3x2xf32>
// CHECK: arith.truncf %{{.*}} : f32 to f16
fsdp.program @step(%x: tensor<9x2xf16>, %at: tensor<9xindex>) -> (tensor<3x2xf16>, tensor<2xf16>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : index
  %zero = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<3x2xf16>
  %f = linalg.fill ins(%zero : f16) outs(%e : tensor<3x2xf16>) -> tensor<3x2xf16>
  %g = tensor.empty() : tensor<2xf16>
  %r:2 = scf.for %i = %c0 to %c9 step %c1 iter_args(%t = %f, %last = %g) -> (tensor<3x2xf16>, tensor<2xf16>) {
    %j = tensor.extract %at[%i] : tensor<9xindex>
    %row = tensor.extract_slice %x[%i, 0] [1, 2] [1, 1] : tensor<9x2xf16> to tensor<2xf16>
    %old = tensor.extract_slice %t[%j, 0] [1, 2] [1, 1] : tensor<3x2xf16> to tensor<2xf16>
    %new = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
        ins(%row : tensor<2xf16>) outs(%old : tensor<2xf16>) {
    ^bb0(%a: f16, %b: f16):
      %s = arith.addf %a, %b : f16
      linalg.yield %s : f16
    } -> tensor<2xf16>
    %u = tensor.insert_slice %new into %t[%j, 0] [1, 2] [1, 1] : tensor<2xf16> into tensor<3x2xf16>
    scf.yield %u, %row : tensor<3x2xf16>, tensor<2xf16>
  }
  fsdp.return %r#0, %r#1 : tensor<3x2xf16>, tensor<2xf16>
}

// -----

// Casts in the body are the accumulator's own rounding.

// CHECK-LABEL: fsdp.program @step
// CHECK: scf.for {{.*}} iter_args(%[[T:.*]] = %{{.*}}) -> (f32)
// CHECK-NOT: truncf
// CHECK: %[[S:.*]] = arith.addf %[[T]], %{{.*}} : f32
// CHECK-NOT: truncf
// CHECK: scf.yield %[[S]] : f32
// CHECK: arith.truncf
fsdp.program @step(%x: tensor<9xbf16>) -> tensor<bf16> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : index
  %zero = arith.constant 0.0 : bf16
  %r = scf.execute_region -> tensor<bf16> {
    %l = scf.for %i = %c0 to %c9 step %c1 iter_args(%t = %zero) -> bf16 {
      %a = tensor.extract %x[%i] : tensor<9xbf16>
      %b = arith.extf %a : bf16 to f32
      %w = arith.extf %t : bf16 to f32
      %s = arith.addf %w, %b : f32
      %n = arith.truncf %s : f32 to bf16
      scf.yield %n : bf16
    }
    %q = tensor.from_elements %l : tensor<bf16>
    scf.yield %q : tensor<bf16>
  }
  fsdp.return %r : tensor<bf16>
}

// -----

// A maximum is not rounded, a product goes to a BLAS, f32 is wide enough.

// CHECK-LABEL: fsdp.program @step
// CHECK-NOT: extf
// CHECK-NOT: truncf
// CHECK: return
fsdp.program @step(%x: tensor<9x4xbf16>, %y: tensor<4x3xbf16>, %z: tensor<9xf32>) -> (tensor<4xbf16>, tensor<9x3xbf16>, tensor<f32>) {
  %low = arith.constant 0xFF80 : bf16
  %zero = arith.constant 0.0 : bf16
  %wide = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4xbf16>
  %f = linalg.fill ins(%low : bf16) outs(%e : tensor<4xbf16>) -> tensor<4xbf16>
  %max = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>], iterator_types = ["reduction", "parallel"]}
      ins(%x : tensor<9x4xbf16>) outs(%f : tensor<4xbf16>) {
  ^bb0(%a: bf16, %o: bf16):
    %m = arith.maximumf %o, %a : bf16
    linalg.yield %m : bf16
  } -> tensor<4xbf16>
  %e1 = tensor.empty() : tensor<9x3xbf16>
  %f1 = linalg.fill ins(%zero : bf16) outs(%e1 : tensor<9x3xbf16>) -> tensor<9x3xbf16>
  %p = linalg.matmul ins(%x, %y : tensor<9x4xbf16>, tensor<4x3xbf16>) outs(%f1 : tensor<9x3xbf16>) -> tensor<9x3xbf16>
  %e2 = tensor.empty() : tensor<f32>
  %f2 = linalg.fill ins(%wide : f32) outs(%e2 : tensor<f32>) -> tensor<f32>
  %s = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>], iterator_types = ["reduction"]}
      ins(%z : tensor<9xf32>) outs(%f2 : tensor<f32>) {
  ^bb0(%a: f32, %o: f32):
    %t = arith.addf %o, %a : f32
    linalg.yield %t : f32
  } -> tensor<f32>
  fsdp.return %max, %p, %s : tensor<4xbf16>, tensor<9x3xbf16>, tensor<f32>
}

// -----

// Casts follow the types that accumulators have now: f8 to bf16 is f32 to bf16.

// CHECK-LABEL: fsdp.program @step
// CHECK:       scf.for {{.*}} iter_args(%[[A:.*]] = %{{.*}}, %{{.*}} = %{{.*}}) -> (f32, tensor<4xbf16>)
// CHECK:         %[[SUM:.*]] = arith.addf %[[A]], %{{.*}} : f32
// CHECK:         arith.truncf %[[SUM]] : f32 to bf16
fsdp.program @step(%x: tensor<4xbf16>) -> tensor<4xbf16> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %f = arith.constant 0.0 : f8E5M2
  %e = tensor.empty() : tensor<4xbf16>
  %r, %s = scf.for %i = %c0 to %c4 step %c1 iter_args(%a = %f, %o = %e) -> (f8E5M2, tensor<4xbf16>) {
    %w = tensor.extract %x[%i] : tensor<4xbf16>
    %q = arith.truncf %w : bf16 to f8E5M2
    %b = arith.addf %a, %q : f8E5M2
    %d = arith.extf %b : f8E5M2 to bf16
    %oo = tensor.insert %d into %o[%i] : tensor<4xbf16>
    scf.yield %b, %oo : f8E5M2, tensor<4xbf16>
  }
  fsdp.return %s : tensor<4xbf16>
}

// -----

// Vectors stay as they are.

// CHECK-LABEL: fsdp.program @step
// CHECK:       scf.for {{.*}} -> (vector<2xbf16>)
fsdp.program @step(%x: vector<2xbf16>) -> vector<2xbf16> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %r = scf.for %i = %c0 to %c4 step %c1 iter_args(%a = %x) -> (vector<2xbf16>) {
    %b = arith.addf %a, %x : vector<2xbf16>
    scf.yield %b : vector<2xbf16>
  }
  fsdp.return %r : vector<2xbf16>
}
