// RUN: fsdp-opt %s --fsdp-expand-math | FileCheck %s

// CHECK-LABEL: func.func @narrow
// CHECK-NOT:     math.{{(tanh|exp|erf|powf)}}
// CHECK-NOT:     fastmath
// CHECK:         return
func.func @narrow(%x: vector<8xf32>) -> vector<8xf32> {
  %0 = math.tanh %x : vector<8xf32>
  %1 = math.exp %0 : vector<8xf32>
  %2 = math.erf %1 : vector<8xf32>
  %3 = math.powf %2, %x : vector<8xf32>
  return %3 : vector<8xf32>
}

// Large angles are reduced in integers, where one element is large.

// CHECK-LABEL: func.func @angles
// CHECK:         %[[LARGE:.*]] = arith.cmpf ogt
// CHECK:         %[[ANY:.*]] = vector.reduction <or>, %[[LARGE]] : vector<8xi1> into i1
// CHECK:         scf.if %[[ANY]]
// CHECK:           arith.muli {{.*}} : vector<8xi64>
// CHECK:           arith.select %[[LARGE]]
// CHECK-NOT:     math.sin
func.func @angles(%x: vector<8xf32>) -> vector<8xf32> {
  %0 = math.sin %x : vector<8xf32>
  return %0 : vector<8xf32>
}

// CHECK-LABEL: func.func @angle
// CHECK:         %[[LARGE:.*]] = arith.cmpf ogt
// CHECK:         scf.if %[[LARGE]]
func.func @angle(%x: f32) -> f32 {
  %0 = math.tan %x : f32
  return %0 : f32
}

// CHECK-LABEL: func.func @planes
// CHECK:         vector.shape_cast %{{.*}} : vector<2x8xi1> to vector<16xi1>
func.func @planes(%x: vector<2x8xf32>) -> vector<2x8xf32> {
  %0 = math.cos %x : vector<2x8xf32>
  return %0 : vector<2x8xf32>
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

// A power with an integer is one with a float.

// CHECK-LABEL: func.func @whole
// CHECK-DAG:     arith.sitofp %{{.*}} : i32 to f32
// CHECK-DAG:     arith.extf %{{.*}} : f16 to f32
// CHECK-NOT:     math.{{f?pow}}
// CHECK:         arith.truncf %{{.*}} : f32 to f16
func.func @whole(%x: f16, %i: i32) -> f16 {
  %0 = math.fpowi %x, %i : f16, i32
  return %0 : f16
}

// f64 is libm's, where what becomes of an op is good enough.

// CHECK-LABEL: func.func @wide
// CHECK-NOT:     math.{{(expm1|erfc)}}
// CHECK:         math.tanh %{{.*}} : vector<8xf64>
func.func @wide(%x: vector<8xf64>) -> vector<8xf64> {
  %0 = math.expm1 %x : vector<8xf64>
  %1 = math.erfc %0 : vector<8xf64>
  %2 = math.tanh %1 : vector<8xf64>
  return %2 : vector<8xf64>
}
