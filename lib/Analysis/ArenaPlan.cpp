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

using namespace mlir;
using namespace mlir::fsdp;

//===----------------------------------------------------------------------===//
// Planner
//===----------------------------------------------------------------------===//

namespace {
/// Memory that several values are parts of.
struct Storage {
  int64_t bytes = 0;
  Purpose purpose = Purpose::Activations;
  bool isState = false, isCommunicated = false;
  /// In the host's memory.
  bool isHost = false;
  /// The ops that read or write it.
  SmallVector<int, 4> touches;
  int64_t offset = 0;
};

/// A value as a part of a storage.
struct Place {
  int storage;
  int64_t offset;
};

class Planner {
public:
  Planner(func::FuncOp step, bool draft, int64_t border)
      : step(step), draft(draft), border(border),
        block(step.getBody().front()) {}

  ArenaPlan plan();

private:
  int create(Type type, Purpose purpose);
  void alias(Value value, Value base, int64_t offset);
  void touch(ValueRange values, int op, bool communicates);

  void placeArguments();
  void placePacks();
  void placeReplacements();
  void placeResults(Operation &op);
  void placeReduction(Value result, Value input, Operation &op);
  void placeTransfers(StartOp start);
  bool isOverwritable(StartOp start, BlockArgument arg);
  void order();
  std::vector<ArenaBuffer> getLives(ArrayRef<Storage *> storages) const;
  int64_t pack(std::vector<ArenaBuffer> &buffers) const;
  void placeOnHost(ArrayRef<Storage *> storages, ArenaPlan &plan);
  void placeStorages(ArenaPlan &plan);

  func::FuncOp step;
  bool draft;
  int64_t border;
  Block &block;
  EventOrder events;
  std::vector<Storage> storages;
  llvm::DenseMap<Value, Place> places;
  /// Arguments whose old value no later step needs.
  llvm::SmallDenseSet<Value> replaced;
};
} // namespace

int Planner::create(Type type, Purpose purpose) {
  Storage &storage = storages.emplace_back();
  storage.bytes = llvm::alignTo(std::max<int64_t>(getTensorBytes(type), 1),
                                kArenaAlignment) +
                  border;
  storage.purpose = purpose;
  storage.isHost = isa<HostType>(type);
  return storages.size() - 1;
}

void Planner::alias(Value value, Value base, int64_t offset) {
  Place place = places.find(base)->second;
  place.offset += offset;
  places[value] = place;
}

/// Whether `value` has memory of its own, that no argument and no other value
/// is a part of.
static bool isWhole(Value value) {
  return value.getDefiningOp() && !isView(value.getDefiningOp());
}

