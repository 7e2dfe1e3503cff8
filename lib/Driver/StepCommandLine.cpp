//===- StepCommandLine.cpp - Options that tools share ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Driver/StepCommandLine.h"
#include "fsdp/Driver/OptionValues.h"
#include "fsdp/Driver/WrapChoice.h"
#include "fsdp/Tool/PrintableText.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/WithColor.h"

using namespace mlir::fsdp;
namespace cl = llvm::cl;

StepCommandLine::StepCommandLine(cl::OptionCategory &category)
    : input(cl::Positional, cl::Required, cl::desc("<model.mlir[.gz]>"),
            cl::cat(category)),
      optimizerFile("optimizer-file", cl::desc("File with @optimizer"),
                    cl::value_desc("optimizer.mlir"), cl::cat(category)),
      optimizer("optimizer",
                cl::desc("adamw:lr=..,beta1=..,beta2=..,eps=..,weight_decay=.. "
                         "or sgd:lr=..,momentum=..,weight_decay=.. (default: "
                         "the step's own, else adamw)"),
                cl::cat(category)),
      mesh("mesh", cl::init("shard=1"),
           cl::desc("shard=N or shard=N,replicate=M"), cl::cat(category)),
      strategy("strategy", cl::init("auto"),
               cl::desc("full_shard | shard_grad_op | no_shard | hybrid_shard "
                        "| hybrid_shard_zero2 (default: full_shard, or "
                        "hybrid_shard where the mesh has a replicate axis)"),
               cl::cat(category)),
      wrap("wrap", cl::init("blocks"),
           cl::desc("module:CLASS[,CLASS..] | size:N | blocks | pieces | none "
                    "| auto"),
           cl::cat(category)),
      ignore("ignore", cl::value_desc("pattern"),
             cl::desc("Parameters that are left whole, gradients not reduced: "
                      "names, or globs such as *.bias"),
             cl::cat(category)),
      replicate("replicate", cl::value_desc("pattern"),
                cl::desc("Parameters that are left whole, gradients averaged: "
                         "names, or globs such as *.bias"),
                cl::cat(category)),
      paramDtype("param-dtype",
                 cl::desc("Gather parameters, and compute products, in f32, "
                          "bf16, .."),
                 cl::cat(category)),
      reduceDtype("reduce-dtype", cl::desc("Reduce gradients in f32, bf16, .."),
                  cl::cat(category)),
      bufferDtype("buffer-dtype",
                  cl::desc("Read buffers of wider floats in f32, bf16, .."),
                  cl::cat(category)),
      outputDtype("output-dtype",
                  cl::desc("What evaluations return, in f32, bf16, .."),
                  cl::cat(category)),
      reshardAfterForward(
          "reshard-after-forward", cl::init("auto"),
          cl::desc("auto | true | false (gathered parameters stay for "
                   "backward)"),
          cl::cat(category)),
      recompute("recompute", cl::init("auto"),
                cl::desc("auto | none | full: what backward computes again"),
                cl::cat(category)),
      offload("offload", cl::init("auto"),
              cl::desc("auto | none | full: activations that are in the host's "
                       "memory between forward and backward"),
              cl::cat(category)),
      bucket("bucket", cl::init("auto"),
             cl::desc("auto | none: transfers that are issued together"),
             cl::cat(category)),
      offloadOptimizer(
          "offload-optimizer",
          cl::desc(
              "Optimizer states with an element per element of a parameter "
              "are in the host's memory between updates"),
          cl::cat(category)),
      evalFullPrecision(
          "eval-full-precision",
          cl::desc("Evaluations gather and compute as if --param-dtype were "
                   "not given"),
          cl::cat(category)),
      clip("clip-norm",
           cl::desc("Compile in gradient clipping (the executable's "
                    "--clip-norm gives the norm)"),
           cl::cat(category)),
      skipNonfinite(
          "skip-nonfinite",
          cl::desc("A step whose gradient norm is not finite updates nothing"),
          cl::cat(category)),
      attention(
          "attention", cl::init(AttentionMode::Fused),
          cl::desc("Attention as one kernel, or op by op as traced:"),
          cl::values(
              clEnumValN(AttentionMode::Fused, "fused", "one kernel (default)"),
              clEnumValN(AttentionMode::Decomposed, "decomposed", "op by op")),
          cl::cat(category)),
      accumulateIn(
          "accumulate-in", cl::init(AccumulateIn::None),
          cl::desc("Compile in gradient accumulation (the executable's "
                   "--accumulate gives the number of micro-batches), with "
                   "accumulators that hold:"),
          cl::values(
              clEnumValN(AccumulateIn::Shard, "shard",
                         "a rank's piece, reduced after each micro-batch"),
              clEnumValN(AccumulateIn::Whole, "whole",
                         "a rank's whole gradient, reduced after the last one"),
              clEnumValN(AccumulateIn::Auto, "auto",
                         "whichever is faster within the memory (needs "
                         "--cluster)")),
          cl::cat(category)),
      timing("timing", cl::desc("Say how long each part takes"),
             cl::cat(category)),
      inputLimit("input-limit", cl::value_desc("4GiB"), cl::init("1GiB"),
                 cl::desc("Most bytes of a file that holds a step, once it is "
                          "decompressed (default: 1GiB)"),
                 cl::cat(category)) {}

