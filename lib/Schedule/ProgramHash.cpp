//===- ProgramHash.cpp - A program as a short text ------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Schedule/ProgramHash.h"
#include "fsdp/Schedule/StepProgram.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

namespace {
/// Every number is eight bytes, lowest first, and every text and list has its
/// length before it: no two programs have one text.
class Digest {
public:
  void add(int64_t number) {
    std::array<uint8_t, 8> bytes;
    for (unsigned i = 0; i != 8; ++i)
      bytes[i] = uint8_t(uint64_t(number) >> 8 * i);
    hash.update(bytes);
  }
  void add(llvm::StringRef text) {
    add(int64_t(text.size()));
    hash.update(text);
  }
  void add(llvm::ArrayRef<int64_t> numbers) {
    add(int64_t(numbers.size()));
    for (int64_t number : numbers)
      add(number);
  }
  /// In which arena they lie the op says: only copies touch the host's.
  void add(llvm::ArrayRef<ByteRange> ranges) {
    add(int64_t(ranges.size()));
    for (const ByteRange &range : ranges) {
      add(range.offset);
      add(range.bytes);
    }
  }
  std::string take() { return llvm::toHex(hash.final(), /*LowerCase=*/true); }

private:
  llvm::SHA256 hash;
};
} // namespace

static void addTransfer(Digest &digest, const StepProgram &program,
                        const StepOp &op) {
  const StepTransfer &transfer = program.transfers[op.transfer];
  digest.add(int64_t(transfer.kind));
  if (!transfer.isCopy()) {
    digest.add(program.groups[transfer.group].size);
    digest.add(program.groups[transfer.group].stride);
  }
  digest.add(transfer.atomBytes);
  digest.add(transfer.divisors);
  digest.add(int64_t(transfer.dtypes.size()));
  for (const std::string &dtype : transfer.dtypes)
    digest.add(dtype);
  llvm::SmallVector<Id, 4> after(op.after.begin(), op.after.end());
  llvm::sort(after);
  digest.add(int64_t(after.size()));
  for (Id event : after)
    digest.add(event);
}

static std::string getHash(const StepProgram &program, bool withPlaces) {
  Digest digest;
  digest.add(withPlaces ? "fsdp-program/4" : "fsdp-issue-order/3");
  digest.add(program.worldSize);
  for (const StepOp &op : program.ops) {
    // Copies stand where memory wants them, and exist where it does.
    bool isCompute =
        op.kind != StepOpKind::Start && op.kind != StepOpKind::Wait;
    if (!withPlaces && isCompute && op.kind != StepOpKind::Launch)
      continue;
    digest.add(/*more=*/int64_t(1));
    digest.add(int64_t(op.kind));
    digest.add(int64_t(op.queue));
    digest.add(op.event);
    if (op.kind == StepOpKind::Launch)
      digest.add(op.name);
    if (op.kind == StepOpKind::Start)
      addTransfer(digest, program, op);
    if (!withPlaces)
      continue;
    digest.add(op.copiedBytes);
    digest.add(op.workspaceBytes);
    digest.add(op.reads);
    digest.add(op.writes);
    // What a tied result starts from, and where a pack puts its parts.
    digest.add(int64_t(op.inPlace.size()));
    for (auto [read, write] : op.inPlace) {
      digest.add(int64_t(read));
      digest.add(int64_t(write));
    }
    digest.add(op.places);
  }
  digest.add(/*more=*/int64_t(0));
  if (withPlaces) {
    digest.add(program.kernelCode);
    digest.add(program.arenaBytes);
    digest.add(program.hostBytes);
    digest.add(program.workspace.offset);
    digest.add(program.workspace.bytes);
    digest.add(program.results);
  }
  return digest.take();
}

std::string mlir::fsdp::sched::getProgramHash(const StepProgram &program) {
  return getHash(program, /*withPlaces=*/true);
}

std::string mlir::fsdp::sched::getIssueHash(const StepProgram &program) {
  return getHash(program, /*withPlaces=*/false);
}
