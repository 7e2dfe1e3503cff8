//===- Runs.mlir - Numbers of a run, and which one it is ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// The run that the device is in, from 1 on. Marks and reports hold it, so that
// those of one run are told from those of the next, which the host may have
// issued before it reads them.
llvm.mlir.global internal @fsdp_run(0 : i64) {addr_space = 1 : i32, alignment = 8 : i64} : i64

func.func private @current_run() -> i64 {
  %address = llvm.mlir.addressof @fsdp_run : !global
  %run = llvm.load %address {alignment = 8 : i64} : !global -> i64
  return %run : i64
}

// Copies a number of RunNumbers.cpp's table (offset, bytes, value) to its place
// from `base` on, or from there.
func.func private @move_number(%entry: !global, %base: !global, %is_placed: i1) {
  %offset = llvm.load %entry {alignment = 8 : i64} : !global -> i64
  %bytes_at = llvm.getelementptr %entry[8] : (!global) -> !global, i8
  %bytes = llvm.load %bytes_at {alignment = 8 : i64} : !global -> i64
  %value = llvm.getelementptr %entry[16] : (!global) -> !global, i8
  %place = llvm.getelementptr %base[%offset] : (!global, i64) -> !global, i8
  %from = llvm.select %is_placed, %value, %place : i1, !global
  %to = llvm.select %is_placed, %place, %value : i1, !global
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %end = arith.index_cast %bytes : i64 to index
  scf.for %i = %zero to %end step %one {
    %at = arith.index_cast %i : index to i64
    %source = llvm.getelementptr %from[%at] : (!global, i64) -> !global, i8
    %target = llvm.getelementptr %to[%at] : (!global, i64) -> !global, i8
    %byte = llvm.load %source : !global -> i8
    llvm.store %byte, %target : i8, !global
  }
  return
}

// Before a run's first call: `run` begins, for the device and, at `current`,
// for functions of the host; `count` numbers take their places.
llvm.func @fsdp_begin_run(%run: i64, %current: !global, %numbers: !global, %base: !global, %count: i64) attributes {nvvm.kernel} {
  %thread, %place = func.call @begin() : () -> (i64, i32)
  %zero = arith.constant 0 : i64
  %is_first = arith.cmpi eq, %thread, %zero : i64
  scf.if %is_first {
    %address = llvm.mlir.addressof @fsdp_run : !global
    llvm.store %run, %address {alignment = 8 : i64} : i64, !global
    llvm.store volatile %run, %current {alignment = 8 : i64} : i64, !global
  }
  %is_inside = arith.cmpi ult, %thread, %count : i64
  scf.if %is_inside {
    %true = arith.constant true
    %size = arith.constant 24 : i64
    %begin = arith.muli %thread, %size : i64
    %entry = llvm.getelementptr %numbers[%begin] : (!global, i64) -> !global, i8
    func.call @move_number(%entry, %base, %true) : (!global, !global, i1) -> ()
  }
  llvm.return
}

// After its last call.
llvm.func @fsdp_end_run(%numbers: !global, %base: !global, %count: i64) attributes {nvvm.kernel} {
  %thread, %place = func.call @begin() : () -> (i64, i32)
  %is_inside = arith.cmpi ult, %thread, %count : i64
  scf.if %is_inside {
    %false = arith.constant false
    %size = arith.constant 24 : i64
    %begin = arith.muli %thread, %size : i64
    %entry = llvm.getelementptr %numbers[%begin] : (!global, i64) -> !global, i8
    func.call @move_number(%entry, %base, %false) : (!global, !global, i1) -> ()
  }
  llvm.return
}
