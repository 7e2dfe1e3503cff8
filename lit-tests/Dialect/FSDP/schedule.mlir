// RUN: fsdp-opt %s | fsdp-opt | FileCheck %s
// RUN: fsdp-opt %s --mlir-print-op-generic | fsdp-opt | FileCheck %s
// Upstream passes leave the order, and starts whose results nobody reads.
// RUN: fsdp-opt %s --canonicalize --cse --loop-invariant-code-motion --symbol-dce | FileCheck %s

fsdp.mesh @mesh [#fsdp.axis<"replicate" = 2>, #fsdp.axis<"shard" = 4>]

// CHECK-LABEL: fsdp.program @step
fsdp.program @step(%a: tensor<8xf32>, %b: tensor<4xf32>, %g: tensor<32xf32>) -> tensor<8xf32> {
  // CHECK: %[[W:.*]] = fsdp.start(%{{.*}}, %{{.*}}) on all_gather event 0 {
  // CHECK: ^bb0(%{{.*}}: tensor<8xf32>, %{{.*}}: tensor<4xf32>):
  // CHECK: fsdp.yield
  // CHECK: } : (tensor<8xf32>, tensor<4xf32>) -> !fsdp.token<tensor<32xf32>, tensor<16xf32>>
  %w = fsdp.start(%a, %b) on all_gather event 0 {
  ^bb0(%x: tensor<8xf32>, %y: tensor<4xf32>):
    %0 = fsdp.all_gather %x on @mesh["shard"] : tensor<8xf32> -> tensor<32xf32>
    %1 = fsdp.all_gather %y on @mesh["shard"] : tensor<4xf32> -> tensor<16xf32>
    fsdp.yield %0, %1 : tensor<32xf32>, tensor<16xf32>
  } : (tensor<8xf32>, tensor<4xf32>) -> !fsdp.token<tensor<32xf32>, tensor<16xf32>>
  // CHECK: %[[S:.*]] = fsdp.start(%{{.*}}) on reduce event 1 {
  %s = fsdp.start(%g) on reduce event 1 {
  ^bb0(%x: tensor<32xf32>):
    %0 = fsdp.reduce_scatter %x on @mesh["shard"] divisor 8 : tensor<32xf32> -> tensor<8xf32>
    fsdp.yield %0 : tensor<8xf32>
  } : (tensor<32xf32>) -> !fsdp.token<tensor<8xf32>>
  // CHECK: %[[P:.*]] = fsdp.start(%{{.*}}) on reduce event 3 {
  // CHECK: fsdp.all_to_all
  %p = fsdp.start(%g) on reduce event 3 {
  ^bb0(%x: tensor<32xf32>):
    %0 = fsdp.all_to_all %x on @mesh["shard"] : tensor<32xf32>
    fsdp.yield %0 : tensor<32xf32>
  } : (tensor<32xf32>) -> !fsdp.token<tensor<32xf32>>
  // A transfer reads what another one brings.
  // CHECK: %[[R:.*]] = fsdp.start() on all_reduce event 2 after(%[[S]] : !fsdp.token<tensor<8xf32>>) {
  // CHECK: ^bb0(%[[X:.*]]: tensor<8xf32>):
  // CHECK: fsdp.all_reduce %[[X]]
  %r = fsdp.start() on all_reduce event 2 after(%s : !fsdp.token<tensor<8xf32>>) {
  ^bb0(%x: tensor<8xf32>):
    %0 = fsdp.all_reduce %x on @mesh["replicate"] : tensor<8xf32>
    fsdp.yield %0 : tensor<8xf32>
  } : () -> !fsdp.token<tensor<8xf32>>
  // CHECK: fsdp.wait %[[W]]
  %2:2 = fsdp.wait %w : !fsdp.token<tensor<32xf32>, tensor<16xf32>> -> tensor<32xf32>, tensor<16xf32>
  // CHECK: fsdp.wait %[[S]]
  %3 = fsdp.wait %s : !fsdp.token<tensor<8xf32>> -> tensor<8xf32>
  // CHECK: fsdp.wait %[[P]]
  %5 = fsdp.wait %p : !fsdp.token<tensor<32xf32>> -> tensor<32xf32>
  // CHECK: fsdp.wait %[[R]]
  %4 = fsdp.wait %r : !fsdp.token<tensor<8xf32>> -> tensor<8xf32>
  fsdp.return %4 : tensor<8xf32>
}
