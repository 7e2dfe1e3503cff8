//===- InstructionTest.cpp - Tables of operands and results ---------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "InstructionTest.h"

#include <sstream>

namespace fsdp::emulator::test {

namespace {

/// The register of operand `index`, and what loads or stores it at byte
/// 8 * index of %rd20.
struct Operand {
  std::string name, load, store;

  Operand(size_t index, const std::string &kind) {
    std::string number = std::to_string(10 + index);
    std::string at = "[%rd20+" + std::to_string(8 * index) + "]";
    if (kind == "p") {
      name = "%p" + number;
      load = "ld.global.b32 %r30, " + at + ";\nsetp.ne.b32 " + name +
             ", %r30, 0;\n";
      store = "selp.b64 %rd30, 1, 0, " + name + ";\nst.global.b64 " + at +
              ", %rd30;\n";
      return;
    }
    name = (kind == "16" ? "%h" : kind == "32" ? "%r" : "%rd") + number;
    load = "ld.global.b" + kind + " " + name + ", " + at + ";\n";
    store = "st.global.b" + kind + " " + at + ", " + name + ";\n";
  }
};

void replaceAll(std::string &text, const std::string &what,
                const std::string &with) {
  for (size_t at = text.find(what); at != std::string::npos;
       at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
}

} // namespace

std::vector<uint64_t>
InstructionTest::evaluate(const std::string &instruction,
                          const std::string &kinds,
                          const std::vector<std::vector<uint64_t>> &operands) {
  std::vector<Operand> all;
  std::istringstream words(kinds);
  for (std::string kind; words >> kind;)
    all.emplace_back(all.size(), kind);
  // A row of memory is the result and the operands.
  size_t width = all.size();
  std::string body = "mul.wide.u32 %rd21, %r0, " + std::to_string(8 * width) +
                     ";\nadd.s64 %rd20, %rd0, %rd21;\n";
  std::string text = instruction + ";\n";
  for (size_t i = 0; i < width; ++i)
    replaceAll(text, "$" + std::to_string(i), all[i].name);
  for (size_t i = 1; i < width; ++i)
    body += all[i].load;
  body += text + all[0].store;

  std::vector<uint64_t> memory;
  for (const auto &row : operands) {
    memory.push_back(0);
    memory.insert(memory.end(), row.begin(), row.end());
    memory.resize((memory.size() + width - 1) / width * width);
  }
  cuda::DevicePointer pointer = upload(memory);
  size_t count = operands.size(), threads = std::min<size_t>(count, 128);
  if (count % threads != 0)
    threads = count;
  EXPECT_CU(run(kernelOf(body, 1), static_cast<unsigned>(count / threads),
                static_cast<unsigned>(threads), {pointer}))
      << instruction;
  memory = download<uint64_t>(pointer, memory.size());
  std::vector<uint64_t> results;
  for (size_t i = 0; i < count; ++i)
    results.push_back(memory[i * width]);
  return results;
}

void InstructionTest::check(const std::string &instruction,
                            const std::string &kinds,
                            const std::vector<Row> &rows) {
  std::vector<std::vector<uint64_t>> operands;
  for (const Row &row : rows)
    operands.push_back(row.operands);
  std::vector<uint64_t> results = evaluate(instruction, kinds, operands);
  for (size_t i = 0; i < rows.size(); ++i) {
    std::ostringstream text;
    text << instruction << std::hex;
    for (uint64_t operand : rows[i].operands)
      text << " 0x" << operand;
    text << ": 0x" << results[i] << ", expected 0x" << rows[i].result;
    EXPECT_EQ(rows[i].result, results[i]) << text.str();
  }
}

} // namespace fsdp::emulator::test
