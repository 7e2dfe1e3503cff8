//===- OptionValues.h - What values of options stand for --------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_DRIVER_OPTIONVALUES_H
#define FSDP_DRIVER_OPTIONVALUES_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <string>

namespace mlir::fsdp {

struct Cluster;

/// "24GiB", "1.5 GB", "4096": bytes. Fractions need a unit.
llvm::Expected<int64_t> parseBytes(llvm::StringRef text);

/// Says on stderr that @budget bytes are more than a device of @cluster has: a
/// question that may be asked, but often one zero too many.
void warnAboveDevice(int64_t budget, const Cluster &cluster);

/// The file of a cluster that is given as a path or by name.
llvm::Expected<std::string> findCluster(llvm::StringRef cluster,
                                        llvm::StringRef toolDir);

/// What to call the model that the file @input holds.
std::string getModelName(llvm::StringRef input);

} // namespace mlir::fsdp

#endif // FSDP_DRIVER_OPTIONVALUES_H
