// RUN: fsdp-opt %s --fsdp-normalize-compute --split-input-file | FileCheck %s

// Named ops become linalg.generic; products and poolings keep their names.

// CHECK-LABEL: fsdp.program @step
// CHECK-NOT:     linalg.transpose
// CHECK:         linalg.generic
// CHECK:         linalg.matmul
// CHECK:         linalg.pooling_nchw_max
fsdp.program @step(%x: tensor<4x3xf32>, %y: tensor<4x5xf32>, %image: tensor<1x1x4x4xf32>) -> (tensor<3x5xf32>, tensor<1x1x3x3xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3x4xf32>
  %t = linalg.transpose ins(%x : tensor<4x3xf32>) outs(%e : tensor<3x4xf32>) permutation = [1, 0]
  %e1 = tensor.empty() : tensor<3x5xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e1 : tensor<3x5xf32>) -> tensor<3x5xf32>
  %m = linalg.matmul ins(%t, %y : tensor<3x4xf32>, tensor<4x5xf32>) outs(%f : tensor<3x5xf32>) -> tensor<3x5xf32>
  %w = tensor.empty() : tensor<2x2xf32>
  %e2 = tensor.empty() : tensor<1x1x3x3xf32>
  %g = linalg.fill ins(%zero : f32) outs(%e2 : tensor<1x1x3x3xf32>) -> tensor<1x1x3x3xf32>
  %p = linalg.pooling_nchw_max {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
      ins(%image, %w : tensor<1x1x4x4xf32>, tensor<2x2xf32>) outs(%g : tensor<1x1x3x3xf32>) -> tensor<1x1x3x3xf32>
  fsdp.return %m, %p : tensor<3x5xf32>, tensor<1x1x3x3xf32>
}

// -----

// A comparison that was widened for a constant's sake happens in bf16; one with
// a constant that bf16 does not hold does not.

// CHECK-LABEL: fsdp.program @step
// CHECK:         arith.extf
// CHECK:         arith.cmpf ogt, %{{.*}}, %{{.*}} : bf16
// CHECK:         arith.cmpf ogt, %{{.*}}, %{{.*}} : f32
fsdp.program @step(%x: tensor<4xbf16>) -> (tensor<4xi1>, tensor<4xi1>) {
  %half = arith.constant 0.5 : f32
  %tenth = arith.constant 0.1 : f32
  %e = tensor.empty() : tensor<4xi1>
  %r:2 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%x : tensor<4xbf16>) outs(%e, %e : tensor<4xi1>, tensor<4xi1>) {
  ^bb0(%a: bf16, %o: i1, %p: i1):
    %w = arith.extf %a : bf16 to f32
    %c = arith.cmpf ogt, %w, %half : f32
    %d = arith.cmpf ogt, %w, %tenth : f32
    linalg.yield %c, %d : i1, i1
  } -> (tensor<4xi1>, tensor<4xi1>)
  fsdp.return %r#0, %r#1 : tensor<4xi1>, tensor<4xi1>
}

// -----

// Rows that are added to zeros, and the sum to %x, are added to %x.

// CHECK-LABEL: fsdp.program @step
// CHECK-SAME:    %{{.*}}: tensor<6xf32>, %{{.*}}: tensor<6xi64>, %[[X:.*]]: tensor<9xf32>
// CHECK:         scf.for {{.*}} iter_args(%{{.*}} = %[[X]])
// CHECK-NOT:     linalg.generic
// CHECK:         return
fsdp.program @step(%values: tensor<6xf32>, %places: tensor<6xi64>, %x: tensor<9xf32>) -> tensor<9xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c6 = arith.constant 6 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<9xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<9xf32>) -> tensor<9xf32>
  %s = scf.for %i = %c0 to %c6 step %c1 iter_args(%t = %zeros) -> (tensor<9xf32>) {
    %p = tensor.extract %places[%i] : tensor<6xi64>
    %j = arith.index_cast %p : i64 to index
    %v = tensor.extract %values[%i] : tensor<6xf32>
    %old = tensor.extract %t[%j] : tensor<9xf32>
    %new = arith.addf %old, %v : f32
    %u = tensor.insert %new into %t[%j] : tensor<9xf32>
    scf.yield %u : tensor<9xf32>
  }
  %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%s, %x : tensor<9xf32>, tensor<9xf32>) outs(%e : tensor<9xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %c = arith.addf %a, %b : f32
    linalg.yield %c : f32
  } -> tensor<9xf32>
  fsdp.return %r : tensor<9xf32>
}

