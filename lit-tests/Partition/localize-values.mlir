// RUN: fsdp-opt %s --split-input-file --allow-unregistered-dialect --fsdp-localize-values | FileCheck %s

// What the loss or a buffer's update needs stands before the rest; the order
// within the two phases stays.
// CHECK-LABEL: func.func @forward_backward
// CHECK:         "test.loss"
// CHECK-NEXT:    "test.check"
// CHECK-NEXT:    "test.count"
// CHECK-NEXT:    "test.early_grad"
// CHECK-NEXT:    "test.grad"
func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
                            %n: tensor<i64> {fsdp.buffer = {fqn = "n"}},
                            %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}, tensor<i64> {fsdp.buffer_update = {fqn = "n"}}) {
  %e = "test.early_grad"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %loss = "test.loss"(%w, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
  "test.check"(%loss) : (tensor<f32>) -> ()
  %g = "test.grad"(%e, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %m = "test.count"(%n) : (tensor<i64>) -> tensor<i64>
  return %loss, %g, %m : tensor<f32>, tensor<4xf32>, tensor<i64>
}

// -----

// A shared empty, fill and splat are made before each of their readers; a splat
// is a fill, a constant that is none stays where it is.
// CHECK-LABEL: func.func @forward_backward
// CHECK:         %[[TABLE:.*]] = arith.constant dense<[1.000000e+00, 2.000000e+00
// CHECK-NOT:     arith.constant dense
// CHECK:         %[[E0:.*]] = tensor.empty() : tensor<4xf32>
// CHECK-NEXT:    %[[F0:.*]] = linalg.fill ins(%{{.*}}) outs(%[[E0]]
// CHECK:         "test.loss"(%{{.*}}, %{{.*}}, %[[F0]], %[[TABLE]])
// CHECK:         %[[E1:.*]] = tensor.empty() : tensor<4xf32>
// CHECK-NEXT:    %[[F1:.*]] = linalg.fill ins(%{{.*}}) outs(%[[E1]]
// CHECK:         "test.grad"(%{{.*}}, %[[F1]])
func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
                            %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %ones = arith.constant dense<1.0> : tensor<4xf32>
  %table = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %loss = "test.loss"(%w, %x, %ones, %table) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
  %g = "test.grad"(%w, %ones) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %loss, %g : tensor<f32>, tensor<4xf32>
}

// -----

// A view of a parameter that is made in forward and used in backward would keep
// the unit gathered: it is made again before every reader, chains as a whole.
// CHECK-LABEL: func.func @forward_backward
// CHECK-SAME:    %[[W:[a-z0-9]+]]: tensor<2x4xf32>
// CHECK:         %[[S0:.*]] = tensor.extract_slice %[[W]]
// CHECK-NEXT:    %[[C0:.*]] = tensor.collapse_shape %[[S0]]
// CHECK-NEXT:    "test.first"(%[[C0]])
// CHECK:         %[[S1:.*]] = tensor.extract_slice %[[W]]
// CHECK-NEXT:    %[[C1:.*]] = tensor.collapse_shape %[[S1]]
// CHECK-NEXT:    "test.loss"(%{{.*}}, %[[C1]])
// CHECK:         %[[S2:.*]] = tensor.extract_slice %[[W]]
// CHECK-NEXT:    %[[C2:.*]] = tensor.collapse_shape %[[S2]]
// CHECK-NEXT:    "test.grad"(%[[C2]])
func.func @forward_backward(%w: tensor<2x4xf32> {fsdp.param = {fqn = "w"}},
                            %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss}, tensor<2x4xf32> {fsdp.grad = {fqn = "w"}}) {
  %s = tensor.extract_slice %w[1, 0] [1, 4] [1, 1] : tensor<2x4xf32> to tensor<1x4xf32>
  %c = tensor.collapse_shape %s [[0, 1]] : tensor<1x4xf32> into tensor<4xf32>
  %y = "test.first"(%c) : (tensor<4xf32>) -> tensor<4xf32>
  %loss = "test.loss"(%y, %c) : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
  %g = "test.grad"(%c) : (tensor<4xf32>) -> tensor<2x4xf32>
  return %loss, %g : tensor<f32>, tensor<2x4xf32>
}

// -----

