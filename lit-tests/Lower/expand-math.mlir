// RUN: fsdp-opt %s --fsdp-expand-math | FileCheck %s

// CHECK-LABEL: func.func @narrow
// CHECK-NOT:     math.tanh
// CHECK-NOT:     math.exp
// CHECK-NOT:     math.erf
// CHECK:         return
func.func @narrow(%x: vector<8xf32>) -> vector<8xf32> {
  %0 = math.tanh %x : vector<8xf32>
  %1 = math.exp %0 : vector<8xf32>
  %2 = math.erf %1 : vector<8xf32>
  return %2 : vector<8xf32>
}

// Half precision computes in f32.

// CHECK-LABEL: func.func @half
// CHECK:         arith.extf %{{.*}} : vector<8xbf16> to vector<8xf32>
// CHECK-NOT:     math.tanh
// CHECK:         arith.truncf %{{.*}} : vector<8xf32> to vector<8xbf16>
func.func @half(%x: vector<8xbf16>) -> vector<8xbf16> {
  %0 = math.tanh %x : vector<8xbf16>
  return %0 : vector<8xbf16>
}

// No polynomial is good enough for f64: libm's.

// CHECK-LABEL: func.func @wide
// CHECK:         math.tanh %{{.*}} : vector<8xf64>
func.func @wide(%x: vector<8xf64>) -> vector<8xf64> {
  %0 = math.tanh %x : vector<8xf64>
  return %0 : vector<8xf64>
}
