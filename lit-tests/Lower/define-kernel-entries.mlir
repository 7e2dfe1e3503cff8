// RUN: fsdp-opt %s --fsdp-define-kernel-entries | FileCheck %s

// CHECK:       llvm.func internal @k_cpu
llvm.func @k_cpu(%begin: i64, %end: i64, %scratch: !llvm.ptr, %x: !llvm.ptr, %out: !llvm.ptr) {
  llvm.return
}

// CHECK-LABEL: llvm.func internal @k_entry
// CHECK-SAME:    (%[[OPERANDS:.*]]: !llvm.ptr, %[[SCRATCH:.*]]: !llvm.ptr, %[[BEGIN:.*]]: i64, %[[END:.*]]: i64)
// CHECK:         %[[P0:.*]] = llvm.getelementptr %[[OPERANDS]][0]
// CHECK:         %[[X:.*]] = llvm.load %[[P0]]
// CHECK:         %[[P1:.*]] = llvm.getelementptr %[[OPERANDS]][1]
// CHECK:         %[[OUT:.*]] = llvm.load %[[P1]]
// CHECK:         llvm.call @k_cpu(%[[BEGIN]], %[[END]], %[[SCRATCH]], %[[X]], %[[OUT]])
llvm.func @k_entry(!llvm.ptr, !llvm.ptr, i64, i64) attributes {fsdp.impl = @k_cpu}
