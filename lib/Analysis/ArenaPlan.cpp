//===- ArenaPlan.cpp - Where every value of a step lies -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/ArenaPlan.h"
#include "fsdp/Analysis/ComputeOps.h"
#include "fsdp/Analysis/InputContract.h"
#include "fsdp/Analysis/StepArguments.h"
#include "fsdp/Analysis/StepStructure.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <map>

using namespace mlir;
using namespace mlir::fsdp;

//===----------------------------------------------------------------------===//
// Placement
//===----------------------------------------------------------------------===//

int64_t fsdp::placeBuffers(MutableArrayRef<ArenaBuffer> buffers) {
  SmallVector<unsigned> order;
  for (unsigned i = 0, e = buffers.size(); i != e; ++i)
    order.push_back(i);
  llvm::sort(order, [&](unsigned a, unsigned b) {
    return std::make_tuple(-buffers[a].size, buffers[a].begin, a) <
           std::make_tuple(-buffers[b].size, buffers[b].begin, b);
  });
  // Placed buffers, by offset.
  SmallVector<const ArenaBuffer *> placed;
  int64_t total = 0;
  for (unsigned i : order) {
    ArenaBuffer &buffer = buffers[i];
    int64_t offset = 0;
    for (const ArenaBuffer *other : placed) {
      if (other->end < buffer.begin || buffer.end < other->begin)
        continue;
      if (offset + buffer.size <= other->offset)
        break;
      offset = std::max(offset, other->offset + other->size);
    }
    buffer.offset = offset;
    total = std::max(total, offset + buffer.size);
    auto position =
        llvm::upper_bound(placed, offset, [](int64_t o, const ArenaBuffer *b) {
          return o < b->offset;
        });
    placed.insert(position, &buffer);
  }
  return total;
}

/// Changes of the bytes in use, by time.
static std::map<int, int64_t> getChanges(ArrayRef<ArenaBuffer> buffers) {
  std::map<int, int64_t> changes;
  for (const ArenaBuffer &buffer : buffers) {
    changes[buffer.begin] += buffer.size;
    changes[buffer.end + 1] -= buffer.size;
  }
  return changes;
}

int64_t fsdp::getPeak(ArrayRef<ArenaBuffer> buffers) {
  int64_t peak = 0, current = 0;
  for (auto [time, change] : getChanges(buffers)) {
    current += change;
    peak = std::max(peak, current);
  }
  return peak;
}

//===----------------------------------------------------------------------===//
// Planner
//===----------------------------------------------------------------------===//

namespace {
/// Memory that several values are parts of.
struct Storage {
  ArenaBuffer buffer;
  Segment segment = Segment::Transient;
  Purpose purpose = Purpose::Activations;
};

/// A value as a part of a storage.
struct Place {
  int storage;
  int64_t offset;
};

class Planner {
public:
  explicit Planner(func::FuncOp step)
      : step(step), block(step.getBody().front()) {}

  ArenaPlan plan();

private:
  int create(int64_t bytes, int begin, Segment segment, Purpose purpose);
  void alias(Value value, Value base, int64_t offset);
  void use(Value value, int time);

  void placeArguments();
  void placePacks();
  void placeReplacements();
  void placeResults(Operation &op);
  void placeReduction(Value result, Value input, Operation &op);
  void placeTransfers(StartOp start);
  bool isOverwritable(StartOp start, BlockArgument arg);
  void useTransfers(StartOp start);

  func::FuncOp step;
  Block &block;
  llvm::DenseMap<Operation *, int> time;
  std::vector<Storage> storages;
  llvm::DenseMap<Value, Place> places;
  /// Arguments whose old value no later step needs.
  llvm::SmallDenseSet<Value> replaced;
};
} // namespace

int Planner::create(int64_t bytes, int begin, Segment segment,
                    Purpose purpose) {
  Storage &storage = storages.emplace_back();
  storage.buffer.size =
      llvm::alignTo(std::max<int64_t>(bytes, 1), kArenaAlignment);
  storage.buffer.begin = storage.buffer.end = begin;
  storage.segment = segment;
  storage.purpose = purpose;
  return storages.size() - 1;
}

void Planner::alias(Value value, Value base, int64_t offset) {
  Place place = places.find(base)->second;
  place.offset += offset;
  places[value] = place;
}

void Planner::use(Value value, int when) {
  ArenaBuffer &buffer = storages[places.find(value)->second.storage].buffer;
  buffer.begin = std::min(buffer.begin, when);
  buffer.end = std::max(buffer.end, when);
}

/// Whether `value` has memory of its own, that no argument and no other value
/// is a part of.
static bool isWhole(Value value) {
  return value.getDefiningOp() && !isView(value.getDefiningOp());
}

