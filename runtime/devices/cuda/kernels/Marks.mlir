//===- Marks.mlir - Marks, and the search for bytes that were touched -----===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// The host may read it while the device goes on.
llvm.func @fsdp_mark(%mark: !global) attributes {nvvm.kernel} {
  %thread, %place = func.call @begin() : () -> (i64, i32)
  %one = arith.constant 1 : i32
  llvm.store volatile %one, %mark : i32, !global
  llvm.return
}

// The first byte that is not dead, whatever order threads come in.
llvm.func @fsdp_find_touched(%start: !global, %found: !global, %bytes: i64) attributes {nvvm.kernel} {
  %thread, %place = func.call @begin() : () -> (i64, i32)
  %is_inside = arith.cmpi ult, %thread, %bytes : i64
  scf.if %is_inside {
    %dead = arith.constant 255 : i8
    %address = llvm.getelementptr %start[%thread] : (!global, i64) -> !global, i8
    %byte = llvm.load %address : !global -> i8
    %is_touched = arith.cmpi ne, %byte, %dead : i8
    scf.if %is_touched {
      %eight = arith.constant 8 : i64
      %index = arith.shli %thread, %eight : i64
      %wide_byte = arith.extui %byte : i8 to i64
      %both = arith.ori %index, %wide_byte : i64
      %before = llvm.atomicrmw umin %found, %both syncscope("device") monotonic : !global, i64
    }
  }
  llvm.return
}
