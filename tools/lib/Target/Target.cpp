//===- Target.cpp - What code is made for ---------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Target/Target.h"
#include "fsdp/Target/CPU/CpuTarget.h"
#include "fsdp/Target/CUDA/CudaTarget.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::fsdp;

Target::~Target() = default;

namespace {
struct TargetKind {
  llvm::StringLiteral name;
  llvm::Expected<std::unique_ptr<Target>> (*create)(
      const TargetOptions &options);
};
} // namespace

/// The one place that names them.
static constexpr TargetKind kKinds[] = {{kCpuTarget, createCpuTarget},
                                        {kCudaTarget, createCudaTarget}};

llvm::Expected<std::vector<std::unique_ptr<Target>>>
fsdp::createTargets(StringRef kinds, const TargetOptions &options) {
  std::vector<std::unique_ptr<Target>> targets;
  SmallVector<StringRef> names;
  kinds.split(names, ',');
  for (StringRef name : names) {
    const TargetKind *kind = llvm::find_if(
        kKinds, [&](const TargetKind &known) { return known.name == name; });
    if (kind == std::end(kKinds)) {
      auto known = llvm::map_range(
          kKinds, [](const TargetKind &kind) { return StringRef(kind.name); });
      return llvm::createStringError("expected --target " +
                                     llvm::join(known, " or ") + ", got '" +
                                     name + "' (no other target is supported)");
    }
    if (llvm::any_of(targets, [&](const auto &target) {
          return target->getKind() == name;
        }))
      return llvm::createStringError("expected --target to name a target once, "
                                     "got " +
                                     name + " twice");
    auto target = kind->create(options);
    if (!target)
      return target.takeError();
    targets.push_back(std::move(*target));
  }
  for (auto [isGiven, option] : {std::pair(options.tf32, "--tf32"),
                                 {!options.tuning.empty(), "--tuning"},
                                 {options.math.has_value(), "--math"}})
    if (isGiven && !llvm::is_contained(names, kCudaTarget))
      return llvm::createStringError(option +
                                     (": expected cuda among the targets "
                                      "(--target), got " +
                                      kinds));
  return targets;
}
