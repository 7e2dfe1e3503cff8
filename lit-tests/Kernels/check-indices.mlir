// RUN: fsdp-opt %s --fsdp-check-indices --split-input-file | FileCheck %s
// RUN: fsdp-opt %s --fsdp-check-indices=all=true --split-input-file | FileCheck %s --check-prefix=ALL
// RUN: fsdp-opt %s --fsdp-kernels --split-input-file | FileCheck %s --check-prefix=KERNELS

// A lookup at what data says is asserted; fsdp-hoist-checks makes it safe.

#id = affine_map<(i) -> (i)>

// CHECK-LABEL: fsdp.program @step
// CHECK:         %[[IN:.*]] = arith.cmpi ult, %[[ROW:.*]], %c4{{.*}} : index
// CHECK-NEXT:    cf.assert %[[IN]], "index 0 of tensor<4xf32> must be from 0 to 3 (embed)"
// CHECK-NEXT:    tensor.extract %{{.*}}[%[[ROW]]]
// KERNELS-LABEL: fsdp.program @step
// KERNELS:         fsdp.check %{{.*}}, "index 0 of tensor<4xf32> must be from 0 to 3 (embed) (input 'rows')"
fsdp.program @step(%table: tensor<4xf32>, %rows: tensor<5xi64> {fsdp.input = {name = "rows"}}) -> tensor<5xf32> {
  %e = tensor.empty() : tensor<5xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%rows : tensor<5xi64>) outs(%e : tensor<5xf32>) {
  ^bb0(%i: i64, %o: f32):
    %row = arith.index_cast %i : i64 to index
    %v = tensor.extract %table[%row] : tensor<4xf32> loc("embed")
    linalg.yield %v : f32
  } -> tensor<5xf32>
  fsdp.return %r : tensor<5xf32>
}

// -----

// Bounds of an input, through arithmetic and views, tell the range: 2 * 1 + 1 is
// below 4. Where all is asked for, it is asserted all the same; the loop's own
// index never is.

#id = affine_map<(i) -> (i)>
#two = affine_map<(i, j) -> (i, j)>

