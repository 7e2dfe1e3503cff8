//===- StepCommandLine.cpp - Options that tools share ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Driver/StepCommandLine.h"
#include "fsdp/Driver/OptionValues.h"
#include "fsdp/Driver/WrapChoice.h"
#include "fsdp/Support/PrintableText.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/WithColor.h"

using namespace mlir::fsdp;
namespace cl = llvm::cl;

StepCommandLine::StepCommandLine(cl::OptionCategory &category,
                                 llvm::ArrayRef<llvm::StringRef> without)
    : input(cl::Positional, cl::Required, cl::desc("<model.mlir[.gz]>"),
            cl::cat(category)),
      optimizerFile("optimizer-file", cl::desc("File with @optimizer"),
                    cl::value_desc("optimizer.mlir"), cl::cat(category)),
      memoryBudget("memory-budget", cl::value_desc("24GiB"),
                   cl::desc("What a rank may use (default: what the cluster's "
                            "device has)"),
                   cl::cat(category)),
      dialectPlugins("load-dialect-plugin", cl::value_desc("library"),
                     cl::desc("Library with dialects, or hooks for "
                              "--reduction-hook"),
                     cl::cat(category)),
      timing("timing", cl::desc("Say how long each part takes"),
             cl::cat(category)),
      inputLimit("input-limit", cl::value_desc("4GiB"), cl::init("1GiB"),
                 cl::desc("Most bytes of a file that holds a step, once it is "
                          "decompressed (default: 1GiB)"),
                 cl::cat(category)) {
  for (ListedOption *listed : values.getListed()) {
    cl::Option &option = listed->get();
    if (llvm::is_contained(without, option.ArgStr))
      continue;
    // Until here it was registered for the texts of its pipeline alone.
    option.removeArgument();
    option.addSubCommand(cl::SubCommand::getTopLevel());
    option.addCategory(category);
    option.addArgument();
  }
}

llvm::Expected<int64_t>
mlir::fsdp::parseInputLimit(const cl::opt<std::string> &option) {
  auto bytes = parseBytes(option);
  if (!bytes)
    return llvm::createStringError("--input-limit: " +
                                   llvm::toString(bytes.takeError()));
  return bytes;
}

