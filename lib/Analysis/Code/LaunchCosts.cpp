//===- LaunchCosts.cpp - What a kernel's code for GPUs does ---------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Code/LaunchCosts.h"
#include "InstructionUnits.h"
#include "Interval.h"
#include "MemoryAccess.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"

#include <cmath>
#include <map>
#include <numeric>

using namespace mlir;
using namespace mlir::fsdp;

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

/// Of an iteration of a loop beside its body, and of a function before its
/// body: for each parameter, and for the return.
static constexpr int64_t kLoopInstructions = 3, kParameterInstructions = 2,
                         kFunctionInstructions = 2;

//===----------------------------------------------------------------------===//
// Counting
//===----------------------------------------------------------------------===//

namespace {
/// A function, a branch or the body of a loop.
struct Scope {
  bool isLoop;
  /// How often a thread runs it.
  double times;
  /// Values that are computed in it, by op, attributes, type and operands.
  std::map<std::vector<const void *>, Value> computed;
};

class Counter {
public:
  Counter(gpu::GPUFuncOp function, CudaKernelAttr launch);
  LaunchCost count();

private:
  /// What the ops of @block do, @times a thread.
  void count(Block &block, double times, bool isLoop = false);
  void count(scf::ForOp loop, double times);
  /// Iterations of @loop in the mean.
  double getTrips(scf::ForOp loop, const Interval &low, const Interval &high,
                  double step);
  void count(scf::IfOp branch, double times);
  void add(const Access &access, Block *block, double times);
  double getOnce(bool ofStores) const;
  /// What @op, without its regions, does @times a thread.
  void addInstructions(Operation &op, double times);
  /// How many loads of the current loop's iteration, each of which needs the
  /// one before, @value is computed by.
  int64_t getDepth(Value value) const;
  /// Of what @op computes.
  void setDepth(Operation &op);
  /// An op without effects, where it is computed once common ones are one and
  /// what a loop does not change stands before it.
  void addPure(Operation &op);
  /// What @op computes if that is a constant or one of its operands.
  Value getFolded(Operation &op);
  /// The part of its block's times that a load runs: where its value is only
  /// selected, by what the loop does not change, LLVM makes a loop for each
  /// side.
  double getUsedPart(Operation &load);
  Value getSame(Value value) const {
    auto it = same.find(value);
    return it == same.end() ? value : it->second;
  }
  std::optional<Interval> get(Value value);
  std::optional<Interval> compute(Value value);
  /// The part of threads and iterations for which @condition holds; none where
  /// intervals do not say.
  std::optional<double> getFrequency(Value condition);
  std::optional<double> getFrequency(arith::CmpIOp comparison);

  gpu::GPUFuncOp function;
  double threads;
  LaunchCost cost;
  llvm::DenseMap<Value, std::optional<Interval>> known;
  /// Iterations of loops, in the mean, by their numbers.
  llvm::DenseMap<Value, double> tripsOf;
  /// What the iterations of a loop and of those that it is a block of are from
  /// and to, and how many these are, by the loop's number.
  struct Range {
    Interval low, high;
    double trips;
  };
  llvm::DenseMap<Value, Range> rangeOf;
  std::vector<Scope> scopes;
  /// By value the one that it equals; by that the scope where it is computed.
  llvm::DenseMap<Value, Value> same;
  llvm::DenseMap<Value, unsigned> scopeOf;
  /// Of all threads, so far; rounded at the end.
  double loaded = 0, stored = 0, instructions = 0;
  std::array<double, kNumLaneUnits> results = {};
  /// Of one thread, in the mean.
  double waits = 0;
  /// Of values, with the loop that they are computed in; of the current loop,
  /// the deepest.
  struct Depth {
    Operation *loop = nullptr;
    int64_t depth = 0;
  };
  llvm::DenseMap<Value, Depth> depths;
  Operation *currentLoop = nullptr;
  int64_t deepest = 0;
  /// Bytes that loads, and stores (1), in a block move of each memory.
  llvm::MapVector<std::tuple<Value, Block *, unsigned>, double> moved;
};
} // namespace

Counter::Counter(gpu::GPUFuncOp function, CudaKernelAttr launch)
    : function(function),
      threads(double(launch.getGrid()) * double(launch.getBlock())) {
  cost.blocks = launch.getGrid();
  cost.threads = launch.getBlock();
  cost.shared = launch.getShared();
  for (BlockArgument buffer : function.getWorkgroupAttributions())
    if (auto type = dyn_cast<MemRefType>(buffer.getType());
        type && type.hasStaticShape())
      cost.shared += type.getNumElements() * getBytes(type.getElementType());
}

