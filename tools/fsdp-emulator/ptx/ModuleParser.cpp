//===- ModuleParser.cpp - Directives, variables and functions -------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ptx/Parser.h"

#include <charconv>
#include <optional>

namespace fsdp::emulator {

const char *nameOf(Space space) {
  static constexpr const char *names[] = {"generic", "global", "constant",
                                          "shared",  "local",  "parameter"};
  return names[static_cast<size_t>(space)];
}

std::string ModuleSyntax::lineText(int line) const {
  if (line < 1 || line > static_cast<int>(lines.size()))
    return "";
  size_t begin = lines[line - 1];
  size_t end = source.find('\n', begin);
  std::string text =
      source.substr(begin, end == std::string::npos ? end : end - begin);
  size_t first = text.find_first_not_of(" \t\r");
  size_t last = text.find_last_not_of(" \t\r");
  return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

namespace {

std::optional<Space> parseSpace(std::string_view directive) {
  if (directive == ".global")
    return Space::Global;
  if (directive == ".const")
    return Space::Constant;
  if (directive == ".shared")
    return Space::Shared;
  if (directive == ".local")
    return Space::Local;
  if (directive == ".param")
    return Space::Parameter;
  return std::nullopt;
}

class ModuleParser {
public:
  ModuleParser(ModuleSyntax &module)
      : module(module), cursor(tokenize(module.source)) {}

  void run() {
    while (!cursor.atEnd())
      parseTopLevel();
    if (!module.version || !module.target)
      cursor.reject(".version and .target");
  }

private:
  void parseTopLevel();
  void parseVersion();
  void parseTarget();
  void skipSection();

  void parseFunction(bool isEntry);
  void parseDirectives(FunctionSyntax &function);
  std::vector<VariableSyntax> parseParameters();
  Dimensions parseDimensions();

  void parseBody(FunctionSyntax &function);
  void parseBodyItem(std::vector<BodyItem> &body);
  void parseRegisters(std::vector<BodyItem> &body);
  void parseBranchTargets(std::vector<BodyItem> &body, std::string_view name);

  /// From its alignment on.
  VariableSyntax parseVariable(Space space, bool isExtern);
  void parseInitializer(VariableSyntax &variable);
  InitialValue parseInitialValue();

  ModuleSyntax &module;
  TokenCursor cursor;
};

void ModuleParser::parseTopLevel() {
  bool isExtern = false;
  while (cursor.is(".visible") || cursor.is(".extern") || cursor.is(".weak") ||
         cursor.is(".common"))
    isExtern |= cursor.take().is(".extern");
  std::string_view directive = cursor.peek().text;
  if (auto space = parseSpace(directive)) {
    cursor.take();
    module.variables.push_back(parseVariable(*space, isExtern));
    cursor.expect(";");
  } else if (directive == ".entry" || directive == ".func") {
    parseFunction(cursor.take().is(".entry"));
  } else if (directive == ".version") {
    parseVersion();
  } else if (directive == ".target") {
    parseTarget();
  } else if (directive == ".address_size") {
    cursor.take();
    if (!cursor.takeIf("64"))
      cursor.reject("64");
  } else if (directive == ".file" || directive == ".loc") {
    cursor.skipLine();
  } else if (directive == ".section") {
    skipSection();
  } else {
    cursor.reject("a directive that the emulator models");
  }
}

void ModuleParser::parseVersion() {
  cursor.take();
  Token token = cursor.take();
  const char *end = token.text.data() + token.text.size();
  unsigned major = 0, minor = 0;
  auto first = std::from_chars(token.text.data(), end, major);
  if (first.ptr != end && *first.ptr == '.')
    std::from_chars(first.ptr + 1, end, minor);
  module.version = major * 10 + minor;
}

void ModuleParser::parseTarget() {
  cursor.take();
  std::string_view name = cursor.expectName("a target");
  if (name.substr(0, 3) != "sm_")
    throw LoadError(cursor.peek().line,
                    "expected a target sm_.., got '" + std::string(name) + "'");
  for (char c : name.substr(3)) {
    if (c >= '0' && c <= '9')
      module.target = module.target * 10 + (c - '0');
    else
      module.targetSuffix = c;
  }
  while (cursor.takeIf(","))
    if (!cursor.takeIf("debug") && !cursor.takeIf("texmode_independent"))
      cursor.reject("a target's option that the emulator models");
}

/// Of DWARF.
void ModuleParser::skipSection() {
  cursor.skipLine();
  if (!cursor.takeIf("{"))
    return;
  while (!cursor.atEnd() && !cursor.is("}"))
    cursor.take();
  cursor.expect("}");
}

void ModuleParser::parseFunction(bool isEntry) {
  FunctionSyntax function;
  function.line = cursor.peek().line;
  function.isEntry = isEntry;
  if (!isEntry && cursor.is("("))
    function.results = parseParameters();
  function.name = cursor.expectName("a function's name");
  if (cursor.is("("))
    function.parameters = parseParameters();
  parseDirectives(function);
  if (!cursor.takeIf(";"))
    parseBody(function);
  FunctionSyntax &known = module.functions[function.name];
  if (known.isDefined && function.isDefined)
    throw LoadError(function.line, "expected one definition of '" +
                                       std::string(function.name) +
                                       "', got another");
  if (!known.isDefined)
    known = std::move(function);
}

std::vector<VariableSyntax> ModuleParser::parseParameters() {
  std::vector<VariableSyntax> parameters;
  cursor.expect("(");
  while (!cursor.is(")")) {
    cursor.expect(".param");
    parameters.push_back(parseVariable(Space::Parameter, false));
    if (!cursor.is(")"))
      cursor.expect(",");
  }
  cursor.expect(")");
  return parameters;
}

Dimensions ModuleParser::parseDimensions() {
  Dimensions dimensions = {1, 1, 1};
  for (uint32_t &size : dimensions) {
    size = static_cast<uint32_t>(cursor.expectInteger("a number of threads"));
    if (!cursor.takeIf(","))
      break;
  }
  return dimensions;
}

void ModuleParser::parseDirectives(FunctionSyntax &function) {
  while (!cursor.is("{") && !cursor.is(";")) {
    if (cursor.takeIf(".maxntid")) {
      function.maxThreads = parseDimensions();
    } else if (cursor.takeIf(".reqntid")) {
      function.requiredThreads = parseDimensions();
    } else if (cursor.takeIf(".minnctapersm") || cursor.takeIf(".maxnreg") ||
               cursor.takeIf(".maxnctapersm")) {
      // These bound registers, which the emulator does not count.
      cursor.expectInteger("a number");
    } else if (!cursor.takeIf(".noreturn")) {
      cursor.reject("a directive that the emulator models");
    }
  }
}

void ModuleParser::parseBody(FunctionSyntax &function) {
  function.isDefined = true;
  cursor.expect("{");
  for (unsigned depth = 1;;) {
    if (cursor.atEnd())
      cursor.reject("'}'");
    if (cursor.takeIf("{")) {
      ++depth;
      function.body.push_back(ScopeSyntax{true});
    } else if (cursor.takeIf("}")) {
      if (--depth == 0)
        return;
      function.body.push_back(ScopeSyntax{false});
    } else {
      parseBodyItem(function.body);
    }
  }
}

void ModuleParser::parseBodyItem(std::vector<BodyItem> &body) {
  std::string_view text = cursor.peek().text;
  int line = cursor.peek().line;
  if (text == ".reg") {
    parseRegisters(body);
  } else if (auto space = parseSpace(text)) {
    cursor.take();
    body.push_back(parseVariable(*space, false));
    cursor.expect(";");
  } else if (text == ".pragma") {
    // They tell the assembler how much to unroll.
    cursor.take();
    if (cursor.take().kind != Token::Kind::String)
      cursor.reject("a pragma's text");
    cursor.expect(";");
  } else if (text == ".loc" || text == ".file") {
    cursor.skipLine();
  } else if (cursor.peek(1).is(":")) {
    std::string_view name = cursor.expectName("a label");
    cursor.expect(":");
    if (cursor.is(".branchtargets"))
      parseBranchTargets(body, name);
    else
      body.push_back(LabelSyntax{line, name});
  } else {
    body.push_back(parseInstruction(cursor));
  }
}

void ModuleParser::parseRegisters(std::vector<BodyItem> &body) {
  cursor.expect(".reg");
  RegisterSyntax registers;
  registers.line = cursor.peek().line;
  registers.type = cursor.expectType();
  do {
    registers.name = cursor.expectName("a register");
    registers.count = 0;
    if (cursor.takeIf("<")) {
      registers.count =
          static_cast<unsigned>(cursor.expectInteger("a number of registers"));
      cursor.expect(">");
    }
    body.push_back(registers);
  } while (cursor.takeIf(","));
  cursor.expect(";");
}

void ModuleParser::parseBranchTargets(std::vector<BodyItem> &body,
                                      std::string_view name) {
  BranchTargetsSyntax targets;
  targets.line = cursor.peek().line;
  targets.name = name;
  cursor.expect(".branchtargets");
  do
    targets.labels.push_back(cursor.expectName("a label"));
  while (cursor.takeIf(","));
  cursor.expect(";");
  body.push_back(std::move(targets));
}

VariableSyntax ModuleParser::parseVariable(Space space, bool isExtern) {
  VariableSyntax variable;
  variable.space = space;
  variable.isExtern = isExtern;
  auto parseAlignment = [&](unsigned &alignment) {
    if (cursor.takeIf(".align"))
      alignment = static_cast<unsigned>(cursor.expectInteger("an alignment"));
  };
  parseAlignment(variable.alignment);
  variable.type = cursor.expectType();
  // What a parameter points to: `.ptr .global .align 16`.
  if (cursor.takeIf(".ptr")) {
    unsigned ofPointee = 0;
    if (parseSpace(cursor.peek().text))
      cursor.take();
    parseAlignment(ofPointee);
  }
  parseAlignment(variable.alignment);
  variable.line = cursor.peek().line;
  variable.name = cursor.expectName("a variable's name");
  while (cursor.takeIf("[")) {
    if (cursor.takeIf("]")) {
      variable.isOpen = true;
      continue;
    }
    variable.elements *= cursor.expectInteger("a number of elements");
    cursor.expect("]");
  }
  if (variable.isOpen)
    variable.elements = 0;
  if (cursor.takeIf("="))
    parseInitializer(variable);
  return variable;
}

void ModuleParser::parseInitializer(VariableSyntax &variable) {
  if (!cursor.takeIf("{")) {
    variable.initial.push_back(parseInitialValue());
    return;
  }
  while (!cursor.is("}")) {
    variable.initial.push_back(parseInitialValue());
    if (!cursor.is("}"))
      cursor.expect(",");
  }
  cursor.expect("}");
  if (variable.isOpen) {
    variable.elements = variable.initial.size();
    variable.isOpen = false;
  }
  if (variable.initial.size() > variable.elements)
    throw LoadError(variable.line, "expected at most " +
                                       std::to_string(variable.elements) +
                                       " values, got " +
                                       std::to_string(variable.initial.size()));
}

InitialValue ModuleParser::parseInitialValue() {
  InitialValue initial;
  bool isMinus = cursor.takeIf("-");
  if (cursor.peek().isNumber()) {
    initial.value = cursor.take().value;
    if (isMinus)
      initial.value = 0 - initial.value;
    return initial;
  }
  initial.isGeneric = cursor.is("generic");
  if (initial.isGeneric) {
    cursor.take();
    cursor.expect("(");
  }
  initial.symbol = cursor.expectName("a value");
  if (initial.isGeneric)
    cursor.expect(")");
  if (cursor.takeIf("+"))
    initial.value = cursor.expectInteger("an offset in bytes");
  return initial;
}

} // namespace

std::unique_ptr<ModuleSyntax> parseModule(std::string source) {
  auto module = std::make_unique<ModuleSyntax>();
  module->source = std::move(source);
  module->lines.push_back(0);
  for (size_t i = 0; i < module->source.size(); ++i)
    if (module->source[i] == '\n')
      module->lines.push_back(i + 1);
  ModuleParser(*module).run();
  return module;
}

} // namespace fsdp::emulator
