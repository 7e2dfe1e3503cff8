//===- scalars.h - Scalars of programs that are known by name ---*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one table of the scalars that the compiler adds to programs, and of the
// optimizer's scalars that have an option of their own. Other scalars are the
// optimizer's, and set by --scalar. C++17, included by compiler and runtime.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_SCALARS_H
#define FSDP_RT_SCALARS_H

#include <limits>
#include <string_view>

namespace fsdp_rt::scalars {

/// Who gives a scalar its value: users; the runtime, unless the caller of a
/// session does for the next step; the runtime.
enum class Setter { User, Caller, Runtime };

struct Traits {
  const char *name;
  /// What the compiler adds it for, which reserves the name; null: it is the
  /// optimizer's.
  const char *purpose;
  Setter setter;
  /// The option of a run that sets it, or that decides what the runtime sets it
  /// to. One that users set and the compiler adds has the same option there.
  const char *option;
  /// Its value where nobody sets it, and its default in the IR and in
  /// manifests: infinity as none, or null.
  double omitted;
  const char *meaning; // of what the runtime sets it to
};

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double ofOptimizer = std::numeric_limits<double>::quiet_NaN();

// clang-format off
inline constexpr Traits
    learningRate =
        {"lr", nullptr, Setter::User, "--lr", ofOptimizer, nullptr},
    /// The norm that gradients are scaled down to.
    clipNorm =
        {"clip_norm", "clipping", Setter::User, "--clip-norm", infinity, nullptr},
    /// Of programs that accumulate; with 0, accumulators are not read.
    accumulated =
        {"accumulated", "accumulation", Setter::Runtime, "--accumulate", 0,
         "the number of micro-batches that ran"},
    /// Of those that update, too: what divides the sum.
    accumulationWeight =
        {"accumulation_weight", "accumulation", Setter::Caller, "--accumulate", 1,
         "the number of micro-batches"},
    /// Of those, where the loss is a sum: added to what the last micro-batch's
    /// losses are sums over, it divides the sum.
    accumulatedCount =
        {"accumulated_count", "accumulation", Setter::Runtime, "--accumulate", 0,
         "what the losses of the micro-batches that ran are sums over, the mean "
         "over ranks"},
    /// Of programs with flat parameters of several groups: it tells a rank which
    /// elements it holds.
    rank =
        {"rank", "groups of parameters", Setter::Runtime, "-n", 0,
         "the rank's number"},
    /// Of programs that draw random numbers: what is computed of it differs
    /// between ranks as what is computed of their batches does.
    randomRank =
        {"random_rank", "random numbers", Setter::Runtime, "-n", 0,
         "the rank's number"},
    /// Of programs that draw random numbers.
    randomSeed =
        {"random_seed", "random numbers", Setter::User, "--random-seed", 0,
         nullptr},
    /// Of those: the steps that ended before this one, since training began.
    randomStep =
        {"random_step", "random numbers", Setter::Runtime, "--steps", 0,
         "the number of steps before"};
// clang-format on

inline constexpr const Traits *all[] = {&learningRate, &clipNorm, &accumulated,
                                        &accumulationWeight, &accumulatedCount,
                                        &rank, &randomRank, &randomSeed,
                                        &randomStep};

/// Whether a scalar is a learning rate: the optimizer's, or one that a group of
/// parameters has of its own ("GROUP.lr").
constexpr bool isRate(std::string_view name) {
  std::string_view rate = learningRate.name;
  return name == rate || (name.size() > rate.size() + 1 &&
                          name.substr(name.size() - rate.size()) == rate &&
                          name[name.size() - rate.size() - 1] == '.');
}

/// Null where the name is not in the table.
constexpr const Traits *find(std::string_view name) {
  for (const Traits *scalar : all)
    if (scalar->name == name)
      return scalar;
  return nullptr;
}

} // namespace fsdp_rt::scalars

#endif // FSDP_RT_SCALARS_H
