// RUN: fsdp-opt %s --fsdp-expand-random-words --canonicalize --cse --split-input-file | FileCheck %s

// Rounds of one block are there once, whichever of its words are read. With counter and key 0 the words are those of
// Random123's table of known answers.

// CHECK-LABEL: @zero
// CHECK-DAG: %[[A:.*]] = arith.constant 1713891541 : i32
// CHECK-DAG: %[[B:.*]] = arith.constant -513161843 : i32
// CHECK: return %[[A]], %[[B]]
func.func @zero() -> (i32, i32) {
  %z = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %a = fsdp.random_word %z of %z, %z, %z, %z by %z, %z : i32
  %b = fsdp.random_word %one of %z, %z, %z, %z by %z, %z : i32
  return %a, %b : i32, i32
}

// -----

// Words of a vector are computed in lanes of 64 bits, of which the lower half counts.

// CHECK-LABEL: @vectors
// CHECK-COUNT-20: arith.muli {{.*}} : vector<8xi64>
// CHECK-NOT: arith.mul
// CHECK: return
func.func @vectors(%i: vector<8xi32>, %j: vector<8xi32>, %c: vector<8xi32>, %k: vector<8xi32>) -> (vector<8xi32>, vector<8xi32>) {
  %a = fsdp.random_word %i of %c, %c, %c, %c by %k, %k : vector<8xi32>
  %b = fsdp.random_word %j of %c, %c, %c, %c by %k, %k : vector<8xi32>
  return %a, %b : vector<8xi32>, vector<8xi32>
}

// -----

// Of elements that follow each other four are one block; where the first one is not its first word, the last ones are of one
// block more.

// CHECK-LABEL: @row
// CHECK-SAME:    %[[FIRST:[a-z0-9]+]]: i32
// CHECK:         %[[BLOCK:.*]] = arith.shrui %[[FIRST]], %{{.*}} : i32
// CHECK-COUNT-20: arith.muli {{.*}} : vector<2xi64>
// CHECK:         scf.index_switch
// CHECK-NEXT:    case 1 {
// CHECK:           vector.shuffle %{{.*}}, %{{.*}} [1, 2, 3, 4, 5, 6, 7, 8] : vector<8xi32>, vector<4xi32>
// CHECK:         case 3 {
// CHECK:           vector.shuffle %{{.*}}, %{{.*}} [3, 4, 5, 6, 7, 8, 9, 10] : vector<8xi32>, vector<4xi32>
// CHECK:         default {
// CHECK-NEXT:      scf.yield
func.func @row(%first: i32, %key: i32) -> vector<8xi32> {
  %two = arith.constant dense<2> : vector<8xi32>
  %three = arith.constant dense<3> : vector<8xi32>
  %step = vector.step : vector<8xindex>
  %lanes = arith.index_cast %step : vector<8xindex> to vector<8xi32>
  %splat = vector.broadcast %first : i32 to vector<8xi32>
  %keys = vector.broadcast %key : i32 to vector<8xi32>
  %number = arith.addi %splat, %lanes : vector<8xi32>
  %word = arith.andi %number, %three : vector<8xi32>
  %block = arith.shrui %number, %two : vector<8xi32>
  %a = fsdp.random_word %word of %block, %keys, %keys, %keys by %keys, %keys : vector<8xi32>
  return %a : vector<8xi32>
}

// -----

// Keys that differ among the lanes: each element has a block of its own.

// CHECK-LABEL: @keys
// CHECK-NOT: scf.index_switch
// CHECK: return
func.func @keys(%first: i32, %keys: vector<8xi32>) -> vector<8xi32> {
  %zero = arith.constant dense<0> : vector<8xi32>
  %two = arith.constant dense<2> : vector<8xi32>
  %three = arith.constant dense<3> : vector<8xi32>
  %lanes = arith.constant dense<[0, 1, 2, 3, 4, 5, 6, 7]> : vector<8xi32>
  %splat = vector.broadcast %first : i32 to vector<8xi32>
  %number = arith.addi %splat, %lanes : vector<8xi32>
  %word = arith.andi %number, %three : vector<8xi32>
  %block = arith.shrui %number, %two : vector<8xi32>
  %a = fsdp.random_word %word of %block, %zero, %zero, %zero by %keys, %zero : vector<8xi32>
  return %a : vector<8xi32>
}

// -----

// Of a vector with as many lanes as no block has words.

// CHECK-LABEL: @odd
// CHECK-COUNT-20: arith.muli {{.*}} : vector<5xi64>
// CHECK-NOT: arith.mul
// CHECK: return
func.func @odd(%i: vector<5xi32>, %c: vector<5xi32>, %k: vector<5xi32>) -> vector<5xi32> {
  %a = fsdp.random_word %i of %c, %c, %c, %c by %k, %k : vector<5xi32>
  return %a : vector<5xi32>
}
