//===- TransferCalls.cpp - Calls that copy and fill memory ----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "driver/Graph.h"

#include <cstring>

using namespace fsdp::emulator;

namespace {

uint64_t addressOf(const void *host) {
  return reinterpret_cast<uint64_t>(host);
}

/// Memory that the device knows: its own, or the host's that is pinned. All
/// other addresses are the host's own.
bool isKnown(Device &device, uint64_t address) {
  return (address & deviceTag) || device.memory().find(address, 1);
}

void copyFromHost(Device &device, uint64_t to, const uint8_t *from,
                  size_t bytes, const std::string &what, OperationId id) {
  device.memory().forEachPiece(to, bytes, what, [&](Place place, size_t piece) {
    device.memory().recordAccess(place, piece, Access::Write, {id});
    place.allocation->setWritten(place.offset, piece);
    std::memcpy(place.host, from, piece);
    from += piece;
  });
}

/// Bytes that nobody wrote are no zeros that a program may rely on.
void copyToHost(Device &device, uint8_t *to, uint64_t from, size_t bytes,
                const std::string &what, OperationId id) {
  device.memory().forEachPiece(
      from, bytes, what, [&](Place place, size_t piece) {
        device.memory().recordAccess(place, piece, Access::Read, {id});
        std::memcpy(to, place.host, piece);
        if (!place.allocation->isWritten(place.offset, piece))
          for (size_t i = 0; i < piece; ++i)
            if (!place.allocation->isByteWritten(place.offset + i))
              to[i] = 0xff;
        to += piece;
      });
}

void copyOnDevice(Device &device, uint64_t to, uint64_t from, size_t bytes,
                  const std::string &what, OperationId id) {
  device.memory().forEachPiece(to, bytes, what, [&](Place target, size_t size) {
    device.memory().forEachPiece(
        from, size, what, [&](Place source, size_t piece) {
          device.memory().recordAccess(source, piece, Access::Read, {id});
          device.memory().recordAccess(target, piece, Access::Write, {id});
          target.allocation->copyWritten(target.offset, *source.allocation,
                                         source.offset, piece);
          std::memmove(target.host, source.host, piece);
          target.host += piece;
          target.offset += piece;
        });
    from += size;
  });
}

/// Fails now, not when the copy runs.
void expectMapped(Device &device, uint64_t address, size_t bytes) {
  device.memory().forEachPiece(address, bytes, "a copy", [](Place, size_t) {});
}

struct Copy {
  const char *name;
  uint64_t to = 0, from = 0;
  size_t bytes = 0;
};

/// Memory of the host that is not pinned is read before the call returns, and
/// written before it returns.
void issueCopy(Device &device, Stream &stream, const Copy &copy) {
  bool isToKnown = isKnown(device, copy.to);
  bool isFromKnown = isKnown(device, copy.from);
  std::string what = copy.name;
  if (copy.bytes == 0)
    return;
  if (isToKnown)
    expectMapped(device, copy.to, copy.bytes);
  if (isFromKnown)
    expectMapped(device, copy.from, copy.bytes);
  bool isArrival = (copy.to & deviceTag) && !(copy.from & deviceTag);
  Work work;
  work.name = what;
  if (isToKnown && isFromKnown) {
    work.run = [=, &device](OperationId id) {
      copyOnDevice(device, copy.to, copy.from, copy.bytes, what, id);
      if (isArrival)
        device.countArrival(copy.bytes);
      return true;
    };
  } else if (isToKnown && stream.capture) {
    work.run = [=, &device](OperationId id) {
      copyFromHost(device, copy.to, reinterpret_cast<uint8_t *>(copy.from),
                   copy.bytes, what, id);
      return true;
    };
  } else if (isToKnown) {
    const auto *from = reinterpret_cast<const uint8_t *>(copy.from);
    auto bytes =
        std::make_shared<std::vector<uint8_t>>(from, from + copy.bytes);
    work.run = [=, &device](OperationId id) {
      copyFromHost(device, copy.to, bytes->data(), bytes->size(), what, id);
      if (isArrival)
        device.countArrival(copy.bytes);
      return true;
    };
  } else if (isFromKnown) {
    work.run = [=, &device](OperationId id) {
      copyToHost(device, reinterpret_cast<uint8_t *>(copy.to), copy.from,
                 copy.bytes, what, id);
      return true;
    };
  } else {
    work.run = [=](OperationId) {
      std::memmove(reinterpret_cast<void *>(copy.to),
                   reinterpret_cast<void *>(copy.from), copy.bytes);
      return true;
    };
  }
  issueOrCapture(device, stream, std::move(work));
  if (!isToKnown && !stream.capture)
    device.synchronize(stream.last);
}

cuda::Result copyLater(const Copy &copy, cuda::Stream handle) {
  return runOnDevice(copy.name, [&](Device &device) {
    issueCopy(device, *findStream(device, handle), copy);
    return cuda::Success;
  });
}

/// In the legacy stream.
cuda::Result copyNow(const Copy &copy) {
  return runOnDevice(copy.name, [&](Device &device) {
    expectLegacyStream(device);
    expectSafe();
    issueCopy(device, device.legacyStream(), copy);
    device.synchronize(device.legacyStream().last);
    return cuda::Success;
  });
}

template <typename T>
cuda::Result fill(const char *name, uint64_t to, T value, size_t count,
                  cuda::Stream handle, bool isNow) {
  return runOnDevice(name, [&](Device &device) {
    if (!isKnown(device, to))
      throw Refusal(cuda::InvalidValue,
                    "expected memory of the device or cuMemHostAlloc's, got " +
                        hexOf(to));
    if (isNow) {
      expectLegacyStream(device);
      expectSafe();
    }
    if (to % sizeof(T))
      throw Refusal(cuda::InvalidValue,
                    "expected an address that is a multiple of " +
                        std::to_string(sizeof(T)) + ", got " + hexOf(to));
    size_t bytes = count * sizeof(T);
    if (bytes == 0)
      return cuda::Success;
    expectMapped(device, to, bytes);
    StreamPtr stream = findStream(device, handle);
    // Nobody has tried it on a device.
    if (stream->capture && !(to & deviceTag))
      invalidate(*stream->capture, cuda::StreamCaptureUnsupported,
                 "expected no fill of the host's memory in a graph");
    auto run = [=, &device](OperationId id) {
      device.memory().forEachPiece(
          to, bytes, name, [&](Place place, size_t piece) {
            device.memory().recordAccess(place, piece, Access::Write, {id});
            place.allocation->setWritten(place.offset, piece);
            for (size_t i = 0; i < piece; i += sizeof(T))
              std::memcpy(place.host + i, &value, sizeof(T));
          });
      return true;
    };
    issueOrCapture(device, *stream, {name, run});
    if (isNow)
      device.synchronize(stream->last);
    return cuda::Success;
  });
}

} // namespace

