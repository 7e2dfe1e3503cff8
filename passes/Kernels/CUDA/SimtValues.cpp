//===- SimtValues.cpp - Values of threads ---------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SimtValues.h"
#include "BlockReduction.h"
#include "CudaKernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::fsdp;

//===----------------------------------------------------------------------===//
// Lanes
//===----------------------------------------------------------------------===//

/// Points that a thread computes at most: their values are in registers.
constexpr int64_t kMostLanes = 8;

/// With so many threads a kernel may give each several points: their blocks are
/// on 16 multiprocessors, which take in 32 KiB in less time than a launch.
constexpr int64_t kManyThreads = 2048;

static int64_t getElementBytes(Value source) {
  return llvm::divideCeil(
      cast<RankedTensorType>(source.getType()).getElementTypeBitWidth(), 8);
}

/// Whether every vector of @lanes neighbouring elements of @access, whichever
/// point it belongs to, begins at a multiple of @lanes elements from its
/// source's first. An access that does not depend on the lane is no vector, and
/// so is.
static bool isInVectors(const KernelAccess &access, int lane, int64_t lanes) {
  if (access.strides[lane] == 0)
    return true;
  for (auto [loop, stride] : llvm::enumerate(access.strides))
    if (stride % lanes != 0 && int(loop) != lane)
      return false;
  return access.strides[lane] == 1 && access.offset % lanes == 0;
}

/// As many as fill an access of the widest elements, so that neighbouring
/// threads access neighbouring bytes, if all accesses are in such vectors and
/// enough threads are left: a power of two.
int64_t fsdp::chooseLanes(const KernelLoops &loops) {
  int lane = loops.getLane();
  int64_t inner = loops.getInnerSize();
  // Short rows are read by a thread each, element by element.
  if (lane < 0 || (!loops.isLaneOuter() && inner < kWarpThreads))
    return 1;
  SmallVector<const KernelAccess *> accesses = loops.getAccesses();
  int64_t widest = kVectorBytes / kMostLanes;
  for (const KernelAccess *access : accesses)
    if (access->strides[lane] == 1)
      widest = std::max(widest, getElementBytes(access->source));
  // Points that threads of their own compute: those of a column share its
  // inner ones.
  int64_t points = loops.getItemCount();
  if (!loops.isLaneOuter())
    points *= inner;
  int64_t lanes = kVectorBytes / widest;
  // A row may end in a shorter vector (SimtEmitter::emitRest).
  bool isRow = !loops.isLaneOuter() && loops.getColumnSums().empty() &&
               loops.getLoops()[lane].size == inner;
  auto fits = [&](int64_t lanes) {
    return (isRow || loops.getLoops()[lane].size % lanes == 0) &&
           points / lanes >= kManyThreads &&
           (loops.isLaneOuter() || inner / lanes >= kWarpThreads) &&
           llvm::all_of(accesses, [&](const KernelAccess *access) {
             return isInVectors(*access, lane, lanes);
           });
  };
  while (lanes > 1 && !fits(lanes))
    lanes /= 2;
  return lanes;
}

llvm::SetVector<Value> fsdp::getVectorOperands(const KernelLoops &loops,
                                               int64_t lanes) {
  llvm::SetVector<Value> operands;
  if (lanes == 1)
    return operands;
  for (const KernelAccess *access : loops.getAccesses())
    if (access->strides[loops.getLane()] != 0)
      operands.insert(access->source);
  return operands;
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

SimtValues::SimtValues(const KernelLoops &loops, int64_t lanes,
                       OpBuilder &builder, Location loc, IRMapping memory,
                       Value scratch, llvm::DenseSet<Operation *> functions)
    : KernelValues(loops, builder, loc, std::move(memory), scratch,
                   lanes == 1 ? -1 : loops.getLane(), lanes) {
  vectorAlignment = kVectorBytes;
  approximated = std::move(functions);
  point.assign(loops.getLoops().size(), Value());
}

SmallVector<unsigned> SimtValues::getLoopOrder(
    llvm::function_ref<bool(const KernelLoop &)> isWanted) const {
  SmallVector<unsigned> order;
  for (auto [i, loop] : llvm::enumerate(loops.getLoops()))
    if (isWanted(loop) && int(i) != loops.getLane())
      order.push_back(i);
  if (loops.getLane() >= 0 && isWanted(loops.getLoops()[loops.getLane()]))
    order.push_back(loops.getLane());
  return order;
}

void SimtValues::setPoint(ArrayRef<unsigned> order, Value number,
                          OpBuilder &builder) {
  for (unsigned loop : llvm::reverse(order)) {
    int64_t step = int(loop) == lane ? lanes : 1;
    Value index = number;
    if (loop != order.front()) {
      Value size =
          getIndexConstant(loops.getLoops()[loop].size / step, builder);
      index = arith::RemUIOp::create(builder, loc, number, size);
      number = arith::DivUIOp::create(builder, loc, number, size);
    }
    if (step != 1)
      index = arith::MulIOp::create(builder, loc, index,
                                    getIndexConstant(step, builder));
    point[loop] = index;
  }
}

void SimtValues::emitIf(OpBuilder &builder, Value condition,
                        llvm::function_ref<void()> body) {
  if (!condition)
    return body();
  auto branch =
      scf::IfOp::create(builder, loc, condition, /*withElseRegion=*/false);
  builder.setInsertionPointToStart(branch.thenBlock());
  body();
  builder.setInsertionPointAfter(branch);
}

Value SimtValues::reduceLanes(Value value, vector::CombiningKind kind) {
  if (!isa<VectorType>(value.getType()))
    return value;
  SmallVector<Value> parts;
  for (int64_t i = 0; i < lanes; ++i)
    parts.push_back(vector::ExtractOp::create(outer, loc, value, i));
  for (int64_t half = lanes / 2; half != 0; half /= 2)
    for (int64_t i = 0; i < half; ++i)
      parts[i] = vector::makeArithReduction(outer, loc, kind, parts[i],
                                            parts[i + half]);
  return parts.front();
}
