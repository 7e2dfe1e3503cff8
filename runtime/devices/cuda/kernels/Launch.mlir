//===- Launch.mlir - What each kernel begins with -------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

!global = !llvm.ptr<1>

// Before any access to memory: dependents may begin, and the kernel before has
// ended (fsdp-rt/dependent-launch.h). Comments to sm_80, which has neither, and
// therefore not operations of NVVM. Returns the thread's index in the grid and
// in its block.
func.func private @begin() -> (i64, i32) {
  llvm.inline_asm has_side_effects "// sm_90: griddepcontrol.launch_dependents;", "~{memory}" : () -> ()
  llvm.inline_asm has_side_effects "// sm_90: griddepcontrol.wait;", "~{memory}" : () -> ()
  %block = nvvm.read.ptx.sreg.ctaid.x : i32
  %size = nvvm.read.ptx.sreg.ntid.x : i32
  %place = nvvm.read.ptx.sreg.tid.x : i32
  %wide_block = arith.extui %block : i32 to i64
  %wide_size = arith.extui %size : i32 to i64
  %wide_place = arith.extui %place : i32 to i64
  %begin = arith.muli %wide_block, %wide_size : i64
  %thread = arith.addi %begin, %wide_place : i64
  return %thread, %place : i64, i32
}
