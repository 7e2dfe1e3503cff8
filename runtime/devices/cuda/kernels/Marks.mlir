//===- Marks.mlir - Marks, checks and the search for touched bytes --------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// The host may read it while the device goes on.
llvm.func @fsdp_mark(%mark: !global) attributes {nvvm.kernel} {
  %thread, %place = func.call @begin() : () -> (i64, i32)
  %run = func.call @current_run() : () -> i64
  llvm.store volatile %run, %mark {alignment = 8 : i64} : i64, !global
  llvm.return
}

// A report is the first run that failed, 0 while none has, and what was found
// in it.
func.func private @report(%report: !global, %found: i64) {
  %none = arith.constant 0 : i64
  %before = llvm.load volatile %report {alignment = 8 : i64} : !global -> i64
  %is_first = arith.cmpi eq, %before, %none : i64
  scf.if %is_first {
    %run = func.call @current_run() : () -> i64
    %found_at = llvm.getelementptr %report[8] : (!global) -> !global, i8
    llvm.store volatile %found, %found_at {alignment = 8 : i64} : i64, !global
    llvm.store volatile %run, %report {alignment = 8 : i64} : i64, !global
  }
  return
}

// A byte that should be 1.
llvm.func @fsdp_check(%flag: !global, %report: !global) attributes {nvvm.kernel} {
  %thread, %place = func.call @begin() : () -> (i64, i32)
  %byte = llvm.load %flag : !global -> i8
  %one = arith.constant 1 : i8
  %has_failed = arith.cmpi ne, %byte, %one : i8
  scf.if %has_failed {
    %wide = arith.extui %byte : i8 to i64
    func.call @report(%report, %wide) : (!global, i64) -> ()
  }
  llvm.return
}

// What fsdp_find_touched has found, if it has.
llvm.func @fsdp_report_touched(%found: !global, %report: !global) attributes {nvvm.kernel} {
  %thread, %place = func.call @begin() : () -> (i64, i32)
  %what = llvm.load %found {alignment = 8 : i64} : !global -> i64
  %untouched = arith.constant -1 : i64
  %has_failed = arith.cmpi ne, %what, %untouched : i64
  scf.if %has_failed {
    func.call @report(%report, %what) : (!global, i64) -> ()
  }
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