FSDP_EMULATOR_API cuMemcpyAsync(cuda::DevicePointer to,
                                cuda::DevicePointer from, size_t bytes,
                                cuda::Stream stream) {
  return copyLater({__func__, to, from, bytes}, stream);
}
FSDP_EMULATOR_API cuMemcpy(cuda::DevicePointer to, cuda::DevicePointer from,
                           size_t bytes) {
  return copyNow({__func__, to, from, bytes});
}
FSDP_EMULATOR_API cuMemcpyHtoDAsync_v2(cuda::DevicePointer to, const void *from,
                                       size_t bytes, cuda::Stream stream) {
  return copyLater({__func__, to, addressOf(from), bytes}, stream);
}
FSDP_EMULATOR_API cuMemcpyHtoD_v2(cuda::DevicePointer to, const void *from,
                                  size_t bytes) {
  return copyNow({__func__, to, addressOf(from), bytes});
}
FSDP_EMULATOR_API cuMemcpyDtoHAsync_v2(void *to, cuda::DevicePointer from,
                                       size_t bytes, cuda::Stream stream) {
  return copyLater({__func__, addressOf(to), from, bytes}, stream);
}
FSDP_EMULATOR_API cuMemcpyDtoH_v2(void *to, cuda::DevicePointer from,
                                  size_t bytes) {
  return copyNow({__func__, addressOf(to), from, bytes});
}
FSDP_EMULATOR_API cuMemcpyDtoDAsync_v2(cuda::DevicePointer to,
                                       cuda::DevicePointer from, size_t bytes,
                                       cuda::Stream stream) {
  return copyLater({__func__, to, from, bytes}, stream);
}
FSDP_EMULATOR_API cuMemcpyDtoD_v2(cuda::DevicePointer to,
                                  cuda::DevicePointer from, size_t bytes) {
  return copyNow({__func__, to, from, bytes});
}

FSDP_EMULATOR_API cuMemsetD8Async(cuda::DevicePointer to, unsigned char value,
                                  size_t count, cuda::Stream stream) {
  return fill(__func__, to, value, count, stream, false);
}
FSDP_EMULATOR_API cuMemsetD16Async(cuda::DevicePointer to, unsigned short value,
                                   size_t count, cuda::Stream stream) {
  return fill(__func__, to, value, count, stream, false);
}
FSDP_EMULATOR_API cuMemsetD32Async(cuda::DevicePointer to, unsigned value,
                                   size_t count, cuda::Stream stream) {
  return fill(__func__, to, value, count, stream, false);
}
FSDP_EMULATOR_API cuMemsetD8_v2(cuda::DevicePointer to, unsigned char value,
                                size_t count) {
  return fill(__func__, to, value, count, nullptr, true);
}
FSDP_EMULATOR_API cuMemsetD16_v2(cuda::DevicePointer to, unsigned short value,
                                 size_t count) {
  return fill(__func__, to, value, count, nullptr, true);
}
FSDP_EMULATOR_API cuMemsetD32_v2(cuda::DevicePointer to, unsigned value,
                                 size_t count) {
  return fill(__func__, to, value, count, nullptr, true);
}
