// RUN: fsdp-opt %s --fsdp-expand-random | FileCheck %s

// Each element is a function of scalars and its own number. Programs get the scalars that they read, once.

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]

// CHECK-LABEL: fsdp.program @train(
// CHECK-SAME: %[[X:.*]]: tensor<3x4xf32> {fsdp.input = {name = "x"}},
// CHECK-SAME: %[[SEED:[^:]*]]: tensor<i64> {fsdp.scalar = {default = 0.000000e+00 : f64, name = "random_seed"}},
// CHECK-SAME: %[[STEP:[^:]*]]: tensor<i64> {fsdp.scalar = {default = 0.000000e+00 : f64, name = "random_step"}},
// CHECK-SAME: %[[RANK:[^:]*]]: tensor<i64> {fsdp.scalar = {default = 0.000000e+00 : f64, name = "random_rank"}})
// CHECK: linalg.generic
// CHECK-SAME: ins(%[[SEED]], %[[STEP]], %[[RANK]]
// CHECK: linalg.index 0
// CHECK: linalg.index 1
// CHECK: %[[BLOCK:.*]] = arith.shrui %{{.*}}, %c2_i32
// CHECK: %[[PLACE:.*]] = arith.andi %{{.*}}, %c3_i32
// CHECK: %[[SITE:.*]] = arith.ori %c0_i32{{.*}}, %c3_i32
// CHECK: %[[WORD:.*]] = fsdp.random_word %[[PLACE]] of %[[BLOCK]], %{{.*}}, %[[SITE]], %{{.*}} by
// CHECK: arith.shrui %[[WORD]], %c8_i32
// What is shared reads no rank.
// CHECK: linalg.generic
// CHECK-SAME: ins(%[[SEED]], %[[STEP]] :
// CHECK: fsdp.random_word
// CHECK-NEXT: linalg.yield
fsdp.program @train(%x: tensor<3x4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<3x4xf32> {fsdp.output = {name = "u"}}, tensor<5xi32> {fsdp.output = {name = "b"}}) {
  %u = fsdp.random uniform site 3 : tensor<3x4xf32>
  %b = fsdp.random bits site 4 shared : tensor<5xi32>
  fsdp.return %u, %b : tensor<3x4xf32>, tensor<5xi32>
}

// A program for micro-batches counts them; more than 2^31 elements have numbers of 64 bits.
// CHECK-LABEL: fsdp.program accumulate @accumulate(
// CHECK-SAME: %[[COUNT:[^:]*]]: tensor<f32> {fsdp.scalar = {default = 0.000000e+00 : f64, name = "accumulated"}}
// CHECK-NOT: random_rank
// CHECK: linalg.generic
// CHECK: ^bb0(%{{.*}}: i64, %{{.*}}: i64, %[[BEFORE:.*]]: f32, %{{.*}}: f32):
// CHECK: arith.shrui %{{.*}}, %c2_i64
// CHECK: %[[INTEGER:.*]] = arith.fptosi %[[BEFORE]] : f32 to i32
// CHECK: arith.shli %[[INTEGER]], %c16_i32
// CHECK: arith.trunci %{{.*}} : i64 to i32
// CHECK-COUNT-2: fsdp.random_word
// CHECK: math.cos
fsdp.program @accumulate(%n: tensor<f32> {fsdp.scalar = {name = "accumulated", default = 0.0}})
    -> (tensor<65536x65536xf32> {fsdp.output = {name = "n"}}) attributes {kind = #fsdp<program_kind accumulate>} {
  %n1 = fsdp.random normal site 9 shared : tensor<65536x65536xf32>
  fsdp.return %n1 : tensor<65536x65536xf32>
}
