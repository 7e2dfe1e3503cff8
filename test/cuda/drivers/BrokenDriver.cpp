//===- BrokenDriver.cpp - Drivers that no program can use -----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A libcuda.so.1 for each way in which a driver can be of no use: FSDP_VERSION,
// FSDP_DEVICES and FSDP_INIT are what it answers, and FSDP_WITHOUT_LAUNCH says
// whether cuLaunchKernel is missing. All other functions fail.
//
//===----------------------------------------------------------------------===//

extern "C" {

int cuInit(unsigned) { return FSDP_INIT; }
int cuDriverGetVersion(int *version) {
  *version = FSDP_VERSION;
  return 0;
}
int cuDeviceGetCount(int *count) {
  *count = FSDP_DEVICES;
  return 0;
}
int cuGetErrorName(int, const char **text) {
  *text = "CUDA_ERROR_NO_DEVICE";
  return 0;
}
int cuGetErrorString(int, const char **text) {
  *text = "no CUDA-capable device is detected";
  return 0;
}

#define X(name)                                                                \
  int name() { return 999; }
X(cuDeviceGet)
X(cuDeviceGetName)
X(cuDeviceGetUuid_v2)
X(cuDeviceGetAttribute)
X(cuDeviceCanAccessPeer)
X(cuDevicePrimaryCtxRetain)
X(cuDevicePrimaryCtxRelease_v2)
X(cuCtxSetCurrent)
X(cuCtxSynchronize)
X(cuMemGetInfo_v2)
X(cuMemGetAllocationGranularity)
X(cuMemAddressReserve)
X(cuMemAddressFree)
X(cuMemCreate)
X(cuMemRelease)
X(cuMemMap)
X(cuMemUnmap)
X(cuMemSetAccess)
X(cuMemHostAlloc)
X(cuMemFreeHost)
X(cuMemcpyHtoDAsync_v2)
X(cuMemcpyDtoHAsync_v2)
X(cuMemcpyDtoDAsync_v2)
X(cuMemsetD8Async)
X(cuCtxGetStreamPriorityRange)
X(cuStreamCreate)
X(cuStreamCreateWithPriority)
X(cuStreamDestroy_v2)
X(cuStreamQuery)
X(cuStreamSynchronize)
X(cuStreamWaitEvent)
X(cuStreamBeginCapture_v2)
X(cuStreamEndCapture)
X(cuGraphInstantiateWithFlags)
X(cuGraphUpload)
X(cuGraphLaunch)
X(cuGraphDestroy)
X(cuGraphExecDestroy)
X(cuLaunchHostFunc)
X(cuEventCreate)
X(cuEventDestroy_v2)
X(cuEventRecord)
X(cuEventQuery)
X(cuEventSynchronize)
X(cuEventElapsedTime)
X(cuModuleLoadDataEx)
X(cuModuleUnload)
X(cuModuleGetFunction)
X(cuFuncGetAttribute)
X(cuFuncSetAttribute)
#if !FSDP_WITHOUT_LAUNCH
X(cuLaunchKernel)
X(cuLaunchKernelEx)
#endif
}
