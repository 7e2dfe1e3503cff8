// RUN: fsdp-opt %s --split-input-file --fsdp-recompute-activations --verify-diagnostics | FileCheck %s
// RUN: fsdp-opt %s --split-input-file --fsdp-recompute-activations --fsdp-offload-activations --verify-diagnostics | FileCheck %s --check-prefix=BOTH

// @f is repeated right before backward first reads its result, through a view,
// and reads what backward gathers, which comes earlier for that. @g, of whose
// results forward reads none, moves. What is not marked is kept.
fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
func.func private @f(%x: tensor<2x2xf32>, %w: tensor<4xf32>, %o: tensor<2x2xf32>, %s: tensor<2xf32>) -> (tensor<2x2xf32>, tensor<2xf32>)
func.func private @g(%x: tensor<2x2xf32>, %o: tensor<2x2xf32>) -> tensor<2x2xf32>
func.func private @loss(%x: tensor<2x2xf32>, %o: tensor<f32>) -> tensor<f32>
func.func private @b(%x: tensor<4xf32>, %y: tensor<2x2xf32>, %s: tensor<2xf32>, %o: tensor<8xf32>) -> tensor<8xf32>
func.func private @c(%x: tensor<8xf32>, %w: tensor<4xf32>, %o: tensor<4xf32>) -> tensor<4xf32>
// CHECK-LABEL: fsdp.program @step
// CHECK-SAME: (%[[P:.*]]: tensor<4xf32>, %[[X:.*]]: tensor<2x2xf32>)
fsdp.program @step(%p: tensor<4xf32>, %x: tensor<2x2xf32>) -> (tensor<f32> {fsdp.loss}, tensor<4xf32>) {
  // CHECK: %[[W:.*]] = fsdp.all_gather %[[P]] {{.*}} forward
  // CHECK: %[[WV:.*]] = fsdp.view %[[W]][4]
  // CHECK: %[[F:.*]]:2 = fsdp.launch @f(%[[X]], %[[WV]])
  // CHECK-NOT: @g
  // CHECK: fsdp.launch @loss(%[[F]]#0)
  // CHECK: %[[W2:.*]] = fsdp.all_gather %[[P]] {{.*}} backward
  // CHECK: %[[W2V:.*]] = fsdp.view %[[W2]][4]
  // CHECK: %[[F2:.*]]:2 = fsdp.launch @f(%[[X]], %[[W2V]])
  // CHECK-NOT: fsdp.recompute
  // CHECK: %[[V:.*]] = tensor.collapse_shape %[[F2]]#0
  // CHECK: %[[G:.*]] = fsdp.launch @g(%[[F2]]#0)
  // CHECK: %[[B:.*]] = fsdp.launch @b(%[[V]], %[[G]], %[[F]]#1)
  // CHECK: %[[W2VB:.*]] = fsdp.view %[[W2]][0]
  // CHECK: fsdp.launch @c(%[[B]], %[[W2VB]])
  %w = fsdp.all_gather %p on @mesh["shard"] for forward : tensor<4xf32> -> tensor<8xf32>
  %wv = fsdp.view %w[4] : tensor<8xf32> -> tensor<4xf32>
  %f:2 = fsdp.launch @f(%x, %wv) {fsdp.recompute = array<i64: 0>} : (tensor<2x2xf32>, tensor<4xf32>) -> (tensor<2x2xf32>, tensor<2xf32>)
  %g = fsdp.launch @g(%f#0) {fsdp.recompute = array<i64: 0>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %v = tensor.collapse_shape %f#0 [[0, 1]] : tensor<2x2xf32> into tensor<4xf32>
  %l = fsdp.launch @loss(%f#0) : (tensor<2x2xf32>) -> tensor<f32>
  %b = fsdp.launch @b(%v, %g, %f#1) : (tensor<4xf32>, tensor<2x2xf32>, tensor<2xf32>) -> tensor<8xf32>
  %w2 = fsdp.all_gather %p on @mesh["shard"] for backward : tensor<4xf32> -> tensor<8xf32>
  %w2v = fsdp.view %w2[0] : tensor<8xf32> -> tensor<4xf32>
  %c = fsdp.launch @c(%b, %w2v) : (tensor<8xf32>, tensor<4xf32>) -> tensor<4xf32>
  fsdp.return %l, %c : tensor<f32>, tensor<4xf32>
}

// -----

func.func private @f(%x: tensor<4xf32>, %o: tensor<f32>) -> tensor<f32>
// CHECK-LABEL: fsdp.program @step
fsdp.program @step(%x: tensor<4xf32> {fsdp.offset = 0}) -> (tensor<f32> {fsdp.loss}) {
  // CHECK-COUNT-1: fsdp.launch
  %l = fsdp.launch @f(%x) : (tensor<4xf32>) -> tensor<f32>
  fsdp.return %l : tensor<f32>
}

// -----

func.func private @f(%x: tensor<4xf32>, %o: tensor<f32>) -> tensor<f32>
fsdp.program @step(%x: tensor<4xf32>) -> (tensor<f32> {fsdp.loss}, tensor<f32>) {
  // expected-note @below {{forward ends here}}
  %l = fsdp.launch @f(%x) : (tensor<4xf32>) -> tensor<f32>
  // expected-error @below {{expected fsdp.recompute in forward, got it behind it}}
  %b = fsdp.launch @f(%x) {fsdp.recompute = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  fsdp.return %l, %b : tensor<f32>, tensor<f32>
}

// -----

func.func private @f(%x: tensor<4xf32>, %o: tensor<f32>) -> tensor<f32>
fsdp.program @step(%x: tensor<4xf32>) -> (tensor<f32> {fsdp.loss}) {
  // discardable_c4
  // expected-error @below {{expected a result below 1 in fsdp.recompute, got 1}}
  %a = fsdp.launch @f(%x) {fsdp.recompute = array<i64: 1>} : (tensor<4xf32>) -> tensor<f32>
  %l = fsdp.launch @f(%x) : (tensor<4xf32>) -> tensor<f32>
  fsdp.return %l : tensor<f32>
}

// -----

func.func private @f(%x: tensor<4xf32>, %o: tensor<f32>) -> tensor<f32>
fsdp.program @step(%x: tensor<4xf32>) -> (tensor<f32> {fsdp.loss}) {
  // expected-error @below {{expected fsdp.recompute with an array of numbers of results, got unit}}
  %l = fsdp.launch @f(%x) {fsdp.recompute} : (tensor<4xf32>) -> tensor<f32>
  fsdp.return %l : tensor<f32>
}

// -----

// What goes to the host is what forward made: the repeated launch says nothing
// of it, and reads what comes back.
func.func private @f(%x: tensor<4xf32>, %o: tensor<4xf32>, %p: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
func.func private @loss(%x: tensor<4xf32>, %o: tensor<f32>) -> tensor<f32>
func.func private @b(%x: tensor<4xf32>, %y: tensor<4xf32>, %o: tensor<4xf32>) -> tensor<4xf32>
// BOTH: func private @b(tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
fsdp.program @step(%x: tensor<4xf32>) -> (tensor<f32> {fsdp.loss}, tensor<4xf32>) {
  // BOTH: %[[A:.*]]:2 = fsdp.launch @f(
  // BOTH: %[[G:.*]]:2 = fsdp.launch @f(%[[A]]#0)
  // BOTH: %[[HA:.*]] = fsdp.offload %[[A]]#0
  // BOTH: %[[HG:.*]] = fsdp.offload %[[G]]#1
  // BOTH: fsdp.launch @loss
  // BOTH: %[[RA:.*]] = fsdp.reload %[[HA]]
  // BOTH: %[[AGAIN:.*]]:2 = fsdp.launch @f(%[[RA]])
  // BOTH: %[[RG:.*]] = fsdp.reload %[[HG]]
  // BOTH: fsdp.launch @b(%[[AGAIN]]#0, %[[RG]])
  %a:2 = fsdp.launch @f(%x) {fsdp.offload = array<i64: 0>} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %g:2 = fsdp.launch @f(%a#0) {fsdp.recompute = array<i64: 0>, fsdp.offload = array<i64: 1>} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %l = fsdp.launch @loss(%g#0) : (tensor<4xf32>) -> tensor<f32>
  %b = fsdp.launch @b(%g#0, %g#1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fsdp.return %l, %b : tensor<f32>, tensor<4xf32>
}

// -----

func.func private @f(%x: tensor<4xf32>, %o: tensor<4xf32>) -> tensor<4xf32>
func.func private @loss(%x: tensor<4xf32>, %o: tensor<f32>) -> tensor<f32>
fsdp.program @step(%x: tensor<4xf32>) -> (tensor<f32> {fsdp.loss}, tensor<4xf32>) {
  // expected-warning @below {{fsdp.recompute has no effect: backward does not read result 0}}
  %a = fsdp.launch @f(%x) {fsdp.recompute = array<i64: 0>} : (tensor<4xf32>) -> tensor<4xf32>
  %l = fsdp.launch @loss(%a) : (tensor<4xf32>) -> tensor<f32>
  %b = fsdp.launch @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fsdp.return %l, %b : tensor<f32>, tensor<4xf32>
}
