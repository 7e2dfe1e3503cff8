//===- OptionValues.cpp - What values of options stand for ----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Driver/OptionValues.h"
#include "fsdp/Cost/Cluster.h"
#include "fsdp/Support/PrintableText.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/WithColor.h"

#include <cmath>

using namespace mlir;
using namespace mlir::fsdp;
namespace path = llvm::sys::path;
namespace fs = llvm::sys::fs;

llvm::Expected<int64_t> fsdp::parseBytes(StringRef text) {
  std::pair<StringRef, double> units[] = {{"KiB", 1024.0},
                                          {"MiB", 1048576.0},
                                          {"GiB", 1073741824.0},
                                          {"TiB", 1099511627776.0},
                                          {"KB", 1e3},
                                          {"MB", 1e6},
                                          {"GB", 1e9},
                                          {"TB", 1e12},
                                          {"B", 1},
                                          {"", 1}};
  StringRef number = text.trim();
  double factor = 1;
  for (auto [unit, size] : units)
    if (number.consume_back(unit)) {
      factor = size;
      break;
    }
  constexpr double kMost = 9e18;
  // There is no half a byte.
  int64_t whole;
  bool isBroken = factor == 1 && number.trim().getAsInteger(10, whole);
  double value;
  if (!number.trim().getAsDouble(value) && value * factor > kMost)
    return llvm::createStringError("expected at most 9e18 bytes, got '" + text +
                                   "'");
  if (isBroken || number.trim().getAsDouble(value) || !(value > 0))
    return llvm::createStringError(
        "expected bytes such as 24GiB, or a whole number of them, "
        "got '" +
        text + "'");
  return int64_t(std::llround(value * factor));
}

void fsdp::warnAboveDevice(int64_t budget, const Cluster &cluster) {
  if (budget > cluster.device.memoryBytes)
    llvm::WithColor::warning()
        << "expected a memory budget of at most the "
        << cluster.device.memoryBytes << " bytes that the device of cluster '"
        << makePrintable(cluster.name) << "' has, got " << budget << "\n";
}

/// Where cluster files lie for a tool in @toolDir, in a build tree or an
/// installation.
static std::string getClusterDir(StringRef toolDir) {
  llvm::SmallString<256> dir(path::parent_path(toolDir));
  path::append(dir, "share", "fsdp", "clusters");
  return dir.str().str();
}

llvm::Expected<std::string> fsdp::findCluster(StringRef cluster,
                                              StringRef toolDir) {
  if (cluster.ends_with(".json") || cluster.contains('/'))
    return cluster.str();
  std::string dir = getClusterDir(toolDir);
  llvm::SmallString<256> file(dir);
  path::append(file, cluster + ".json");
  if (fs::exists(file))
    return file.str().str();
  SmallVector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(dir, error), end; it != end && !error;
       it.increment(error))
    if (path::extension(it->path()) == ".json")
      names.push_back(path::stem(it->path()).str());
  llvm::sort(names);
  return llvm::createStringError(
      "expected --cluster to be a file (with .json) or one of " +
      (names.empty() ? "those in " + dir : llvm::join(names, ", ")) +
      ", got '" + cluster + "'");
}

std::string fsdp::getModelName(StringRef input) {
  // DIR/model.mlir is called like its folder.
  StringRef model = path::filename(input);
  if (model.starts_with("model.") && path::has_parent_path(input))
    return path::filename(path::parent_path(input)).str();
  return model.str();
}
