//===- SumKernels.cpp - Sums over ranks as kernels ------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The tree of abi.def, unrolled: each element is loaded, widened and added
// where its branch of the tree asks for it, so that a thread holds one partial
// sum for each level.
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/kernels/SumKernels.h"

#include "devices/cuda/kernels/OwnKernels.h"

#include <map>
#include <mutex>
#include <tuple>

namespace fsdp::rt {

namespace {

/// How elements of one type are loaded into, divided and stored from registers
/// in which they are added: $A stands for the address, $V for the value.
struct Element {
  Dtype dtype;
  const char *value; // prefix of its registers
  const char *add;
  const char *load, *divide, *store;
};

#define FSDP_RT_DIVIDE_INTEGER                                                 \
  "  cvt.u32.u64 %r4, %divisor;\n"                                             \
  "  div.s32 $V, $V, %r4;\n"
#define FSDP_RT_DIVIDE_FLOAT                                                   \
  "  cvt.rn.f32.s64 %f1, %divisor;\n"                                          \
  "  div.rn.f32 $V, $V, %f1;\n"

constexpr Element elements[] = {
    {FSDP_RT_F32, "%f", "add.rn.f32", "  ld.global.f32 $V, [$A];\n",
     FSDP_RT_DIVIDE_FLOAT, "  st.global.f32 [$A], $V;\n"},
    {FSDP_RT_F64, "%fd", "add.rn.f64", "  ld.global.f64 $V, [$A];\n",
     "  cvt.rn.f64.s64 %fd1, %divisor;\n"
     "  div.rn.f64 $V, $V, %fd1;\n",
     "  st.global.f64 [$A], $V;\n"},
    {FSDP_RT_F16, "%f", "add.rn.f32",
     "  ld.global.b16 %h1, [$A];\n"
     "  cvt.f32.f16 $V, %h1;\n",
     FSDP_RT_DIVIDE_FLOAT,
     "  cvt.rn.f16.f32 %h1, $V;\n"
     "  st.global.b16 [$A], %h1;\n"},
    // A bfloat16 is the upper half of a float.
    {FSDP_RT_BF16, "%f", "add.rn.f32",
     "  ld.global.u16 %r4, [$A];\n"
     "  shl.b32 %r4, %r4, 16;\n"
     "  mov.b32 $V, %r4;\n",
     FSDP_RT_DIVIDE_FLOAT,
     "  cvt.rn.bf16.f32 %h1, $V;\n"
     "  st.global.b16 [$A], %h1;\n"},
    {FSDP_RT_I64, "%l", "add.s64", "  ld.global.u64 $V, [$A];\n",
     "  div.s64 $V, $V, %divisor;\n", "  st.global.u64 [$A], $V;\n"},
    {FSDP_RT_I32, "%i", "add.s32", "  ld.global.u32 $V, [$A];\n",
     FSDP_RT_DIVIDE_INTEGER, "  st.global.u32 [$A], $V;\n"},
    // A sum of narrow integers wraps around to its type.
    {FSDP_RT_I16, "%i", "add.s32", "  ld.global.s16 $V, [$A];\n",
     "  shl.b32 $V, $V, 16;\n"
     "  shr.s32 $V, $V, 16;\n" FSDP_RT_DIVIDE_INTEGER,
     "  st.global.u16 [$A], $V;\n"},
    {FSDP_RT_I8, "%i", "add.s32", "  ld.global.s8 $V, [$A];\n",
     "  shl.b32 $V, $V, 24;\n"
     "  shr.s32 $V, $V, 24;\n" FSDP_RT_DIVIDE_INTEGER,
     "  st.global.u8 [$A], $V;\n"},
    {FSDP_RT_U8, "%i", "add.s32", "  ld.global.u8 $V, [$A];\n",
     "  and.b32 $V, $V, 255;\n" FSDP_RT_DIVIDE_INTEGER,
     "  st.global.u8 [$A], $V;\n"},
};

const Element *findElement(Dtype dtype) {
  for (const Element &element : elements)
    if (element.dtype == dtype)
      return &element;
  return nullptr;
}

std::string substitute(std::string text, const std::string &address,
                       const std::string &value) {
  for (size_t at; (at = text.find("$A")) != std::string::npos;)
    text.replace(at, 2, address);
  for (size_t at; (at = text.find("$V")) != std::string::npos;)
    text.replace(at, 2, value);
  return text;
}

class Writer {
public:
  Writer(const Element &element, int ranks, int own)
      : element_(element), ranks_(ranks), own_(own) {}