static int64_t toCount(double value) {
  return value >= double(INT64_MAX) ? INT64_MAX : std::llround(value);
}

LaunchCost Counter::count() {
  instructions =
      threads * double(kParameterInstructions * function.getNumArguments() +
                       kFunctionInstructions);
  count(function.getBody().front(), 1);
  cost.loaded = toCount(loaded);
  cost.stored = toCount(stored);
  cost.read = toCount(getOnce(/*ofStores=*/false));
  cost.written = toCount(getOnce(/*ofStores=*/true));
  cost.instructions = toCount(instructions);
  for (auto [count, sum] : llvm::zip(cost.results, results))
    count = toCount(sum);
  cost.waits = toCount(waits + double(deepest));
  return cost;
}

void Counter::count(Block &block, double times, bool isLoop) {
  scopes.push_back({isLoop, times, {}});
  for (Value argument : block.getArguments())
    scopeOf[argument] = scopes.size() - 1;
  int64_t inFlight = 0;
  for (Operation &op : block) {
    setDepth(op);
    if (op.getNumRegions() == 0 && isPure(&op)) {
      addPure(op);
      continue;
    }
    for (Value result : op.getResults())
      scopeOf[result] = scopes.size() - 1;
    double used = isa<memref::LoadOp, vector::LoadOp, LLVM::LoadOp>(op)
                      ? times * getUsedPart(op)
                      : times;
    addInstructions(op, used);
    if (std::optional<Access> access = getAccess(op)) {
      add(*access, &block, used);
      inFlight += access->isStore ? 0 : access->bytes;
    } else if (auto loop = dyn_cast<scf::ForOp>(op)) {
      count(loop, times);
    } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
      count(branch, times);
    } else {
      for (Region &region : op.getRegions())
        for (Block &inner : region)
          count(inner, times);
    }
  }
  cost.bytesInFlight = std::max(cost.bytesInFlight, inFlight);
  scopes.pop_back();
}

void Counter::addPure(Operation &op) {
  if (op.getNumResults() == 1) {
    if (Value folded = getFolded(op)) {
      same[op.getResult(0)] = getSame(folded);
      scopeOf[op.getResult(0)] = scopeOf.lookup(getSame(folded));
      return;
    }
  }
  std::vector<const void *> key = {op.getName().getAsOpaquePointer(),
                                   op.getAttrDictionary().getAsOpaquePointer()};
  for (Type type : op.getResultTypes())
    key.push_back(type.getAsOpaquePointer());
  unsigned scope = scopes.size() - 1, needed = 0;
  for (Value operand : op.getOperands()) {
    Value value = getSame(operand);
    key.push_back(value.getAsOpaquePointer());
    needed = std::max(needed, scopeOf.lookup(value));
  }
  if (op.getNumResults() == 1)
    for (Scope &open : scopes)
      if (auto it = open.computed.find(key); it != open.computed.end()) {
        same[op.getResult(0)] = it->second;
        return;
      }
  while (scope > needed && scopes[scope].isLoop)
    --scope;
  for (Value result : op.getResults())
    scopeOf[result] = scope;
  if (op.getNumResults() == 1)
    scopes[scope].computed[key] = op.getResult(0);
  addInstructions(op, scopes[scope].times);
}

void Counter::addInstructions(Operation &op, double times) {
  instructions += threads * times * double(getInstructions(op));
  for (auto [sum, work] : llvm::zip(results, getUnitWork(op)))
    sum += threads * times * work;
}

int64_t Counter::getDepth(Value value) const {
  auto it = depths.find(value);
  return it != depths.end() && it->second.loop == currentLoop ? it->second.depth
                                                              : 0;
}

void Counter::setDepth(Operation &op) {
  int64_t depth = 0;
  for (Value operand : op.getOperands())
    depth = std::max(depth, getDepth(operand));
  std::optional<Access> access = getAccess(op);
  if (access && !access->isStore)
    deepest = std::max(deepest, ++depth);
  for (Value result : op.getResults())
    depths[result] = {currentLoop, depth};
}