/// What the step takes stays where it is: the runtime fills it.
void Planner::placeArguments() {
  for (BlockArgument arg : step.getArguments()) {
    unsigned i = arg.getArgNumber();
    Purpose purpose = step.getArgAttr(i, names::kShard)   ? Purpose::Parameters
                      : step.getArgAttr(i, names::kState) ? Purpose::Optimizer
                                                          : Purpose::Other;
    int storage = create(arg.getType(), purpose);
    storages[storage].isState = true;
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
    int storage = create(pack.getType(), Purpose::Gradients);
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
  places[result] = {create(result.getType(), Purpose::Gradients), 0};
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

/// What @op's results are for, but for parts of a pack.
static Purpose getPurpose(Operation *op) {
  if (isa<AllGatherOp>(op))
    return Purpose::Gathered;
  return isa<CollectiveOpInterface>(op) ? Purpose::Gradients
                                        : Purpose::Activations;
}

void Planner::placeTransfers(StartOp start) {
  for (BlockArgument arg : start.getBody().getArguments())
    alias(arg, start.getSource(arg), 0);
  for (Operation &op : start.getTransfers()) {
    auto transfer = cast<TransferOpInterface>(op);
    auto arg = dyn_cast<BlockArgument>(transfer.getSource());
    if (isa<AllReduceOp>(op) && arg && isOverwritable(start, arg)) {
      alias(transfer.getBrought(), arg, 0);
      continue;
    }
    places[transfer.getBrought()] = {
        create(transfer.getBrought().getType(), getPurpose(&op)), 0};
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
    places[result] = {create(result.getType(), getPurpose(&op)), 0};
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

//===----------------------------------------------------------------------===//
// Lives
//===----------------------------------------------------------------------===//

void Planner::touch(ValueRange values, int op, bool communicates) {
  for (Value value : values) {
    Storage &storage = storages[places.find(value)->second.storage];
    if (storage.touches.empty() || storage.touches.back() != op)
      storage.touches.push_back(op);
    storage.isCommunicated |= communicates;
  }
}

/// What touches which memory, and what comes before what.
void Planner::order() {
  llvm::DenseMap<Operation *, int> starts;
  for (Operation &op : block) {
    if (isView(&op))
      continue;
    if (auto wait = dyn_cast<WaitOp>(op)) {
      events.addWait(starts.lookup(wait.getToken().getDefiningOp()));
      continue;
    }
    auto start = dyn_cast<StartOp>(op);
    if (!start) {
      int id = events.addCompute();
      bool communicates = isa<CollectiveOpInterface>(op);
      touch(op.getOperands(), id, communicates);
      touch(op.getResults(), id, communicates);
      continue;
    }
    SmallVector<int> after;
    for (Value token : start.getAfter())
      after.push_back(starts.lookup(token.getDefiningOp()));
    int id = events.addStart(Queue(start.getQueue()), after);
    starts[start] = id;
    for (Operation &transfer : start.getTransfers()) {
      bool communicates = isa<CollectiveOpInterface>(transfer);
      touch(transfer.getOperands(), id, communicates);
      touch(transfer.getResults(), id, communicates);
    }
  }
}

//===----------------------------------------------------------------------===//
// Segments
//===----------------------------------------------------------------------===//

/// The lives of @storages, which the order of events may let share bytes.
std::vector<ArenaBuffer> Planner::getLives(ArrayRef<Storage *> storages) const {
  std::vector<ArenaBuffer> buffers;
  for (const Storage *storage : storages) {
    buffers.push_back(getLife(events, storage->touches));
    buffers.back().size = storage->bytes;
  }
  return buffers;
}

int64_t Planner::pack(std::vector<ArenaBuffer> &buffers) const {
  return draft ? placeLargestFirst(events, buffers)
               : packBuffers(events, buffers);
}

/// An arena of its own, from 0 on.
void Planner::placeOnHost(ArrayRef<Storage *> storages, ArenaPlan &plan) {
  if (storages.empty())
    return;
  std::vector<ArenaBuffer> buffers = getLives(storages);
  plan.hostBytes = pack(buffers);
  for (auto [storage, buffer] : llvm::zip(storages, buffers))
    storage->offset = buffer.offset;
}

/// Puts what moves on top of what does not, what is communicated low.
void Planner::placeStorages(ArenaPlan &plan) {
  SmallVector<Storage *> state, moving, host;
  for (Storage &storage : storages)
    (storage.isHost    ? host
     : storage.isState ? state
                       : moving)
        .push_back(&storage);
  placeOnHost(host, plan);
  auto use = [&](const Storage &storage) {
    plan.atPeak[unsigned(storage.purpose)] += storage.bytes;
  };
  // The runtime fills arguments, and the next step finds them where they were.
  int64_t base = 0;
  llvm::sort(state, [](const Storage *a, const Storage *b) {
    // Storages lie in the order of the arguments.
    return std::make_pair(-a->bytes, a) < std::make_pair(-b->bytes, b);
  });
  for (Storage *storage : state) {
    storage->offset = base;
    base += storage->bytes;
    use(*storage);
  }

  std::vector<ArenaBuffer> buffers = getLives(moving);
  int64_t bytes = pack(buffers);
  if (!draft)
    for (unsigned i : getHeaviestTogether(events, buffers)) {
      plan.bound += buffers[i].size;
      use(*moving[i]);
    }
  plan.bufferCount = buffers.size();
  plan.totalBytes = base + bytes;

  // Upside down it is as good a placement.
  int64_t top = 0, topUpsideDown = 0;
  for (auto [storage, buffer] : llvm::zip(moving, buffers))
    if (storage->isCommunicated) {
      top = std::max(top, buffer.offset + buffer.size);
      topUpsideDown = std::max(topUpsideDown, bytes - buffer.offset);
    }
  for (auto [storage, buffer] : llvm::zip(moving, buffers))
    storage->offset =
        base + (topUpsideDown < top ? bytes - buffer.offset - buffer.size
                                    : buffer.offset);
  top = std::min(top, topUpsideDown);
  plan.segmentOffset = {0, base, base + top};
  plan.segmentBytes = {base, top, bytes - top};
}

ArenaPlan Planner::plan() {
  placeArguments();
  placePacks();
  placeTiedChains(block, places);
  placeReplacements();
  for (Operation &op : block.without_terminator())
    placeResults(op);
  order();
  ArenaPlan result;
  placeStorages(result);
  for (auto &[value, place] : places)
    result.offsets[value] = storages[place.storage].offset + place.offset;
  return result;
}

ArenaPlan fsdp::planArena(func::FuncOp step, bool draft, int64_t border) {
  return Planner(step, draft, border).plan();
}
