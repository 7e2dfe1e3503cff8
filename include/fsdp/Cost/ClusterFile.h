//===- ClusterFile.h - Reading cluster files --------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_COST_CLUSTERFILE_H
#define FSDP_COST_CLUSTERFILE_H

#include "fsdp/Cost/Cluster.h"

namespace mlir::fsdp {

/// Reads a cluster file. Errors name the file, the place in it, what was
/// expected and what was found.
llvm::Expected<Cluster> loadCluster(llvm::StringRef path);
/// The same from text; @path only serves messages and relative names.
llvm::Expected<Cluster> parseCluster(llvm::StringRef text,
                                     llvm::StringRef path);

} // namespace mlir::fsdp

#endif // FSDP_COST_CLUSTERFILE_H