/// What the step takes stays where it is: the runtime fills it.
void Planner::placeArguments() {
  int last = time.size();
  for (BlockArgument arg : step.getArguments()) {
    unsigned i = arg.getArgNumber();
    Purpose purpose = step.getArgAttr(i, names::kShard)   ? Purpose::Parameters
                      : step.getArgAttr(i, names::kState) ? Purpose::Optimizer
                                                          : Purpose::Other;
    int storage =
        create(getTensorBytes(arg.getType()), 0, Segment::State, purpose);
    storages[storage].buffer.end = last;
    places[arg] = {storage, 0};
  }
}

/// The value behind reshapes, which keep every byte in place.
static Value lookThroughReshapes(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

/// Parts of a pack are computed where they will lie, if they are results of
/// launches and lie nowhere else yet. Other parts are copied.
void Planner::placePacks() {
  for (auto pack : block.getOps<PackOp>()) {
    int storage = create(getTensorBytes(pack.getType()), time[pack],
                         Segment::Communicated, Purpose::Gradients);
    places[pack.getResult()] = {storage, 0};
    int64_t elementBytes =
        llvm::divideCeil(pack.getType().getElementTypeBitWidth(), 8);
    for (auto [part, offset] : llvm::zip(pack.getParts(), pack.getOffsets())) {
      Value value = lookThroughReshapes(part);
      auto launch = value.getDefiningOp<LaunchOp>();
      if (!launch || places.contains(value) ||
          launch.getTiedInput(cast<OpResult>(value).getResultNumber()) >= 0)
        continue;
      places[value] = {storage, offset * elementBytes};
      // A tied chain (a scatter into a product) starts where it ends.
    }
  }
}

/// A new state goes over the old one where nothing reads the old one any more.
void Planner::placeReplacements() {
  for (auto [result, arg] : getReplacedArguments(step)) {
    replaced.insert(arg);
    Value value =
        lookThroughReshapes(block.getTerminator()->getOperand(result));
    auto launch = value.getDefiningOp<LaunchOp>();
    if (!launch || places.contains(value) ||
        launch.getTiedInput(cast<OpResult>(value).getResultNumber()) >= 0)
      continue;
    // The launch itself would have to be tied.
    if (!isReadAfter(arg, launch) &&
        !llvm::is_contained(arg.getUsers(), launch.getOperation()))
      alias(value, arg, 0);
  }
}

/// A reduction may write over its input.
void Planner::placeReduction(Value result, Value input, Operation &op) {
  if (!isReadAfter(input, &op) && isWhole(input)) {
    alias(result, input, 0);
    return;
  }
  places[result] = {create(getTensorBytes(result.getType()), time[&op],
                           Segment::Communicated, Purpose::Gradients),
                    0};
}

/// Whether nobody but @start reads what comes through @arg, so that it may
/// write there.
bool Planner::isOverwritable(StartOp start, BlockArgument arg) {
  Value source = start.getSource(arg);
  if (source.getParentBlock() == &block)
    return isWhole(source) && !isReadAfter(source, start);
  // What another transfer brought is its own memory, and compute could read it
  // behind the wait.
  auto other = cast<StartOp>(source.getParentBlock()->getParentOp());
  auto index = llvm::find(other.getYielded(), source).getIndex();
  auto readers = llvm::count_if(other.getToken().getUsers(),
                                [](auto *user) { return isa<StartOp>(user); });
  WaitOp wait = other.getWait();
  return readers == 1 && (!wait || wait.getResult(index).use_empty());
}

void Planner::placeTransfers(StartOp start) {
  for (BlockArgument arg : start.getBody().getArguments())
    alias(arg, start.getSource(arg), 0);
  for (Operation &op : start.getCollectives()) {
    auto collective = cast<CollectiveOpInterface>(op);
    auto arg = dyn_cast<BlockArgument>(collective.getInput());
    if (isa<AllReduceOp>(op) && arg && isOverwritable(start, arg)) {
      alias(collective.getResult(), arg, 0);
      continue;
    }
    places[collective.getResult()] = {
        create(getTensorBytes(collective.getResult().getType()), time[start],
               Segment::Communicated,
               isa<AllGatherOp>(op) ? Purpose::Gathered : Purpose::Gradients),
        0};
  }
}

/// From its start until compute knows that it is over, a transfer needs what it
/// reads and what it writes.
void Planner::useTransfers(StartOp start) {
  WaitOp wait = start.getWait();
  int end = wait ? time[wait] : int(time.size());
  for (BlockArgument arg : start.getBody().getArguments())
    if (!arg.use_empty()) {
      use(arg, time[start]);
      use(arg, end);
    }
  for (Value value : start.getYielded()) {
    use(value, time[start]);
    use(value, end);
  }
}

void Planner::placeResults(Operation &op) {
  if (auto start = dyn_cast<StartOp>(op))
    return placeTransfers(start);
  if (auto wait = dyn_cast<WaitOp>(op)) {
    auto start = wait.getToken().getDefiningOp<StartOp>();
    for (auto [result, value] :
         llvm::zip(wait.getResults(), start.getYielded()))
      alias(result, value, 0);
    return;
  }
  if (auto view = dyn_cast<ViewOp>(op)) {
    int64_t bytes =
        llvm::divideCeil(view.getType().getElementTypeBitWidth(), 8);
    return alias(view.getResult(), view.getSource(), view.getOffset() * bytes);
  }
  if (isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(op))
    return alias(op.getResult(0), op.getOperand(0), 0);
  if (auto reduce = dyn_cast<AllReduceOp>(op))
    return placeReduction(reduce.getResult(), reduce.getInput(), op);
  for (OpResult result : op.getResults()) {
    if (places.contains(result))
      continue;
    if (auto launch = dyn_cast<LaunchOp>(op)) {
      int64_t tied = launch.getTiedInput(result.getResultNumber());
      // Otherwise a copy is made first: convert-fsdp-to-runtime sees that the
      // places differ. An argument that nothing replaces must stay as it is.
      if (tied >= 0 && !isReadAfter(launch.getInputs()[tied], &op) &&
          (replaced.contains(launch.getInputs()[tied]) ||
           isWhole(launch.getInputs()[tied]))) {
        alias(result, launch.getInputs()[tied], 0);
        continue;
      }
    }
    bool communicated = isa<CollectiveOpInterface>(op);
    Purpose purpose = isa<AllGatherOp>(op) ? Purpose::Gathered
                      : communicated       ? Purpose::Gradients
                                           : Purpose::Activations;
    // What is sent lies with what is received.
    if (llvm::any_of(result.getUsers(),
                     llvm::IsaPred<CollectiveOpInterface, StartOp>))
      communicated = true;
    places[result] = {
        create(getTensorBytes(result.getType()), time[&op],
               communicated ? Segment::Communicated : Segment::Transient,
               purpose),
        0};
  }
}

/// A result that is tied to a value, which is tied in turn, ... lies where the
/// pack wants the last of them.
static void placeTiedChains(Block &block,
                            llvm::DenseMap<Value, Place> &places) {
  for (auto pack : block.getOps<PackOp>()) {
    int64_t elementBytes =
        llvm::divideCeil(pack.getType().getElementTypeBitWidth(), 8);
    Place base = places.find(pack.getResult())->second;
    for (auto [part, offset] : llvm::zip(pack.getParts(), pack.getOffsets())) {
      SmallVector<Value> chain;
      Value value = lookThroughReshapes(part);
      while (auto launch = value.getDefiningOp<LaunchOp>()) {
        chain.push_back(value);
        int64_t tied =
            launch.getTiedInput(cast<OpResult>(value).getResultNumber());
        if (tied < 0)
          break;
        value = launch.getInputs()[tied];
        if (!value.hasOneUse())
          break;
      }
      if (chain.size() < 2 ||
          llvm::any_of(chain, [&](Value v) { return places.contains(v); }))
        continue;
      for (Value v : chain)
        places[v] = {base.storage, base.offset + offset * elementBytes};
    }
  }
}

ArenaPlan Planner::plan() {
  for (Operation &op : block)
    time[&op] = time.size();
  placeArguments();
  placePacks();
  placeTiedChains(block, places);
  placeReplacements();
  for (Operation &op : block.without_terminator())
    placeResults(op);
  for (Operation &op : block) {
    if (auto start = dyn_cast<StartOp>(op)) {
      useTransfers(start);
      continue;
    }
    for (Value result : op.getResults())
      use(result, time[&op]);
    if (!isa<WaitOp>(op))
      for (Value operand : op.getOperands())
        use(operand, time[&op]);
  }

  ArenaPlan result;
  SmallVector<ArenaBuffer> dynamic;
  for (unsigned s = 0; s != kSegmentNames.size(); ++s) {
    SmallVector<ArenaBuffer> buffers;
    SmallVector<unsigned> which;
    for (auto [i, storage] : llvm::enumerate(storages))
      if (unsigned(storage.segment) == s) {
        buffers.push_back(storage.buffer);
        which.push_back(i);
      }
    result.segmentOffset[s] = result.totalBytes;
    result.segmentBytes[s] = placeBuffers(buffers);
    for (auto [i, buffer] : llvm::zip(which, buffers))
      storages[i].buffer.offset = result.totalBytes + buffer.offset;
    result.totalBytes += result.segmentBytes[s];
    if (Segment(s) != Segment::State)
      llvm::append_range(dynamic, buffers);
  }
  for (auto &[value, place] : places)
    result.offsets[value] =
        storages[place.storage].buffer.offset + place.offset;

  // When is most memory in use, and what for?
  int64_t peak = -1, current = 0;
  int when = 0;
  for (auto [moment, change] : getChanges(dynamic)) {
    current += change;
    if (current > peak) {
      peak = current;
      when = moment;
    }
  }
  for (Storage &storage : storages)
    if (storage.buffer.begin <= when && when <= storage.buffer.end)
      result.atPeak[unsigned(storage.purpose)] += storage.buffer.size;
  return result;
}

ArenaPlan fsdp::planArena(func::FuncOp step) { return Planner(step).plan(); }
