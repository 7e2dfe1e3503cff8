//===- OptionTable.h - Options, their values and their help ------*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_MAIN_OPTIONTABLE_H
#define FSDP_RT_MAIN_OPTIONTABLE_H

#include "core/Status.h"
#include "main/Options.h"

#include <functional>
#include <string>
#include <vector>

namespace fsdp::rt {

struct OptionSpec {
  std::string name;  // "--steps"
  std::string value; // "N"; empty: takes none
  std::string help;
  std::function<Status(Options &, const std::string &value)> set;
  bool mayRepeat = false;
  /// Only training steps read it: without any it is refused.
  bool isOfTraining = false;
};

/// All options, in the order of --help.
const std::vector<OptionSpec> &optionTable();

/// The table's name that is nearest to `name`; empty where none is near.
std::string nearestOption(const std::string &name);

} // namespace fsdp::rt

#endif // FSDP_RT_MAIN_OPTIONTABLE_H
