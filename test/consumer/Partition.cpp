//===- Partition.cpp - Another compiler that uses the passes --------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// toy-partition STEP.mlir: partitions a step of toy ops for four ranks through
// the C++ API and checks what came out: the collectives are there, the foreign
// ops are as they were, and each weight is read from a gather.
//
//===----------------------------------------------------------------------===//

#include "Toy.h"

#include "fsdp/Dialect/FSDP/IR/FSDP.h"
#include "fsdp/Passes/Pipelines.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

static int failures = 0;

static void expect(bool condition, const llvm::Twine &what) {
  if (condition)
    return;
  llvm::errs() << "expected " << what << "\n";
  ++failures;
}

static llvm::StringMap<int64_t> countOps(ModuleOp module) {
  llvm::StringMap<int64_t> counts;
  module.walk([&](Operation *op) { ++counts[op->getName().getStringRef()]; });
  return counts;
}

/// The ops that a transposed weight comes through.
static bool comesFromGather(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (isa<fsdp::AllGatherOp>(op))
      return true;
    if (!isa<fsdp::ViewOp, toy::TransposeOp>(op))
      return false;
    value = op->getOperand(0);
  }
  return false;
}

static void check(ModuleOp before, ModuleOp after) {
  llvm::StringMap<int64_t> had = countOps(before), has = countOps(after);
  for (StringRef name :
       {"toy.matmul", "toy.relu", "toy.relu_grad", "toy.squared_error"})
    expect(had[name] > 0 && has[name] == had[name],
           "all " + llvm::Twine(had[name]) + " " + name + ", got " +
               llvm::Twine(has[name]));
  // A weight's transpose would keep the gathered weight alive from forward to
  // backward: it is made again there.
  expect(has["toy.transpose"] > had["toy.transpose"],
         "the transpose of a weight in both passes");
  // Two units: layers.0 is needed in forward only, layers.1 in both.
  expect(has["fsdp.all_gather"] == 3,
         "3 gathers, got " + llvm::Twine(has["fsdp.all_gather"]));
  expect(has["fsdp.reduce_scatter"] == 2,
         "2 reduce-scatters, got " + llvm::Twine(has["fsdp.reduce_scatter"]));

  auto step = after.lookupSymbol<mlir::fsdp::ProgramOp>("train");
  expect(bool(step), "a program @train");
  if (!step)
    return;
  int64_t fromGather = 0;
  step.walk([&](toy::MatmulOp op) {
    fromGather += comesFromGather(op.getA()) || comesFromGather(op.getB());
  });
  expect(fromGather == 3,
         "3 products with gathered weights, got " + llvm::Twine(fromGather));
  step.walk([&](fsdp::ReduceScatterOp op) {
    Operation *pack = op->getOperand(0).getDefiningOp();
    expect(pack && pack->getNumOperands() == 1 &&
               pack->getOperand(0).getDefiningOp<toy::MatmulOp>(),
           "the reduced gradient of one toy.matmul");
  });
}

int main(int argc, char **argv) {
  if (argc != 2)
    return 2;
  MLIRContext context;
  context.loadDialect<toy::ToyDialect, func::FuncDialect, fsdp::FSDPDialect>();
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(argv[1], &context);
  if (!module)
    return 1;
  OwningOpRef<ModuleOp> before = module->clone();

  fsdp::PartitionOptions options;
  options.mesh = "shard=4";
  PassManager manager(&context);
  fsdp::buildPartitionPipeline(manager, options);
  if (failed(manager.run(*module)))
    return 1;
  check(*before, *module);
  if (failures)
    module->print(llvm::errs());

  // By text, as the options of a command line would have it.
  fsdp::registerAllPasses();
  OwningOpRef<ModuleOp> again = before->clone();
  PassManager parsed(&context);
  if (failed(parsePassPipeline("fsdp-partition{mesh=shard=4}", parsed)) ||
      failed(parsed.run(*again)))
    return 1;
  check(*before, *again);

  // A refusal is a diagnostic, and never ends the process.
  std::string message;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    message += diagnostic.str();
    return success();
  });
  PassManager refused(&context);
  options.mesh = "shard=zero";
  fsdp::buildPartitionPipeline(refused, options);
  expect(failed(refused.run(*before)) && !message.empty(),
         "a mesh of size 'zero' to be refused");
  return failures != 0;
}
