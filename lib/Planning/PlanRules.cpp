//===- PlanRules.cpp - What the user decided ------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Planning/PlanRules.h"
#include "fsdp/Planning/PlanSearch.h"

#include "llvm/ADT/StringSwitch.h"

#include <optional>

using namespace mlir::fsdp::sched;

llvm::Expected<PlanRules> mlir::fsdp::sched::parsePlanRules(
    llvm::StringRef reshardAfterForward, llvm::StringRef recompute,
    llvm::StringRef offload, llvm::StringRef bucket) {
  using Keep = PlanRules::Keep;
  using Recompute = PlanRules::Recompute;
  using Offload = PlanRules::Offload;
  PlanRules rules;
  auto fail = [](const char *option, const char *expected,
                 llvm::StringRef got) {
    return llvm::createStringError(llvm::Twine("expected ") + option +
                                   " to be " + expected + ", got '" + got +
                                   "'");
  };
  auto keep = llvm::StringSwitch<std::optional<Keep>>(reshardAfterForward)
                  .Case("auto", Keep::Auto)
                  .Case("true", Keep::Never)
                  .Case("false", Keep::Always)
                  .Default(std::nullopt);
  if (!keep)
    return fail("reshard-after-forward", "auto, true or false",
                reshardAfterForward);
  rules.keep = *keep;
  auto repeat = llvm::StringSwitch<std::optional<Recompute>>(recompute)
                    .Case("auto", Recompute::Auto)
                    .Case("none", Recompute::Never)
                    .Case("full", Recompute::Full)
                    .Default(std::nullopt);
  if (!repeat)
    return fail("recompute", "auto, none or full", recompute);
  rules.recompute = *repeat;
  auto host = llvm::StringSwitch<std::optional<Offload>>(offload)
                  .Case("auto", Offload::Auto)
                  .Case("none", Offload::Never)
                  .Case("full", Offload::Full)
                  .Default(std::nullopt);
  if (!host)
    return fail("offload", "auto, none or full", offload);
  rules.offload = *host;
  if (bucket != "auto" && bucket != "none")
    return fail("bucket", "auto or none", bucket);
  rules.group = bucket == "auto";
  return rules;
}
