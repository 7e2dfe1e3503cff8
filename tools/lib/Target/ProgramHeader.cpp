//===- ProgramHeader.cpp - The C header of a shared library ---------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Target/ProgramHeader.h"

#include "fsdp/Analysis/Contract/InputContract.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"

using namespace mlir::fsdp;
using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::StringRef;
namespace json = llvm::json;

static constexpr llvm::StringLiteral kEntry = "fsdp_rt_artifact_entry";

/// Letters, digits and '_', one of which is not a digit in front.
static std::string toIdentifier(StringRef name) {
  std::string result;
  for (char c : name)
    result += llvm::isAlnum(c) ? llvm::toLower(c) : '_';
  if (result.empty() || llvm::isDigit(result.front()))
    result.insert(0, "step_");
  return result;
}

/// Text that may stand in a C comment and in one line of it.
static std::string toComment(StringRef text) {
  std::string result;
  for (char c : text) {
    if (!result.empty() && ((result.back() == '*' && c == '/') ||
                            (result.back() == '/' && c == '*')))
      result += ' ';
    result += llvm::isPrint(c) ? c : '?';
  }
  // A backslash at a line's end would join it with the next one.
  if (!result.empty() && result.back() == '\\')
    result += '.';
  return result;
}

static std::string toLiteral(StringRef text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\' || c == '?') // "??" may begin a trigraph
      (result += '\\') += c;
    else if (llvm::isPrint(c))
      result += c;
    else // three digits: more cannot be taken for part of it
      result += llvm::formatv("\\{0}{1}{2}", (c >> 6) & 3, (c >> 3) & 7, c & 7);
  }
  return result + "\"";
}

std::string mlir::fsdp::getProgramPrefix(StringRef library) {
  StringRef stem = llvm::sys::path::stem(library);
  stem.consume_front("lib");
  return toIdentifier(stem);
}

llvm::Expected<std::string>
mlir::fsdp::getProgramHeaderPath(StringRef library) {
  llvm::SmallString<256> path(library);
  llvm::sys::path::replace_extension(path, "h");
  if (path == library)
    return llvm::createStringError(
        llvm::inconvertibleErrorCode(),
        "expected the name of a library, such as libstep.so, beside which its "
        "header is written, got " +
            library);
  return path.str().str();
}

