//===- Syntax.h - What a PTX module says, line by line --------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EMULATOR_PTX_SYNTAX_H
#define FSDP_EMULATOR_PTX_SYNTAX_H

#include "ptx/Lexer.h"
#include "ptx/Types.h"

#include <array>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace fsdp::emulator {

struct OperandSyntax {
  enum class Form : uint8_t {
    /// A register, a symbol or a label.
    Name,
    /// A literal; `value` has its sign.
    Number,
    /// {a, b, ..} or (a, b, ..).
    List,
    /// [base + offset]; without a name, an absolute address.
    Address,
    /// _, a result that nobody reads.
    Discard,
  };

  Form form = Form::Name;
  std::string_view name;
  /// !p.
  bool isNegated = false;
  Token::Kind numberKind = Token::Kind::Integer;
  uint64_t value = 0;
  int64_t offset = 0;
  std::vector<OperandSyntax> elements;
  /// The q of p|q.
  std::string_view second;
};

struct InstructionSyntax {
  int line = 0;
  /// Without one, empty.
  std::string_view guard;
  bool isGuardNegated = false;
  std::string_view opcode;
  std::vector<std::string_view> modifiers;
  std::vector<OperandSyntax> operands;
};

enum class Space : uint8_t {
  Generic,
  Global,
  Constant,
  Shared,
  Local,
  Parameter
};
const char *nameOf(Space space);

/// An element of an initialiser: a number, or the address of a symbol.
struct InitialValue {
  uint64_t value = 0;
  std::string_view symbol;
  bool isGeneric = false;
};

struct VariableSyntax {
  int line = 0;
  Space space = Space::Global;
  Type type = Type::None;
  std::string_view name;
  /// 0 where none is written.
  unsigned alignment = 0;
  uint64_t elements = 1;
  /// name[], whose size the launch or another module knows.
  bool isOpen = false;
  bool isExtern = false;
  std::vector<InitialValue> initial;

  uint64_t bytes() const { return elements * bytesOf(type); }
  unsigned alignmentInBytes() const {
    return alignment ? alignment : bytesOf(type);
  }
};

/// Registers name0 .. name<count - 1>, or only name.
struct RegisterSyntax {
  int line = 0;
  Type type = Type::None;
  std::string_view name;
  /// 0: the name itself.
  unsigned count = 0;
};

struct LabelSyntax {
  int line = 0;
  std::string_view name;
};

/// name: .branchtargets label, ..;
struct BranchTargetsSyntax {
  int line = 0;
  std::string_view name;
  std::vector<std::string_view> labels;
};

/// { and }, between which names hide those outside.
struct ScopeSyntax {
  bool isBegin = false;
};

using BodyItem = std::variant<InstructionSyntax, RegisterSyntax, VariableSyntax,
                              LabelSyntax, BranchTargetsSyntax, ScopeSyntax>;

using Dimensions = std::array<uint32_t, 3>;

struct FunctionSyntax {
  int line = 0;
  std::string_view name;
  bool isEntry = false;
  bool isDefined = false;
  std::vector<VariableSyntax> results;
  std::vector<VariableSyntax> parameters;
  /// Zeros where the directive is not there.
  Dimensions maxThreads = {0, 0, 0};
  Dimensions requiredThreads = {0, 0, 0};
  std::vector<BodyItem> body;
};

/// What all parts of a module point into is `source`.
struct ModuleSyntax {
  std::string source;
  /// Line n begins at source[lines[n - 1]].
  std::vector<size_t> lines;
  /// .version 8.7 is 87.
  unsigned version = 0;
  /// .target sm_90a is 90.
  unsigned target = 0;
  /// The a of sm_90a, the f of sm_100f: code for no later device.
  char targetSuffix = '\0';
  std::vector<VariableSyntax> variables;
  std::map<std::string_view, FunctionSyntax> functions;
  /// What `.reg .b32 %r<9>` names.
  mutable std::set<std::string> registerNames;

  /// The text of a line, without blanks around it.
  std::string lineText(int line) const;
};

/// Throws LoadError for what is not PTX, and for directives that the emulator
/// does not model.
std::unique_ptr<ModuleSyntax> parseModule(std::string source);

} // namespace fsdp::emulator

#endif // FSDP_EMULATOR_PTX_SYNTAX_H
