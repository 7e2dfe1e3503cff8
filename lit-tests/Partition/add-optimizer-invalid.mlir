// RUN: split-file %s %t
// RUN: fsdp-opt %t/present.mlir --fsdp-add-optimizer='optimizer=sgd' --verify-diagnostics
// RUN: fsdp-opt %t/own.mlir --fsdp-add-optimizer='optimizer-scalars=eps' --verify-diagnostics
// RUN: not fsdp-opt %t/absent.mlir --fsdp-add-optimizer='optimizer=adam2' 2>&1 | FileCheck %s --check-prefix=KIND
// RUN: not fsdp-opt %t/absent.mlir --fsdp-add-optimizer='optimizer=lars' 2>&1 | FileCheck %s --check-prefix=REASON
// RUN: not fsdp-opt %t/absent.mlir --fsdp-add-optimizer='optimizer=sgd:beta1=0.5' 2>&1 | FileCheck %s --check-prefix=FIELD
// RUN: not fsdp-opt %t/absent.mlir --fsdp-add-optimizer='optimizer=adamw:beta1=1' 2>&1 | FileCheck %s --check-prefix=RANGE
// RUN: not fsdp-opt %t/absent.mlir --fsdp-add-optimizer='optimizer=adamw:lr=0.1,lr=0.2' 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not fsdp-opt %t/absent.mlir --fsdp-add-optimizer='optimizer=sgd:nesterov=true' 2>&1 | FileCheck %s --check-prefix=TOGETHER
// RUN: not fsdp-opt %t/absent.mlir --fsdp-add-optimizer='optimizer=sgd optimizer-scalars=nesterov' 2>&1 | FileCheck %s --check-prefix=SCALAR
// RUN: not fsdp-opt %t/absent.mlir --fsdp-add-optimizer='optimizer-scalars=eps,eps' 2>&1 | FileCheck %s --check-prefix=SCALAR-TWICE

// KIND:     error: expected adamw, adam, sgd, adagrad, adadelta, rmsprop, nadam, radam, adamax or lion as optimizer, got 'adam2': --optimizer-file takes others as functions in MLIR
// REASON:   error: expected {{.*}}, got 'lars': it takes norms of whole parameters, of which a rank has pieces
// FIELD:    error: expected one of lr, momentum, weight_decay, dampening, nesterov, maximize for sgd, got 'beta1=0.5'
// RANGE:    error: expected beta1 in [0, 1), got '1'
// TWICE:    error: expected lr once, got 'lr=0.1,lr=0.2'
// TOGETHER: error: expected momentum above 0 and dampening of 0 beside nesterov, got momentum=0,dampening=0
// SCALAR:   error: optimizer-scalars: expected one of lr, momentum, weight_decay, dampening for sgd, got 'nesterov'
// SCALAR-TWICE: error: optimizer-scalars: expected eps once, got it twice

//--- present.mlir
// expected-error@below {{expected a module without @optimizer to add sgd to}}
module {
  func.func private @forward_backward()
  // expected-note@below {{it is here}}
  func.func private @optimizer()
}

//--- own.mlir
// expected-error@below {{expected a built-in optimizer beside optimizer-scalars, got @optimizer}}
module {
  func.func private @forward_backward()
  // expected-note@below {{it is here}}
  func.func private @optimizer()
}

//--- absent.mlir
func.func private @forward_backward()
