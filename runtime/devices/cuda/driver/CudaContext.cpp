//===- CudaContext.cpp - A rank's CUDA device -----------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/driver/CudaContext.h"

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
                     {cu::attributeMultiprocessors, &multiprocessors_},
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
  readPriorities();
  if (Status s = chooseAllocation())
    return s;
  Result<int64_t> taken = takenBytes();
  if (taken.isOk())
    contextBytes_ = *taken;
  return taken.status();
}

void CudaContext::readPriorities() {
  int lowest = 0, highest = 0;
  if (Status s = check(api_.getPriorityRange(&lowest, &highest),
                       "cuCtxGetStreamPriorityRange")) {
    whyNoPriorities_ = s.message();
    return;
  }
  lowestPriority_ = lowest;
  highestPriority_ = highest;
  if (lowest == highest)
    whyNoPriorities_ = describe() + " has none";
}

/// NCCL registers the buffers of captured calls: with another process by a file
/// descriptor, or a fabric handle where an NVLink domain spans hosts, and with
/// network cards that read and write the device's memory themselves. It goes on
/// by copies, and says nothing, where memory was allocated without.
Status CudaContext::chooseAllocation() {
  allocation_.type = cu::allocationPinned;
  allocation_.location = {cu::locationDevice, device_};
  int hasFiles = 0, hasRdma = 0, hasFabric = 0;
  if (Status s = readAttribute(cu::attributeFileHandles, hasFiles))
    return s;
  if (Status s = readAttribute(cu::attributeDirectRdma, hasRdma))
    return s;
  // Older drivers do not know the attribute.
  if (api_.version >= DriverApi::fabricVersion)
    if (Status s = readAttribute(cu::attributeFabricHandles, hasFabric))
      return s;
  if (hasFiles)
    allocation_.handleTypes |= cu::handleFile;
  if (hasRdma)
    allocation_.flags.directRdma = 1;
  if (!hasFabric)
    return Status::ok();
  // The device may have them and its host no right to: the smallest allocation
  // tells. Whatever else fails here fails for the arena, with its size.
  cu::AllocationProperties wanted = allocation_;
  wanted.handleTypes |= cu::handleFabric;
  size_t page = 0;
  cu::AllocationHandle handle = 0;
  if (api_.memGetGranularity(&page, &wanted, cu::granularityMinimum) !=
          cu::success ||
      api_.memCreate(&handle, page, &wanted, 0) != cu::success)
    return Status::ok();
  allocation_ = wanted;
  return check(api_.memRelease(handle), "cuMemRelease");
}

Status CudaContext::setPeers(const std::vector<int> &ordinals) {
  for (int ordinal : ordinals) {
    cu::Device peer = 0;
    if (Status s = check(api_.deviceGet(&peer, ordinal), "cuDeviceGet"))
      return s;
    int can = 0;
    if (Status s = check(api_.deviceCanAccessPeer(&can, peer, device_),
                         "cuDeviceCanAccessPeer"))
      return s;
    if (can)
      peers_.push_back(peer);
  }
  return Status::ok();
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

Result<CudaStream> CudaStream::create(const CudaContext &context,
                                      StreamPriority priority) {
  cu::Stream stream = nullptr;
  if (!context.whyNoPriorities().empty()) {
    if (Status s = context.check(
            context.api().streamCreate(&stream, cu::streamNonBlocking),
            "cuStreamCreate"))
      return s;
    return CudaStream(context, stream);
  }
  if (Status s = context.check(context.api().streamCreateWithPriority(
                                   &stream, cu::streamNonBlocking,
                                   priority == StreamPriority::Lowest
                                       ? context.lowestPriority()
                                       : context.highestPriority()),
                               "cuStreamCreateWithPriority"))
    return s;
  return CudaStream(context, stream);
}

} // namespace fsdp::rt
