//===- Cpu.cpp - Instruction sets of this processor -----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/Host.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <array>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace fsdp::rt {

namespace {

#if defined(__x86_64__)

enum Register { Eax, Ebx, Ecx, Edx };

/// Registers that the operating system must save for a feature to be usable,
/// as bits of XCR0.
enum State : uint64_t {
  NoState = 0,
  Avx = 0x6,
  Avx512 = 0xe6,
  Amx = 0x60000,
  Apx = 0x80000,
};

struct Feature {
  const char *name;
  uint32_t leaf;
  uint32_t subleaf;
  Register reg;
  int bit;
  State state;
};

/// LLVM's names and where CPUID tells about them.
constexpr Feature features[] = {
    {"x87", 1, 0, Edx, 0, NoState},
    {"cx8", 1, 0, Edx, 8, NoState},
    {"cmov", 1, 0, Edx, 15, NoState},
    {"mmx", 1, 0, Edx, 23, NoState},
    {"fxsr", 1, 0, Edx, 24, NoState},
    {"sse", 1, 0, Edx, 25, NoState},
    {"sse2", 1, 0, Edx, 26, NoState},
    {"sse3", 1, 0, Ecx, 0, NoState},
    {"pclmul", 1, 0, Ecx, 1, NoState},
    {"ssse3", 1, 0, Ecx, 9, NoState},
    {"fma", 1, 0, Ecx, 12, Avx},
    {"cx16", 1, 0, Ecx, 13, NoState},
    {"sse4.1", 1, 0, Ecx, 19, NoState},
    {"sse4.2", 1, 0, Ecx, 20, NoState},
    {"crc32", 1, 0, Ecx, 20, NoState},
    {"movbe", 1, 0, Ecx, 22, NoState},
    {"popcnt", 1, 0, Ecx, 23, NoState},
    {"aes", 1, 0, Ecx, 25, NoState},
    {"xsave", 1, 0, Ecx, 26, Avx},
    {"avx", 1, 0, Ecx, 28, Avx},
    {"f16c", 1, 0, Ecx, 29, Avx},
    {"rdrnd", 1, 0, Ecx, 30, NoState},
    {"fsgsbase", 7, 0, Ebx, 0, NoState},
    {"sgx", 7, 0, Ebx, 2, NoState},
    {"bmi", 7, 0, Ebx, 3, NoState},
    {"avx2", 7, 0, Ebx, 5, Avx},
    {"bmi2", 7, 0, Ebx, 8, NoState},
    {"invpcid", 7, 0, Ebx, 10, NoState},
    {"rtm", 7, 0, Ebx, 11, NoState},
    {"avx512f", 7, 0, Ebx, 16, Avx512},
    {"avx512dq", 7, 0, Ebx, 17, Avx512},
    {"rdseed", 7, 0, Ebx, 18, NoState},
    {"adx", 7, 0, Ebx, 19, NoState},
    {"avx512ifma", 7, 0, Ebx, 21, Avx512},
    {"clflushopt", 7, 0, Ebx, 23, NoState},
    {"clwb", 7, 0, Ebx, 24, NoState},
    {"avx512cd", 7, 0, Ebx, 28, Avx512},
    {"sha", 7, 0, Ebx, 29, NoState},
    {"avx512bw", 7, 0, Ebx, 30, Avx512},
    {"avx512vl", 7, 0, Ebx, 31, Avx512},
    {"avx512vbmi", 7, 0, Ecx, 1, Avx512},
    {"pku", 7, 0, Ecx, 4, NoState},
    {"waitpkg", 7, 0, Ecx, 5, NoState},
    {"avx512vbmi2", 7, 0, Ecx, 6, Avx512},
    {"shstk", 7, 0, Ecx, 7, NoState},
    {"gfni", 7, 0, Ecx, 8, NoState},
    {"vaes", 7, 0, Ecx, 9, Avx},
    {"vpclmulqdq", 7, 0, Ecx, 10, Avx},
    {"avx512vnni", 7, 0, Ecx, 11, Avx512},
    {"avx512bitalg", 7, 0, Ecx, 12, Avx512},
    {"avx512vpopcntdq", 7, 0, Ecx, 14, Avx512},
    {"rdpid", 7, 0, Ecx, 22, NoState},
    {"kl", 7, 0, Ecx, 23, NoState},
    {"cldemote", 7, 0, Ecx, 25, NoState},
    {"movdiri", 7, 0, Ecx, 27, NoState},
    {"movdir64b", 7, 0, Ecx, 28, NoState},
    {"enqcmd", 7, 0, Ecx, 29, NoState},
    {"uintr", 7, 0, Edx, 5, NoState},
    {"avx512vp2intersect", 7, 0, Edx, 8, Avx512},
    {"serialize", 7, 0, Edx, 14, NoState},
    {"tsxldtrk", 7, 0, Edx, 16, NoState},
    {"pconfig", 7, 0, Edx, 18, NoState},
    {"amx-bf16", 7, 0, Edx, 22, Amx},
    {"avx512fp16", 7, 0, Edx, 23, Avx512},
    {"amx-tile", 7, 0, Edx, 24, Amx},
    {"amx-int8", 7, 0, Edx, 25, Amx},
    {"sha512", 7, 1, Eax, 0, Avx},
    {"sm3", 7, 1, Eax, 1, Avx},
    {"sm4", 7, 1, Eax, 2, Avx},
    {"raoint", 7, 1, Eax, 3, NoState},
    {"avxvnni", 7, 1, Eax, 4, Avx},
    {"avx512bf16", 7, 1, Eax, 5, Avx512},
    {"cmpccxadd", 7, 1, Eax, 7, NoState},
    {"amx-fp16", 7, 1, Eax, 21, Amx},
    {"hreset", 7, 1, Eax, 22, NoState},
    {"avxifma", 7, 1, Eax, 23, Avx},
    {"movrs", 7, 1, Eax, 31, NoState},
    {"avxvnniint8", 7, 1, Edx, 4, Avx},
    {"avxneconvert", 7, 1, Edx, 5, Avx},
    {"amx-complex", 7, 1, Edx, 8, Amx},
    {"avxvnniint16", 7, 1, Edx, 10, Avx},
    {"prefetchi", 7, 1, Edx, 14, NoState},
    {"usermsr", 7, 1, Edx, 15, NoState},
    {"egpr", 7, 1, Edx, 21, Apx},
    {"push2pop2", 7, 1, Edx, 21, Apx},
    {"ppx", 7, 1, Edx, 21, Apx},
    {"ndd", 7, 1, Edx, 21, Apx},
    {"ccmp", 7, 1, Edx, 21, Apx},
    {"nf", 7, 1, Edx, 21, Apx},
    {"cf", 7, 1, Edx, 21, Apx},
    {"zu", 7, 1, Edx, 21, Apx},
    {"xsaveopt", 0xd, 1, Eax, 0, Avx},
    {"xsavec", 0xd, 1, Eax, 1, Avx},
    {"xsaves", 0xd, 1, Eax, 3, Avx},
    {"ptwrite", 0x14, 0, Ebx, 4, NoState},
    {"widekl", 0x19, 0, Ebx, 2, NoState},
    {"amx-fp8", 0x1e, 1, Eax, 4, Amx},
    {"amx-tf32", 0x1e, 1, Eax, 6, Amx},
    {"amx-avx512", 0x1e, 1, Eax, 7, Amx},
    {"amx-movrs", 0x1e, 1, Eax, 8, Amx},
    {"sahf", 0x80000001, 0, Ecx, 0, NoState},
    {"lzcnt", 0x80000001, 0, Ecx, 5, NoState},
    {"sse4a", 0x80000001, 0, Ecx, 6, NoState},
    {"prfchw", 0x80000001, 0, Ecx, 8, NoState},
    {"xop", 0x80000001, 0, Ecx, 11, Avx},
    {"lwp", 0x80000001, 0, Ecx, 15, NoState},
    {"fma4", 0x80000001, 0, Ecx, 16, Avx},
    {"tbm", 0x80000001, 0, Ecx, 21, NoState},
    {"mwaitx", 0x80000001, 0, Ecx, 29, NoState},
    {"64bit", 0x80000001, 0, Edx, 29, NoState},
    {"clzero", 0x80000008, 0, Ebx, 0, NoState},
    {"rdpru", 0x80000008, 0, Ebx, 4, NoState},
    {"wbnoinvd", 0x80000008, 0, Ebx, 9, NoState},
};

/// AVX10 is a version number, not a bit.
struct Avx10 {
  const char *name;
  unsigned version;
};
constexpr Avx10 avx10Versions[] = {
    {"avx10.1", 1}, {"avx10.1-512", 1}, {"avx10.2", 2}, {"avx10.2-512", 2}};

std::array<uint32_t, 4> cpuid(uint32_t leaf, uint32_t subleaf) {
  std::array<uint32_t, 4> regs = {0, 0, 0, 0};
  // Returns without writing where the processor has no such leaf.
  __get_cpuid_count(leaf, subleaf, &regs[0], &regs[1], &regs[2], &regs[3]);
  return regs;
}

uint64_t savedStates() {
  constexpr uint32_t osxsave = 1u << 27;
  if (!(cpuid(1, 0)[Ecx] & osxsave))
    return 0;
  uint32_t low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t(high) << 32) | low;
}

