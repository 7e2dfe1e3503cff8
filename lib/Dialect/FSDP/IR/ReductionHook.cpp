//===- ReductionHook.cpp - The hooks of a context -------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ReductionHooksInterface.h"

#include "mlir/IR/Dialect.h"
#include "llvm/ADT/StringSwitch.h"

#include <map>
#include <tuple>

using namespace mlir;
using namespace mlir::fsdp;

StringRef fsdp::getCompressedType(StringRef name) {
  return llvm::StringSwitch<StringRef>(name)
      .Case("bf16", "bf16")
      .Case("fp16", "f16")
      .Default("");
}

namespace {
class NamedHooks : public ReductionHooks {
public:
  using ReductionHooks::ReductionHooks;

  void add(StringRef name, Create create) final {
    auto [it, isNew] = hooks.try_emplace(name.str(), create);
    if (!isNew && it->second != create)
      it->second = nullptr;
  }
  llvm::Expected<std::unique_ptr<ReductionHook>>
  read(StringRef text) const final;

private:
  std::string listNames() const;

  /// Null: several of one name.
  std::map<std::string, Create> hooks;
};
} // namespace

std::string NamedHooks::listNames() const {
  std::string names = "bf16, fp16";
  for (const auto &hook : hooks)
    names += ", " + hook.first;
  return names;
}

llvm::Expected<std::unique_ptr<ReductionHook>>
NamedHooks::read(StringRef text) const {
  StringRef name, options;
  std::tie(name, options) = text.split(':');
  auto fail = [&](const Twine &message) {
    return llvm::createStringError("reduction hook '" + name + "': " + message);
  };
  if (!getCompressedType(name).empty())
    return fail("expected no options, got '" + options + "'");
  auto hook = hooks.find(name.str());
  if (hook == hooks.end())
    return fail("expected one of " + listNames() +
                ", or of a plugin that is loaded");
  if (!hook->second)
    return fail("expected one hook of that name, got several: plugins and the "
                "compiler have names of their own");
  std::unique_ptr<ReductionHook> made = hook->second();
  if (options.empty() && text.contains(':'))
    return fail("expected KEY=VALUE after ':', got none");
  SmallVector<StringRef> entries, seen;
  options.split(entries, ',', /*MaxSplit=*/-1, /*KeepEmpty=*/!options.empty());
  for (StringRef entry : entries) {
    auto [key, value] = entry.split('=');
    if (key.empty() || value.empty())
      return fail("expected KEY=VALUE, got '" + entry + "'");
    if (llvm::is_contained(seen, key))
      return fail("expected " + key + " once, got it twice");
    seen.push_back(key);
    if (llvm::Error error = made->setOption(key, value))
      return fail(llvm::toString(std::move(error)));
  }
  return made;
}

std::unique_ptr<DialectInterface> fsdp::createReductionHooks(Dialect *dialect) {
  return std::make_unique<NamedHooks>(dialect);
}