llvm::Expected<int64_t>
mlir::fsdp::parseInputLimit(const cl::opt<std::string> &option) {
  auto bytes = parseBytes(option);
  if (!bytes)
    return llvm::createStringError("--input-limit: " +
                                   llvm::toString(bytes.takeError()));
  return bytes;
}

void StepCommandLine::fill(StepOptions &options) const {
  options.input = input;
  options.optimizerFile = optimizerFile;
  options.optimizer = optimizer;
  options.mesh = mesh;
  options.strategy = strategy;
  options.wrap = wrap;
  options.ignore.assign(ignore.begin(), ignore.end());
  options.replicate.assign(replicate.begin(), replicate.end());
  options.paramDtype = paramDtype;
  options.reduceDtype = reduceDtype;
  options.bufferDtype = bufferDtype;
  options.outputDtype = outputDtype;
  options.reshardAfterForward = reshardAfterForward;
  options.recompute = recompute;
  options.offload = offload;
  options.bucket = bucket;
  options.offloadOptimizer = offloadOptimizer;
  options.evalFullPrecision = evalFullPrecision;
  options.clip = clip;
  options.skipNonfinite = skipNonfinite;
  options.attention = attention;
  options.accumulateIn = accumulateIn;
  options.timing = timing;
  options.inputLimit = llvm::cantFail(parseInputLimit(inputLimit));
}

/// As it is typed.
static std::string getFlag(const cl::Option &option) {
  return (option.ArgStr.size() == 1 ? "-" : "--") + option.ArgStr.str();
}

/// The first of them would be ignored.
static llvm::Error expectOnce(const cl::Option &option) {
  bool isList = option.getNumOccurrencesFlag() == cl::ZeroOrMore ||
                option.getNumOccurrencesFlag() == cl::OneOrMore;
  int count = option.getNumOccurrences();
  if (isList || count < 2)
    return llvm::Error::success();
  return llvm::createStringError(
      "expected " + getFlag(option) + " once, got it " +
      (count == 2 ? "twice" : std::to_string(count) + " times"));
}

llvm::Error StepCommandLine::check() const {
  // The one that was given first, whatever their order in the map.
  SmallVector<const cl::Option *> given;
  for (const auto &entry : cl::getRegisteredOptions())
    given.push_back(entry.second);
  llvm::sort(given, [](const cl::Option *a, const cl::Option *b) {
    return a->getPosition() < b->getPosition();
  });
  for (const cl::Option *option : given)
    if (llvm::Error error = expectOnce(*option))
      return error;
  if (auto limit = parseInputLimit(inputLimit); !limit)
    return limit.takeError();
  return expectTexts({&optimizerFile, &optimizer, &mesh, &strategy, &wrap,
                      &paramDtype, &reduceDtype, &bufferDtype, &outputDtype,
                      &reshardAfterForward, &recompute, &offload, &bucket});
}