// CHECK-LABEL: fsdp.program @step
// CHECK-NOT:     cf.assert
// CHECK:         return
// ALL-LABEL: fsdp.program @step
// ALL:         cf.assert %{{.*}}, "index 1 of tensor<5x4xf32> must be from 0 to 3 (
// ALL-NOT:     cf.assert
// ALL:         return
fsdp.program @step(%table: tensor<5x4xf32>, %rows: tensor<5xi64> {fsdp.input = {name = "rows", low = 0, high = 2}}) -> tensor<5x1xf32> {
  %two = arith.constant 2 : i64
  %one = arith.constant 1 : index
  %flat = tensor.expand_shape %rows [[0, 1]] output_shape [5, 1] : tensor<5xi64> into tensor<5x1xi64>
  %e = tensor.empty() : tensor<5x1xf32>
  %r = linalg.generic {indexing_maps = [#two, #two], iterator_types = ["parallel", "parallel"]}
      ins(%flat : tensor<5x1xi64>) outs(%e : tensor<5x1xf32>) {
  ^bb0(%i: i64, %o: f32):
    %l = linalg.index 0 : index
    %d = arith.muli %i, %two : i64
    %row = arith.index_cast %d : i64 to index
    %next = arith.addi %row, %one : index
    %v = tensor.extract %table[%l, %next] : tensor<5x4xf32>
    linalg.yield %v : f32
  } -> tensor<5x1xf32>
  fsdp.return %r : tensor<5x1xf32>
}

// -----

// What an exporter asserts is not asserted twice, neither where it stands nor of
// the same indices elsewhere: there, the index is made safe.

#id = affine_map<(i) -> (i)>

// CHECK-LABEL: fsdp.program @step
// CHECK:         cf.assert %{{.*}}, "too large"
// CHECK:         cf.assert %{{.*}}, "too small"
// CHECK-NOT:     cf.assert
// CHECK:         scf.for
// CHECK:           %[[IN:.*]] = arith.cmpi ult, %[[ROW:.*]], %c4
// CHECK:           %[[SAFE:.*]] = arith.select %[[IN]], %[[ROW]], %c0
// CHECK:           tensor.insert %{{.*}} into %{{.*}}[%[[SAFE]]]
// CHECK-NOT:     fsdp.check
// CHECK:         return
fsdp.program @step(%table: tensor<4xf32>, %rows: tensor<5xi64>) -> (tensor<5xf32>, tensor<4xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  %four = arith.constant 4 : index
  %zero = arith.constant 0 : i64
  %e = tensor.empty() : tensor<5xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%rows : tensor<5xi64>) outs(%e : tensor<5xf32>) {
  ^bb0(%i: i64, %o: f32):
    %row = arith.index_cast %i : i64 to index
    %below = arith.cmpi slt, %row, %four : index
    cf.assert %below, "too large"
    %above = arith.cmpi sge, %i, %zero : i64
    cf.assert %above, "too small"
    %v = tensor.extract %table[%row] : tensor<4xf32>
    linalg.yield %v : f32
  } -> tensor<5xf32>
  %g = scf.for %k = %c0 to %c5 step %c1 iter_args(%sum = %table) -> (tensor<4xf32>) {
    %i = tensor.extract %rows[%k] : tensor<5xi64>
    %row = arith.index_cast %i : i64 to index
    %v = tensor.extract %r[%k] : tensor<5xf32>
    %s = tensor.insert %v into %sum[%row] : tensor<4xf32>
    scf.yield %s : tensor<4xf32>
  }
  fsdp.return %r, %g : tensor<5xf32>, tensor<4xf32>
}

// -----

// In loops at the top, the condition is carried to their end, of all indices
// together; slices as well.

// CHECK-LABEL: fsdp.program @step
// CHECK:         %[[YES:.*]] = linalg.fill {{.*}} -> tensor<i1>
// CHECK:         %[[OUTER:.*]]:2 = scf.for {{.*}} iter_args(%{{.*}}, %[[BEFORE:.*]] = %[[YES]])
// CHECK:           %[[INNER:.*]]:2 = scf.for {{.*}} iter_args(%{{.*}}, %[[HELD:.*]] = %[[BEFORE]])
// CHECK:             %[[IN:.*]] = arith.cmpi ult, %[[ROW:.*]], %c3
// CHECK:             %[[SAFE:.*]] = arith.select %[[IN]], %[[ROW]]
// CHECK:             tensor.extract_slice %{{.*}}[%[[SAFE]], 0] [2, 3]
// CHECK:             tensor.insert_slice %{{.*}} into %{{.*}}[%[[SAFE]], 0] [2, 3]
// CHECK:             %[[WAS:.*]] = tensor.extract %[[HELD]][]
// CHECK:             %[[AND:.*]] = arith.andi %[[WAS]], %[[IN]]
// CHECK:             %[[NOW:.*]] = tensor.insert %[[AND]] into %[[HELD]][]
// CHECK:             scf.yield %{{.*}}, %[[NOW]]
// CHECK:           scf.yield %[[INNER]]#0, %[[INNER]]#1
// CHECK:         fsdp.check %[[OUTER]]#1, "index 0 of tensor<4x3xf32> must be from 0 to 2 (
// CHECK-NOT:     fsdp.check
fsdp.program @step(%table: tensor<4x3xf32>, %rows: tensor<5xi64>) -> tensor<4x3xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c5 = arith.constant 5 : index
  %g = scf.for %k = %c0 to %c5 step %c1 iter_args(%a = %table) -> (tensor<4x3xf32>) {
    %h = scf.for %l = %c0 to %c2 step %c1 iter_args(%b = %a) -> (tensor<4x3xf32>) {
      %i = tensor.extract %rows[%k] : tensor<5xi64>
      %row = arith.index_cast %i : i64 to index
      %v = tensor.extract_slice %b[%row, 0] [2, 3] [1, 1] : tensor<4x3xf32> to tensor<2x3xf32>
      %s = tensor.insert_slice %v into %b[%row, 0] [2, 3] [1, 1] : tensor<2x3xf32> into tensor<4x3xf32>
      scf.yield %s : tensor<4x3xf32>
    }
    scf.yield %h : tensor<4x3xf32>
  }
  fsdp.return %g : tensor<4x3xf32>
}

// -----

// At the top of the step: asserted, and safe in any order.

// CHECK-LABEL: fsdp.program @step
// CHECK:         %[[IN:.*]] = arith.cmpi ult
// CHECK:         cf.assert %[[IN]]
// CHECK:         %[[SAFE:.*]] = arith.select %[[IN]]
// CHECK:         tensor.extract %{{.*}}[%[[SAFE]]]
fsdp.program @step(%table: tensor<4xf32>, %row: tensor<i64>) -> tensor<f32> {
  %i = tensor.extract %row[] : tensor<i64>
  %k = arith.index_cast %i : i64 to index
  %v = tensor.extract %table[%k] : tensor<4xf32>
  %r = tensor.from_elements %v : tensor<f32>
  fsdp.return %r : tensor<f32>
}

