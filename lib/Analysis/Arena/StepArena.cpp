//===- StepArena.cpp - What the arena of a step takes ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/StepArena.h"
#include "fsdp/Analysis/ArenaPacking.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

namespace {
/// Which ops touch which buffers, and what comes before what.
struct Touches {
  explicit Touches(const StepProgram &program);

  EventOrder events;
  std::vector<llvm::SmallVector<int, 4>> ofBuffer;

private:
  void add(const StepProgram &program, llvm::ArrayRef<ByteRange> ranges,
           int op) {
    for (const ByteRange &range : ranges) {
      auto &touches = ofBuffer[program.values[range.value].buffer];
      if (touches.empty() || touches.back() != op)
        touches.push_back(op);
    }
  }
};
} // namespace

Touches::Touches(const StepProgram &program)
    : ofBuffer(program.buffers.size()) {
  std::vector<int> starts(getEventOps(program).start.size(), -1);
  for (const StepOp &op : program.ops) {
    if (op.kind == StepOpKind::Wait) {
      events.addWait(starts[op.event]);
      continue;
    }
    int id;
    if (op.kind == StepOpKind::Start) {
      llvm::SmallVector<int> after;
      for (Id event : op.after)
        after.push_back(starts[event]);
      id = starts[op.event] = events.addStart(op.queue, after);
    } else {
      id = events.addCompute();
    }
    add(program, op.reads, id);
    add(program, op.writes, id);
  }
  add(program, program.results, events.addCompute());
}

int64_t mlir::fsdp::packArena(const StepProgram &program) {
  Touches touches(program);
  int64_t state = 0;
  std::vector<ArenaBuffer> moving;
  for (auto [buffer, ops] : llvm::zip(program.buffers, touches.ofBuffer)) {
    int64_t bytes = llvm::alignTo(buffer.bytes, kArenaAlignment);
    if (buffer.isHost)
      continue;
    if (buffer.isArgument) {
      state += bytes;
    } else if (!ops.empty()) {
      moving.push_back(getLife(touches.events, ops));
      moving.back().size = bytes;
    }
  }
  return state + packBuffers(touches.events, moving);
}
