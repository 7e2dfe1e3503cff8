//===- EmitCudaKernels.cpp - Code of loop kernels for CUDA devices --------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaKernels.h"
#include "Kernels/Common/KernelMemory.h"
#include "Kernels/Common/KernelUtils.h"
#include "SimtEmitter.h"
#include "SweepEmitter.h"
#include "UnrollVectors.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Kernels/RoundedFunctions.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Remarks.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_EMITCUDAKERNELS
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

/// Why no grid can have a kernel's shape; empty where one can.
static std::string findTooLarge(const SimtShape &shape) {
  if (shape.getGrid() <= kMostBlocks)
    return "";
  return "expected at most " + std::to_string(kMostBlocks) + " blocks, got " +
         std::to_string(shape.getGrid());
}

namespace {
/// What fsdp.tuning of a kernel says of its threads.
struct TunedThreads {
  SimtThreads threads = SimtThreads::getDefault();
  std::optional<int64_t> rows, columns;

  explicit TunedThreads(func::FuncOp kernel) {
    auto tuning = kernel->getAttrOfType<DictionaryAttr>(names::kTuning);
    auto read = [&](StringRef name, std::optional<int64_t> &value,
                    int64_t &most) {
      auto entry = tuning ? tuning.getAs<IntegerAttr>(name) : IntegerAttr();
      if (entry)
        most = *(value = entry.getInt());
    };
    read("rows", rows, threads.row);
    read("columns", columns, threads.columns);
  }

  /// Why no kernel can have them; empty: it can.
  std::string findUnfit() const {
    for (const std::optional<int64_t> &value : {rows, columns})
      if (value && (*value < 32 || *value > 1024 ||
                    !llvm::isPowerOf2_64(uint64_t(*value))))
        return "expected threads of a power of two from 32 to 1024, got " +
               std::to_string(*value);
    return "";
  }

  /// Whether fsdp.tuning gives the threads of @shape.
  bool hasThreadsOf(const SimtShape &shape) const {
    return (shape.areColumns ? columns : rows).has_value();
  }
};
} // namespace

/// Why a kernel cannot have a shape that fsdp.tuning wants; empty: it can.
static std::string findUnfitShape(const KernelLoops &loops,
                                  const SimtShape &shape) {
  int64_t bytes =
      getSlotCount(loops, shape) * int64_t(sizeof(int64_t)) + shape.shared;
  if (bytes <= kMostShared)
    return "";
  return "expected at most " + std::to_string(kMostShared) +
         " bytes of shared memory, got " + std::to_string(bytes) + " for " +
         std::to_string(shape.getBlock()) + " threads of " +
         std::to_string(shape.lanes) + " points";
}

/// Whether the kernel reduces what its threads share.
static bool isShared(const KernelLoops &loops, const SimtShape &shape) {
  return shape.threadsPerItem != 1 &&
         llvm::any_of(loops.getStages(), [](const KernelStage &stage) {
           return !stage.reductions.empty();
         });
}

/// The shape of @kernel, with the threads that fsdp.tuning gives, if it gives
/// any. Emits an error where no kernel can have those, and a remark where they
/// reduce a row or a column.
static FailureOr<SimtShape> chooseShape(func::FuncOp kernel,
                                        const KernelLoops &loops) {
  TunedThreads tuned(kernel);
  SimtShape shape = {};
  bool isTuned = false;
  std::string unfit = tuned.findUnfit();
  if (unfit.empty()) {
    shape = chooseSimtShape(loops, tuned.threads);
    isTuned = tuned.hasThreadsOf(shape);
    if (isTuned)
      unfit = findUnfitShape(loops, shape);
  }
  if (!unfit.empty())
    return kernel.emitError("fsdp.tuning: ") << unfit;
  if (!isTuned || !isShared(loops, shape))
    return shape;
  std::string threads =
      shape.areColumns
          ? " threads a column, of at most " +
                std::to_string(tuned.threads.columns) + " a block"
          : " threads a row, of at most " + std::to_string(tuned.threads.row);
  remark::passed(kernel.getLoc(), remark::RemarkOpts::name("Tuned")
                                      .category("fsdp-emit-cuda-kernels")
                                      .function(kernel.getSymName()))
      << std::to_string(shape.threadsPerItem) + threads +
             ", as fsdp.tuning says";
  return shape;
}

namespace {
/// What a function of the device needs of its launch.
struct FunctionShape {
  int64_t grid, block;
  /// Elements of slots, and bytes of dynamic shared memory.
  int64_t slots, shared;
  int64_t lanes;
};

/// Emits a kernel's code at `builder`'s position; `slots` and `scratch` are
/// null where there are none.
using EmitBody = llvm::function_ref<void(OpBuilder &builder, IRMapping memory,
                                         Value slots, Value scratch)>;
} // namespace

