//===- Backends.h - The backend under test ----------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_CONFORMANCE_BACKENDS_H
#define FSDP_TEST_CONFORMANCE_BACKENDS_H

#include "control/Backend.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace fsdp::test {

struct BackendCase {
  /// Whether this process is one rank of a job, or has all of them.
  bool isJob = false;
  int ranks = 1;
  std::string name() const {
    return (isJob ? "job" : "local") + std::to_string(ranks);
  }
};

/// What this process can test: in a job of mpirun the mpi backend alone, in
/// another one the tcp backend; else the local backend with several numbers of
/// ranks.
std::vector<BackendCase> backendCases();

/// Sizes for the mpi backend: --chunk=BYTES and --staging=BYTES.
void setMpiSizes(int64_t chunkBytes, int64_t stagingBytes);
/// More than two messages, the last one not full.
int64_t largeBytes();

/// Runs `body` on every rank of the case.
rt::Status runOn(const BackendCase &backend,
                 const std::function<rt::Status(rt::World &)> &body);
rt::Status runLocally(int ranks,
                      const std::function<rt::Status(rt::World &)> &body);

/// Why the bits of a sum do not follow from its terms' on the case; empty: they
/// do.
std::string whyBitsVary(const BackendCase &backend);

/// The backend of the job that this process is of, made at first use.
rt::Result<rt::Backend *> jobBackend();
/// Ends it, if it was begun.
void endJob();

/// World ranks {0, 1, ...}.
std::vector<int> allRanks(const rt::World &world);
/// The rank's row and column in a mesh with rows of `columns` ranks.
std::vector<int> rowOf(const rt::World &world, int columns);
std::vector<int> columnOf(const rt::World &world, int columns);

} // namespace fsdp::test

#endif // FSDP_TEST_CONFORMANCE_BACKENDS_H
