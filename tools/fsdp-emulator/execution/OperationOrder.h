//===- OperationOrder.h - Which operation is before which -----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Every operation of a stream knows by a vector clock what is before it: what
// its stream did, what its stream waited for by events, what the host waited
// for. Each word of memory knows who wrote and who read it last, so that two
// accesses without an order between them are found at the second one, whatever
// order the emulator ran them in.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EMULATOR_EXECUTION_OPERATIONORDER_H
#define FSDP_EMULATOR_EXECUTION_OPERATIONORDER_H

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fsdp::emulator {

/// For each stream, how many of its operations are before.
class VectorClock {
public:
  uint64_t of(uint32_t stream) const {
    return stream < counts.size() ? counts[stream] : 0;
  }
  void set(uint32_t stream, uint64_t count);
  void join(const VectorClock &other);
  /// Whether all that is before by `other` is before by this one.
  bool contains(const VectorClock &other) const;

private:
  std::vector<uint64_t> counts;
};

/// 0 is none.
using OperationId = uint32_t;

enum class Access : uint8_t { Read, Write, Atomic };

/// Who accesses: an operation and, of a launch, the block, counted from 1.
struct Accessor {
  OperationId operation = 0;
  /// 0 where blocks of a launch do not matter.
  uint32_t block = 0;
};

/// Who accessed four bytes last.
struct WordAccesses {
  OperationId writer = 0;
  /// An operation, or a set of them; see OperationOrder.
  uint32_t readers = 0;
  /// The blocks of these; `severalBlocks` of readers.
  uint32_t writerBlock = 0;
  uint32_t readerBlock = 0;
  /// Which of the four bytes.
  uint8_t writtenBytes = 0;
  uint8_t readBytes = 0;
  bool isAtomic = false;
};

class OperationOrder {
public:
  /// An operation that is the `count`-th of its stream. `clock` has what is
  /// before it, itself included.
  OperationId add(std::string name, uint32_t stream, uint64_t count,
                  const VectorClock &clock);
  bool isBefore(OperationId first, OperationId second) const;
  /// "softmax (operation 3 of stream 1)".
  std::string describe(OperationId id) const;

  /// `who` accesses `bytes` at byte `offset` of an allocation. Returns an
  /// operation that accesses the same without an order, which may be the same
  /// one in another block, or 0.
  OperationId access(WordAccesses *words, size_t offset, size_t bytes,
                     Access access, Accessor who);

private:
  struct Operation {
    std::string name;
    uint32_t stream = 0;
    uint64_t count = 0;
    VectorClock clock;
  };

  /// Readers of a word that are not before each other have a number of their
  /// own, with this bit.
  static constexpr uint32_t setBit = 1u << 31;

  static constexpr uint32_t severalBlocks = ~uint32_t{0};

  bool accessQuickly(WordAccesses &word, Access access, Accessor who) const;
  OperationId accessSlowly(WordAccesses &word, uint8_t bytes, Access access,
                           Accessor who);
  OperationId conflict(const WordAccesses &word, uint8_t bytes, Access access,
                       Accessor who);
  OperationId findUnorderedReader(uint32_t readers, OperationId id) const;
  uint32_t addReader(uint32_t readers, OperationId id);
  bool isBeforeCurrent(OperationId first, OperationId second);

  std::vector<Operation> operations{1};
  std::vector<std::vector<OperationId>> readerSets;
  std::map<std::vector<OperationId>, uint32_t> setNumbers;
  /// The answers for the word before: most words have the same history.
  OperationId lastFirst = 0, lastSecond = 0;
  uint32_t lastReaders = 0, lastMerged = 0;
  OperationId lastReader = 0;
};

} // namespace fsdp::emulator

#endif // FSDP_EMULATOR_EXECUTION_OPERATIONORDER_H
