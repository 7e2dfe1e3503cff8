//===- MpiCases.h - Programs that fail under mpirun -------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_CONFORMANCE_MPICASES_H
#define FSDP_TEST_CONFORMANCE_MPICASES_H

#include <string>

namespace fsdp::test {

/// Runs one small program as a rank of a job, as the tools do: the failure is
/// told by one rank. Returns the exit status. `directory` is for its files.
int runMpiCase(const std::string &name, const std::string &directory);

} // namespace fsdp::test

#endif // FSDP_TEST_CONFORMANCE_MPICASES_H
