//===- programs.h - What kinds of programs do -------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one table of kinds of programs. Passes and the runtime ask for properties
// of a kind, not which kind it is. C++17, included by both, in a namespace that
// is ambiguous with neither mlir::fsdp nor fsdp::rt.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_PROGRAMS_H
#define FSDP_RT_PROGRAMS_H

namespace fsdp_rt {

struct ProgramTraits {
  const char *name; // in the IR, the manifest, plans and errors
  /// A whole step. Every artifact has one: the program that is meant where none
  /// is named.
  bool isStep;
  /// L0 may have functions of this kind (fsdp.program), and these kinds come
  /// first. Others are derived from the step.
  bool isTraced;
  bool writesStates;
  /// It returns a loss, averaged over ranks, and computes gradients: it runs a
  /// batch of a step. What other programs return is the rank's own.
  bool hasBackward;
  /// Its gradients are added to those of the step's earlier micro-batches.
  bool accumulates;
  /// It changes parameters and the optimizer's states, and returns the norm of
  /// the gradients: it ends a step.
  bool updates;
  /// It runs the first micro-batch of a step of several, and what stays
  /// gathered for the others is gathered by it.
  bool gathersForOthers;

  /// After it, no other step may begin and no checkpoint be saved before a
  /// program has updated by what is accumulated.
  constexpr bool isWithinStep() const { return accumulates && !updates; }
};

// X(number, enumerator here, the dialect's and the name, the properties in
// their order): the dialect's enum, of TableGen, is compared when it is
// compiled.
// clang-format off
#define FSDP_RT_PROGRAMS(X)                                                    \
  X(0, Train,            train,             1, 1, 1, 1, 0, 1, 0)               \
  X(1, Eval,             eval,              0, 1, 0, 0, 0, 0, 0)               \
  X(2, Accumulate,       accumulate,        0, 0, 1, 1, 1, 0, 0)               \
  X(3, TrainAccumulated, train_accumulated, 0, 0, 1, 1, 1, 1, 0)               \
  X(4, AccumulateFirst,  accumulate_first,  0, 0, 1, 1, 1, 0, 1)
// clang-format on

#define FSDP_RT_PROGRAM(number, Name, name, ...) Name = number,
enum class ProgramKind { FSDP_RT_PROGRAMS(FSDP_RT_PROGRAM) };
#undef FSDP_RT_PROGRAM

#define FSDP_RT_PROGRAM(number, Name, name, ...) {#name, __VA_ARGS__},
/// By ProgramKind.
inline constexpr ProgramTraits programTraits[] = {
    FSDP_RT_PROGRAMS(FSDP_RT_PROGRAM)};
#undef FSDP_RT_PROGRAM

} // namespace fsdp_rt

#endif // FSDP_RT_PROGRAMS_H
