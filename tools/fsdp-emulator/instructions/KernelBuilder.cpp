//===- KernelBuilder.cpp - From the text of a function to a kernel --------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "instructions/KernelBuilder.h"

#include "instructions/Decoder.h"

#include <algorithm>
#include <cstring>

namespace fsdp::emulator {

static uint32_t alignTo(uint64_t offset, uint64_t alignment) {
  return static_cast<uint32_t>((offset + alignment - 1) / alignment *
                               alignment);
}

/// Bytes of one lane in a register; predicates have bits.
static unsigned laneBytes(Type type) { return std::max(2u, bytesOf(type)); }

void KernelBuilder::build(const FunctionSyntax &entry) {
  kernel.name = entry.name;
  kernel.module = &module;
  kernel.maxThreads = entry.maxThreads;
  kernel.requiredThreads = entry.requiredThreads;
  frames.push_back({&entry, {{}}, {}, {}, {}, {}, {}});
  layOutParameters(entry);
  decodeBody(entry);
  Instruction end;
  end.flow = Flow::Exit;
  end.line = entry.line;
  kernel.code.push_back(end);
  resolveLabels();
  placeDynamicShared();
  kernel.constants.resize(constantBytes.size());
  std::copy(constantBytes.begin(), constantBytes.end(),
            kernel.constants.data());
}

void KernelBuilder::layOutParameters(const FunctionSyntax &entry) {
  uint32_t offset = 0;
  for (const VariableSyntax &parameter : entry.parameters) {
    offset = alignTo(offset, parameter.alignmentInBytes());
    auto bytes = static_cast<uint32_t>(parameter.bytes());
    kernel.parameters.push_back({offset, bytes});
    Symbol symbol;
    symbol.space = Space::Parameter;
    symbol.address = offset;
    symbol.bytes = bytes;
    declare(parameter.name, parameter.line, symbol);
    offset += bytes;
  }
  kernel.parameterBytes = offset;
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

const Symbol *KernelBuilder::find(std::string_view name) {
  auto &scopes = frame().scopes;
  for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope) {
    auto found = scope->find(name);
    if (found != scope->end())
      return &found->second;
  }
  auto variable = variables.find(name);
  if (variable != variables.end())
    return &variable->second;
  auto shared = moduleShared.find(name);
  if (shared != moduleShared.end())
    return &shared->second;
  // A shared variable of the module takes room where a kernel names it.
  for (const VariableSyntax &other : module.variables)
    if (other.space == Space::Shared && other.name == name)
      return &moduleShared.emplace(name, placeShared(other)).first->second;
  return nullptr;
}

void KernelBuilder::declare(std::string_view name, int line, Symbol symbol) {
  if (!frame().scopes.back().try_emplace(name, symbol).second)
    throw LoadError(line, "expected a name that is free, got '" +
                              std::string(name) + "' again");
}

Slot KernelBuilder::newRegister(Type type) {
  uint32_t bytes = type == Type::Pred ? 4 : laneBytes(type) * warpSize;
  kernel.registerBytes = alignTo(kernel.registerBytes, std::min(bytes, 64u));
  Slot slot = Slot::ofRegister(kernel.registerBytes);
  kernel.registerBytes += bytes;
  return slot;
}

void KernelBuilder::declareRegisters(const RegisterSyntax &registers) {
  if (bitsOf(registers.type) > 64)
    throw LoadError(registers.line,
                    std::string("expected registers of at most 64 bits, got ") +
                        nameOf(registers.type));
  auto add = [&](std::string_view name) {
    Symbol symbol;
    symbol.kind = Symbol::Kind::Register;
    symbol.type = registers.type;
    symbol.slot = newRegister(registers.type);
    declare(name, registers.line, symbol);
  };
  if (registers.count == 0) {
    add(registers.name);
    return;
  }
  // Names have to point into something that stays.
  auto &names = module.registerNames;
  for (unsigned i = 0; i < registers.count; ++i)
    add(*names.insert(std::string(registers.name) + std::to_string(i)).first);
}

Symbol KernelBuilder::placeShared(const VariableSyntax &variable) {
  Symbol symbol;
  symbol.space = Space::Shared;
  symbol.bytes = variable.bytes();
  if (variable.isOpen || variable.isExtern) {
    symbol.isDynamic = true;
    dynamicAlignment = std::max(dynamicAlignment, variable.alignmentInBytes());
    return symbol;
  }
  kernel.staticSharedBytes =
      alignTo(kernel.staticSharedBytes, variable.alignmentInBytes());
  symbol.address = kernel.staticSharedBytes;
  kernel.staticSharedBytes += static_cast<uint32_t>(symbol.bytes);
  return symbol;
}

void KernelBuilder::declareVariable(const VariableSyntax &variable) {
  Symbol symbol;
  switch (variable.space) {
  case Space::Shared:
    symbol = placeShared(variable);
    break;
  case Space::Local:
  case Space::Parameter:
    // Parameters of calls lie in local memory, too.
    symbol.space = Space::Local;
    symbol.bytes = variable.bytes();
    kernel.localBytes =
        alignTo(kernel.localBytes, std::max(variable.alignmentInBytes(), 8u));
    symbol.address = kernel.localBytes;
    kernel.localBytes = alignTo(kernel.localBytes + symbol.bytes, 8);
    break;
  default:
    throw LoadError(variable.line,
                    std::string("expected a variable outside of functions, "
                                "got one in ") +
                        nameOf(variable.space) + " memory");
  }
  declare(variable.name, variable.line, symbol);
}

//===----------------------------------------------------------------------===//
// Values that are the same for all lanes
//===----------------------------------------------------------------------===//

Slot KernelBuilder::newConstant(uint32_t bytes) {
  size_t offset = alignTo(constantBytes.size(), std::min(bytes, 64u));
  constantBytes.resize(offset + bytes);
  return Slot::ofConstant(static_cast<uint32_t>(offset));
}

Slot KernelBuilder::constant(uint64_t value, unsigned bytes) {
  if (bytes < 8)
    value &= (uint64_t{1} << (8 * bytes)) - 1;
  auto [known, isNew] = constants.try_emplace({value, bytes});
  if (isNew) {
    known->second = newConstant(bytes * warpSize);
    for (unsigned lane = 0; lane < warpSize; ++lane)
      std::memcpy(constantBytes.data() + known->second.offset() + lane * bytes,
                  &value, bytes);
  }
  return known->second;
}

Slot KernelBuilder::predicateConstant(bool value) {
  auto [known, isNew] = constants.try_emplace({value, 0});
  if (isNew) {
    known->second = newConstant(sizeof(LaneMask));
    LaneMask bits = value ? allLanes : 0;
    std::memcpy(constantBytes.data() + known->second.offset(), &bits,
                sizeof bits);
  }
  return known->second;
}

Slot KernelBuilder::addressOf(const Symbol &symbol, unsigned bytes) {
  if (!symbol.isDynamic)
    return constant(symbol.address, bytes);
  Slot slot = newConstant(bytes * warpSize);
  dynamicAddresses.push_back({slot, bytes});
  return slot;
}

void KernelBuilder::placeDynamicShared() {
  if (dynamicAddresses.empty())
    return;
  kernel.staticSharedBytes =
      alignTo(kernel.staticSharedBytes, dynamicAlignment);
  uint64_t address = kernel.staticSharedBytes;
  for (auto [slot, bytes] : dynamicAddresses)
    for (unsigned lane = 0; lane < warpSize; ++lane)
      std::memcpy(constantBytes.data() + slot.offset() + lane * bytes, &address,
                  bytes);
}

namespace {

struct SpecialName {
  const char *name;
  Special special;
  unsigned axis;
  unsigned bytes;
};

constexpr SpecialName specialNames[] = {
    {"%tid.x", Special::ThreadIndex, 0, 4},
    {"%tid.y", Special::ThreadIndex, 1, 4},
    {"%tid.z", Special::ThreadIndex, 2, 4},
    {"%ntid.x", Special::BlockSize, 0, 4},
    {"%ntid.y", Special::BlockSize, 1, 4},
    {"%ntid.z", Special::BlockSize, 2, 4},
    {"%ctaid.x", Special::BlockIndex, 0, 4},
    {"%ctaid.y", Special::BlockIndex, 1, 4},
    {"%ctaid.z", Special::BlockIndex, 2, 4},
    {"%nctaid.x", Special::GridSize, 0, 4},
    {"%nctaid.y", Special::GridSize, 1, 4},
    {"%nctaid.z", Special::GridSize, 2, 4},
    {"%laneid", Special::Lane, 0, 4},
    {"%warpid", Special::WarpIndex, 0, 4},
    {"%nwarpid", Special::WarpCount, 0, 4},
    {"%lanemask_eq", Special::LaneMaskEqual, 0, 4},
    {"%lanemask_lt", Special::LaneMaskLess, 0, 4},
    {"%lanemask_le", Special::LaneMaskLessEqual, 0, 4},
    {"%lanemask_gt", Special::LaneMaskGreater, 0, 4},
    {"%lanemask_ge", Special::LaneMaskGreaterEqual, 0, 4},
    {"%dynamic_smem_size", Special::DynamicSharedBytes, 0, 4},
    {"%total_smem_size", Special::TotalSharedBytes, 0, 4},
    {"%gridid", Special::GridId, 0, 8},
    {"%smid", Special::MultiprocessorIndex, 0, 4},
    {"%nsmid", Special::MultiprocessorCount, 0, 4},
    {"%clock", Special::Clock, 0, 4},
    {"%clock64", Special::Clock, 0, 8},
    {"%globaltimer", Special::GlobalTimer, 0, 8},
};

} // namespace

std::optional<Slot> KernelBuilder::special(std::string_view name,
                                           unsigned &bytes) {
  auto row =
      std::find_if(std::begin(specialNames), std::end(specialNames),
                   [&](const auto &other) { return name == other.name; });
  if (row == std::end(specialNames))
    return std::nullopt;
  bytes = row->bytes;
  auto [known, isNew] = specials.try_emplace(row->name);
  if (isNew) {
    known->second = newRegister(bytes == 8 ? Type::B64 : Type::B32);
    kernel.specials.push_back({row->special, row->axis, bytes, known->second});
  }
  return known->second;
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

void KernelBuilder::decodeBody(const FunctionSyntax &function) {
  // A table may stand behind the branch that uses it.
  for (const BodyItem &item : function.body)
    if (const auto *targets = std::get_if<BranchTargetsSyntax>(&item))
      frame().targets[targets->name] = targets;
  for (const BodyItem &item : function.body) {
    if (const auto *instruction = std::get_if<InstructionSyntax>(&item)) {
      decode(*instruction);
    } else if (const auto *registers = std::get_if<RegisterSyntax>(&item)) {
      declareRegisters(*registers);
    } else if (const auto *variable = std::get_if<VariableSyntax>(&item)) {
      declareVariable(*variable);
    } else if (const auto *label = std::get_if<LabelSyntax>(&item)) {
      auto at = static_cast<int32_t>(kernel.code.size());
      if (!frame().labels.try_emplace(label->name, at).second)
        throw LoadError(label->line, "expected a label that is free, got '" +
                                         std::string(label->name) + "' again");
    } else if (const auto *scope = std::get_if<ScopeSyntax>(&item)) {
      if (scope->isBegin)
        frame().scopes.emplace_back();
      else
        frame().scopes.pop_back();
    }
  }
}

void KernelBuilder::decode(const InstructionSyntax &syntax) {
  Instruction instruction;
  instruction.line = syntax.line;
  size_t at = kernel.code.size();
  decodeInstruction(*this, syntax, instruction);
  // A call has put its instructions there instead.
  if (instruction.execute || instruction.flow != Flow::Next)
    kernel.code.push_back(instruction);
  else if (kernel.code.size() == at && syntax.opcode != "call")
    throw LoadError(syntax.line, "expected an instruction that the emulator "
                                 "models, got " +
                                     module.lineText(syntax.line));
}

void KernelBuilder::branchTo(std::string_view label) {
  frame().branches.push_back({kernel.code.size(), label});
}

int64_t KernelBuilder::branchTable(std::string_view name, int line) {
  auto found = frame().targets.find(name);
  if (found == frame().targets.end())
    throw LoadError(line, "expected a table of branch targets, got '" +
                              std::string(name) + "'");
  kernel.branchTables.emplace_back();
  size_t number = kernel.branchTables.size() - 1;
  frame().tables.push_back({number, found->second});
  return static_cast<int64_t>(number);
}

void KernelBuilder::branchToReturn() {
  frame().returns.push_back(kernel.code.size());
}

int32_t KernelBuilder::resolve(std::string_view label, int line) {
  auto found = frame().labels.find(label);
  if (found == frame().labels.end())
    throw LoadError(line, "expected a label of the function, got '" +
                              std::string(label) + "'");
  kernel.code[found->second].isLabelled = true;
  return found->second;
}

/// Behind a function's last instruction there is another one.
void KernelBuilder::resolveLabels() {
  for (auto [index, label] : frame().branches)
    kernel.code[index].target = resolve(label, kernel.code[index].line);
  for (auto [number, targets] : frame().tables)
    for (std::string_view label : targets->labels)
      kernel.branchTables[number].push_back(resolve(label, targets->line));
  auto end = static_cast<int32_t>(kernel.code.size()) - 1;
  for (size_t index : frame().returns)
    kernel.code[index].target = end;
  if (!frame().returns.empty())
    kernel.code[end].isLabelled = true;
}

const FunctionSyntax *KernelBuilder::findFunction(std::string_view name) const {
  auto found = module.functions.find(name);
  return found == module.functions.end() ? nullptr : &found->second;
}

void KernelBuilder::bind(Frame &callee,
                         const std::vector<VariableSyntax> &formals,
                         const OperandSyntax *actuals, int line) {
  size_t count = actuals ? actuals->elements.size() : 0;
  if (count != formals.size())
    throw LoadError(line, "expected " + std::to_string(formals.size()) +
                              " operands of a list, got " +
                              std::to_string(count));
  for (size_t i = 0; i < count; ++i) {
    const Symbol *actual = find(actuals->elements[i].name);
    if (!actual || actual->kind != Symbol::Kind::Variable ||
        actual->space != Space::Local)
      throw LoadError(line, "expected a .param variable, got '" +
                                std::string(actuals->elements[i].name) + "'");
    if (actual->bytes < formals[i].bytes())
      throw LoadError(line, "expected " + std::to_string(formals[i].bytes()) +
                                " bytes for '" + std::string(formals[i].name) +
                                "', got " + std::to_string(actual->bytes));
    callee.scopes.back().emplace(formals[i].name, *actual);
  }
}

/// An instruction that does nothing, for labels to stand at.
static Instruction makeNop(int line) {
  Instruction nop;
  nop.line = line;
  nop.execute = [](Warp &, const Instruction &, LaneMask) {};
  return nop;
}

void KernelBuilder::inlineCall(const Instruction &call,
                               const FunctionSyntax &callee,
                               const OperandSyntax *results,
                               const OperandSyntax *arguments) {
  for (const Frame &caller : frames)
    if (caller.function == &callee)
      throw LoadError(call.line,
                      "expected a call that is not recursive, got '" +
                          std::string(callee.name) + "' in itself");
  // Lanes that do not call go around it.
  size_t detour = kernel.code.size();
  if (call.guard) {
    kernel.code.push_back(call);
    kernel.code.back().flow = Flow::Branch;
    kernel.code.back().isGuardNegated = !call.isGuardNegated;
  }
  Frame next{&callee, {{}}, {}, {}, {}, {}, {}};
  bind(next, callee.results, results, call.line);
  bind(next, callee.parameters, arguments, call.line);
  frames.push_back(std::move(next));
  decodeBody(callee);
  kernel.code.push_back(makeNop(call.line));
  resolveLabels();
  frames.pop_back();
  if (call.guard) {
    kernel.code.back().isLabelled = true;
    kernel.code[detour].target = static_cast<int32_t>(kernel.code.size()) - 1;
  }
}

} // namespace fsdp::emulator
