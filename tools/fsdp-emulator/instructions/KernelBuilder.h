//===- KernelBuilder.h - From the text of a function to a kernel ----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Functions that a kernel calls become part of it: each call has a copy of the
// callee's instructions, whose `.param` variables are the caller's, in local
// memory.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EMULATOR_INSTRUCTIONS_KERNELBUILDER_H
#define FSDP_EMULATOR_INSTRUCTIONS_KERNELBUILDER_H

#include "execution/Kernel.h"

#include <optional>

namespace fsdp::emulator {

/// What a name stands for.
struct Symbol {
  enum class Kind : uint8_t { Register, Variable };

  Kind kind = Kind::Variable;
  /// Of a register.
  Type type = Type::None;
  Slot slot;
  /// Of a variable: its address in its space.
  Space space = Space::Global;
  uint64_t address = 0;
  uint64_t bytes = 0;
  /// Its address is known when all other shared variables are.
  bool isDynamic = false;
};

using SymbolTable = std::map<std::string_view, Symbol>;

class KernelBuilder {
public:
  /// `variables`: those of the module that have an address.
  KernelBuilder(const ModuleSyntax &module, const SymbolTable &variables,
                Kernel &kernel)
      : module(module), variables(variables), kernel(kernel) {}

  void build(const FunctionSyntax &entry);

  Kernel &result() { return kernel; }
  const ModuleSyntax &source() const { return module; }
  /// Null if there is none.
  const Symbol *find(std::string_view name);
  /// The same value of `bytes` (2, 4 or 8) for all lanes.
  Slot constant(uint64_t value, unsigned bytes);
  Slot predicateConstant(bool value);
  Slot addressOf(const Symbol &symbol, unsigned bytes);
  /// %tid.x and the like; nothing for other names.
  std::optional<Slot> special(std::string_view name, unsigned &bytes);
  Slot newRegister(Type type);

  // Of control flow.
  /// The instruction that is being decoded goes to `label`.
  void branchTo(std::string_view label);
  /// The number of a table of `.branchtargets`.
  int64_t branchTable(std::string_view name, int line);
  bool isInKernel() const { return frames.size() == 1; }
  void branchToReturn();
  /// Puts the callee's instructions here. `call` has the guard and the line.
  void inlineCall(const Instruction &call, const FunctionSyntax &callee,
                  const OperandSyntax *results, const OperandSyntax *arguments);
  const FunctionSyntax *findFunction(std::string_view name) const;

private:
  /// A function whose text is being decoded.
  struct Frame {
    const FunctionSyntax *function;
    /// From the outermost in.
    std::vector<SymbolTable> scopes;
    std::map<std::string_view, int32_t> labels;
    std::map<std::string_view, const BranchTargetsSyntax *> targets;
    std::vector<std::pair<size_t, std::string_view>> branches;
    std::vector<std::pair<size_t, const BranchTargetsSyntax *>> tables;
    std::vector<size_t> returns;
  };

  Frame &frame() { return frames.back(); }
  void decodeBody(const FunctionSyntax &function);
  void decode(const InstructionSyntax &syntax);
  void declare(std::string_view name, int line, Symbol symbol);
  void declareRegisters(const RegisterSyntax &registers);
  void declareVariable(const VariableSyntax &variable);
  void layOutParameters(const FunctionSyntax &entry);
  Symbol placeShared(const VariableSyntax &variable);
  void bind(Frame &callee, const std::vector<VariableSyntax> &formals,
            const OperandSyntax *actuals, int line);
  void resolveLabels();
  int32_t resolve(std::string_view label, int line);
  void placeDynamicShared();
  Slot newConstant(uint32_t bytes);

  const ModuleSyntax &module;
  const SymbolTable &variables;
  Kernel &kernel;
  std::vector<Frame> frames;
  SymbolTable moduleShared;
  std::map<std::pair<uint64_t, unsigned>, Slot> constants;
  std::map<std::string_view, Slot> specials;
  std::vector<std::pair<Slot, unsigned>> dynamicAddresses;
  uint32_t dynamicAlignment = 16;
  std::vector<uint8_t> constantBytes;
};

} // namespace fsdp::emulator

#endif // FSDP_EMULATOR_INSTRUCTIONS_KERNELBUILDER_H