Value Counter::getFolded(Operation &op) {
  Value result = op.getResult(0);
  if (isa<arith::IndexCastOp, arith::IndexCastUIOp>(op))
    return op.getOperand(0);
  if (!isa<arith::ArithDialect>(op.getDialect()) ||
      !result.getType().isIntOrIndex() || isa<arith::ConstantOp>(op))
    return Value();
  if (std::optional<Interval> interval = get(result);
      interval && interval->isConstant())
    return result;
  if (op.getNumOperands() != 2)
    return Value();
  auto is = [&](unsigned operand, double number) {
    std::optional<Interval> interval = get(op.getOperand(operand));
    return interval && interval->isConstant() && interval->low == number;
  };
  bool adds = isa<arith::AddIOp>(op), multiplies = isa<arith::MulIOp>(op);
  if ((adds && is(1, 0)) ||
      (isa<arith::MulIOp, arith::DivUIOp, arith::DivSIOp>(op) && is(1, 1)))
    return op.getOperand(0);
  return (adds && is(0, 0)) || (multiplies && is(0, 1)) ? op.getOperand(1)
                                                        : Value();
}

/// Whether @value is the same in each iteration of the loop with @body.
static bool isInvariant(Value value, Block &body) {
  Operation *op = value.getDefiningOp();
  if (value.getParentBlock() != &body)
    return true;
  return op && isPure(op) &&
         llvm::all_of(op->getOperands(), [&](Value operand) {
           return isInvariant(operand, body);
         });
}

double Counter::getUsedPart(Operation &load) {
  double part = 1;
  if (!isa<scf::ForOp>(load.getParentOp()))
    return part;
  Operation *op = &load;
  while (op->hasOneUse()) {
    OpOperand &use = *op->use_begin();
    auto select = dyn_cast<arith::SelectOp>(use.getOwner());
    if (!select || use.getOperandNumber() == 0 ||
        !isInvariant(select.getCondition(), *load.getBlock()))
      break;
    std::optional<double> taken = getFrequency(select.getCondition());
    if (!taken)
      break;
    part *= use.getOperandNumber() == 1 ? *taken : 1 - *taken;
    op = select;
  }
  return part;
}

void Counter::add(const Access &access, Block *block, double times) {
  double bytes = threads * times * double(access.bytes);
  (access.isStore ? stored : loaded) += bytes;
  moved[{access.memory, block, unsigned(access.isStore)}] += bytes;
}

/// Bytes that loads, or stores, take from memory: of each memory, in each block
/// of the code, what is moved, at most all that there is. What threads or
/// iterations move again there comes from a cache.
double Counter::getOnce(bool ofStores) const {
  double sum = 0;
  for (const auto &[key, bytes] : moved) {
    auto type = cast<MemRefType>(std::get<Value>(key).getType());
    double all = type.hasStaticShape() ? double(type.getNumElements()) : bytes;
    if (bool(std::get<unsigned>(key)) == ofStores)
      sum += std::min(bytes, all * double(getBytes(type.getElementType())));
  }
  return sum;
}

/// Whether @loop goes over a block of what the loop around it does, from where
/// an iteration of that is to as many numbers on, or to the end.
static bool isOfBlock(scf::ForOp loop) {
  Value low = loop.getLowerBound(), high = loop.getUpperBound();
  if (auto lower = high.getDefiningOp<arith::MinUIOp>())
    high = lower.getLhs();
  auto next = high.getDefiningOp<arith::AddIOp>();
  auto around = dyn_cast<scf::ForOp>(loop->getParentOp());
  return around && low == around.getInductionVar() && next &&
         next.getLhs() == low && matchPattern(next.getRhs(), m_Constant());
}

double Counter::getTrips(scf::ForOp loop, const Interval &low,
                         const Interval &high, double step) {
  Range range = {low, high, 1};
  if (isOfBlock(loop))
    if (auto it = rangeOf.find(loop.getLowerBound()); it != rangeOf.end())
      range = it->second;
  double all = fsdp::getTrips(range.low, range.high, step),
         trips = range.trips > 0 ? all / range.trips : 0;
  rangeOf.insert({loop.getInductionVar(), {range.low, range.high, all}});
  return trips;
}

/// Iterations of a loop that ptxas makes one, whose loads are under way at
/// once.
static constexpr double kUnrolled = 4;

/// Whether ptxas does so with @loop: no load passes a store, which may be to
/// the same memory, or a barrier.
static bool isUnrolled(scf::ForOp loop, double trips) {
  return trips >= kUnrolled &&
         llvm::all_of(loop.getBody()->without_terminator(), [](Operation &op) {
           std::optional<Access> access = getAccess(op);
           return op.getNumRegions() == 0 && !isa<gpu::BarrierOp>(op) &&
                  !(access && access->isStore);
         });
}

