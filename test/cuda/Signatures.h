//===- Signatures.h - Functions with one binary interface -------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_CUDA_SIGNATURES_H
#define FSDP_TEST_CUDA_SIGNATURES_H

#include <cstddef>
#include <type_traits>

namespace fsdp::test {

/// What a call passes for a type: any pointer is one, an enumeration or a
/// number is its size and sign.
template <typename T, typename = void>
struct Passed {
  using Type = T;
};
template <typename T>
struct Passed<T, std::enable_if_t<std::is_pointer_v<T>>> {
  using Type = void *;
};
template <size_t Size, bool IsSigned>
struct Integer {};
template <typename T>
struct Passed<T, std::enable_if_t<std::is_integral_v<T>>> {
  using Type = Integer<sizeof(T), std::is_signed_v<T>>;
};
/// Enumerations of C without negative values: ours are int.
template <typename T>
struct Passed<T, std::enable_if_t<std::is_enum_v<T>>> {
  using Type = Integer<sizeof(T), true>;
};

template <typename F>
struct Signature;
template <typename R, typename... P>
struct Signature<R (*)(P...)> {
  using Type = typename Passed<R>::Type (*)(typename Passed<P>::Type...);
};

template <typename A, typename B>
constexpr bool isSame =
    std::is_same_v<typename Signature<A>::Type, typename Signature<B>::Type>;

} // namespace fsdp::test

#endif // FSDP_TEST_CUDA_SIGNATURES_H
