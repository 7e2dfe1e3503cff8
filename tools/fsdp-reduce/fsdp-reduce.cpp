//===- fsdp-reduce.cpp - Makes failing fsdp IR small ----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Dialect/FSDP/IR/FSDP.h"
#include "fsdp/Passes/Pipelines.h"
#include "fsdp/Tool/CrashHandler.h"
#include "fsdp/Tool/ToolProcess.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Tools/mlir-reduce/MlirReduceMain.h"
#include "llvm/Support/InitLLVM.h"

static int reduceFile(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  registry.insert<mlir::fsdp::FSDPDialect>();
  mlir::registerAllPasses();
  mlir::fsdp::registerAllPasses();
  mlir::MLIRContext context(registry);
  return mlir::failed(mlir::mlirReduceMain(argc, argv, context));
}

int main(int argc, char **argv) {
  mlir::fsdp::prepareProcess();
  llvm::InitLLVM init(argc, argv);
  return mlir::fsdp::runTool("fsdp-reduce",
                             [&] { return reduceFile(argc, argv); });
}
