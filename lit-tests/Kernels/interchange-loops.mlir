// RUN: fsdp-opt %s --pass-pipeline='builtin.module(func.func(fsdp-interchange-loops))' | FileCheck %s

// Rows of a table, picked by index: columns are apart.

// CHECK-LABEL: func.func @columns
// CHECK:         scf.parallel (%[[J:.*]]) =
// CHECK:           scf.for %[[I:.*]] =
// CHECK:             %[[ROW:.*]] = memref.load %{{.*}}[%[[I]]]
// CHECK:             memref.load %{{.*}}[%[[ROW]], %[[J]]]
// CHECK:             memref.store %{{.*}}, %{{.*}}[%[[ROW]], %[[J]]]
func.func @columns(%rows: memref<8xindex>, %x: memref<8x64xf32>, %table: memref<100x64xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c64 = arith.constant 64 : index
  scf.for %i = %c0 to %c8 step %c1 {
    %row = memref.load %rows[%i] : memref<8xindex>
    scf.parallel (%j) = (%c0) to (%c64) step (%c1) {
      %old = memref.load %table[%row, %j] : memref<100x64xf32>
      %more = memref.load %x[%i, %j] : memref<8x64xf32>
      %new = arith.addf %old, %more : f32
      memref.store %new, %table[%row, %j] : memref<100x64xf32>
    }
  }
  return
}

// The same in two sequential loops, one of one iteration between them: as lowerings of scatters write them.

// CHECK-LABEL: func.func @elements
// CHECK:         scf.parallel (%[[J:.*]]) =
// CHECK:           scf.for %[[I:.*]] =
// CHECK:               %[[ROW:.*]] = memref.load %{{.*}}[%[[I]]]
// CHECK:               memref.store %{{.*}}, %{{.*}}[%[[ROW]], %[[J]]]
func.func @elements(%rows: memref<8xindex>, %x: memref<8x64xf32>, %table: memref<100x64xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c64 = arith.constant 64 : index
  scf.for %i = %c0 to %c8 step %c1 {
    scf.for %k = %c0 to %c1 step %c1 {
      scf.for %j = %c0 to %c64 step %c1 {
        %row = memref.load %rows[%i] : memref<8xindex>
        %old = memref.load %table[%row, %j] : memref<100x64xf32>
        %more = memref.load %x[%i, %j] : memref<8x64xf32>
        %new = arith.addf %old, %more : f32
        memref.store %new, %table[%row, %j] : memref<100x64xf32>
      }
    }
  }
  return
}

// Each iteration of both loops may write to any element: nothing is apart.

// CHECK-LABEL: func.func @anywhere
// CHECK-NOT:     scf.parallel
// CHECK:         return
func.func @anywhere(%rows: memref<8x64xindex>, %x: memref<8x64xf32>, %table: memref<100xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c64 = arith.constant 64 : index
  scf.for %i = %c0 to %c8 step %c1 {
    scf.for %j = %c0 to %c64 step %c1 {
      %row = memref.load %rows[%i, %j] : memref<8x64xindex>
      %old = memref.load %table[%row] : memref<100xf32>
      %more = memref.load %x[%i, %j] : memref<8x64xf32>
      %new = arith.addf %old, %more : f32
      memref.store %new, %table[%row] : memref<100xf32>
    }
  }
  return
}

// A column reads its neighbour, which the iteration before wrote.

// CHECK-LABEL: func.func @neighbour
// CHECK:         scf.for
// CHECK:           scf.parallel
func.func @neighbour(%table: memref<100x65xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c64 = arith.constant 64 : index
  scf.for %i = %c0 to %c8 step %c1 {
    scf.parallel (%j) = (%c0) to (%c64) step (%c1) {
      %k = arith.addi %j, %c1 : index
      %old = memref.load %table[%i, %k] : memref<100x65xf32>
      memref.store %old, %table[%i, %j] : memref<100x65xf32>
    }
  }
  return
}

// Rows and columns exchanged: place 0 of one access is place 1 of the other.

// CHECK-LABEL: func.func @transposed
// CHECK:         scf.for
// CHECK:           scf.parallel
func.func @transposed(%table: memref<64x64xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c64 = arith.constant 64 : index
  scf.for %i = %c0 to %c8 step %c1 {
    scf.parallel (%j) = (%c0) to (%c64) step (%c1) {
      %old = memref.load %table[%j, %i] : memref<64x64xf32>
      memref.store %old, %table[%i, %j] : memref<64x64xf32>
    }
  }
  return
}

// The next row depends on what this one wrote.

// CHECK-LABEL: func.func @reads_what_is_written
// CHECK:         scf.for
// CHECK:           memref.load
// CHECK:           scf.parallel
func.func @reads_what_is_written(%table: memref<100x64xindex>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c64 = arith.constant 64 : index
  scf.for %i = %c0 to %c8 step %c1 {
    %row = memref.load %table[%i, %c0] : memref<100x64xindex>
    scf.parallel (%j) = (%c0) to (%c64) step (%c1) {
      memref.store %i, %table[%row, %j] : memref<100x64xindex>
    }
  }
  return
}

// Two names of one memory.

// CHECK-LABEL: func.func @view
// CHECK:         scf.for
// CHECK:           scf.parallel
func.func @view(%x: memref<8x64xf32>, %table: memref<100x64xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c64 = arith.constant 64 : index
  %part = memref.subview %table[1, 0] [99, 64] [1, 1] : memref<100x64xf32> to memref<99x64xf32, strided<[64, 1], offset: 64>>
  scf.for %i = %c0 to %c8 step %c1 {
    scf.parallel (%j) = (%c0) to (%c64) step (%c1) {
      %old = memref.load %x[%i, %j] : memref<8x64xf32>
      memref.store %old, %part[%i, %j] : memref<99x64xf32, strided<[64, 1], offset: 64>>
    }
  }
  return
}