// -----

// A bound that the step computes proves it, in any region.

// CHECK-LABEL: fsdp.program @step
// CHECK-NOT:     cf.assert
// CHECK-NOT:     fsdp.check
// CHECK:         return
fsdp.program @step(%table: tensor<4xf32>, %row: tensor<i64>, %c: tensor<i1>) -> tensor<f32> {
  %zero = arith.constant 0 : i64
  %three = arith.constant 3 : i64
  %cond = tensor.extract %c[] : tensor<i1>
  %v = scf.if %cond -> (f32) {
    %i = tensor.extract %row[] : tensor<i64>
    %low = arith.maxsi %i, %zero : i64
    %high = arith.minsi %low, %three : i64
    %k = arith.index_cast %high : i64 to index
    %x = tensor.extract %table[%k] : tensor<4xf32>
    scf.yield %x : f32
  } else {
    %f = arith.constant 0.0 : f32
    scf.yield %f : f32
  }
  %r = tensor.from_elements %v : tensor<f32>
  fsdp.return %r : tensor<f32>
}

// -----

// Both parts of an scf.while, and a branch in it that is not always taken.

// CHECK-LABEL: fsdp.program @step
// CHECK:         %[[YES:.*]] = linalg.fill {{.*}} -> tensor<i1>
// CHECK:         %[[YES2:.*]] = linalg.fill {{.*}} -> tensor<i1>
// CHECK:         %[[LOOP:.*]]:3 = scf.while (%{{.*}} = %{{.*}}, %[[A:.*]] = %[[YES]], %[[B:.*]] = %[[YES2]])
// CHECK:           tensor.insert %{{.*}} into %[[A]][]
// CHECK:           scf.condition(%{{.*}}) %{{.*}}, %[[A2:.*]], %[[B]] :
// CHECK:         ^bb0(%{{.*}}: i64, %[[A3:.*]]: tensor<i1>, %[[B3:.*]]: tensor<i1>):
// CHECK:           %[[IF:.*]]:2 = scf.if
// CHECK:             %[[B4:.*]] = tensor.insert %{{.*}} into %[[B3]][]
// CHECK:             scf.yield %{{.*}}, %[[B4]]
// CHECK:           else
// CHECK:             scf.yield %{{.*}}, %[[B3]]
// CHECK:           scf.yield %[[IF]]#0, %[[A3]], %[[IF]]#1
// CHECK-DAG:     fsdp.check %[[LOOP]]#1, "index 0 of tensor<4xi64>
// CHECK-DAG:     fsdp.check %[[LOOP]]#2, "index 0 of tensor<5xi64>
// KERNELS-LABEL: fsdp.program @step
// KERNELS-COUNT-2: fsdp.check
fsdp.program @step(%next: tensor<4xi64>, %more: tensor<5xi64>, %start: tensor<i64>) -> tensor<i64> {
  %zero = arith.constant 0 : i64
  %s = tensor.extract %start[] : tensor<i64>
  %r = scf.while (%i = %s) : (i64) -> i64 {
    %k = arith.index_cast %i : i64 to index
    %v = tensor.extract %next[%k] : tensor<4xi64>
    %go = arith.cmpi sgt, %v, %zero : i64
    scf.condition(%go) %v : i64
  } do {
  ^bb0(%i: i64):
    %odd = arith.trunci %i : i64 to i1
    %n = scf.if %odd -> i64 {
      %k = arith.index_cast %i : i64 to index
      %v = tensor.extract %more[%k] : tensor<5xi64>
      scf.yield %v : i64
    } else {
      scf.yield %i : i64
    }
    scf.yield %n : i64
  }
  %t = tensor.from_elements %r : tensor<i64>
  fsdp.return %t : tensor<i64>
}

// -----

// A branch that is not taken fails nothing.

// CHECK-LABEL: fsdp.program @step
// CHECK:         %[[YES:.*]] = linalg.fill {{.*}} -> tensor<i1>
// CHECK:         %[[IF:.*]]:2 = scf.if
// CHECK:         fsdp.check %[[IF]]#1
fsdp.program @step(%table: tensor<4xf32>, %row: tensor<i64>, %c: tensor<i1>) -> tensor<f32> {
  %cond = tensor.extract %c[] : tensor<i1>
  %v = scf.if %cond -> (f32) {
    %i = tensor.extract %row[] : tensor<i64>
    %k = arith.index_cast %i : i64 to index
    %x = tensor.extract %table[%k] : tensor<4xf32>
    scf.yield %x : f32
  } else {
    %f = arith.constant 0.0 : f32
    scf.yield %f : f32
  }
  %r = tensor.from_elements %v : tensor<f32>
  fsdp.return %r : tensor<f32>
}