// What costs more than a view is computed once per phase.
// CHECK-LABEL: func.func @forward_backward
// CHECK-SAME:    %[[W:[a-z0-9]+]]: tensor<4xf32>
// CHECK:         %[[S0:.*]] = math.sqrt %[[W]]
// CHECK-NEXT:    "test.first"(%[[S0]])
// CHECK-NEXT:    "test.loss"(%{{.*}}, %[[S0]])
// CHECK:         %[[S1:.*]] = math.sqrt %[[W]]
// CHECK-NEXT:    "test.grad"(%[[S1]])
// CHECK-NEXT:    "test.grad2"(%{{.*}}, %[[S1]])
func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
                            %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %s = math.sqrt %w : tensor<4xf32>
  %y = "test.first"(%s) : (tensor<4xf32>) -> tensor<4xf32>
  %loss = "test.loss"(%y, %s) : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
  %g0 = "test.grad"(%s) : (tensor<4xf32>) -> tensor<4xf32>
  %g = "test.grad2"(%g0, %s) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %loss, %g : tensor<f32>, tensor<4xf32>
}

// -----

// A cast of a whole tensor is no more than a view.
// CHECK-LABEL: func.func @forward_backward
// CHECK-SAME:    %[[W:[a-z0-9]+]]: tensor<4xf32>
// CHECK:         %[[C0:.*]] = arith.truncf %[[W]]
// CHECK-NEXT:    "test.first"(%[[C0]])
// CHECK:         %[[C1:.*]] = arith.truncf %[[W]]
// CHECK-NEXT:    "test.loss"(%{{.*}}, %[[C1]])
func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
                            %x: tensor<f32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %c = arith.truncf %w : tensor<4xf32> to tensor<4xbf16>
  %y = "test.first"(%c) : (tensor<4xbf16>) -> tensor<f32>
  %z = "test.other"(%y, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %loss = "test.loss"(%z, %c) : (tensor<f32>, tensor<4xbf16>) -> tensor<f32>
  %g = "test.grad"(%loss) : (tensor<f32>) -> tensor<4xf32>
  return %loss, %g : tensor<f32>, tensor<4xf32>
}

// -----

// A value that depends on the batch too is saved, not computed twice; so is one
// that an op with unknown effects computed.
// CHECK-LABEL: func.func @forward_backward
// CHECK:         %[[M:.*]] = arith.mulf
// CHECK:         %[[R:.*]] = "test.random"
// CHECK:         "test.grad"(%[[M]], %[[R]])
// CHECK-NOT:     arith.mulf
// CHECK-NOT:     "test.random"
func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
                            %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %m = arith.mulf %w, %x : tensor<4xf32>
  %r = "test.random"(%w) : (tensor<4xf32>) -> tensor<4xf32>
  %loss = "test.loss"(%m, %r) : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
  %g = "test.grad"(%m, %r) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %loss, %g : tensor<f32>, tensor<4xf32>
}

// -----

// A reader inside a region counts at its op: the view is made before the loop,
// and the region reads that.
// CHECK-LABEL: func.func @forward_backward
// CHECK-SAME:    %[[W:[a-z0-9]+]]: tensor<4x2xf32>
// CHECK:         %[[C0:.*]] = tensor.collapse_shape %[[W]]
// CHECK-NEXT:    linalg.generic
// CHECK:           tensor.extract %[[C0]]
// CHECK:         %[[C1:.*]] = tensor.collapse_shape %[[W]]
// CHECK-NEXT:    "test.grad"(%[[C1]])
func.func @forward_backward(%w: tensor<4x2xf32> {fsdp.param = {fqn = "w"}},
                            %x: tensor<3xi64> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4x2xf32> {fsdp.grad = {fqn = "w"}}) {
  %c = tensor.collapse_shape %w [[0, 1]] : tensor<4x2xf32> into tensor<8xf32>
  %e = tensor.empty() : tensor<3xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<3xi64>) outs(%e : tensor<3xf32>) {
  ^bb0(%in: i64, %o: f32):
    %i = arith.index_cast %in : i64 to index
    %v = tensor.extract %c[%i] : tensor<8xf32>
    linalg.yield %v : f32
  } -> tensor<3xf32>
  %loss = "test.loss"(%y) : (tensor<3xf32>) -> tensor<f32>
  %g = "test.grad"(%c) : (tensor<8xf32>) -> tensor<4x2xf32>
  return %loss, %g : tensor<f32>, tensor<4x2xf32>
}

// -----

// Without a traced step nothing is touched.
// CHECK-LABEL: func.func @not_a_step
// CHECK-NEXT:    %[[C:.*]] = arith.constant dense<0.000000e+00>
// CHECK-NEXT:    arith.addf %[[C]], %[[C]]
func.func @not_a_step() -> tensor<4xf32> {
  %c = arith.constant dense<0.0> : tensor<4xf32>
  %s = arith.addf %c, %c : tensor<4xf32>
  return %s : tensor<4xf32>
}
