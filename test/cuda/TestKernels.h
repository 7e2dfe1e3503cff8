//===- TestKernels.h - Kernels of tests, in PTX -----------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_CUDA_TESTKERNELS_H
#define FSDP_TEST_CUDA_TESTKERNELS_H

namespace fsdp::test {

/// Of float32 and a thread for each element, where not said otherwise:
///   add(a, b, c)       c = a + b
///   double_it(x)       x = 2 x
///   positive(x, flag)  a thread: the byte at flag becomes x[0] > 0
///   scale_shared(x)    x = 3 x, by way of dynamic shared memory
///   show(p0, .., p9)    a thread: writes its ten parameters to p3
///   trap()             ends the device
///   outside(x)         writes beyond all memory
const char *testKernelText();

} // namespace fsdp::test

#endif // FSDP_TEST_CUDA_TESTKERNELS_H