void Counter::count(scf::ForOp loop, double times) {
  std::optional<Interval> low = get(loop.getLowerBound()),
                          high = get(loop.getUpperBound()),
                          step = get(loop.getStep());
  double trips = 1;
  if (low && high && step && step->isConstant() && step->low > 0) {
    double by = step->low;
    trips = getTrips(loop, *low, *high, by);
    // Threads that begin at other numbers are at others.
    double stride = low->isConstant()
                        ? by
                        : std::gcd(int64_t(low->stride), int64_t(by)),
           steps = std::ceil((high->high - low->low) / stride) - 1;
    known[loop.getInductionVar()] =
        Interval{low->low, low->low + stride * std::max(0.0, steps), stride};
  }
  tripsOf[loop.getInductionVar()] = trips;
  instructions += threads * times * trips * double(kLoopInstructions);
  results[unsigned(LaneUnit::Integer)] +=
      threads * times * trips * double(kLoopInstructions);
  // What was loaded before the loop is there when it begins.
  Operation *around = std::exchange(currentLoop, loop);
  int64_t before = std::exchange(deepest, 0);
  count(*loop.getBody(), times * trips, /*isLoop=*/true);
  waits += times * trips * double(deepest) /
           (isUnrolled(loop, trips) ? kUnrolled : 1);
  currentLoop = around;
  deepest = before;
}

void Counter::count(scf::IfOp branch, double times) {
  double taken = getFrequency(branch.getCondition()).value_or(1);
  count(*branch.thenBlock(), times * taken);
  if (branch.elseBlock())
    count(*branch.elseBlock(), times * (1 - taken));
  if (branch.getNumResults() == 0)
    return;
  for (auto [result, ofThen, ofElse] :
       llvm::zip(branch.getResults(), branch.thenYield().getOperands(),
                 branch.elseYield().getOperands()))
    depths[result] = {currentLoop,
                      std::max(getDepth(ofThen), getDepth(ofElse))};
}

//===----------------------------------------------------------------------===//
// Intervals
//===----------------------------------------------------------------------===//

std::optional<Interval> Counter::get(Value value) {
  if (auto it = known.find(value); it != known.end())
    return it->second;
  std::optional<Interval> interval = compute(value);
  known[value] = interval;
  return interval;
}

std::optional<Interval> Counter::compute(Value value) {
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant))) {
    if (constant.getSignificantBits() > 64)
      return std::nullopt;
    double number = double(constant.getSExtValue());
    return Interval{number, number};
  }
  Operation *op = value.getDefiningOp();
  if (!op)
    return std::nullopt;
  if (auto thread = dyn_cast<gpu::ThreadIdOp>(op))
    return thread.getDimension() == gpu::Dimension::x
               ? Interval{0, double(cost.threads - 1)}
               : Interval{0, 0};
  if (auto block = dyn_cast<gpu::BlockIdOp>(op))
    return block.getDimension() == gpu::Dimension::x
               ? Interval{0, double(cost.blocks - 1)}
               : Interval{0, 0};
  if (isa<arith::IndexCastOp, arith::IndexCastUIOp, arith::ExtUIOp,
          arith::ExtSIOp>(op))
    return get(op->getOperand(0));
  if (op->getNumOperands() != 2 || op->getNumResults() != 1)
    return std::nullopt;
  std::optional<Interval> a = get(op->getOperand(0)),
                          b = get(op->getOperand(1));
  if (!a || !b)
    return std::nullopt;
  bool isSum = isa<arith::AddIOp>(op);
  if (isSum || isa<arith::SubIOp>(op)) {
    double stride = a->isConstant()   ? b->stride
                    : b->isConstant() ? a->stride
                                      : getCommonStride(*a, *b);
    return isSum ? Interval{a->low + b->low, a->high + b->high, stride}
                 : Interval{a->low - b->high, a->high - b->low, stride};
  }
  if (isa<arith::MinUIOp, arith::MinSIOp>(op))
    return getClamped(*a, *b, std::min(a->low, b->low),
                      std::min(a->high, b->high));
  if (isa<arith::MaxUIOp, arith::MaxSIOp>(op))
    return getClamped(*a, *b, std::max(a->low, b->low),
                      std::max(a->high, b->high));
  if (!b->isConstant() || a->low < 0 || b->low <= 0)
    return std::nullopt;
  double by = b->low;
  if (isa<arith::MulIOp>(op))
    return Interval{a->low * by, a->high * by, a->stride * by};
  double quotient = std::max(1.0, std::floor(a->stride / by));
  if (isa<arith::CeilDivUIOp, arith::CeilDivSIOp>(op))
    return Interval{std::ceil(a->low / by), std::ceil(a->high / by), quotient};
  if (isa<arith::DivUIOp, arith::DivSIOp>(op))
    return Interval{std::floor(a->low / by), std::floor(a->high / by),
                    quotient};
  if (!isa<arith::RemUIOp, arith::RemSIOp>(op))
    return std::nullopt;
  if (std::floor(a->low / by) == std::floor(a->high / by))
    return Interval{std::fmod(a->low, by), std::fmod(a->high, by), a->stride};
  double stride = std::gcd(int64_t(a->stride), int64_t(by)),
         first = std::fmod(a->low, stride);
  return Interval{first, first + by - stride, stride};
}

