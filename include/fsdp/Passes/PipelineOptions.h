//===- PipelineOptions.h - Options that can be listed -----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// MLIR's options of pipelines print and parse themselves, but cannot be listed
// or copied. Tools declare their command lines from the options of pipelines,
// and reports say which were given, so that each option is defined once.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_PIPELINEOPTIONS_H
#define FSDP_PASSES_PIPELINEOPTIONS_H

#include "fsdp/Support/OptionWords.h"

#include "mlir/Pass/PassOptions.h"

namespace mlir::fsdp {

/// Of an option that the driver sets from what it knows: no tool has it.
inline constexpr llvm::cl::OptionHidden kOfDriver = llvm::cl::ReallyHidden;

/// An option of a pipeline, whatever the type of its value.
class ListedOption {
public:
  virtual ~ListedOption() = default;
  virtual llvm::cl::Option &get() = 0;
  /// Prints " --name value", as tools take it, unless it has its default.
  virtual void printGiven(raw_ostream &os) = 0;
  /// Whether it holds an empty text, or no text of a list.
  virtual bool isEmpty() const = 0;
};

/// Options in the order in which they are declared.
class PipelineOptions : public mlir::detail::PassOptions {
public:
  PipelineOptions() = default;
  /// `listed` points to this object's members. Copyable copies their values.
  PipelineOptions &operator=(const PipelineOptions &) = delete;

  llvm::ArrayRef<ListedOption *> getListed() const { return listed; }

protected:
  template <typename T>
  class Option : public mlir::detail::PassOptions::Option<T>,
                 public ListedOption {
    using Base = mlir::detail::PassOptions::Option<T>;

  public:
    template <typename... Args>
    Option(PipelineOptions &parent, Args &&...args)
        : Base(parent, std::forward<Args>(args)...) {
      parent.listed.push_back(this);
    }
    using Base::operator=;
    Option &operator=(const Option &other) {
      Base::operator=(other);
      return *this;
    }

    llvm::cl::Option &get() override { return *this; }
    void printGiven(raw_ostream &os) override {
      const T &value = this->getValue();
      // OptionValue::compare returns whether both values are equal.
      if (this->getDefault().compare(value))
        return;
      os << " --" << this->ArgStr;
      if constexpr (std::is_same_v<T, bool>)
        os << (value ? "" : "=false");
      else if constexpr (std::is_enum_v<T>)
        os << ' ' << getWord(value);
      else
        os << ' ' << value;
    }
    bool isEmpty() const override {
      if constexpr (std::is_same_v<T, std::string>)
        return this->getValue().empty();
      return false;
    }
  };

  /// Texts: in a pipeline's text apart by commas, for tools one for each time
  /// that the option is given.
  class TextsOption : public mlir::detail::PassOptions::ListOption<std::string>,
                      public ListedOption {
    using Base = mlir::detail::PassOptions::ListOption<std::string>;

  public:
    template <typename... Args>
    TextsOption(PipelineOptions &parent, Args &&...args)
        : Base(parent, std::forward<Args>(args)...) {
      parent.listed.push_back(this);
    }
    using Base::operator=;

    bool handleOccurrence(unsigned pos, StringRef name,
                          StringRef text) override {
      if (!Subs.contains(&llvm::cl::SubCommand::getTopLevel()))
        return Base::handleOccurrence(pos, name, text);
      setPosition(pos);
      push_back(text.str());
      return false;
    }
    llvm::cl::Option &get() override { return *this; }
    void printGiven(raw_ostream &os) override {
      for (const std::string &text : *this)
        os << " --" << ArgStr << ' ' << text;
    }
    bool isEmpty() const override {
      return llvm::any_of(*this, [](StringRef text) { return text.empty(); });
    }
  };

private:
  std::vector<ListedOption *> listed;
};

/// @T, options of a pipeline, as a value that can be copied.
template <typename T>
struct Copyable : T {
  Copyable() = default;
  Copyable(const Copyable &other) : T() { this->copyOptionValuesFrom(other); }
  Copyable &operator=(const Copyable &other) {
    this->copyOptionValuesFrom(other);
    return *this;
  }
};

} // namespace mlir::fsdp

#endif // FSDP_PASSES_PIPELINEOPTIONS_H