// -----

// A loop that overwrites does not accumulate: its zeros matter.

// CHECK-LABEL: fsdp.program @step
// CHECK:         %[[ZEROS:.*]] = linalg.fill
// CHECK:         scf.for {{.*}} iter_args(%{{.*}} = %[[ZEROS]])
// CHECK:         linalg.generic
fsdp.program @step(%values: tensor<6xf32>, %x: tensor<9xf32>) -> tensor<9xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c6 = arith.constant 6 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<9xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<9xf32>) -> tensor<9xf32>
  %s = scf.for %i = %c0 to %c6 step %c1 iter_args(%t = %zeros) -> (tensor<9xf32>) {
    %v = tensor.extract %values[%i] : tensor<6xf32>
    %u = tensor.insert %v into %t[%i] : tensor<9xf32>
    scf.yield %u : tensor<9xf32>
  }
  %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%s, %x : tensor<9xf32>, tensor<9xf32>) outs(%e : tensor<9xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %c = arith.addf %a, %b : f32
    linalg.yield %c : f32
  } -> tensor<9xf32>
  fsdp.return %r : tensor<9xf32>
}

// -----

// Nor does one that doubles.

// CHECK-LABEL: fsdp.program @step
// CHECK:         %[[ZEROS:.*]] = linalg.fill
// CHECK:         scf.for {{.*}} iter_args(%{{.*}} = %[[ZEROS]])
// CHECK:         linalg.generic
fsdp.program @step(%x: tensor<9xf32>) -> tensor<9xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c6 = arith.constant 6 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<9xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<9xf32>) -> tensor<9xf32>
  %s = scf.for %i = %c0 to %c6 step %c1 iter_args(%t = %zeros) -> (tensor<9xf32>) {
    %old = tensor.extract %t[%i] : tensor<9xf32>
    %new = arith.addf %old, %old : f32
    %u = tensor.insert %new into %t[%i] : tensor<9xf32>
    scf.yield %u : tensor<9xf32>
  }
  %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%s, %x : tensor<9xf32>, tensor<9xf32>) outs(%e : tensor<9xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %c = arith.addf %a, %b : f32
    linalg.yield %c : f32
  } -> tensor<9xf32>
  fsdp.return %r : tensor<9xf32>
}

// -----

// A slice and a constant that are returned are copied into memory of their own.

// CHECK-LABEL: fsdp.program @step
// CHECK:         %[[ONES:.*]] = arith.constant dense<1.0
// CHECK:         %[[SLICE:.*]] = tensor.extract_slice
// CHECK:         %[[A:.*]] = linalg.generic {{.*}} ins(%[[SLICE]] :
// CHECK:         %[[B:.*]] = linalg.generic {{.*}} ins(%[[ONES]] :
// CHECK:         return %[[A]], %[[B]]
fsdp.program @step(%x: tensor<6x8xf32>) -> (tensor<2x3xf32>, tensor<4xf32>) {
  %s = tensor.extract_slice %x[1, 2] [2, 3] [1, 1] : tensor<6x8xf32> to tensor<2x3xf32>
  %ones = arith.constant dense<1.0> : tensor<4xf32>
  fsdp.return %s, %ones : tensor<2x3xf32>, tensor<4xf32>
}

// -----

// Buffers that change places: each is copied before the other's new value goes
// there. A buffer that stays is not.

