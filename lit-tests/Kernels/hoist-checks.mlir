// RUN: fsdp-opt %s --fsdp-hoist-checks --split-input-file | FileCheck %s

// The condition of a lookup becomes a reduction of its own, and the lookup reads
// row 0 where it fails.

#rows = affine_map<(d0, d1) -> (d0)>
#all = affine_map<(d0, d1) -> (d0, d1)>

// CHECK-LABEL: fsdp.program @step
// CHECK-SAME:    %[[TABLE:[a-z0-9]+]]: tensor<9x4xf32>, %[[ROWS:[a-z0-9]+]]: tensor<5xi64>
// CHECK:         %[[ALL:.*]] = linalg.generic
// CHECK-SAME:      iterator_types = ["reduction"]
// CHECK-SAME:      ins(%[[ROWS]] : tensor<5xi64>)
// CHECK:           arith.cmpi slt
// CHECK:           arith.andi
// CHECK:         fsdp.check %[[ALL]], "row out of range (input 'rows')"
// CHECK:         linalg.generic
// CHECK-SAME:      ["parallel", "parallel"]
// CHECK-NOT:       cf.assert
// CHECK:           %[[OK:.*]] = arith.cmpi slt
// CHECK:           %[[SAFE:.*]] = arith.select %[[OK]], %{{.*}}, %{{.*}} : index
// CHECK:           tensor.extract %[[TABLE]][%[[SAFE]], %{{.*}}]
fsdp.program @step(%table: tensor<9x4xf32>, %rows: tensor<5xi64> {fsdp.input = {name = "rows"}}) -> tensor<5x4xf32> {
  %nine = arith.constant 9 : index
  %e = tensor.empty() : tensor<5x4xf32>
  %r = linalg.generic {indexing_maps = [#rows, #all], iterator_types = ["parallel", "parallel"]}
      ins(%rows : tensor<5xi64>) outs(%e : tensor<5x4xf32>) {
  ^bb0(%i: i64, %o: f32):
    %row = arith.index_cast %i : i64 to index
    %col = linalg.index 1 : index
    %ok = arith.cmpi slt, %row, %nine : index
    cf.assert %ok, "row out of range"
    %v = tensor.extract %table[%row, %col] : tensor<9x4xf32>
    linalg.yield %v : f32
  } -> tensor<5x4xf32>
  fsdp.return %r : tensor<5x4xf32>
}

// -----

// A condition on a window of the input is checked at every point of it.

#window = affine_map<(d0, d1) -> (d0 + d1)>
#out = affine_map<(d0, d1) -> (d0, d1)>

// CHECK:       #[[WINDOW:.*]] = affine_map<(d0, d1) -> (d0 + d1)>
// CHECK-LABEL: fsdp.program @step
// CHECK:         linalg.generic
// CHECK-SAME:      indexing_maps = [#[[WINDOW]], {{.*}}iterator_types = ["reduction", "reduction"]
// CHECK:         fsdp.check
fsdp.program @step(%x: tensor<6xi64>) -> tensor<4x3xi64> {
  %zero = arith.constant 0 : i64
  %e = tensor.empty() : tensor<4x3xi64>
  %r = linalg.generic {indexing_maps = [#window, #out], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<6xi64>) outs(%e : tensor<4x3xi64>) {
  ^bb0(%a: i64, %o: i64):
    %ok = arith.cmpi sgt, %a, %zero : i64
    cf.assert %ok, "positive"
    linalg.yield %a : i64
  } -> tensor<4x3xi64>
  fsdp.return %r : tensor<4x3xi64>
}

// -----

// A condition on loop numbers alone runs over those loops.

// CHECK-LABEL: fsdp.program @step
// CHECK:         %[[RANGE:.*]] = tensor.empty() : tensor<7xi1>
// CHECK:         linalg.generic
// CHECK-SAME:      ins(%[[RANGE]] : tensor<7xi1>)
// CHECK:           linalg.index 0
// CHECK:         fsdp.check
fsdp.program @step(%x: tensor<3x7xf32>, %last: index) -> tensor<3x7xf32> {
  %r = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      outs(%x : tensor<3x7xf32>) {
  ^bb0(%o: f32):
    %j = linalg.index 1 : index
    %ok = arith.cmpi ult, %j, %last : index
    cf.assert %ok, "column"
    linalg.yield %o : f32
  } -> tensor<3x7xf32>
  fsdp.return %r : tensor<3x7xf32>
}

// -----

// Outside of loops, the condition is a tensor of one element.

// CHECK-LABEL: fsdp.program @step
// CHECK:         %[[C:.*]] = tensor.from_elements %{{.*}} : tensor<i1>
// CHECK:         fsdp.check %[[C]], "positive"
// CHECK-NOT:     cf.assert
fsdp.program @step(%x: tensor<f32>) -> tensor<f32> {
  %zero = arith.constant 0.0 : f32
  %v = tensor.extract %x[] : tensor<f32>
  %ok = arith.cmpf ogt, %v, %zero : f32
  cf.assert %ok, "positive"
  fsdp.return %x : tensor<f32>
}

// -----

// torch-mlir's guard of reciprocals: PyTorch divides by zero.

// CHECK-LABEL: fsdp.program @step
// CHECK-NOT:     fsdp.check
// CHECK-NOT:     cf.assert
// CHECK:         arith.divf
fsdp.program @step(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %ok = arith.cmpf one, %a, %zero : f32
    cf.assert %ok, "unimplemented: tensor with zero element"
    %d = arith.divf %one, %a : f32
    linalg.yield %d : f32
  } -> tensor<4xf32>
  fsdp.return %r : tensor<4xf32>
}