std::string mlir::fsdp::getToolDir(const char *argv0, void *address) {
  std::string path = llvm::sys::fs::getMainExecutable(argv0, address);
  return llvm::sys::path::parent_path(path).str();
}

/// "exe, so or llvm".
static std::string joinOr(llvm::ArrayRef<llvm::StringRef> words) {
  std::string last = words.back().str();
  if (words.size() == 1)
    return last;
  return llvm::join(words.drop_back(), ", ") + " or " + last;
}

llvm::Error mlir::fsdp::expectOneOf(const cl::opt<std::string> &option,
                                    llvm::ArrayRef<llvm::StringRef> values) {
  if (llvm::is_contained(values, option.getValue()))
    return llvm::Error::success();
  return llvm::createStringError("expected --" + option.ArgStr + " " +
                                 joinOr(values) + ", got '" + option + "'");
}

llvm::Error
mlir::fsdp::expectTexts(llvm::ArrayRef<const cl::opt<std::string> *> texts) {
  for (const cl::opt<std::string> *text : texts)
    if (text->getNumOccurrences() && text->empty())
      return llvm::createStringError("expected a value of " + getFlag(*text) +
                                     ", got an empty one");
  return llvm::Error::success();
}

static bool holds(const OptionRule &rule) {
  if (rule.isExcluded)
    return rule.value.empty();
  return rule.values.empty() ? !rule.value.empty()
                             : llvm::is_contained(rule.values, rule.value);
}

/// @option was given, but @rule does not hold for it.
static llvm::Error refuse(llvm::StringRef option, const OptionRule &rule) {
  std::string expected = rule.other.str(), got = rule.value.str();
  if (rule.isExcluded) {
    expected = "no " + expected;
    got = "one";
  } else if (!rule.values.empty()) {
    expected += " " + joinOr(rule.values);
  }
  return llvm::createStringError(
      "expected " + expected + " beside --" + option + ", got " +
      (got.empty() ? "none" : got) + ": " + rule.reason);
}

llvm::Error mlir::fsdp::checkRules(llvm::ArrayRef<OptionRule> rules) {
  for (const OptionRule &rule : rules)
    if (rule.option->getNumOccurrences() && !holds(rule))
      return refuse(rule.option->ArgStr, rule);
  return llvm::Error::success();
}

OptionRule
StepCommandLine::getProfileRule(const llvm::cl::Option &profile) const {
  return {&profile,
          "--wrap auto",
          wrap == kChosenWrap ? "one" : "",
          {},
          "a profile is of one program",
          true};
}

llvm::Error mlir::fsdp::checkTogether(const StepOptions &options) {
  OptionRule rule{nullptr,
                  "--strategy",
                  options.strategy,
                  {"auto", "full_shard", "hybrid_shard"},
                  "the others keep parameters gathered for backward"};
  if (options.reshardAfterForward == "true" && !holds(rule))
    return refuse("reshard-after-forward", rule);
  OptionRule precision{nullptr,
                       "--param-dtype",
                       options.paramDtype,
                       {},
                       "without it, all is computed as it was traced"};
  if (options.evalFullPrecision && !holds(precision))
    return refuse("eval-full-precision", precision);
  return llvm::Error::success();
}

llvm::Error mlir::fsdp::expectApart(llvm::ArrayRef<NamedFile> outputs,
                                    const StepOptions &step,
                                    llvm::StringRef cluster,
                                    llvm::StringRef profile) {
  return expectApart(outputs, {{"the input", step.input},
                               {"--optimizer-file", step.optimizerFile},
                               {"--cluster", cluster},
                               {"--profile", profile}});
}

int mlir::fsdp::reportError(const llvm::Twine &message) {
  llvm::WithColor::error() << makePrintable(message.str()) << "\n";
  return 1;
}

int mlir::fsdp::reportError(llvm::Error error) {
  llvm::handleAllErrors(
      std::move(error), [](const ReportedError &) {},
      [](const llvm::ErrorInfoBase &other) { reportError(other.message()); });
  return 1;
}
