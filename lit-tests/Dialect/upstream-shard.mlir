// What docs/rationale.md says of upstream's shard dialect. Should one of these
// change, the rationale has to. (The conversion reports what it cannot do, and
// succeeds.)
//
// RUN: split-file %s %t
// RUN: mlir-opt %t/gathers.mlir --cse | FileCheck %s --check-prefix=CSE
// RUN: mlir-opt %t/gathers.mlir --convert-shard-to-mpi 2>&1 | FileCheck %s --check-prefix=GATHER
// RUN: mlir-opt %t/scatter.mlir --convert-shard-to-mpi 2>&1 | FileCheck %s --check-prefix=SCATTER
// RUN: not mlir-opt %t/uneven.mlir 2>&1 | FileCheck %s --check-prefix=UNEVEN
// RUN: mlir-opt %t/average.mlir --convert-shard-to-mpi | FileCheck %s --check-prefix=AVERAGE

// CSE-LABEL: @two_gathers
// CSE:         shard.all_gather
// CSE-NOT:     shard.all_gather
// GATHER:      failed to legalize operation 'shard.all_gather'
//--- gathers.mlir
module attributes {dlti.map = #dlti.map<"MPI:Implementation" = "OpenMPI", "MPI:comm_world_rank" = 0>} {
  shard.grid @grid(shape = 2)
  func.func @two_gathers(%a: tensor<4xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
    %0 = shard.all_gather %a on @grid grid_axes = [0] gather_axis = 0 : tensor<4xf32> -> tensor<8xf32>
    %1 = shard.all_gather %a on @grid grid_axes = [0] gather_axis = 0 : tensor<4xf32> -> tensor<8xf32>
    return %0, %1 : tensor<8xf32>, tensor<8xf32>
  }
}

// SCATTER: failed to legalize operation 'shard.reduce_scatter'
//--- scatter.mlir
module attributes {dlti.map = #dlti.map<"MPI:Implementation" = "OpenMPI", "MPI:comm_world_rank" = 0>} {
  shard.grid @grid(shape = 2)
  func.func @scatter(%a: tensor<8xf32>) -> tensor<4xf32> {
    %0 = shard.reduce_scatter %a on @grid grid_axes = [0] reduction = sum scatter_axis = 0 : tensor<8xf32> -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// UNEVEN: Operand dimension size 7 is not divisible by collective device group size 2
//--- uneven.mlir
shard.grid @grid(shape = 2)
func.func @uneven(%a: tensor<7xf32>) -> tensor<4xf32> {
  %0 = shard.reduce_scatter %a on @grid grid_axes = [0] reduction = sum scatter_axis = 0 : tensor<7xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// AVERAGE: mpi.allreduce({{.*}}, MPI_OP_NULL,
//--- average.mlir
module attributes {dlti.map = #dlti.map<"MPI:Implementation" = "OpenMPI", "MPI:comm_world_rank" = 0>} {
  shard.grid @grid(shape = 2)
  func.func @average(%a: memref<8xf32>) -> memref<8xf32> {
    %0 = shard.all_reduce %a on @grid grid_axes = [0] reduction = average : memref<8xf32> -> memref<8xf32>
    return %0 : memref<8xf32>
  }
}