/// Linux lets a process use the tile registers only after it asked.
bool requestTiles() {
  constexpr long reqXcompPerm = 0x1023, tileData = 18;
  return syscall(SYS_arch_prctl, reqXcompPerm, tileData) == 0;
}

bool hasState(State needed) {
  static const uint64_t saved = savedStates();
  if ((saved & needed) != needed)
    return false;
  if (needed != Amx)
    return true;
  static const bool granted = requestTiles();
  return granted;
}

enum class Answer { Present, Missing, Unknown };

Answer lookUp(const std::string &name) {
  for (const Feature &f : features) {
    if (name != f.name)
      continue;
    // Leaf 7 and the extended leaves say in EAX how many subleaves they have.
    if (f.subleaf > 0 && f.leaf == 7 && cpuid(7, 0)[Eax] < f.subleaf)
      return Answer::Missing;
    bool isSet = cpuid(f.leaf, f.subleaf)[f.reg] >> f.bit & 1;
    return isSet && hasState(f.state) ? Answer::Present : Answer::Missing;
  }
  for (const Avx10 &f : avx10Versions) {
    if (name != f.name)
      continue;
    constexpr int hasAvx10 = 19;
    bool isSet = cpuid(7, 0)[Eax] >= 1 && (cpuid(7, 1)[Edx] >> hasAvx10 & 1);
    unsigned version = isSet ? cpuid(0x24, 0)[Ebx] & 0xff : 0;
    return version >= f.version && hasState(Avx512) ? Answer::Present
                                                    : Answer::Missing;
  }
  return Answer::Unknown;
}

#else

enum class Answer { Present, Missing, Unknown };
Answer lookUp(const std::string &) { return Answer::Unknown; }

#endif

std::string joined(const std::vector<std::string> &names) {
  std::string text;
  for (const std::string &name : names)
    text += (text.empty() ? "" : ", ") + name;
  return text;
}

} // namespace

Status checkCpu(const std::vector<std::string> &llvmFeatures) {
  std::vector<std::string> missing, unknown;
  for (const std::string &name : llvmFeatures) {
    Answer answer = lookUp(name);
    if (answer == Answer::Missing)
      missing.push_back(name);
    else if (answer == Answer::Unknown)
      unknown.push_back(name);
  }
  std::string why;
  if (!missing.empty())
    why = "this processor lacks " + joined(missing);
  if (!unknown.empty())
    why += (why.empty() ? "" : "; ") +
           ("features unknown to this runtime: " + joined(unknown));
  if (why.empty())
    return Status::ok();
  return Status::failed("expected a processor with all features that the "
                        "program was compiled for: " +
                        why);
}

} // namespace fsdp::rt
