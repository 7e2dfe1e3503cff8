//===- RandomEntries.cpp - What fsdp.random says of an argument -----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RandomEntries.h"
#include "fsdp-rt/random.h"

#include "mlir/Support/DebugStringHelper.h"

using namespace mlir;
using namespace mlir::fsdp;

std::string fsdp::readRandomEntries(DictionaryAttr random,
                                    ArrayRef<RandomInfo> others,
                                    RandomInfo &info) {
  auto kindWord = random.getAs<StringAttr>("kind");
  std::optional<RandomKind> kind =
      kindWord ? symbolizeRandomKind(kindWord.getValue()) : std::nullopt;
  if (!kind)
    return "random numbers of kind " + listWords(RandomKind::normal) +
           ", got " + debugString(random);
  info.kind = *kind;
  auto type = cast<RankedTensorType>(info.arg.getType());
  Type element = getRandomType(*kind, type.getContext());
  if (type.getElementType() != element ||
      type.getNumElements() > fsdp_rt::rng::mostElements)
    return "at most " + std::to_string(fsdp_rt::rng::mostElements) +
           " elements of '" + debugString(element) + "', got '" +
           debugString(type) + "'";
  auto site = random.getAs<IntegerAttr>("site");
  if (!site || site.getInt() < 0 || site.getInt() >= fsdp_rt::rng::mostSites)
    return "a site from 0 to " + std::to_string(fsdp_rt::rng::mostSites - 1) +
           ", got " + debugString(random);
  info.site = site.getInt();
  for (const RandomInfo &other : others)
    if (other.site == info.site)
      return "sites used once, got " + std::to_string(info.site) +
             " of argument #" + std::to_string(other.arg.getArgNumber());
  auto shared = random.getAs<BoolAttr>("shared");
  if (random.contains("shared") && !shared)
    return "true or false as shared, got " + debugString(random);
  info.shared = shared && shared.getValue();
  return "";
}
