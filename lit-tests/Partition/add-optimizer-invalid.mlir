// RUN: split-file %s %t
// RUN: fsdp-opt %t/present.mlir --fsdp-add-optimizer='optimizer=sgd' --verify-diagnostics
// RUN: not fsdp-opt %t/absent.mlir --fsdp-add-optimizer='optimizer=adam' 2>&1 | FileCheck %s --check-prefix=KIND
// RUN: not fsdp-opt %t/absent.mlir --fsdp-add-optimizer='optimizer=sgd:beta1=0.5' 2>&1 | FileCheck %s --check-prefix=FIELD
// RUN: not fsdp-opt %t/absent.mlir --fsdp-add-optimizer='optimizer=adamw:beta1=1' 2>&1 | FileCheck %s --check-prefix=RANGE
// RUN: not fsdp-opt %t/absent.mlir --fsdp-add-optimizer='optimizer=adamw:lr=0.1,lr=0.2' 2>&1 | FileCheck %s --check-prefix=TWICE

// KIND:  error: expected adamw or sgd as optimizer, got 'adam'
// FIELD: error: expected one of lr, momentum, weight_decay for sgd, got 'beta1=0.5'
// RANGE: error: expected beta1 in [0, 1), got '1'
// TWICE: error: expected lr once, got 'lr=0.1,lr=0.2'

//--- present.mlir
// expected-error@below {{expected a module without @optimizer to add sgd to}}
module {
  func.func private @forward_backward()
  // expected-note@below {{it is here}}
  func.func private @optimizer()
}

//--- absent.mlir
func.func private @forward_backward()