std::optional<double> Counter::getFrequency(Value condition) {
  if (auto comparison = condition.getDefiningOp<arith::CmpIOp>())
    return getFrequency(comparison);
  if (auto both = condition.getDefiningOp<arith::AndIOp>()) {
    std::optional<double> a = getFrequency(both.getLhs()),
                          b = getFrequency(both.getRhs());
    if (!a || !b)
      return a ? a : b;
    return *a * *b;
  }
  return std::nullopt;
}

/// The loop of which @comparison asks whether another iteration follows:
/// whether its number and its step are below its end.
static scf::ForOp getContinuedLoop(arith::CmpIOp comparison) {
  auto next = comparison.getLhs().getDefiningOp<arith::AddIOp>();
  auto number = next ? dyn_cast<BlockArgument>(next.getLhs()) : BlockArgument();
  auto loop = number ? dyn_cast<scf::ForOp>(number.getOwner()->getParentOp())
                     : scf::ForOp();
  std::optional<int64_t> step, added;
  if (loop && loop.getInductionVar() == number) {
    step = getConstantIntValue(loop.getStep());
    added = getConstantIntValue(next.getRhs());
  }
  bool isBelow = comparison.getPredicate() == arith::CmpIPredicate::ult ||
                 comparison.getPredicate() == arith::CmpIPredicate::slt;
  return step && step == added && isBelow &&
                 comparison.getRhs() == loop.getUpperBound()
             ? loop
             : scf::ForOp();
}

/// By the difference of both sides, which is one of as many numbers.
std::optional<double> Counter::getFrequency(arith::CmpIOp comparison) {
  // All iterations of each thread but the last.
  if (scf::ForOp loop = getContinuedLoop(comparison))
    if (double trips = tripsOf.lookup(loop.getInductionVar()); trips >= 1)
      return (trips - 1) / trips;
  std::optional<Interval> a = get(comparison.getLhs()),
                          b = get(comparison.getRhs());
  if (!a || !b)
    return std::nullopt;
  double stride = a->isConstant()   ? b->stride
                  : b->isConstant() ? a->stride
                                    : getCommonStride(*a, *b),
         low = a->low - b->high, high = a->high - b->low,
         numbers = (high - low) / stride + 1;
  // Of the differences, those below @limit.
  auto below = [&](double limit) {
    return std::clamp(std::ceil((limit - low) / stride) / numbers, 0.0, 1.0);
  };
  double equal = below(1) - below(0);
  switch (comparison.getPredicate()) {
  case arith::CmpIPredicate::eq:
    return equal;
  case arith::CmpIPredicate::ne:
    return 1 - equal;
  case arith::CmpIPredicate::slt:
  case arith::CmpIPredicate::ult:
    return below(0);
  case arith::CmpIPredicate::sle:
  case arith::CmpIPredicate::ule:
    return below(1);
  case arith::CmpIPredicate::sgt:
  case arith::CmpIPredicate::ugt:
    return 1 - below(1);
  case arith::CmpIPredicate::sge:
  case arith::CmpIPredicate::uge:
    return 1 - below(0);
  }
  llvm_unreachable("not a predicate");
}

SmallVector<LaunchCost, 0> fsdp::getLaunchCosts(func::FuncOp kernel) {
  SmallVector<LaunchCost, 0> costs;
  CudaCodeAttr code = getCudaCode(kernel);
  if (!code)
    return costs;
  for (CudaKernelAttr launch : code.getKernels()) {
    auto function = dyn_cast_if_present<gpu::GPUFuncOp>(
        SymbolTable::lookupNearestSymbolFrom(kernel, launch.getFunction()));
    // What is no gpu.func any more has nothing to count.
    if (!function)
      return {};
    costs.push_back(Counter(function, launch).count());
  }
  return costs;
}
