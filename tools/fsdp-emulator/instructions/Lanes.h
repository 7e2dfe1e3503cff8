//===- Lanes.h - Loops over the lanes of a warp ---------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EMULATOR_INSTRUCTIONS_LANES_H
#define FSDP_EMULATOR_INSTRUCTIONS_LANES_H

#include "execution/Warp.h"
#include "instructions/Decoder.h"

#include <type_traits>
#include <utility>

namespace fsdp::emulator {

/// Results become those of the lanes in `mask`.
template <typename T>
void storeLanes(T *to, const T *values, LaneMask mask) {
  if (mask == allLanes) {
    for (unsigned lane = 0; lane < warpSize; ++lane)
      to[lane] = values[lane];
    return;
  }
  for (unsigned lane = 0; lane < warpSize; ++lane)
    to[lane] = mask >> lane & 1 ? values[lane] : to[lane];
}

template <typename F, typename Result, typename... Sources>
struct LaneWise {
  template <size_t... indices>
  static void run(Warp &warp, const Instruction &instruction, LaneMask mask,
                  std::index_sequence<indices...>) {
    auto loop = [&](const Sources *...sources) {
      Result values[warpSize];
      for (unsigned lane = 0; lane < warpSize; ++lane)
        values[lane] = F{}(sources[lane]...);
      storeLanes(warp.lanes<Result>(instruction.result), values, mask);
    };
    loop(warp.lanes<const Sources>(instruction.sources[indices])...);
  }

  static void execute(Warp &warp, const Instruction &instruction,
                      LaneMask mask) {
    run(warp, instruction, mask, std::index_sequence_for<Sources...>());
  }
};

/// Applies `function`, which captures nothing, to each lane's sources. It
/// computes for lanes that are not active, too, and so must have a result for
/// any bits.
template <typename Result, typename... Sources, typename F>
Instruction::Execute laneWise(F function) {
  static_assert(std::is_empty_v<F>);
  return LaneWise<F, Result, Sources...>::execute;
}

/// The same for one to three sources of the result's type.
template <typename T, typename F>
Instruction::Execute unary(F function) {
  return laneWise<T, T>(function);
}
template <typename T, typename F>
Instruction::Execute binary(F function) {
  return laneWise<T, T, T>(function);
}
template <typename T, typename F>
Instruction::Execute ternary(F function) {
  return laneWise<T, T, T, T>(function);
}

/// Calls make(T()) for the type of the host that computes as `type` does;
/// untyped ones are unsigned.
template <typename Make>
Instruction::Execute forInteger(Decoder &decoder, Type type, Make make) {
  switch (type) {
  case Type::B16:
  case Type::U16:
    return make(uint16_t());
  case Type::S16:
    return make(int16_t());
  case Type::B32:
  case Type::U32:
    return make(uint32_t());
  case Type::S32:
    return make(int32_t());
  case Type::B64:
  case Type::U64:
    return make(uint64_t());
  case Type::S64:
    return make(int64_t());
  default:
    decoder.rejectType(type);
  }
}

} // namespace fsdp::emulator

#endif // FSDP_EMULATOR_INSTRUCTIONS_LANES_H
