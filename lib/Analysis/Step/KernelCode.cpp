//===- KernelCode.cpp - A digest of what kernels do -----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step/KernelCode.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Step/StepExtraction.h"

#include "mlir/IR/AsmState.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mlir::fsdp;

namespace {
/// Hashes text as it comes: nobody needs all of it at once.
class HashStream : public llvm::raw_ostream {
public:
  ~HashStream() override { flush(); }
  void add(ArrayRef<char> bytes) { write(bytes.data(), bytes.size()); }
  std::string take() {
    flush();
    return llvm::toHex(hash.final(), /*LowerCase=*/true);
  }

private:
  void write_impl(const char *text, size_t size) override {
    hash.update(StringRef(text, size));
    position += size;
  }
  uint64_t current_pos() const override { return position; }

  llvm::SHA256 hash;
  uint64_t position = 0;
};
} // namespace

OpPrintingFlags fsdp::getHashedForm() {
  constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
  OpPrintingFlags flags;
  // The generic form has properties at their defaults where a pass has set
  // them, and not where a text leaves them out.
  flags.printGenericOpForm(false)
      .enableDebugInfo(false)
      .printNameLocAsPrefix(false)
      .printUniqueSSAIDs(false)
      .printValueUsers(false)
      .skipRegions(false)
      .elideLargeElementsAttrs(kAll)
      .elideLargeResourceString(kAll)
      .assumeVerified();
  return flags;
}

std::string fsdp::getKernelCode(ModuleOp module) {
  HashStream os;
  // Names of attributes and maps depend on what else is in the module.
  OpPrintingFlags flags = getHashedForm().useLocalScope();
  // One for all: each has to look through the dialects.
  AsmState state(module, flags);
  for (Operation &op : *module.getBody()) {
    if (isa<ProgramOp>(op))
      continue;
    op.print(os, state);
    os << '\n';
    // Of these only names are printed.
    op.walk([&](Operation *inner) {
      inner->getAttrDictionary().walk([&](DenseResourceElementsAttr attr) {
        if (AsmResourceBlob *blob = attr.getRawHandle().getBlob())
          os.add(blob->getData());
      });
    });
  }
  return os.take();
}

FailureOr<sched::StepProgram> fsdp::extractCertifiedProgram(ProgramOp step) {
  FailureOr<sched::StepProgram> program = extractStepProgram(step);
  if (succeeded(program))
    program->kernelCode = getKernelCode(step->getParentOfType<ModuleOp>());
  return program;
}