void mlir::fsdp::addProgramFunction(llvm::Module &module, StringRef prefix) {
  llvm::GlobalVariable *entry = module.getNamedGlobal(kEntry);
  assert(entry && "a program without an entry");
  for (llvm::GlobalValue &value : module.global_values())
    if (!value.isDeclaration() && !value.hasLocalLinkage() && &value != entry)
      value.setVisibility(llvm::GlobalValue::HiddenVisibility);
  llvm::LLVMContext &context = module.getContext();
  auto *function = llvm::Function::Create(
      llvm::FunctionType::get(llvm::PointerType::getUnqual(context), false),
      llvm::GlobalValue::ExternalLinkage, prefix + "_artifact", module);
  llvm::IRBuilder<> builder(
      llvm::BasicBlock::Create(context, /*Name=*/"", function));
  builder.CreateRet(entry);
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

namespace {
/// How C spells an element type of the manifest.
struct ElementType {
  StringRef dtype, c;
  int64_t size;
};

class HeaderWriter {
public:
  HeaderWriter(StringRef library, const json::Object &manifest)
      : file(llvm::sys::path::filename(library)),
        prefix(getProgramPrefix(library)), upper(StringRef(prefix).upper()),
        manifest(manifest), os(text) {}

  std::string write();

private:
  void writeTitle();
  void writeExample();
  void writePrograms();
  void writeInputs(const json::Object &program, const std::string &kind);
  void writeOutputs(const json::Object &program, const std::string &kind);
  void writeScalars();
  void writeScalar(const json::Object &scalar, ArrayRef<StringRef> owners);
  void writeParameters();

  /// A macro's name that no other has.
  std::string getMacro(StringRef kind, StringRef name);
  int64_t getRanks();

  StringRef file;
  std::string prefix, upper;
  const json::Object &manifest;
  llvm::StringSet<> macros;
  std::string text;
  llvm::raw_string_ostream os;
};
} // namespace

static ElementType getElementType(StringRef dtype) {
  static const ElementType types[] = {
      {"F32", "float", 4},     {"F64", "double", 8},  {"F16", "uint16_t", 2},
      {"BF16", "uint16_t", 2}, {"I64", "int64_t", 8}, {"I32", "int32_t", 4},
      {"I16", "int16_t", 2},   {"I8", "int8_t", 1},   {"U8", "uint8_t", 1},
      {"BOOL", "uint8_t", 1},
  };
  const auto *type =
      llvm::find_if(types, [&](auto &type) { return type.dtype == dtype; });
  assert(type != std::end(types) && "not a dtype of the manifest");
  return *type;
}

static StringRef getString(const json::Object &object, StringRef key) {
  return *object.getString(key);
}

/// `F32 [4, 64]`.
static std::string describeTensor(const json::Object &tensor, StringRef dtype) {
  std::string result = (dtype + " [").str();
  llvm::raw_string_ostream os(result);
  llvm::interleaveComma(
      *tensor.getArray("shape"), os,
      [&](const json::Value &extent) { os << *extent.getAsInteger(); });
  os << "]";
  return result;
}

static int64_t getBytes(const json::Object &tensor) {
  int64_t bytes = getElementType(getString(tensor, "dtype")).size;
  for (const json::Value &extent : *tensor.getArray("shape"))
    bytes *= *extent.getAsInteger();
  return bytes;
}

std::string HeaderWriter::getMacro(StringRef kind, StringRef name) {
  std::string base =
      upper + "_" + kind.str() + "_" + StringRef(toIdentifier(name)).upper();
  std::string macro = base;
  for (int i = 2; !macros.insert(macro).second; ++i)
    macro = base + "_" + std::to_string(i);
  return macro;
}

int64_t HeaderWriter::getRanks() {
  int64_t ranks = 1;
  for (const json::Value &axis : *manifest.getArray("mesh"))
    ranks *= *axis.getAsObject()->getInteger("size");
  return ranks;
}

void HeaderWriter::writeTitle() {
  std::string title = toComment(getString(manifest, "name"));
  os << "/* " << toComment(file) << ": the training step '" << title
     << "', compiled by fsdp-compile, which also wrote this file.\n *\n"
     << " *   mesh         ";
  llvm::interleaveComma(
      *manifest.getArray("mesh"), os, [&](const json::Value &axis) {
        os << toComment(getString(*axis.getAsObject(), "axis")) << "="
           << *axis.getAsObject()->getInteger("size");
      });
  os << " (" << getRanks() << (getRanks() == 1 ? " rank" : " ranks") << ")\n"
     << " *   strategy     " << toComment(getString(manifest, "strategy"))
     << ", wrap " << toComment(getString(manifest, "wrap")) << "\n"
     << " *   memory       "
     << *manifest.getObject("arena")->getInteger("bytes") << " bytes per rank\n"
     << " *   processor    "
     << toComment(
            getString(*(*manifest.getArray("targets"))[0].getAsObject(), "cpu"))
     << "\n"
     << " *   fingerprint  " << getString(manifest, "fingerprint") << "\n";
}

void HeaderWriter::writeExample() {
  os << " *\n"
     << " * Use, with the functions of fsdp-rt/fsdp-rt.h:\n *\n"
     << " *   fsdp_session *s;\n"
     << " *   if (fsdp_create(" << prefix
     << "_artifact(), NULL, &s) != FSDP_OK)\n"
     << " *     return fail(fsdp_last_error(NULL));\n"
     << " *   fsdp_init_from_seed(s, 0);\n"
     << " *   for (int step = 0; step < steps; ++step) {\n"
     << " *     for (int rank = 0; rank < " << upper << "_RANKS; ++rank) {\n"
     << " *       // fsdp_set_input(s, NULL, rank, NAME, data, BYTES) for each "
        "input "
        "below\n"
     << " *     }\n"
     << " *     fsdp_step(s, learning_rate);\n"
     << " *     fsdp_results(s, &loss, &grad_norm);\n"
     << " *   }\n"
     << " *   fsdp_destroy(s);\n *\n"
     << " * Build: cc main.c " << toComment(file)
     << " $(pkg-config --cflags --libs fsdp-rt)\n"
     << " * The library finds the runtime, libfsdp-rt.so, beside itself or "
        "where it was\n * when the step was compiled.\n */\n";
}

/// The first program, which trains, and under their names those that functions
/// want to know by name.
void HeaderWriter::writePrograms() {
  for (const json::Value &value : *manifest.getArray("programs")) {
    const json::Object &program = *value.getAsObject();
    StringRef name = getString(program, "name");
    std::string kind;
    if (&value != &manifest.getArray("programs")->front()) {
      kind = StringRef(toIdentifier(name)).upper() + "_";
      os << "/* The program " << toComment(name)
         << ": its name for fsdp_run and others. */\n#define "
         << getMacro("PROGRAM", name) << " " << toLiteral(name) << "\n\n";
    }
    writeInputs(program, kind);
    if (kind.empty())
      writeScalars();
    else
      writeOutputs(program, kind);
  }
}

void HeaderWriter::writeOutputs(const json::Object &program,
                                const std::string &kind) {
  os << "/* Outputs of one rank: names and bytes for fsdp_read_output. "
        "Row-major. */\n";
  for (const json::Value &value : *program.getArray("outputs")) {
    const json::Object &output = *value.getAsObject();
    StringRef name = getString(output, "name"),
              dtype = getString(output, "dtype");
    os << "#define " << getMacro(kind + "OUTPUT", name) << " "
       << toLiteral(name) << " /* " << getElementType(dtype).c << ", "
       << describeTensor(output, dtype) << " */\n#define "
       << getMacro(kind + "BYTES", name) << " " << getBytes(output) << "\n";
  }
  os << "\n";
}

void HeaderWriter::writeInputs(const json::Object &program,
                               const std::string &kind) {
  os << "/* Inputs of one rank: names and bytes for fsdp_set_input. "
        "Row-major. */\n";
  for (const json::Value &value : *program.getArray("inputs")) {
    const json::Object &input = *value.getAsObject();
    StringRef name = getString(input, "name"),
              dtype = getString(input, "dtype");
    ElementType type = getElementType(dtype);
    os << "#define " << getMacro(kind + "INPUT", name) << " " << toLiteral(name)
       << " /* " << type.c << ", " << describeTensor(input, dtype);
    auto low = input.getInteger("low"), high = input.getInteger("high");
    if (low || high) {
      os << ", ";
      if (low)
        os << *low << " <= ";
      os << "value";
      if (high)
        os << " < " << *high;
      if (const json::Array *allowed = input.getArray("allowed"))
        for (const json::Value &value : *allowed)
          os << ", or " << value;
    }
    os << " */\n#define " << getMacro(kind + "BYTES", name) << " "
       << getBytes(input) << "\n";
  }
  os << "\n";
}

/// Each name once: fsdp_set_scalar sets it in all programs that have it.
void HeaderWriter::writeScalars() {
  os << "/* Scalars, for fsdp_set_scalar; fsdp_step sets \"lr\". */\n";
  llvm::MapVector<StringRef, SmallVector<StringRef>> owners;
  llvm::StringMap<const json::Object *> entries;
  for (const json::Value &value : *manifest.getArray("programs")) {
    const json::Object &program = *value.getAsObject();
    for (const json::Value &entry : *program.getArray("scalars")) {
      StringRef name = getString(*entry.getAsObject(), "name");
      owners[name].push_back(getString(program, "name"));
      entries.try_emplace(name, entry.getAsObject());
    }
  }
  for (auto &[name, programs] : owners)
    if (const scalars::Traits *known = scalars::find(name);
        !known || known->setter != scalars::Setter::Runtime)
      writeScalar(*entries.lookup(name), programs);
  os << "\n";
}

/// @owners are the programs that have it.
void HeaderWriter::writeScalar(const json::Object &scalar,
                               ArrayRef<StringRef> owners) {
  StringRef name = getString(scalar, "name");
  os << "#define " << getMacro("SCALAR", name) << " " << toLiteral(name)
     << " /* " << getString(scalar, "dtype");
  const scalars::Traits *known = scalars::find(name);
  if (known && known->setter == scalars::Setter::Caller)
    os << ", " << known->meaning << " unless set for a step";
  else if (auto init = scalar.getNumber("default"))
    os << ", " << json::Value(*init) << " unless set";
  else if (known && known->omitted == scalars::infinity)
    os << ", infinity unless set";
  else
    os << ", must be set";
  if (owners.size() < manifest.getArray("programs")->size()) {
    os << "; of ";
    llvm::interleaveComma(owners, os,
                          [&](StringRef owner) { os << toComment(owner); });
  }
  os << " */\n";
}

void HeaderWriter::writeParameters() {
  os << "/* Parameters and buffers, for fsdp_read_parameter and "
        "fsdp_write_parameter:\n *\n";
  for (const json::Value &value : *manifest.getArray("flat_params")) {
    const json::Object &flat = *value.getAsObject();
    for (const json::Value &member : *flat.getArray("members")) {
      const json::Object &param = *member.getAsObject();
      os << " *   " << toComment(getString(param, "fqn")) << "  "
         << describeTensor(param, getString(flat, "dtype"))
         << (*flat.getBoolean("trainable") ? "" : ", frozen") << "\n";
    }
  }
  for (const json::Value &value : *manifest.getArray("buffers")) {
    const json::Object &buffer = *value.getAsObject();
    os << " *   " << toComment(getString(buffer, "fqn")) << "  "
       << describeTensor(buffer, getString(buffer, "dtype")) << ", buffer\n";
  }
  os << " */\n\n";
}

std::string HeaderWriter::write() {
  writeTitle();
  writeExample();
  std::string guard = "FSDP_PROGRAM_" + upper + "_H";
  os << "\n#ifndef " << guard << "\n#define " << guard << "\n\n"
     << "#include \"fsdp-rt/fsdp-rt.h\"\n\n"
     << "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n"
     << "/* The programs, for fsdp_create. Live as long as the library is "
        "loaded. */\n"
     << "const fsdp_rt_artifact *" << prefix << "_artifact(void);\n\n"
     << "#define " << upper << "_RANKS " << getRanks() << "\n"
     << "#define " << upper << "_FINGERPRINT "
     << toLiteral(getString(manifest, "fingerprint")) << "\n\n";
  writePrograms();
  writeParameters();
  os << "#ifdef __cplusplus\n}\n#endif\n\n#endif /* " << guard << " */\n";
  return std::move(text);
}

std::string mlir::fsdp::createProgramHeader(StringRef library,
                                            StringRef manifest) {
  // createManifest wrote it: what it holds is known.
  llvm::Expected<json::Value> value = json::parse(manifest);
  if (!value)
    llvm::report_fatal_error(value.takeError());
  return HeaderWriter(library, *value->getAsObject()).write();
}