void StepCommandLine::fill(StepOptions &options) const {
  options = values;
  options.input = input;
  options.optimizerFile = optimizerFile;
  options.memoryBudget = memoryBudget;
  llvm::append_range(options.dialectPlugins, dialectPlugins);
  options.timing = timing;
  options.inputLimit = llvm::cantFail(parseInputLimit(inputLimit));
  // What is said of the whole step goes before what the trace recorded.
  if (values.schedule.recompute.getNumOccurrences() &&
      options.kernels.checkpoint.empty())
    options.kernels.checkpoint = "none";
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

static llvm::Error expectText(const cl::Option &option, bool isEmpty) {
  if (!option.getNumOccurrences() || !isEmpty)
    return llvm::Error::success();
  return llvm::createStringError("expected a value of " + getFlag(option) +
                                 ", got an empty one");
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
  for (ListedOption *option : values.getListed())
    if (llvm::Error error = expectText(option->get(), option->isEmpty()))
      return error;
  return expectTexts({&optimizerFile, &memoryBudget});
}

std::string mlir::fsdp::getToolDir(const char *argv0, void *address) {
  std::string path = llvm::sys::fs::getMainExecutable(argv0, address);
  return llvm::sys::path::parent_path(path).str();
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
    if (llvm::Error error = expectText(*text, text->empty()))
      return error;
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

OptionRule StepCommandLine::getProfileRule() const {
  return {&values.schedule.profile,
          "--wrap auto",
          values.partition.wrap == kChosenWrap ? "one" : "",
          {},
          "a profile is of one program",
          true};
}

/// What stands in the way of updates beside backward.
static llvm::Error checkUpdates(const StepOptions &options) {
  if (!options.kernels.optimizerInBackward)
    return llvm::Error::success();
  auto isAsked = [](bool asked) { return llvm::StringRef(asked ? "one" : ""); };
  const std::pair<llvm::StringRef, llvm::StringRef> waits[] = {
      {"--clip-norm", isAsked(options.partition.clip)},
      {"--skip-nonfinite", isAsked(options.partition.skipNonfinite)},
      {"--loss-scale dynamic",
       isAsked(llvm::StringRef(options.partition.lossScale)
                   .starts_with("dynamic"))}};
  for (auto [other, value] : waits) {
    OptionRule rule{nullptr,
                    other,
                    value,
                    {},
                    "an update would wait for the gradients of all units",
                    true};
    if (!holds(rule))
      return refuse("optimizer-in-backward", rule);
  }
  OptionRule order{nullptr,
                   "--order",
                   getWord<Order>(options.schedule.order),
                   {getWord(Order::fsdp), getWord(Order::in_order)},
                   "the scheduler runs updates where they cost least time, and "
                   "earlier where memory asks for it"};
  return !options.schedule.cluster.empty() && !holds(order)
             ? refuse("optimizer-in-backward", order)
             : llvm::Error::success();
}

/// What @options say of gathers for backward, by --unit and for the step.
static llvm::Error checkReshards(const StepOptions &options) {
  using sched::PlanRules;
  PlanRules::Keep keep = options.schedule.reshardAfterForward;
  constexpr llvm::StringLiteral key = "reshard-after-forward=";
  bool isUnits = false, isSecondary = false;
  for (llvm::StringRef text : options.partition.unit) {
    llvm::StringRef value =
        text.substr(text.find(key))
            .drop_front(text.contains(key) ? key.size() : 0);
    isUnits |= text.contains(key) && value.starts_with("true");
    isSecondary |=
        text.contains(key) && !value.empty() && llvm::isDigit(value.front());
  }
  OptionRule strategy{nullptr,
                      "--strategy",
                      getWord<Strategy>(options.partition.strategy),
                      {getWord(Strategy::Auto), getWord(Strategy::FullShard),
                       getWord(Strategy::HybridShard)},
                      "the others keep parameters gathered for backward"};
  OptionRule second{
      nullptr,
      "--reshard-after-forward",
      getWord(keep),
      {getWord(PlanRules::Keep::Auto), getWord(PlanRules::Keep::Never)},
      "what stays gathered has no secondary shard"};
  if (isSecondary && !holds(second))
    return refuse("unit PATTERN:reshard-after-forward=RANKS", second);
  if (!isUnits)
    return keep == PlanRules::Keep::Never && !holds(strategy)
               ? refuse("reshard-after-forward", strategy)
               : llvm::Error::success();
  bool isPlanned = !options.schedule.cluster.empty() &&
                   options.schedule.order == Order::scheduled;
  OptionRule rule{nullptr,
                  "--reshard-after-forward",
                  getWord(keep),
                  {getWord(PlanRules::Keep::Never)},
                  "else units stay gathered as the planner likes"};
  return (isPlanned || keep == PlanRules::Keep::Always) && !holds(rule)
             ? refuse("unit PATTERN:reshard-after-forward=true", rule)
             : llvm::Error::success();
}

llvm::Error mlir::fsdp::checkTogether(const StepOptions &options) {
  if (llvm::Error error = checkReshards(options))
    return error;
  OptionRule oneWrap{nullptr,
                     "--wrap auto",
                     options.partition.wrap == kChosenWrap ? "one" : "",
                     {},
                     "its patterns are of the units of one wrap",
                     true};
  if (!options.partition.unit.empty() && !holds(oneWrap))
    return refuse("unit", oneWrap);
  OptionRule precision{nullptr,
                       "--param-dtype",
                       options.partition.paramDtype,
                       {},
                       "without it, all is computed as it was traced"};
  bool isRounded = llvm::any_of(options.partition.unit, [](StringRef text) {
    return text.contains("param-dtype=");
  });
  if (options.partition.evalFullPrecision && !isRounded && !holds(precision))
    return refuse("eval-full-precision", precision);
  llvm::StringRef checkpoint = options.kernels.checkpoint;
  OptionRule partly{nullptr,
                    "--checkpoint",
                    checkpoint == "none" ? "" : checkpoint,
                    {},
                    "it repeats all that saves memory",
                    true};
  if (options.schedule.recompute == sched::PlanRules::Recompute::Full &&
      !holds(partly))
    return refuse("recompute full", partly);
  return checkUpdates(options);
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
