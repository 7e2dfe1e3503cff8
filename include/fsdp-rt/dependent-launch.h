//===- dependent-launch.h - PTX of dependent launches -----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One text of PTX serves cards with programmatic dependent launch (sm_90 and
// later) and without: it is for sm_80, and instructions of griddepcontrol stand
// in it as comments. The compiler makes machine code for sm_90 of the text with
// them, the runtime gives it to the driver. C++17, included by both.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEPENDENT_LAUNCH_H
#define FSDP_RT_DEPENDENT_LAUNCH_H

#include <string>

namespace fsdp::rt {

/// The least capability that has griddepcontrol, which came with PTX 7.8: older
/// than any driver that the runtime takes.
constexpr int dependentLaunchCapability = 90;

/// In front of each such instruction.
constexpr char dependentLaunchMark[] = "// sm_90: ";

/// The two instructions of a kernel, each once, in all of its threads:
/// dependents may begin as soon as all blocks have begun; and, before the first
/// access to global memory, all that the kernel before did is complete and
/// visible.
///
/// That no kernel waits for more than the one before is enough: one that ends
/// has waited, so all before it have ended, whether or not it let its
/// dependents begin before its own wait. What is no such kernel (a copy, a
/// fill, a call of cuBLASLt or NCCL) begins when all before it has ended, and a
/// kernel after it is given to the stream without the attribute. A library's
/// kernel that has the attribute itself is taken to wait before it reads
/// memory, as the attribute asks of it. No load bypasses a wait: ld.global.nc
/// alone may be served by a cache that sees no stores, and all of these read
/// constants of their module, which no kernel stores to, after the wait
/// (test/cuda/constant_loads_test.py).
/// The runtime's own kernels have both in kernels/Launch.mlir.
constexpr char launchDependentsLine[] =
    "// sm_90: griddepcontrol.launch_dependents;";
constexpr char waitForGridLine[] = "// sm_90: griddepcontrol.wait;";

/// `ptx`, which is for sm_80, for sm_90 and with those instructions; what is
/// for anything else stays as it is, with its marks.
inline std::string withDependentLaunch(std::string ptx) {
  const std::string target = ".target sm_80", mark = dependentLaunchMark;
  size_t place = ptx.find(target);
  if (place == std::string::npos)
    return ptx;
  ptx.replace(place, target.size(), ".target sm_90");
  std::string text;
  text.reserve(ptx.size());
  size_t begin = 0;
  for (size_t at; (at = ptx.find(mark, begin)) != std::string::npos;
       begin = at + mark.size())
    text.append(ptx, begin, at - begin);
  return text.append(ptx, begin, std::string::npos);
}

} // namespace fsdp::rt

#endif // FSDP_RT_DEPENDENT_LAUNCH_H
