//===- OptimizerSpec.h - Built-in optimizers as users write them -*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_CONTRACT_OPTIMIZERSPEC_H
#define FSDP_ANALYSIS_CONTRACT_OPTIMIZERSPEC_H

#include "fsdp/Support/OptionWords.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace mlir::fsdp {

/// The optimizers that need no function of the user's.
enum class OptimizerKind {
  AdamW,
  Adam,
  SGD,
  Adagrad,
  Adadelta,
  RMSprop,
  NAdam,
  RAdam,
  Adamax,
  Lion
};

FSDP_WORDS(OptimizerKind, {E::AdamW, "adamw", "torch.optim.AdamW"},
           {E::Adam, "adam", "torch.optim.Adam"},
           {E::SGD, "sgd", "torch.optim.SGD"},
           {E::Adagrad, "adagrad", "torch.optim.Adagrad"},
           {E::Adadelta, "adadelta", "torch.optim.Adadelta"},
           {E::RMSprop, "rmsprop", "torch.optim.RMSprop"},
           {E::NAdam, "nadam", "torch.optim.NAdam"},
           {E::RAdam, "radam", "torch.optim.RAdam"},
           {E::Adamax, "adamax", "torch.optim.Adamax"},
           {E::Lion, "lion", "Chen et al. 2023, arXiv 2302.06675"})

/// A row of an optimizer's table.
struct HyperParameter {
  /// A number that may be given at run time; the initial value of a state; true
  /// or false, which decides what is computed.
  enum class Kind { Number, Initial, Flag };
  /// Whether the text of an optimizer names it where it has its default.
  enum class Named { Always, IfGiven };

  llvm::StringRef name;
  /// The default; of a flag 0 or 1.
  double initial;
  /// A number is in [low, high).
  double low, high;
  Kind kind = Kind::Number;
  Named named = Named::Always;
};

/// `adamw:lr=1e-3,beta1=0.9,amsgrad=true`: an optimizer and its
/// hyper-parameters, which are called as torch.optim calls them, with betas as
/// beta1 and beta2. What is not given has torch.optim's default.
class OptimizerSpec {
public:
  explicit OptimizerSpec(OptimizerKind kind = OptimizerKind::AdamW);

  /// Fails where the optimizer or a hyper-parameter is unknown, given twice or
  /// out of range, and where two of them exclude each other.
  static llvm::Expected<OptimizerSpec> parse(llvm::StringRef text);

  OptimizerKind getKind() const { return kind; }
  llvm::ArrayRef<HyperParameter> getHyperParameters() const;
  /// The value of a hyper-parameter of this optimizer.
  double get(llvm::StringRef name) const;
  /// Whether the optimizer has the flag, and it is set.
  bool isSet(llvm::StringRef flag) const;

  /// Splits texts such as "weight_decay,beta1" into the names of numbers that
  /// are given at run time. Fails where this optimizer has no such number, and
  /// where one is named twice.
  llvm::Expected<llvm::SmallVector<llvm::StringRef>>
  parseRunTimeScalars(llvm::ArrayRef<std::string> texts) const;

  /// Fails where @value cannot stand for a number that the optimizer has, as
  /// the parameters of a group have it.
  llvm::Error checkNumber(llvm::StringRef name, double value) const;

  /// All that is compiled in, which the rate never is:
  /// "adamw:beta1=0.9,beta2=0.999,eps=1e-08,weight_decay=0.01". Numbers of
  /// @runTimeScalars are left out.
  std::string
  printConstants(llvm::ArrayRef<llvm::StringRef> runTimeScalars = {}) const;

private:
  llvm::Error set(llvm::StringRef name, llvm::StringRef value);
  llvm::Error checkTogether() const;

  OptimizerKind kind;
  /// In the order of the table.
  llvm::SmallVector<double, 8> values;
};

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_CONTRACT_OPTIMIZERSPEC_H
