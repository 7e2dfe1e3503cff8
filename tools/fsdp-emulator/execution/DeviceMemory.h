//===- DeviceMemory.h - What a device can address -------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// An address of a device is the address of the host's bytes and a tag, so that
// the host faults where it uses one. An allocation knows of each byte whether
// it was ever written, and of each word who accessed it last.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EMULATOR_EXECUTION_DEVICEMEMORY_H
#define FSDP_EMULATOR_EXECUTION_DEVICEMEMORY_H

#include "execution/Fault.h"
#include "execution/LazyMemory.h"
#include "execution/OperationOrder.h"

#include <functional>
#include <map>
#include <memory>
#include <set>

namespace fsdp::emulator {

/// Bits of a generic address that say which memory it is of.
constexpr uint64_t deviceTag = uint64_t{1} << 60;
constexpr uint64_t sharedTag = uint64_t{1} << 61;
constexpr uint64_t localTag = uint64_t{1} << 62;
constexpr uint64_t parameterTag = uint64_t{1} << 63;

/// What the emulator looks for, for all devices.
struct Checks {
  bool races = true;
  bool uninitialized = true;
};

/// Memory of a device or of the host, however it is mapped.
class Allocation {
public:
  enum class Kind : uint8_t { Device, Physical, Host, Registered, Variable };

  /// `isWritten`: nothing is looked for in it that was never written.
  Allocation(Kind kind, size_t bytes, bool isWritten);
  /// The caller's memory.
  Allocation(uint8_t *memory, size_t bytes);
  ~Allocation();
  Allocation(const Allocation &) = delete;
  Allocation &operator=(const Allocation &) = delete;

  Kind kind() const { return kindOf; }
  size_t bytes() const { return size; }
  uint8_t *host() const { return begin; }
  /// Of physical memory, which is mapped elsewhere; otherwise -1.
  int file() const { return descriptor; }

  /// Fills it with bytes that are NaNs, for programs that may read what they
  /// have not written.
  void poison();
  bool isWritten(size_t offset, size_t count) const {
    return !knowsWritten || written.containsAll(offset, count);
  }
  void setWritten(size_t offset, size_t count) {
    if (knowsWritten)
      written.insert(offset, count);
  }
  void copyWritten(size_t offset, const Allocation &from, size_t fromOffset,
                   size_t count);
  bool isByteWritten(size_t offset) const {
    return !knowsWritten || written.contains(offset);
  }
  /// How others may open it.
  struct Sharing {
    int handleTypes = 0;
    bool hasRdma = false;
  };
  void setSharing(Sharing wanted) { sharing = wanted; }
  const Sharing &howShared() const { return sharing; }
  WordAccesses *accesses() const {
    return reinterpret_cast<WordAccesses *>(words.data());
  }

private:
  Kind kindOf;
  size_t size;
  uint8_t *begin = nullptr;
  int descriptor = -1;
  LazyMemory memory;
  bool knowsWritten;
  ByteSet written;
  Sharing sharing;
  LazyMemory words;
};

/// Bytes of an allocation, as an address led to them.
struct Place {
  uint8_t *host = nullptr;
  Allocation *allocation = nullptr;
  size_t offset = 0;

  explicit operator bool() const { return host; }
};

class DeviceMemory {
public:
  struct Mapping {
    size_t bytes = 0;
    uint8_t *host = nullptr;
    std::shared_ptr<Allocation> allocation;
    size_t offset = 0;
    bool isAccessible = true;
    /// Other devices that were given access.
    std::set<int> peers;
  };

  DeviceMemory(OperationOrder &order, const Checks &checks)
      : order(order), checks(checks) {}

  /// Maps all of it where the host has it: with the tag, unless it is the
  /// host's own. Returns the address.
  uint64_t map(std::shared_ptr<Allocation> allocation);
  void mapAt(uint64_t address, Mapping mapping);
  /// The mapping that begins at `address`, or null.
  Mapping *findMapping(uint64_t address);
  /// The one in which it lies, or null.
  const Mapping *mappingAt(uint64_t address) const;
  void unmap(uint64_t address);
  void clear();

  /// All of [address, address + bytes) in one mapping, or nothing.
  Place find(uint64_t address, size_t bytes) {
    if (address - lastBegin < lastBytes &&
        bytes <= lastBytes - (address - lastBegin))
      return placeIn(*last, address - lastBegin);
    return findSlowly(address, bytes);
  }
  /// What lies there, for messages.
  std::string describe(uint64_t address, size_t bytes) const;

  /// Calls visit(place, bytes) for each mapping of the range. Throws where
  /// there is none.
  void forEachPiece(uint64_t address, size_t bytes, const std::string &what,
                    const std::function<void(Place, size_t)> &visit);

  /// Throws for a race.
  void recordAccess(const Place &place, size_t bytes, Access access,
                    Accessor who);
  bool checksUninitialized() const { return checks.uninitialized; }

private:
  static Place placeIn(const Mapping &mapping, size_t offset) {
    return {mapping.host + offset, mapping.allocation.get(),
            mapping.offset + offset};
  }
  Place findSlowly(uint64_t address, size_t bytes);
  void forgetLast() { lastBytes = 0; }

  OperationOrder &order;
  const Checks &checks;
  std::map<uint64_t, Mapping> mappings;
  const Mapping *last = nullptr;
  uint64_t lastBegin = 0;
  size_t lastBytes = 0;
};

/// 0x7f12 of a number.
std::string hexOf(uint64_t value);

} // namespace fsdp::emulator

#endif // FSDP_EMULATOR_EXECUTION_DEVICEMEMORY_H
