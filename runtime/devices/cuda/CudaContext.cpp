//===- CudaContext.cpp - A rank's CUDA device -----------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/CudaContext.h"

#include "fsdp-rt/dependent-launch.h"

namespace fsdp::rt {

Result<std::unique_ptr<CudaContext>> CudaContext::create(const DriverApi &api,
                                                         int ordinal) {
  std::unique_ptr<CudaContext> made(new CudaContext(api, ordinal));
  if (Status s = made->open())
    return s.withContext("CUDA device " + std::to_string(ordinal));
  return made;
}

Status CudaContext::readAttribute(int attribute, int &value) const {
  return check(api_.deviceGetAttribute(&value, attribute, device_),
               "cuDeviceGetAttribute");
}

Status CudaContext::open() {
  if (Status s = check(api_.deviceGet(&device_, ordinal_), "cuDeviceGet"))
    return s;
  char name[256] = "";
  if (Status s = check(api_.deviceGetName(name, sizeof(name) - 1, device_),
                       "cuDeviceGetName"))
    return s;
  name_ = name;
  int major = 0, minor = 0, hasVirtualMemory = 0;
  struct {
    int attribute;
    int *value;
  } const facts[] = {{cu::attributeMajor, &major},
                     {cu::attributeMinor, &minor},
                     {cu::attributeMaxGridX, &maxGrid_},
                     {cu::attributeMaxSharedOptIn, &maxSharedBytes_},
                     {cu::attributeVirtualMemory, &hasVirtualMemory}};
  for (const auto &fact : facts)
    if (Status s = readAttribute(fact.attribute, *fact.value))
      return s;
  capability_ = 10 * major + minor;
  if (!hasVirtualMemory)
    return Status::failed("expected " + name_ +
                          " to map memory into reserved addresses, got a "
                          "device that cannot");
  if (Status s = check(api_.contextRetain(&context_, device_),
                       "cuDevicePrimaryCtxRetain"))
    return s;
  if (Status s = makeCurrent())
    return s;
  Result<int64_t> taken = takenBytes();
  if (taken.isOk())
    contextBytes_ = *taken;
  return taken.status();
}

Result<int64_t> CudaContext::takenBytes() const {
  size_t free = 0, total = 0;
  if (Status s = check(api_.memGetInfo(&free, &total), "cuMemGetInfo"))
    return s;
  return static_cast<int64_t>(total - free);
}

CudaContext::~CudaContext() {
  if (context_)
    (void)api_.contextRelease(device_);
}

std::string CudaContext::describe() const {
  return "device " + std::to_string(ordinal_) + " (" + name_ + ")";
}

std::string CudaContext::whyNoDependentLaunch(bool inGraphs) const {
  if (capability_ < dependentLaunchCapability)
    return "a device of sm_" + std::to_string(dependentLaunchCapability) +
           " or later, got sm_" + std::to_string(capability_);
  if (inGraphs && api_.version < DriverApi::typedEdgesVersion)
    return "a driver of CUDA 12.3 or later for graphs, got " + api_.describe();
  return "";
}

Status CudaContext::makeCurrent() const {
  return check(api_.contextSetCurrent(context_), "cuCtxSetCurrent");
}

Result<CudaEvent> CudaEvent::create(const CudaContext &context,
                                    unsigned flags) {
  cu::Event event = nullptr;
  if (Status s = context.check(context.api().eventCreate(&event, flags),
                               "cuEventCreate"))
    return s;
  return CudaEvent(context, event);
}

Result<CudaStream> CudaStream::create(const CudaContext &context) {
  cu::Stream stream = nullptr;
  if (Status s = context.check(
          context.api().streamCreate(&stream, cu::streamNonBlocking),
          "cuStreamCreate"))
    return s;
  return CudaStream(context, stream);
}

} // namespace fsdp::rt
