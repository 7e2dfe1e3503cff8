//===- OperationOrder.cpp - Which operation is before which ---------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "execution/OperationOrder.h"

#include <algorithm>

namespace fsdp::emulator {

void VectorClock::set(uint32_t stream, uint64_t count) {
  if (counts.size() <= stream)
    counts.resize(stream + 1);
  counts[stream] = count;
}

void VectorClock::join(const VectorClock &other) {
  if (counts.size() < other.counts.size())
    counts.resize(other.counts.size());
  for (size_t i = 0; i < other.counts.size(); ++i)
    counts[i] = std::max(counts[i], other.counts[i]);
}

bool VectorClock::contains(const VectorClock &other) const {
  for (uint32_t i = 0; i < other.counts.size(); ++i)
    if (of(i) < other.counts[i])
      return false;
  return true;
}

OperationId OperationOrder::add(std::string name, uint32_t stream,
                                uint64_t count, const VectorClock &clock) {
  operations.push_back({std::move(name), stream, count, clock});
  return static_cast<OperationId>(operations.size() - 1);
}

bool OperationOrder::isBefore(OperationId first, OperationId second) const {
  const Operation &before = operations[first];
  return operations[second].clock.of(before.stream) >= before.count;
}

bool OperationOrder::isBeforeCurrent(OperationId first, OperationId second) {
  if (first == lastFirst && second == lastSecond)
    return true;
  if (!isBefore(first, second))
    return false;
  lastFirst = first;
  lastSecond = second;
  return true;
}

std::string OperationOrder::describe(OperationId id) const {
  const Operation &operation = operations[id];
  return operation.name + " (operation " + std::to_string(operation.count) +
         " of stream " + std::to_string(operation.stream) + ")";
}

OperationId OperationOrder::findUnorderedReader(uint32_t readers,
                                                OperationId id) const {
  if (!(readers & setBit))
    return isBefore(readers, id) ? 0 : readers;
  for (OperationId reader : readerSets[readers & ~setBit])
    if (!isBefore(reader, id))
      return reader;
  return 0;
}

/// Readers that are before `id` need not be kept: what is behind `id` is behind
/// them.
uint32_t OperationOrder::addReader(uint32_t readers, OperationId id) {
  if (readers == 0 || readers == id)
    return id;
  if (readers == lastReaders && id == lastReader)
    return lastMerged;
  std::vector<OperationId> all;
  if (readers & setBit)
    all = readerSets[readers & ~setBit];
  else
    all = {readers};
  std::erase_if(all, [&](OperationId reader) { return isBefore(reader, id); });
  all.push_back(id);
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  uint32_t merged = all[0];
  if (all.size() > 1) {
    auto next = static_cast<uint32_t>(readerSets.size());
    auto [known, isNew] = setNumbers.try_emplace(all, next);
    if (isNew)
      readerSets.push_back(all);
    merged = known->second | setBit;
  }
  lastReaders = readers;
  lastReader = id;
  lastMerged = merged;
  return merged;
}

/// Whether these are two blocks, which are in no order.
static bool areApart(uint32_t first, uint32_t second) {
  return first && second && first != second;
}

OperationId OperationOrder::conflict(const WordAccesses &word, uint8_t bytes,
                                     Access access, Accessor who) {
  OperationId id = who.operation;
  bool areBothAtomic = access == Access::Atomic && word.isAtomic;
  if (word.writer && (word.writtenBytes & bytes) && !areBothAtomic) {
    bool isOrdered = word.writer == id ? !areApart(word.writerBlock, who.block)
                                       : isBeforeCurrent(word.writer, id);
    if (!isOrdered)
      return word.writer;
  }
  if (access == Access::Read || !word.readers || !(word.readBytes & bytes))
    return 0;
  if (word.readers == id) {
    // Which of several blocks read which bytes of the word is not recorded:
    // parts of it may be different blocks' own.
    if (word.readerBlock == severalBlocks && bytes != 0xf)
      return 0;
    return areApart(word.readerBlock, who.block) ? id : 0;
  }
  return findUnorderedReader(word.readers, id);
}

/// What most words need: all four bytes, after a writer that the word before
/// had, too, and no reader that a writer would have to be behind.
inline bool OperationOrder::accessQuickly(WordAccesses &word, Access access,
                                          Accessor who) const {
  OperationId id = who.operation;
  bool isAfterWriter = word.writer == 0 ||
                       (word.writer == id && word.writerBlock == who.block) ||
                       (word.writer == lastFirst && id == lastSecond);
  bool hasOtherReaders = word.readers != 0 &&
                         !(word.readers == id && word.readerBlock == who.block);
  if (!isAfterWriter || hasOtherReaders || access == Access::Atomic)
    return false;
  if (access == Access::Read) {
    word.readers = id;
    word.readerBlock = who.block;
    word.readBytes = 0xf;
    return true;
  }
  word = {id, 0, who.block, 0, 0xf, 0, false};
  return true;
}

OperationId OperationOrder::accessSlowly(WordAccesses &word, uint8_t bytes,
                                         Access access, Accessor who) {
  OperationId id = who.operation;
  if (OperationId other = conflict(word, bytes, access, who))
    return other;
  if (access == Access::Read) {
    uint32_t before = word.readers;
    bool isSame = before == id;
    if (!isSame)
      word.readers = addReader(before, id);
    // Of readers that are before this one, no bytes are kept either.
    bool areAllBefore = !isSame && word.readers == id;
    word.readBytes = areAllBefore ? bytes : word.readBytes | bytes;
    word.readerBlock = isSame && areApart(word.readerBlock, who.block)
                           ? severalBlocks
                           : who.block;
    return 0;
  }
  bool isSame = word.writer == id;
  word.writtenBytes = isSame ? word.writtenBytes | bytes : bytes;
  word.isAtomic = access == Access::Atomic && (!isSame || word.isAtomic);
  word.writer = id;
  // A block that agrees with one before does not stand for it.
  if (!isSame || who.block)
    word.writerBlock = who.block;
  if (bytes == 0xf) {
    word.readers = 0;
    word.readBytes = 0;
  }
  return 0;
}

OperationId OperationOrder::access(WordAccesses *words, size_t offset,
                                   size_t bytes, Access access, Accessor who) {
  size_t end = offset + bytes;
  for (size_t index = offset / 4; index * 4 < end; ++index) {
    WordAccesses &word = words[index];
    bool isWhole = offset <= index * 4 && end >= index * 4 + 4;
    if (isWhole && accessQuickly(word, access, who))
      continue;
    uint8_t touched = 0xf;
    if (offset > index * 4)
      touched &= 0xf << (offset - index * 4);
    if (end < index * 4 + 4)
      touched &= 0xf >> (index * 4 + 4 - end);
    if (OperationId other = accessSlowly(word, touched, access, who))
      return other;
  }
  return 0;
}

} // namespace fsdp::emulator