static void emitFunction(func::FuncOp kernel, gpu::GPUModuleOp device,
                         const KernelLoops &loops, const FunctionShape &shape,
                         EmitBody emitBody) {
  MLIRContext *context = kernel.getContext();
  Location loc = kernel.getLoc();
  SmallVector<Type> types;
  for (Type type : kernel.getArgumentTypes())
    types.push_back(getFlatMemRef(type, getGlobalSpace(context)));
  gpu::GPUFuncOp function = createCudaFunction(device, loc, kernel.getSymName(),
                                               types, shape.block, shape.slots);
  Block *body = &function.getBody().front();
  OpBuilder builder(body->getTerminator());
  IRMapping memory;
  for (auto [arg, buffer] :
       llvm::zip(kernel.getArguments(), function.getArguments()))
    memory.map(arg, buffer);
  createConstants(kernel, device, builder, memory, getGlobalSpace(context));
  Value slots = shape.slots != 0 ? body->getArguments().back() : Value(),
        scratch;
  if (shape.shared != 0)
    scratch = createDynamicShared(builder, loc);
  emitBody(builder, std::move(memory), slots, scratch);
  unrollVectors(function);
  // Lowering refuses operands that begin elsewhere.
  for (Value operand : getVectorOperands(loops, shape.lanes))
    if (auto arg = dyn_cast<BlockArgument>(operand))
      function.setArgAttr(arg.getArgNumber(), kAlignmentName,
                          builder.getI64IntegerAttr(kVectorBytes));
  CudaKernelAttr launch =
      getCudaLaunch(function, shape.grid, shape.block, shape.shared);
  setImplementation(kernel, kCudaTarget,
                    CudaCodeAttr::get(context, launch, loops.getTrafficBytes(),
                                      /*workspace=*/0));
}

static llvm::DenseSet<Operation *> getApproximated(func::FuncOp kernel,
                                                   MathMode math) {
  return math == MathMode::Fast ? findRoundedFunctions(kernel)
                                : llvm::DenseSet<Operation *>();
}

static void emitKernel(func::FuncOp kernel, gpu::GPUModuleOp device,
                       const KernelLoops &loops, const SimtShape &shape,
                       MathMode math) {
  emitFunction(
      kernel, device, loops,
      {shape.getGrid(), shape.getBlock(), getSlotCount(loops, shape),
       shape.shared, shape.lanes},
      [&](OpBuilder &builder, IRMapping memory, Value slots, Value scratch) {
        SimtEmitter(loops, shape, builder, kernel.getLoc(), std::move(memory),
                    slots, scratch, getApproximated(kernel, math))
            .emit();
      });
}

static void emitSweep(func::FuncOp kernel, gpu::GPUModuleOp device,
                      const KernelLoops &loops, MathMode math) {
  SweepShape shape = chooseSweepShape(loops);
  emitFunction(kernel, device, loops,
               {shape.chunks, shape.threads, getSlotCount(loops, shape),
                /*shared=*/0, shape.lanes},
               [&](OpBuilder &builder, IRMapping memory, Value slots, Value) {
                 SweepEmitter(loops, shape, builder, kernel.getLoc(),
                              std::move(memory), slots,
                              getApproximated(kernel, math))
                     .emit();
               });
}

namespace {
struct EmitCudaKernels : fsdp::impl::EmitCudaKernelsBase<EmitCudaKernels> {
  using EmitCudaKernelsBase::EmitCudaKernelsBase;

  void runOnOperation() override {
    if (productWorkspace < 0) {
      emitInputError(getOperation(), "expected a workspace of products of at "
                                     "least 0 bytes, got " +
                                         Twine(int64_t(productWorkspace)));
      return signalPassFailure();
    }
    for (func::FuncOp kernel : getKernels(getOperation())) {
      if (kernel->hasAttr(names::kMatmul))
        setImplementation(
            kernel, kCudaTarget,
            CudaProductAttr::get(&getContext(), productWorkspace));
      if (hasCodeFor(kernel, kCudaTarget))
        continue;
      std::string why;
      std::optional<KernelLoops> loops = KernelLoops::create(kernel, why);
      FailureOr<SimtShape> shape = SimtShape{};
      bool isSweep = loops && !loops->getColumnSums().empty();
      if (loops && !isSweep) {
        shape = chooseShape(kernel, *loops);
        if (failed(shape))
          return signalPassFailure();
        why = findTooLarge(*shape);
      }
      if (!why.empty()) {
        remark::missed(kernel.getLoc(), remark::RemarkOpts::name("Emitted")
                                            .category("fsdp-emit-cuda-kernels")
                                            .function(kernel.getSymName()))
            << remark::reason("{0}", why);
        continue;
      }
      gpu::GPUModuleOp device = getCudaModule(getOperation());
      if (!device)
        return signalPassFailure();
      if (isSweep)
        emitSweep(kernel, device, *loops, math);
      else
        emitKernel(kernel, device, *loops, *shape, math);
    }
  }
};
} // namespace
