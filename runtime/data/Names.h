//===- Names.h - Lists of names in messages ----------------------*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DATA_NAMES_H
#define FSDP_RT_DATA_NAMES_H

#include <string>
#include <vector>

namespace fsdp::rt::data {

/// "'a', 'b', 'c' and 4 more": at most `shown` of them.
inline std::string listNames(const std::vector<std::string> &names,
                             size_t shown = 5) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < shown; ++i)
    text += (i ? ", '" : "'") + names[i] + "'";
  if (names.size() > shown)
    text += " and " + std::to_string(names.size() - shown) + " more";
  return text;
}

} // namespace fsdp::rt::data

#endif // FSDP_RT_DATA_NAMES_H
