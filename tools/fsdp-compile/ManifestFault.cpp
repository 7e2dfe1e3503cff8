//===- ManifestFault.cpp - What a program would refuse to start with ------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ManifestFault.h"
#include "data/Manifest.h"

std::string mlir::fsdp::findManifestFault(llvm::StringRef manifest) {
  auto read =
      ::fsdp::rt::data::parseManifest({manifest.data(), manifest.size()});
  return read.isOk() ? "" : read.status().message();
}
