//===- LinearProgram.h - Running the program written by hand -----*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_DATA_LINEARPROGRAM_H
#define FSDP_TEST_DATA_LINEARPROGRAM_H

#include "Subprocess.h"
#include "TestSupport.h"

#include <string>
#include <vector>

namespace fsdp::rt::data {

/// Runs LinearProgram.c's executable for a mesh.
class LinearProgram : public testing::Test {
protected:
  using Words = std::vector<std::string>;

  /// "--init seed=0 --data BATCHES --lr 0.001 --steps N --data-ranks first",
  /// and `more`.
  Words training(int steps, const Words &more = {}) const;
  /// Of files for more ranks than the mesh has, the first ranks' are read: adds
  /// --data-ranks where it is missing, and takes it away beside other data.
  Outcome run(const std::string &mesh, const Words &arguments,
              Words environment = {}) const;
  /// Fails the test unless the program ended well.
  Outcome runWell(const std::string &mesh, const Words &arguments,
                  Words environment = {}) const;
  /// Fails the test unless the program refused with one line of error that
  /// contains `message`, and left nothing new in the directory.
  void expectRefusal(const std::string &mesh, const Words &arguments,
                     const std::string &message, Words environment = {}) const;

  /// The checkpoint of a step in a directory of --save.
  static std::string pathAt(const std::string &directory, int step);
  /// Its parameters, optimizer states and buffers, byte for byte.
  static std::string stateAt(const std::string &directory, int step);
  static nlohmann::json metaAt(const std::string &directory, int step);

  /// Batches for up to four ranks, the same for all of them: then all meshes
  /// compute the same bits.
  LinearProgram();

  TempDir dir;
  std::string batches = dir.file("batches.safetensors");
};

} // namespace fsdp::rt::data

#endif // FSDP_TEST_DATA_LINEARPROGRAM_H
