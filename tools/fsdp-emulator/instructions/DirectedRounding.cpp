//===- DirectedRounding.cpp - Arithmetic that does not round to nearest ---===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Compiled with -frounding-math: the host rounds as the instruction says.
//
//===----------------------------------------------------------------------===//

#include "instructions/DirectedRounding.h"

#include "instructions/Lanes.h"

#include <cfenv>

namespace fsdp::emulator {

namespace {

template <FloatOperation operation, typename T>
T compute(T a, T b, T c) {
  switch (operation) {
  case FloatOperation::Add:
    return a + b;
  case FloatOperation::Subtract:
    return a - b;
  case FloatOperation::Multiply:
    return a * b;
  case FloatOperation::MultiplyAdd:
    return std::fma(a, b, c);
  case FloatOperation::Divide:
    return a / b;
  case FloatOperation::Reciprocal:
    return T(1) / a;
  case FloatOperation::SquareRoot:
    return std::sqrt(a);
  }
}

constexpr unsigned sourcesOf(FloatOperation operation) {
  switch (operation) {
  case FloatOperation::MultiplyAdd:
    return 3;
  case FloatOperation::Reciprocal:
  case FloatOperation::SquareRoot:
    return 1;
  default:
    return 2;
  }
}

template <typename T>
T flushIf(bool flushes, T value) {
  if constexpr (std::is_same_v<T, float>)
    return flushes ? flush(value) : value;
  return value;
}

template <FloatOperation operation, typename T, int mode>
void execute(Warp &warp, const Instruction &instruction, LaneMask mask) {
  constexpr unsigned sources = sourcesOf(operation);
  T inputs[3][warpSize] = {};
  for (unsigned i = 0; i < sources; ++i)
    for (unsigned lane = 0; lane < warpSize; ++lane)
      inputs[i][lane] = flushIf(instruction.flag,
                                warp.lanes<T>(instruction.sources[i])[lane]);
  T values[warpSize];
  int before = std::fegetround();
  std::fesetround(mode);
  for (unsigned lane = 0; lane < warpSize; ++lane)
    values[lane] = compute<operation, T>(inputs[0][lane], inputs[1][lane],
                                         inputs[2][lane]);
  std::fesetround(before);
  for (T &value : values) {
    value = flushIf(instruction.flag, canonical(value));
    if (instruction.mode & 1)
      value = saturate(value);
  }
  storeLanes(warp.lanes<T>(instruction.result), values, mask);
}

template <FloatOperation operation, typename T>
Instruction::Execute withRounding(Rounding rounding) {
  switch (rounding) {
  case Rounding::Zero:
    return execute<operation, T, FE_TOWARDZERO>;
  case Rounding::Down:
    return execute<operation, T, FE_DOWNWARD>;
  case Rounding::Up:
    return execute<operation, T, FE_UPWARD>;
  default:
    return execute<operation, T, FE_TONEAREST>;
  }
}

template <FloatOperation operation>
Instruction::Execute withType(bool isDouble, Rounding rounding) {
  return isDouble ? withRounding<operation, double>(rounding)
                  : withRounding<operation, float>(rounding);
}

} // namespace

Instruction::Execute directed(FloatOperation operation, bool isDouble,
                              Rounding rounding) {
  switch (operation) {
  case FloatOperation::Add:
    return withType<FloatOperation::Add>(isDouble, rounding);
  case FloatOperation::Subtract:
    return withType<FloatOperation::Subtract>(isDouble, rounding);
  case FloatOperation::Multiply:
    return withType<FloatOperation::Multiply>(isDouble, rounding);
  case FloatOperation::MultiplyAdd:
    return withType<FloatOperation::MultiplyAdd>(isDouble, rounding);
  case FloatOperation::Divide:
    return withType<FloatOperation::Divide>(isDouble, rounding);
  case FloatOperation::Reciprocal:
    return withType<FloatOperation::Reciprocal>(isDouble, rounding);
  case FloatOperation::SquareRoot:
    return withType<FloatOperation::SquareRoot>(isDouble, rounding);
  }
  return nullptr;
}

} // namespace fsdp::emulator