// CHECK-LABEL: fsdp.program @step
// CHECK-SAME:    %[[A:[a-z0-9]+]]: tensor<4xf32> {{.*}}, %[[B:[a-z0-9]+]]: tensor<4xf32> {{.*}}, %[[C:[a-z0-9]+]]: tensor<4xf32>
// CHECK:         %[[OLD_B:.*]] = linalg.generic {{.*}} ins(%[[B]] :
// CHECK:         %[[OLD_A:.*]] = linalg.generic {{.*}} ins(%[[A]] :
// CHECK:         return %[[OLD_B]], %[[OLD_A]], %[[C]]
fsdp.state @a buffer "a" : tensor<4xf32>
fsdp.state @b buffer "b" : tensor<4xf32>
fsdp.state @c buffer "c" : tensor<4xf32>
fsdp.program @step(%a: tensor<4xf32> {fsdp.state = @a}, %b: tensor<4xf32> {fsdp.state = @b},
                   %c: tensor<4xf32> {fsdp.state = @c})
    -> (tensor<4xf32> {fsdp.state = @a}, tensor<4xf32> {fsdp.state = @b},
        tensor<4xf32> {fsdp.state = @c}) {
  fsdp.return %b, %a, %c : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// Work on tensors without elements goes away.

// CHECK-LABEL: fsdp.program @step
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<4x5xf32>
// CHECK-NOT:     math.tanh
// CHECK-NOT:     tensor.concat
// CHECK:         return %[[X]]
fsdp.program @step(%x: tensor<4x5xf32>) -> tensor<4x5xf32> {
  %none = tensor.extract_slice %x[0, 0] [4, 0] [1, 1] : tensor<4x5xf32> to tensor<4x0xf32>
  %e = tensor.empty() : tensor<4x0xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%none : tensor<4x0xf32>) outs(%e : tensor<4x0xf32>) {
  ^bb0(%a: f32, %o: f32):
    %b = math.tanh %a : f32
    linalg.yield %b : f32
  } -> tensor<4x0xf32>
  %r = tensor.concat dim(1) %t, %x : (tensor<4x0xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
  fsdp.return %r : tensor<4x5xf32>
}

// -----

// Elementwise ops on whole tensors become linalg.generic, which writes to
// nothing that is read; tensor.splat is a fill.

// CHECK-LABEL: fsdp.program @step
// CHECK-SAME:    %[[X:.*]]: tensor<4x3xf32>, %[[Y:.*]]: tensor<4x3xf32>, %[[S:.*]]: f32
// CHECK:         %[[E0:.*]] = tensor.empty() : tensor<4x3xf32>
// CHECK-NEXT:    %[[SUM:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[Y]] : {{.*}}) outs(%[[E0]] :
// CHECK:           arith.addf
// CHECK:         %[[E1:.*]] = tensor.empty() : tensor<4x3xf32>
// CHECK-NEXT:    linalg.generic {{.*}} ins(%[[SUM]] : {{.*}}) outs(%[[E1]] :
// CHECK:           math.tanh
// CHECK:         %[[R:.*]] = linalg.fill ins(%[[S]] : f32)
// CHECK:         %[[E2:.*]] = tensor.empty() : tensor<4x3xf32>
// CHECK-NEXT:    linalg.generic {{.*}} ins(%[[X]], %[[R]] : {{.*}}) outs(%[[E2]] :
// CHECK:           arith.mulf
// CHECK:         linalg.generic {{.*}} outs(%{{.*}} : tensor<4x3xbf16>)
// CHECK:           arith.truncf
fsdp.program @step(%x: tensor<4x3xf32>, %y: tensor<4x3xf32>, %s: f32) -> (tensor<4x3xf32>, tensor<4x3xbf16>) {
  %sum = arith.addf %x, %y : tensor<4x3xf32>
  %t = math.tanh %sum : tensor<4x3xf32>
  %r = tensor.splat %s : tensor<4x3xf32>
  %q = arith.mulf %x, %r : tensor<4x3xf32>
  %n = arith.truncf %q : tensor<4x3xf32> to tensor<4x3xbf16>
  fsdp.return %t, %n : tensor<4x3xf32>, tensor<4x3xbf16>
}

// -----

// A scalar is no operand: kernels read scalars from outside.

// CHECK-LABEL: fsdp.program @step
// CHECK-SAME:    %[[X:.*]]: tensor<4xf32>, %[[Y:.*]]: tensor<4xf32>, %[[S:.*]]: i1
// CHECK:         linalg.generic {{.*}} ins(%[[X]], %[[Y]] : tensor<4xf32>, tensor<4xf32>)
// CHECK:           arith.select %[[S]],
fsdp.program @step(%x: tensor<4xf32>, %y: tensor<4xf32>, %s: i1) -> tensor<4xf32> {
  %0 = arith.select %s, %x, %y : tensor<4xf32>
  fsdp.return %0 : tensor<4xf32>
}

// -----

// In a loop an init says where to write.

// CHECK-LABEL: fsdp.program @step
// CHECK:         %[[ROW:.*]] = tensor.extract_slice
// CHECK:         linalg.generic {{.*}} outs(%[[ROW]] :
fsdp.program @step(%x: tensor<4x3xf32>) -> tensor<4x3xf32> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %r = scf.for %i = %c0 to %c4 step %c1 iter_args(%t = %x) -> tensor<4x3xf32> {
    %row = tensor.extract_slice %t[%i, 0] [1, 3] [1, 1] : tensor<4x3xf32> to tensor<1x3xf32>
    %new = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
        outs(%row : tensor<1x3xf32>) {
    ^bb0(%o: f32):
      %j = linalg.index 1 : index
      %k = arith.index_cast %j : index to i32
      %f = arith.sitofp %k : i32 to f32
      linalg.yield %f : f32
    } -> tensor<1x3xf32>
    %next = tensor.insert_slice %new into %t[%i, 0] [1, 3] [1, 1] : tensor<1x3xf32> into tensor<4x3xf32>
    scf.yield %next : tensor<4x3xf32>
  }
  fsdp.return %r : tensor<4x3xf32>
}

