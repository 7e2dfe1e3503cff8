//===- ReductionHook.h - What replaces a mean over replicas -----*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A reduction hook writes the ops that make the mean of a flat parameter's
// gradient over its replicas: what happens before and after each all_reduce is
// its own, and what it keeps between steps are states of the program. The hooks
// of a context are an interface of its fsdp dialect, which a dialect plugin
// adds to. This header needs MLIR alone: a plugin calls the compiler through
// virtual functions, and links nothing of it (docs/reduction-hooks.md).
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_DIALECT_FSDP_IR_REDUCTIONHOOK_H
#define FSDP_DIALECT_FSDP_IR_REDUCTIONHOOK_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/DialectInterface.h"
#include "mlir/IR/DialectRegistry.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <string>
#include <vector>

namespace mlir::fsdp {

/// The flat parameter whose gradient is reduced, as a hook sees it.
struct HookTarget {
  struct Member {
    std::string fqn;
    std::vector<int64_t> shape;
    /// In elements of the gradient.
    int64_t offset;
  };
  /// Of the flat parameter.
  std::string name;
  /// Whether a rank has the gradient of all members; else it has its piece of
  /// them, which a reduce_scatter has averaged over the shard axes.
  bool isWhole = true;
  /// Empty where it has a piece.
  std::vector<Member> members;
  /// Ranks over which the mean is taken, more than 1.
  int64_t replicas = 0;
};

/// One reduction, for which a hook writes ops.
class HookedReduction {
public:
  HookedReduction(const HookTarget &target, OpBuilder &builder, Location loc)
      : target(target), builder(builder), loc(loc) {}
  virtual ~HookedReduction() = default;

  /// The mean of @value, a tensor of floats, over the replicas. It travels in
  /// the flat parameter's reduce type, and has the type of @value after it.
  virtual Value allReduce(Value value) = 0;
  /// Elements of @flat, which has one dimension, from @offset on, in @shape.
  virtual Value view(Value flat, int64_t offset, ArrayRef<int64_t> shape) = 0;
  /// One dimension of @numel elements: @parts, row-major, at @offsets, which
  /// increase, and zeros.
  virtual Value pack(ValueRange parts, ArrayRef<int64_t> offsets,
                     int64_t numel) = 0;
  /// What the last step that trained left under @name, which begins with the
  /// name of the target or of a member: it is unique in the program, and its
  /// name in checkpoints. Each rank has its own. Before the first step it is
  /// @init, an initialiser of docs/input-contract.md, with 0 for the seed:
  /// equal on all ranks.
  virtual Value getState(StringRef name, RankedTensorType type,
                         DictionaryAttr init) = 0;
  /// Leaves @value, of that state's type, to the next step. A step that is
  /// skipped (skip-nonfinite) leaves what it found.
  virtual void setState(StringRef name, Value value) = 0;

  const HookTarget &target;
  OpBuilder &builder;
  const Location loc;
};

class ReductionHook {
public:
  virtual ~ReductionHook() = default;

  /// Reads one KEY=VALUE of its text. The error says what was expected.
  virtual llvm::Error setOption(StringRef key, StringRef value) {
    return llvm::createStringError("expected no options, got '" + key + "=" +
                                   value + "'");
  }
  /// Why gradients of @target cannot be reduced so.
  virtual llvm::Error check(const HookTarget &target) const {
    return llvm::Error::success();
  }
  /// The mean over the replicas of @gradient, one dimension of f32 or f64, of
  /// the same type and equal on all replicas. fsdp-verify-schedule refuses a
  /// program whose replicas would differ.
  virtual Value reduce(HookedReduction &reduction, Value gradient) const = 0;
};

/// The element type, in the words of param-dtype, that the hook @name only
/// compresses to: "bf16" and "fp16" are the reduce type by another name. Empty
/// for all others.
StringRef getCompressedType(StringRef name);

/// The hooks of a context, by name.
class ReductionHooks : public DialectInterface::Base<ReductionHooks> {
public:
  using Create = std::unique_ptr<ReductionHook> (*)();
  explicit ReductionHooks(Dialect *dialect) : Base(dialect) {}

  /// Two of one name are refused where that is used; the same twice is one.
  virtual void add(StringRef name, Create create) = 0;
  /// Of @text, NAME or NAME:KEY=VALUE[,KEY=VALUE..].
  virtual llvm::Expected<std::unique_ptr<ReductionHook>>
  read(StringRef text) const = 0;
};

/// Adds @Hook, which has a static kName, to the fsdp dialect of contexts with
/// @registry, whether or not it is loaded already.
template <typename Hook>
void addReductionHook(DialectRegistry &registry) {
  struct Extension : DialectExtensionBase {
    Extension() : DialectExtensionBase(ArrayRef<StringRef>("fsdp")) {}
    void apply(MLIRContext *, MutableArrayRef<Dialect *> dialects) const final {
      dialects[0]->getRegisteredInterface<ReductionHooks>()->add(
          Hook::kName, [] {
            return std::unique_ptr<ReductionHook>(std::make_unique<Hook>());
          });
    }
    std::unique_ptr<DialectExtensionBase> clone() const final {
      return std::make_unique<Extension>(*this);
    }
  };
  static const char id = 0;
  registry.addExtension(TypeID::getFromOpaquePointer(&id),
                        std::make_unique<Extension>());
}

} // namespace mlir::fsdp

#endif // FSDP_DIALECT_FSDP_IR_REDUCTIONHOOK_H
