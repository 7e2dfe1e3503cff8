// RUN: fsdp-opt %s --fsdp-define-kernel-entries -verify-diagnostics

func.func private @k_cpu(%begin: index, %end: index)

// expected-error @below {{expected @k_cpu to have become an LLVM function}}
llvm.func @k_entry(!llvm.ptr, !llvm.ptr, i64, i64) attributes {fsdp.impl = @k_cpu}