// -----

// What is no proof: values allowed beside the range of an input, the low bits of
// an index, a limit that is negative as a signed number, a loop that counts as
// an unsigned one, a step that wraps.

#id = affine_map<(i) -> (i)>

// CHECK-LABEL: fsdp.program @step
// CHECK-COUNT-3: cf.assert %{{.*}}, "index 0 of tensor<8xf32> must be from 0 to 7
// CHECK:         scf.for unsigned {{.*}} -> (f32, tensor<i1>)
// CHECK:         scf.for {{.*}} -> (f32, tensor<i1>)
fsdp.program @step(%table: tensor<8xf32>, %rows: tensor<5xi64>,
                   %labels: tensor<5xi64> {fsdp.input = {name = "labels", low = 0, high = 8, allowed = array<i64: -100>}},
                   %start: tensor<i64> {fsdp.input = {name = "start", low = 0, high = 6}})
    -> (tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<2xf32>) {
  %e = tensor.empty() : tensor<5xf32>
  %allowed = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%labels : tensor<5xi64>) outs(%e : tensor<5xf32>) {
  ^bb0(%i: i64, %o: f32):
    %k = arith.index_cast %i : i64 to index
    %v = tensor.extract %table[%k] : tensor<8xf32>
    linalg.yield %v : f32
  } -> tensor<5xf32>
  %c8 = arith.constant 8 : i32
  %low_bits = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%rows : tensor<5xi64>) outs(%e : tensor<5xf32>) {
  ^bb0(%i: i64, %o: f32):
    %k = arith.index_cast %i : i64 to index
    %low = arith.index_cast %k : index to i32
    %holds = arith.cmpi ult, %low, %c8 : i32
    cf.assert %holds, "low bits"
    %v = tensor.extract %table[%k] : tensor<8xf32>
    linalg.yield %v : f32
  } -> tensor<5xf32>
  %zero = arith.constant 0 : i64
  %large = arith.constant -5 : i64
  %negative_limit = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%rows : tensor<5xi64>) outs(%e : tensor<5xf32>) {
  ^bb0(%i: i64, %o: f32):
    %below = arith.cmpi ult, %i, %large : i64
    cf.assert %below, "below"
    %above = arith.cmpi sge, %i, %zero : i64
    cf.assert %above, "above"
    %k = arith.index_cast %i : i64 to index
    %v = tensor.extract %table[%k] : tensor<8xf32>
    linalg.yield %v : f32
  } -> tensor<5xf32>
  %f = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %end = arith.constant 8 : index
  %wide = arith.constant 9223372036854775807 : index
  %s = tensor.extract %start[] : tensor<i64>
  %first = arith.index_cast %s : i64 to index
  %unsigned = scf.for unsigned %k = %c0 to %end step %c1 iter_args(%sum = %f) -> (f32) {
    %v = tensor.extract %table[%k] : tensor<8xf32>
    %n = arith.addf %sum, %v : f32
    scf.yield %n : f32
  }
  %wraps = scf.for %k = %first to %end step %wide iter_args(%sum = %f) -> (f32) {
    %v = tensor.extract %table[%k] : tensor<8xf32>
    %n = arith.addf %sum, %v : f32
    scf.yield %n : f32
  }
  %sums = tensor.from_elements %unsigned, %wraps : tensor<2xf32>
  fsdp.return %allowed, %low_bits, %negative_limit, %sums : tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<2xf32>
}

// -----

// A slice without elements accesses nothing: its offset may be the size of the
// dimension.

// CHECK-LABEL: fsdp.program @empty_slice
// CHECK-NOT:     cf.assert
// CHECK:         tensor.extract_slice %{{.*}}[%{{.*}}, 0] [0, 3] [1, 1]
// CHECK-NOT:     cf.assert
// CHECK:         return
fsdp.program @empty_slice(%x: tensor<5x3xf32>) -> tensor<0x3xf32> {
  %end = arith.constant 5 : index
  %r = tensor.extract_slice %x[%end, 0] [0, 3] [1, 1] : tensor<5x3xf32> to tensor<0x3xf32>
  fsdp.return %r : tensor<0x3xf32>
}
