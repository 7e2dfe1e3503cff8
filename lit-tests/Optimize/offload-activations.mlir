// RUN: fsdp-opt %s --split-input-file --fsdp-offload-activations --verify-diagnostics | FileCheck %s

// A result goes to the host behind its last reader in forward, one that forward
// does not read behind its maker, and comes back before its first reader in
// backward, who may read it through a view; all of backward reads the copy.
func.func private @f(%x: tensor<2x2xf32>, %o: tensor<2x2xf32>, %s: tensor<2xf32>) -> (tensor<2x2xf32>, tensor<2xf32>)
func.func private @loss(%x: tensor<2x2xf32>, %o: tensor<f32>) -> tensor<f32>
func.func private @b(%x: tensor<4xf32>, %y: tensor<4xf32>, %o: tensor<8xf32>) -> tensor<8xf32>
func.func private @c(%x: tensor<8xf32>, %y: tensor<2x2xf32>, %s: tensor<2xf32>, %o: tensor<4xf32>) -> tensor<4xf32>
// CHECK-LABEL: fsdp.program @step
fsdp.program @step(%p: tensor<4xf32>, %x: tensor<2x2xf32>) -> (tensor<f32> {fsdp.loss}, tensor<4xf32>) {
  // CHECK: %[[F:.*]]:2 = fsdp.launch @f(
  // CHECK-NOT: fsdp.offload =
  // CHECK-NEXT: %[[H1:.*]] = fsdp.offload %[[F]]#1 : tensor<2xf32> -> !fsdp.host<tensor<2xf32>>
  // CHECK-NEXT: fsdp.launch @f(%[[F]]#0)
  // CHECK-NEXT: fsdp.launch @loss(%[[F]]#0)
  // CHECK-NEXT: %[[H0:.*]] = fsdp.offload %[[F]]#0 : tensor<2x2xf32> -> !fsdp.host<tensor<2x2xf32>>
  // CHECK-NEXT: %[[R0:.*]] = fsdp.reload %[[H0]] : !fsdp.host<tensor<2x2xf32>> -> tensor<2x2xf32>
  // CHECK-NEXT: %[[V:.*]] = tensor.collapse_shape %[[R0]]
  // CHECK-NEXT: %[[B:.*]] = fsdp.launch @b(%[[V]], %[[V]])
  // CHECK-NEXT: %[[R1:.*]] = fsdp.reload %[[H1]]
  // CHECK-NEXT: fsdp.launch @c(%[[B]], %[[R0]], %[[R1]])
  %f:2 = fsdp.launch @f(%x) {fsdp.offload = array<i64: 1, 0>} : (tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2xf32>)
  %v = tensor.collapse_shape %f#0 [[0, 1]] : tensor<2x2xf32> into tensor<4xf32>
  %g:2 = fsdp.launch @f(%f#0) : (tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2xf32>)
  %l = fsdp.launch @loss(%f#0) : (tensor<2x2xf32>) -> tensor<f32>
  %b = fsdp.launch @b(%v, %v) : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  %c = fsdp.launch @c(%b, %f#0, %f#1) : (tensor<8xf32>, tensor<2x2xf32>, tensor<2xf32>) -> tensor<4xf32>
  fsdp.return %l, %c : tensor<f32>, tensor<4xf32>
}

// -----

// Nothing is marked: nothing changes, places in the arena stay.
func.func private @f(%x: tensor<4xf32>, %o: tensor<f32>) -> tensor<f32>
// CHECK-LABEL: fsdp.program @step
// CHECK-SAME: fsdp.offset = 0
fsdp.program @step(%x: tensor<4xf32> {fsdp.offset = 0}) -> (tensor<f32> {fsdp.loss}) {
  // CHECK-COUNT-1: fsdp.launch
  // CHECK-NOT: fsdp.offload
  %l = fsdp.launch @f(%x) : (tensor<4xf32>) -> tensor<f32>
  fsdp.return %l : tensor<f32>
}

// -----

func.func private @f(%x: tensor<4xf32>, %o: tensor<f32>) -> tensor<f32>
fsdp.program @step(%x: tensor<4xf32>) -> (tensor<f32> {fsdp.loss}, tensor<f32>) {
  // expected-note @below {{forward ends here}}
  %l = fsdp.launch @f(%x) : (tensor<4xf32>) -> tensor<f32>
  // expected-error @below {{expected fsdp.offload in forward, got it behind it}}
  %b = fsdp.launch @f(%x) {fsdp.offload = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  fsdp.return %l, %b : tensor<f32>, tensor<f32>
}

// -----

func.func private @f(%x: tensor<4xf32>, %o: tensor<f32>) -> tensor<f32>
fsdp.program @step(%x: tensor<4xf32>) -> (tensor<f32> {fsdp.loss}) {
  // expected-error @below {{expected a result below 1 in fsdp.offload, got 1}}
  %a = fsdp.launch @f(%x) {fsdp.offload = array<i64: 1>} : (tensor<4xf32>) -> tensor<f32>
  %l = fsdp.launch @f(%x) : (tensor<4xf32>) -> tensor<f32>
  fsdp.return %l : tensor<f32>
}

// -----

func.func private @f(%x: tensor<4xf32>, %o: tensor<f32>) -> tensor<f32>
fsdp.program @step(%x: tensor<4xf32>) -> (tensor<f32> {fsdp.loss}) {
  // expected-error @below {{expected fsdp.offload with an array of numbers of results, got unit}}
  %l = fsdp.launch @f(%x) {fsdp.offload} : (tensor<4xf32>) -> tensor<f32>
  fsdp.return %l : tensor<f32>
}

// -----

func.func private @f(%x: tensor<4xf32>, %o: tensor<4xf32>) -> tensor<4xf32>
func.func private @loss(%x: tensor<4xf32>, %o: tensor<f32>) -> tensor<f32>
fsdp.program @step(%x: tensor<4xf32>) -> (tensor<f32> {fsdp.loss}, tensor<4xf32>) {
  // expected-error @below {{expected each result once in fsdp.offload, got 0 twice}}
  %a = fsdp.launch @f(%x) {fsdp.offload = array<i64: 0, 0>} : (tensor<4xf32>) -> tensor<4xf32>
  %l = fsdp.launch @loss(%a) : (tensor<4xf32>) -> tensor<f32>
  %b = fsdp.launch @f(%a) : (tensor<4xf32>) -> tensor<4xf32>
  fsdp.return %l, %b : tensor<f32>, tensor<4xf32>
}

// -----

func.func private @f(%x: tensor<4xf32>, %o: tensor<4xf32>) -> tensor<4xf32>
func.func private @loss(%x: tensor<4xf32>, %o: tensor<f32>) -> tensor<f32>
fsdp.program @step(%x: tensor<4xf32>) -> (tensor<f32> {fsdp.loss}, tensor<4xf32>) {
  // expected-error @below {{expected result 0 in one of fsdp.offload and fsdp.recompute, got it in both}}
  %a = fsdp.launch @f(%x) {fsdp.offload = array<i64: 0>, fsdp.recompute = array<i64: 0>} : (tensor<4xf32>) -> tensor<4xf32>
  %l = fsdp.launch @loss(%a) : (tensor<4xf32>) -> tensor<f32>
  %b = fsdp.launch @f(%a) : (tensor<4xf32>) -> tensor<4xf32>
  fsdp.return %l, %b : tensor<f32>, tensor<4xf32>
}

// -----

func.func private @f(%x: tensor<4xf32>, %o: tensor<4xf32>) -> tensor<4xf32>
func.func private @loss(%x: tensor<4xf32>, %o: tensor<f32>) -> tensor<f32>
fsdp.program @step(%x: tensor<4xf32>) -> (tensor<f32> {fsdp.loss}) {
  // expected-error @below {{expected a result that backward reads in fsdp.offload, got result 0}}
  %a = fsdp.launch @f(%x) {fsdp.offload = array<i64: 0>} : (tensor<4xf32>) -> tensor<4xf32>
  %l = fsdp.launch @loss(%a) : (tensor<4xf32>) -> tensor<f32>
  fsdp.return %l : tensor<f32>
}

// -----

func.func private @f(%x: tensor<4xf32>, %o: tensor<4xf32>) -> tensor<4xf32>
func.func private @loss(%x: tensor<4xf32>, %o: tensor<f32>) -> tensor<f32>
fsdp.program @step(%x: tensor<4xf32>) -> (tensor<f32> {fsdp.loss}, tensor<2x2xf32>, tensor<4xf32>) {
  // expected-error @below {{expected a result that the step does not return in fsdp.offload, got result 0}}
  %a = fsdp.launch @f(%x) {fsdp.offload = array<i64: 0>} : (tensor<4xf32>) -> tensor<4xf32>
  %v = fsdp.view %a[0] : tensor<4xf32> -> tensor<2x2xf32>
  %l = fsdp.launch @loss(%a) : (tensor<4xf32>) -> tensor<f32>
  %b = fsdp.launch @f(%a) : (tensor<4xf32>) -> tensor<4xf32>
  // expected-note @below {{it is read here}}
  fsdp.return %l, %v, %b : tensor<f32>, tensor<2x2xf32>, tensor<4xf32>
}

// -----

func.func private @f(%x: tensor<4xf32>, %o: tensor<4xf32>) -> tensor<4xf32>
func.func private @loss(%x: tensor<4xf32>, %o: tensor<f32>) -> tensor<f32>
fsdp.program @step(%x: tensor<4xf32>) -> (tensor<f32> {fsdp.loss}, tensor<8xf32>) {
  // expected-error @below {{expected a result with memory of its own, not computed in its place in a pack in fsdp.offload, got result 0}}
  %a = fsdp.launch @f(%x) {fsdp.offload = array<i64: 0>} : (tensor<4xf32>) -> tensor<4xf32>
  %l = fsdp.launch @loss(%a) : (tensor<4xf32>) -> tensor<f32>
  %b = fsdp.launch @f(%a) : (tensor<4xf32>) -> tensor<4xf32>
  // expected-note @below {{it is read here}}
  %k = fsdp.pack %a at 0, %b at 4 : tensor<4xf32>, tensor<4xf32> -> tensor<8xf32>
  fsdp.return %l, %k : tensor<f32>, tensor<8xf32>
}
