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

// Even and odd words are multiplied in lanes of 64 bits.

// CHECK-LABEL: @vectors
// CHECK-COUNT-40: arith.muli {{.*}} : vector<4xi64>
// CHECK-NOT: arith.mul
// CHECK: return
func.func @vectors(%i: vector<8xi32>, %j: vector<8xi32>, %c: vector<8xi32>, %k: vector<8xi32>) -> (vector<8xi32>, vector<8xi32>) {
  %a = fsdp.random_word %i of %c, %c, %c, %c by %k, %k : vector<8xi32>
  %b = fsdp.random_word %j of %c, %c, %c, %c by %k, %k : vector<8xi32>
  return %a, %b : vector<8xi32>, vector<8xi32>
}

// -----

// CHECK-LABEL: @odd
// CHECK-COUNT-20: arith.mului_extended {{.*}} : vector<5xi32>
// CHECK-NOT: arith.mul
// CHECK: return
func.func @odd(%i: vector<5xi32>, %c: vector<5xi32>, %k: vector<5xi32>) -> vector<5xi32> {
  %a = fsdp.random_word %i of %c, %c, %c, %c by %k, %k : vector<5xi32>
  return %a : vector<5xi32>
}
