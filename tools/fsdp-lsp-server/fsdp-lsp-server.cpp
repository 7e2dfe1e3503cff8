//===- fsdp-lsp-server.cpp - Editors understand the fsdp dialect ----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Dialect/FSDP/IR/FSDP.h"
#include "fsdp/Tool/CrashHandler.h"
#include "fsdp/Tool/ToolProcess.h"

#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "llvm/Support/InitLLVM.h"

static int runServer(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  registry.insert<mlir::fsdp::FSDPDialect>();
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry));
}

int main(int argc, char **argv) {
  mlir::fsdp::prepareProcess();
  llvm::InitLLVM init(argc, argv);
  return mlir::fsdp::runTool("fsdp-lsp-server",
                             [&] { return runServer(argc, argv); });
}
