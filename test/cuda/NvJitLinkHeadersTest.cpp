//===- NvJitLinkHeadersTest.cpp - Own declarations and the toolkit's ------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NvJitLinkApi.h"

#include <gtest/gtest.h>
#include <nvJitLink.h>

#include <type_traits>

namespace mlir::fsdp::nvjitlink {
namespace {

/// What a call passes for a parameter: any pointer is one, an enumeration is
/// an int.
template <typename T>
using Passed = std::conditional_t<
    std::is_pointer_v<T>, void *,
    std::conditional_t<std::is_enum_v<T> && sizeof(T) == sizeof(int), int, T>>;

template <typename F>
struct Signature;
template <typename R, typename... P>
struct Signature<R (*)(P...)> {
  using Type = Passed<R> (*)(Passed<P>...);
};

#define CHECK(name, symbol, parameters)                                        \
  static_assert(std::is_same_v<Signature<decltype(Api::name)>::Type,           \
                               Signature<decltype(&::symbol)>::Type>,          \
                #symbol);
FSDP_NVJITLINK_FUNCTIONS(CHECK)
#undef CHECK

TEST(NvJitLinkHeaders, Numbers) {
  EXPECT_EQ(success, NVJITLINK_SUCCESS);
  EXPECT_EQ(inputPtx, NVJITLINK_INPUT_PTX);
}

} // namespace
} // namespace mlir::fsdp::nvjitlink