  std::string write() {
    std::string sum = addUp(0, ranks_);
    body_ += substitute(element_.divide, "", sum);
    body_ += substitute(element_.store, "%dst", sum);
    return head() + body_ +
           "$done:\n"
           "  ret;\n"
           "}\n";
  }

private:
  /// The register of the sum of [begin, end).
  std::string addUp(int begin, int end) {
    if (end - begin == 1)
      return load(begin);
    int middle = begin + (end - begin + 1) / 2;
    std::string left = addUp(begin, middle), right = addUp(middle, end);
    body_ += std::string("  ") + element_.add + " " + left + ", " + left +
             ", " + right + ";\n";
    return left;
  }

  std::string load(int rank) {
    std::string value = element_.value + std::to_string(values_++);
    if (rank == own_) {
      body_ += substitute(element_.load, "%own", value);
      return value;
    }
    // Others come in their order.
    body_ += substitute(element_.load, "%others", value);
    body_ += "  add.s64 %others, %others, %stride;\n";
    return value;
  }

  std::string head() const {
    static const char *const names[] = {"own",     "dst",    "count",
                                        "divisor", "others", "stride"};
    std::string list, loads;
    for (int i = 0; i < 6; ++i) {
      std::string parameter = "fsdp_sum_param_" + std::to_string(i);
      list += (i == 0 ? ".param .u64 " : ", .param .u64 ") + parameter;
      loads += std::string("  ld.param.u64 %") + names[i] + ", [" + parameter +
               "];\n";
    }
    std::string offset = "  mul.lo.s64 %at, %at, " +
                         std::to_string(dtypeSize(element_.dtype)) + ";\n";
    std::string addresses;
    for (const char *name : {"own", "dst", "others"})
      addresses += std::string("  cvta.to.global.u64 %") + name + ", %" + name +
                   ";\n  add.s64 %" + name + ", %" + name + ", %at;\n";
    return ".version 8.0\n"
           ".target sm_80\n"
           ".address_size 64\n"
           "\n.visible .entry fsdp_sum(" +
           list +
           ")\n{\n"
           "  .reg .pred %p1;\n"
           "  .reg .b16 %h1;\n"
           "  .reg .b32 %r<5>;\n"
           "  .reg .b64 %own, %dst, %count, %divisor, %others, %stride, %at, "
           "%thread;\n"
           "  .reg " +
           std::string(typeOfValues()) + " " + element_.value + "<" +
           std::to_string(values_) + ">;\n" + loads + dependentLaunchLines() +
           "  mov.u32 %r1, %ctaid.x;\n"
           "  mov.u32 %r2, %ntid.x;\n"
           "  mov.u32 %r3, %tid.x;\n"
           "  cvt.u64.u32 %thread, %r3;\n"
           "  mul.wide.u32 %at, %r1, %r2;\n"
           "  add.s64 %at, %at, %thread;\n"
           "  setp.ge.u64 %p1, %at, %count;\n"
           "  @%p1 bra $done;\n" +
           offset + addresses;
  }

  const char *typeOfValues() const {
    switch (element_.dtype) {
    case FSDP_RT_F64:
      return ".f64";
    case FSDP_RT_I64:
      return ".b64";
    case FSDP_RT_F32:
    case FSDP_RT_F16:
    case FSDP_RT_BF16:
      return ".f32";
    default:
      return ".b32";
    }
  }

  const Element &element_;
  int ranks_, own_;
  /// 0 and 1 are not of elements.
  int values_ = 2;
  std::string body_;
};

} // namespace

std::string writeSumKernel(Dtype dtype, int ranks, int own) {
  const Element *element = findElement(dtype);
  return element ? Writer(*element, ranks, own).write() : "";
}

SumKernel sumKernel(Dtype dtype, int ranks, int own) {
  struct Image {
    std::string text;
    fsdp_rt_cuda_image_desc desc = {};
  };
  static std::mutex mutex;
  static std::map<std::tuple<Dtype, int, int>, Image> images;
  std::lock_guard<std::mutex> lock(mutex);
  Image &image = images[{dtype, ranks, own}];
  if (image.text.empty()) {
    image.text = writeSumKernel(dtype, ranks, own);
    image.desc.ptx = image.text.c_str();
    image.desc.capability = ownKernelCapability;
    image.desc.grid_waits = 1;
  }
  return {"fsdp_sum", &image.desc};
}

} // namespace fsdp::rt
