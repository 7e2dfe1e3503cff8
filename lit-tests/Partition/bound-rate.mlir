// RUN: split-file %s %t
// RUN: fsdp-opt %t/divides.mlir --fsdp-bound-rate | FileCheck %s
// RUN: fsdp-opt %t/narrow.mlir --fsdp-bound-rate 2>&1 | FileCheck %s --check-prefix=NARROW
// RUN: fsdp-opt %t/multiplies.mlir --fsdp-bound-rate -o %t/a && fsdp-opt %t/multiplies.mlir -o %t/b && diff %t/a %t/b
//
// No built-in optimizer divides by the rate.
// RUN: for spec in adamw:amsgrad=true adam sgd:momentum=1,dampening=0.5 adagrad:lr_decay=1 adadelta rmsprop:centered=true,momentum=1 nadam radam adamax lion; do \
// RUN:   fsdp-opt %t/none.mlir --fsdp-add-optimizer="optimizer=$spec" -o %t/a && fsdp-opt %t/a --fsdp-bound-rate -o %t/b && diff %t/a %t/b || exit 1; done

// By way of a rank-0 op, and of the body of an elementwise one.
// CHECK:      func.func @optimizer(
// CHECK-SAME:   %[[LR:[a-z0-9]+]]: tensor<f32>
// CHECK:      %[[RATE:.*]] = linalg.generic {{.*}} ins(%[[LR]] : tensor<f32>)
// CHECK:        %[[LEAST:.*]] = arith.constant 8.67361737E-19 : f32
// CHECK:        %[[SIZE:.*]] = math.absf %[[IN:.*]] : f32
// CHECK:        %[[LESS:.*]] = arith.cmpf olt, %[[SIZE]], %[[LEAST]]
// CHECK:        %[[BOUND:.*]] = arith.select %[[LESS]], %[[LEAST]], %[[IN]]
// CHECK:        linalg.yield %[[BOUND]]
// CHECK:      arith.mulf %[[RATE]], %[[RATE]] : tensor<f32>
// CHECK-NOT:  %[[LR]]

// NARROW:     warning: a rate of 0 divides by 0 here: expected the scalar lr as f32, bf16 or f64, got 'f16'
// NARROW-NOT: arith.select

//--- none.mlir
func.func private @forward_backward()

//--- divides.mlir
func.func private @forward_backward()
func.func @optimizer(%p: tensor<?xf32> {fsdp.optimizer = {role = "param", name = "p"}},
                     %g: tensor<?xf32> {fsdp.optimizer = {role = "grad", name = "g"}},
                     %lr: tensor<f32> {fsdp.optimizer = {role = "scalar", name = "lr"}})
    -> (tensor<?xf32> {fsdp.optimizer = {role = "param", name = "p"}}) {
  %square = arith.mulf %lr, %lr : tensor<f32>
  %c0 = arith.constant 0 : index
  %n = tensor.dim %p, %c0 : tensor<?xf32>
  %e = tensor.empty(%n) : tensor<?xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> ()>, affine_map<(i) -> (i)>],
                       iterator_types = ["parallel"]}
      ins(%p, %g, %square : tensor<?xf32>, tensor<?xf32>, tensor<f32>) outs(%e : tensor<?xf32>) {
  ^bb0(%x: f32, %d: f32, %s: f32, %o: f32):
    %q = arith.divf %d, %s : f32
    %m = arith.subf %x, %q : f32
    linalg.yield %m : f32
  } -> tensor<?xf32>
  return %r : tensor<?xf32>
}

//--- narrow.mlir
func.func private @forward_backward()
func.func @optimizer(%p: tensor<?xf32> {fsdp.optimizer = {role = "param", name = "p"}},
                     %g: tensor<?xf32> {fsdp.optimizer = {role = "grad", name = "g"}},
                     %lr: tensor<f16> {fsdp.optimizer = {role = "scalar", name = "lr"}})
    -> (tensor<?xf32> {fsdp.optimizer = {role = "param", name = "p"}}) {
  %wide = arith.extf %lr : tensor<f16> to tensor<f32>
  %one = arith.constant dense<1.0> : tensor<f32>
  %inverse = arith.divf %one, %wide : tensor<f32>
  %number = tensor.extract %inverse[] : tensor<f32>
  %c0 = arith.constant 0 : index
  %n = tensor.dim %p, %c0 : tensor<?xf32>
  %s = tensor.splat %number[%n] : tensor<?xf32>
  %q = arith.divf %g, %s : tensor<?xf32>
  %m = arith.subf %p, %q : tensor<?xf32>
  return %m : tensor<?xf32>
}

// The rate is divided, and what is divided by does not depend on it.
//--- multiplies.mlir
func.func private @forward_backward()
func.func @optimizer(%p: tensor<?xf32> {fsdp.optimizer = {role = "param", name = "p"}},
                     %g: tensor<?xf32> {fsdp.optimizer = {role = "grad", name = "g"}},
                     %lr: tensor<f32> {fsdp.optimizer = {role = "scalar", name = "lr"}},
                     %other: tensor<f32> {fsdp.optimizer = {role = "scalar", name = "other"}})
    -> (tensor<?xf32> {fsdp.optimizer = {role = "param", name = "p"}}) {
  %size = arith.divf %lr, %other : tensor<f32>
  %c0 = arith.constant 0 : index
  %n = tensor.dim %p, %c0 : tensor<?xf32>
  %e = tensor.empty(%n) : tensor<?xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> ()>, affine_map<(i) -> ()>, affine_map<(i) -> (i)>],
                       iterator_types = ["parallel"]}
      ins(%p, %g, %size, %other : tensor<?xf32>, tensor<?xf32>, tensor<f32>, tensor<f32>) outs(%e : tensor<?xf32>) {
  ^bb0(%x: f32, %d: f32, %s: f32, %t: f32, %o: f32):
    %q = arith.divf %d, %t : f32
    %c = arith.mulf %q, %s : f32
    %m = arith.subf %x, %c : f32
    linalg.yield %m : f32
  } -> tensor<?xf32>
  return %r : tensor<?xf32>
}