// -----

// Numbers that a loop results in leave a kernel as tensors.

// CHECK-LABEL: fsdp.program @step
// CHECK: %[[R:.*]] = scf.execute_region -> tensor<f32>
// CHECK: %[[S:.*]] = scf.for
// CHECK: %[[T:.*]] = tensor.from_elements %[[S]] : tensor<f32>
// CHECK: scf.yield %[[T]] : tensor<f32>
// CHECK: tensor.extract %[[R]][] : tensor<f32>
fsdp.program @step(%x: tensor<9xf32>) -> tensor<2xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : index
  %zero = arith.constant 0.0 : f32
  %sum = scf.for %i = %c0 to %c9 step %c1 iter_args(%t = %zero) -> f32 {
    %a = tensor.extract %x[%i] : tensor<9xf32>
    %s = arith.addf %t, %a : f32
    scf.yield %s : f32
  }
  %r = tensor.from_elements %sum, %zero : tensor<2xf32>
  fsdp.return %r : tensor<2xf32>
}

// -----

// What is gathered twice of what was gathered once is a secondary shard, which
// no kernel copies.

// CHECK-LABEL: fsdp.program @secondary
// CHECK:         %[[S:.*]] = fsdp.all_gather %{{.*}} on @mesh["outer"]
// CHECK-NEXT:    %[[W:.*]] = fsdp.all_gather %[[S]] on @mesh["inner"] for forward
// CHECK-NEXT:    %[[V:.*]] = fsdp.all_gather %[[S]] on @mesh["inner"] for backward
fsdp.mesh @mesh [#fsdp.axis<"outer" = 2>, #fsdp.axis<"inner" = 2>]
fsdp.program @secondary(%x: tensor<4xf32>) -> (tensor<16xf32>) {
  %s = fsdp.all_gather %x on @mesh["outer"] : tensor<4xf32> -> tensor<8xf32>
  %w = fsdp.all_gather %s on @mesh["inner"] for forward : tensor<8xf32> -> tensor<16xf32>
  %v = fsdp.all_gather %s on @mesh["inner"] for backward : tensor<8xf32> -> tensor<16xf32>
  %e = tensor.empty() : tensor<16xf32>
  %r = linalg.add ins(%w, %v : tensor<16xf32>, tensor<16xf32>) outs(%e : tensor<16xf32>) -> tensor<16xf32>
  fsdp.return %r : tensor<16xf32>
}
