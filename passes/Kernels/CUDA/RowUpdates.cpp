//===- RowUpdates.cpp - Rows of a table that data names -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowUpdates.h"
#include "BlockReduction.h"
#include "CudaKernels.h"
#include "LaunchStages.h"
#include "MatrixInstructions.h"
#include "ParallelLoops.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::fsdp;

/// Iterations that a thread takes of a tile, whose rows it loads at once, and
/// all of a tile.
constexpr int64_t kOfThread = 8, kTile = kOfThread * kPointThreads;
/// Listed iterations whose values are loaded at once.
constexpr int64_t kAtOnce = 8;
constexpr int64_t kWarps = kPointThreads / kWarpThreads;
/// Places in shared memory: how many each warp lists of each kPointThreads
/// iterations, then the list, and for each of it the indices of its row.
constexpr int64_t kCounts = 0, kList = kOfThread * kWarps;

//===----------------------------------------------------------------------===//
// Analysis
//===----------------------------------------------------------------------===//

/// Whether @memory aliases another such value only where both are one value.
static bool hasOneName(Value memory) {
  auto argument = dyn_cast<BlockArgument>(memory);
  return (argument &&
          isa<FunctionOpInterface>(argument.getOwner()->getParentOp())) ||
         memory.getDefiningOp<memref::GetGlobalOp>() ||
         memory.getDefiningOp<memref::AllocOp>() ||
         memory.getDefiningOp<memref::ViewOp>();
}

/// The ops of @block that @values are computed by, in their order, up to
/// @known.
static SmallVector<Operation *> getSlice(Block *block, ValueRange values,
                                         const IRMapping &known) {
  llvm::SetVector<Operation *> slice;
  SmallVector<Value> open(values);
  while (!open.empty()) {
    Value value = open.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (known.contains(value) || !op || op->getBlock() != block ||
        !slice.insert(op))
      continue;
    llvm::append_range(open, op->getOperands());
  }
  SmallVector<Operation *> inOrder = slice.takeVector();
  llvm::sort(inOrder,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return inOrder;
}

/// Whether @value is, or is computed in @block by, one for which @from holds.
static bool dependsOn(Block *block, Value value,
                      llvm::function_ref<bool(Value)> from) {
  return from(value) ||
         llvm::any_of(getSlice(block, value, IRMapping()), [&](Operation *op) {
           return llvm::any_of(op->getOperands(), from);
         });
}

/// Whether @value is, or is computed anywhere in @columns by, one of its
/// variables.
static bool dependsOnColumn(scf::ParallelOp columns, Value value) {
  llvm::SetVector<Value> values;
  values.insert(value);
  for (size_t i = 0; i != values.size(); ++i) {
    if (llvm::is_contained(columns.getInductionVars(), values[i]))
      return true;
    Operation *op = values[i].getDefiningOp();
    if (op && columns->isProperAncestor(op))
      values.insert(op->operand_begin(), op->operand_end());
  }
  return false;
}

/// The loop that is all that @columns does but for ops without effects.
static scf::ForOp getOnlyLoop(scf::ParallelOp columns) {
  scf::ForOp only;
  for (Operation &op : columns.getBody()->without_terminator()) {
    auto loop = dyn_cast<scf::ForOp>(op);
    if (loop && !only && loop.getNumResults() == 0)
      only = loop;
    else if (loop || op.getNumRegions() != 0 || !isMemoryEffectFree(&op))
      return nullptr;
  }
  return only;
}

static std::optional<int64_t> getIterations(scf::ForOp loop) {
  std::optional<int64_t> low = getConstantIntValue(loop.getLowerBound()),
                         high = getConstantIntValue(loop.getUpperBound()),
                         step = getConstantIntValue(loop.getStep());
  if (!low || !high || !step || *step <= 0 || *high <= *low)
    return std::nullopt;
  return llvm::divideCeil(*high - *low, *step);
}

/// Finds the only store of the loop, and the only load of what it writes.
static bool findAccesses(RowUpdates &updates) {
  SmallVector<memref::LoadOp> loads;
  for (Operation &op : updates.loop.getBody()->without_terminator()) {
    if (auto store = dyn_cast<memref::StoreOp>(op)) {
      if (updates.store)
        return false;
      updates.store = store;
    } else if (auto load = dyn_cast<memref::LoadOp>(op)) {
      loads.push_back(load);
    } else if (op.getNumRegions() != 0 || !isMemoryEffectFree(&op)) {
      return false;
    }
  }
  if (!updates.store || !hasOneName(updates.store.getMemRef()))
    return false;
  for (memref::LoadOp load : loads) {
    if (!hasOneName(load.getMemRef()))
      return false;
    if (load.getMemRef() != updates.store.getMemRef())
      continue;
    if (updates.old || load.getIndices() != updates.store.getIndices())
      return false;
    updates.old = load;
  }
  return bool(updates.old);
}

std::optional<RowUpdates> fsdp::matchRowUpdates(scf::ParallelOp columns) {
  RowUpdates updates;
  updates.columns = columns;
  if (columns.getNumReductions() != 0 || !getPointCount(columns))
    return std::nullopt;
  updates.loop = getOnlyLoop(columns);
  std::optional<int64_t> iterations =
      updates.loop ? getIterations(updates.loop) : std::nullopt;
  if (!iterations || !findAccesses(updates))
    return std::nullopt;
  updates.iterations = *iterations;
  Block *body = updates.loop.getBody();
  auto isIteration = [&](Value value) {
    return value == updates.loop.getInductionVar();
  };
  auto isLoaded = [&](Value value) {
    return bool(value.getDefiningOp<memref::LoadOp>());
  };
  auto isOld = [&](Value value) { return value == updates.old.getResult(); };
  bool isNamedByData = false;
  for (auto [i, index] : llvm::enumerate(updates.store.getIndices())) {
    Operation *maker = index.getDefiningOp();
    bool isOfLoop = maker && maker->getBlock() == body;
    if (!dependsOn(body, index, isIteration)) {
      if (isOfLoop)
        return std::nullopt;
      continue;
    }
    if (dependsOnColumn(columns, index) || dependsOn(body, index, isOld))
      return std::nullopt;
    updates.rowPlaces.push_back(i);
    isNamedByData |= dependsOn(body, index, isLoaded);
  }
  // Each column variable is an index: threads write to disjoint elements.
  for (Value variable : columns.getInductionVars())
    if (!llvm::is_contained(updates.store.getIndices(), variable))
      return std::nullopt;
  return isNamedByData ? std::optional(updates) : std::nullopt;
}

//===----------------------------------------------------------------------===//
// Decision
//===----------------------------------------------------------------------===//

/// Blocks that keep a card of 132 multiprocessors busy, 4 on each, and that it
/// holds at once, 16 on each.
constexpr int64_t kBusyBlocks = 528, kMostResident = 2112;

static int64_t getColumnBlocks(const RowUpdates &updates) {
  return llvm::divideCeil(*getPointCount(updates.columns), kPointThreads);
}

std::optional<int64_t> fsdp::chooseRowOwners(const RowUpdates &updates) {
  // Below half a tile the listing costs more than it saves.
  if (updates.iterations < kTile / 2 ||
      getRowSlots(updates) * int64_t(sizeof(int64_t)) > kMostShared)
    return std::nullopt;
  int64_t columns = getColumnBlocks(updates);
  int64_t owners =
      llvm::bit_ceil(uint64_t(llvm::divideCeil(kBusyBlocks, columns)));
  owners = std::min<int64_t>(
      owners, llvm::bit_floor(uint64_t(updates.iterations / kAtOnce)));
  auto getRounds = [](int64_t blocks) {
    return llvm::divideCeil(blocks, kMostResident);
  };
  // For the row, and for its element; of a tile for all rows, then for each of
  // as many iterations as a block has of all.
  int64_t before = 2 * updates.iterations * getRounds(columns),
          after = (2 * llvm::divideCeil(updates.iterations, kTile) +
                   2 * llvm::divideCeil(updates.iterations, owners)) *
                  getRounds(columns * owners);
  return after < before ? std::optional(owners) : std::nullopt;
}

int64_t fsdp::getRowSlots(const RowUpdates &updates) {
  return kList + kTile * int64_t(1 + updates.rowPlaces.size());
}

int64_t fsdp::getRowBlocks(const RowUpdates &updates, int64_t owners) {
  return getColumnBlocks(updates) * owners;
}

//===----------------------------------------------------------------------===//
// Emission
//===----------------------------------------------------------------------===//

namespace {
/// Values that pass from one listed iteration to the next: whether a row's
/// element is held, the row's indices, the element.
struct Held {
  Value is;
  SmallVector<Value> row;
  Value element;

  SmallVector<Value> pack() const {
    SmallVector<Value> values = {is};
    llvm::append_range(values, row);
    values.push_back(element);
    return values;
  }
  static Held unpack(ValueRange values) {
    return {values.front(), SmallVector<Value>(values.drop_front().drop_back()),
            values.back()};
  }
};

class RowEmitter {
public:
  RowEmitter(RowUpdates updates, gpu::GPUFuncOp function, int64_t owners)
      : updates(updates), owners(owners), builder(updates.columns),
        loc(updates.columns->getLoc()),
        slots(function.getWorkgroupAttributions().front()) {}
  void emit();

private:
  Value index(int64_t number) {
    return arith::ConstantIndexOp::create(builder, loc, number);
  }
  Value word(int64_t number) {
    return arith::ConstantIntOp::create(builder, loc, number, 32);
  }
  Value add(Value a, Value b) {
    return arith::AddIOp::create(builder, loc, a, b);
  }
  Value isBelow(Value a, Value b) {
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, a, b);
  }
  Value loadSlot(Value place) {
    Value bits = memref::LoadOp::create(builder, loc, slots, place);
    return arith::IndexCastOp::create(builder, loc, builder.getIndexType(),
                                      bits);
  }
  void storeSlot(Value value, Value place) {
    Value bits =
        arith::IndexCastOp::create(builder, loc, builder.getI64Type(), value);
    memref::StoreOp::create(builder, loc, bits, slots, place);
  }
  /// Runs @emitBody where @condition holds.
  void runIf(Value condition, llvm::function_ref<void()> emitBody);
  /// The same with results; @emitElse where it does not.
  Held chooseIf(Value condition, llvm::function_ref<Held()> emitThen,
                llvm::function_ref<Held()> emitElse);

  /// What an iteration of the loop is at, given its number.
  IRMapping at(Value number);
  SmallVector<Value> getRow(IRMapping &mapping);
  Value isOwned(ArrayRef<Value> row);
  /// Lists those of the tile that begins at iteration @first whose rows are the
  /// block's; how many these are.
  Value list(Value first);
  /// Updates by the listed iterations from @first on, of @count.
  Held update(Value first, Value count, Held held);
  Held updateOne(IRMapping &mapping, ArrayRef<Value> row, const Held &held);
  void store(const Held &held);
  SmallVector<Value> getIndices(ArrayRef<Value> row);

  RowUpdates updates;
  int64_t owners;
  OpBuilder builder;
  Location loc;
  Value slots;
  Value thread, warp, lane, block, isColumn;
  /// Column variables, and what is computed by them before the loop.
  IRMapping ofColumn;
};
} // namespace

void RowEmitter::runIf(Value condition, llvm::function_ref<void()> emitBody) {
  auto branch =
      scf::IfOp::create(builder, loc, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  emitBody();
}

Held RowEmitter::chooseIf(Value condition, llvm::function_ref<Held()> emitThen,
                          llvm::function_ref<Held()> emitElse) {
  SmallVector<Type> types = {builder.getI1Type()};
  types.append(updates.rowPlaces.size(), builder.getIndexType());
  types.push_back(updates.old.getType());
  auto branch = scf::IfOp::create(builder, loc, types, condition,
                                  /*addThenBlock=*/true, /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(builder, loc, emitThen().pack());
  builder.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(builder, loc, emitElse().pack());
  return Held::unpack(branch.getResults());
}

IRMapping RowEmitter::at(Value number) {
  IRMapping mapping = ofColumn;
  Value scaled =
      arith::MulIOp::create(builder, loc, number, updates.loop.getStep());
  mapping.map(updates.loop.getInductionVar(),
              add(updates.loop.getLowerBound(), scaled));
  return mapping;
}

SmallVector<Value> RowEmitter::getRow(IRMapping &mapping) {
  SmallVector<Value> indices;
  for (unsigned place : updates.rowPlaces)
    indices.push_back(updates.store.getIndices()[place]);
  for (Operation *op : getSlice(updates.loop.getBody(), indices, mapping))
    builder.clone(*op, mapping);
  return llvm::map_to_vector(
      indices, [&](Value value) { return mapping.lookupOrDefault(value); });
}

/// Multiplicative hashing of the indices: its high bits are the owner.
Value RowEmitter::isOwned(ArrayRef<Value> row) {
  if (owners == 1)
    return arith::ConstantIntOp::create(builder, loc, 1, 1);
  Value hash;
  for (Value part : row) {
    Value low =
        arith::IndexCastOp::create(builder, loc, builder.getI32Type(), part);
    if (hash)
      low = arith::XOrIOp::create(builder, loc, hash, low);
    hash = arith::MulIOp::create(builder, loc, low, word(int32_t(0x9E3779B1)));
  }
  Value owner = arith::ShRUIOp::create(
      builder, loc, hash, word(32 - llvm::Log2_64(uint64_t(owners))));
  Value mine = arith::RemUIOp::create(builder, loc, block, index(owners));
  mine = arith::IndexCastOp::create(builder, loc, builder.getI32Type(), mine);
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, owner,
                               mine);
}

Value RowEmitter::list(Value first) {
  struct Listed {
    Value number, is, ballot;
    SmallVector<Value> row;
  };
  SmallVector<Listed> listed;
  for (int64_t i = 0; i < kOfThread; ++i) {
    Listed one;
    one.number = add(first, add(index(i * kPointThreads), thread));
    Value isOne = isBelow(one.number, index(updates.iterations));
    // Beyond the last, the first is looked at, and not listed.
    IRMapping mapping =
        at(arith::SelectOp::create(builder, loc, isOne, one.number, index(0)));
    one.row = getRow(mapping);
    one.is = arith::AndIOp::create(builder, loc, isOne, isOwned(one.row));
    one.ballot = createBallot(builder, loc, one.is);
    listed.push_back(std::move(one));
  }
  Value isFirst = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                        lane, index(0));
  runIf(isFirst, [&] {
    for (auto [i, one] : llvm::enumerate(listed))
      storeSlot(countBits(builder, loc, one.ballot),
                add(index(kCounts + int64_t(i) * kWarps), warp));
  });
  gpu::BarrierOp::create(builder, loc);
  // Lanes before this one.
  Value bit =
      arith::IndexCastOp::create(builder, loc, builder.getI32Type(), lane);
  Value before = arith::SubIOp::create(
      builder, loc, arith::ShLIOp::create(builder, loc, word(1), bit), word(1));
  Value count = index(0);
  SmallVector<Value> places;
  for (auto [i, one] : llvm::enumerate(listed)) {
    Value place =
        add(count,
            countBits(builder, loc,
                      arith::AndIOp::create(builder, loc, one.ballot, before)));
    for (int64_t other = 0; other < kWarps; ++other) {
      Value ofOther = loadSlot(index(kCounts + int64_t(i) * kWarps + other));
      Value isBefore = isBelow(index(other), warp);
      place = add(place, arith::SelectOp::create(builder, loc, isBefore,
                                                 ofOther, index(0)));
      count = add(count, ofOther);
    }
    places.push_back(place);
  }
  for (auto [one, place] : llvm::zip(listed, places))
    runIf(one.is, [&, &one = one, &place = place] {
      storeSlot(one.number, add(index(kList), place));
      for (auto [i, part] : llvm::enumerate(one.row))
        storeSlot(part, add(index(kList + kTile * int64_t(1 + i)), place));
    });
  gpu::BarrierOp::create(builder, loc);
  return count;
}

SmallVector<Value> RowEmitter::getIndices(ArrayRef<Value> row) {
  SmallVector<Value> indices;
  for (Value value : updates.store.getIndices())
    indices.push_back(ofColumn.lookupOrDefault(value));
  for (auto [place, part] : llvm::zip(updates.rowPlaces, row))
    indices[place] = part;
  return indices;
}

void RowEmitter::store(const Held &held) {
  memref::StoreOp::create(builder, loc, held.element, updates.store.getMemRef(),
                          getIndices(held.row));
}

/// One iteration's update of @row: in the register that holds its element, or
/// from memory, where what was held goes before.
Held RowEmitter::updateOne(IRMapping &mapping, ArrayRef<Value> row,
                           const Held &held) {
  Value isSame = held.is;
  for (auto [a, b] : llvm::zip(row, held.row)) {
    Value equal =
        arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, a, b);
    isSame = arith::AndIOp::create(builder, loc, isSame, equal);
  }
  Held now = chooseIf(
      isSame, [&] { return held; },
      [&] {
        runIf(held.is, [&] { store(held); });
        Held other;
        other.is = arith::ConstantIntOp::create(builder, loc, 1, 1);
        llvm::append_range(other.row, row);
        other.element = memref::LoadOp::create(
            builder, loc, updates.store.getMemRef(), getIndices(row));
        return other;
      });
  mapping.map(updates.old.getResult(), now.element);
  Value stored = updates.store.getValueToStore();
  for (Operation *op : getSlice(updates.loop.getBody(), stored, mapping))
    builder.clone(*op, mapping);
  now.element = mapping.lookupOrDefault(stored);
  return now;
}

Held RowEmitter::update(Value first, Value count, Held held) {
  Block *body = updates.loop.getBody();
  // What updates need of an iteration beside the element.
  IRMapping untilOld = ofColumn;
  untilOld.map(updates.old.getResult(), updates.old.getResult());
  auto isOld = [&](Value value) { return value == updates.old.getResult(); };
  SmallVector<Value> values;
  for (Operation *op :
       getSlice(body, updates.store.getValueToStore(), untilOld))
    if (!dependsOn(body, op->getResult(0), isOld))
      llvm::append_range(values, op->getResults());
  Value last = arith::SubIOp::create(builder, loc, count, index(1));
  SmallVector<IRMapping> mappings;
  SmallVector<SmallVector<Value>> rows;
  for (int64_t i = 0; i < kAtOnce; ++i) {
    // Beyond the last, that is looked at again.
    Value place =
        arith::MinUIOp::create(builder, loc, add(first, index(i)), last);
    IRMapping mapping = at(loadSlot(add(index(kList), place)));
    SmallVector<Value> row;
    for (auto [part, of] : llvm::enumerate(updates.rowPlaces)) {
      row.push_back(
          loadSlot(add(index(kList + kTile * int64_t(1 + part)), place)));
      mapping.map(updates.store.getIndices()[of], row.back());
    }
    for (Operation *op : getSlice(body, values, mapping))
      builder.clone(*op, mapping);
    mappings.push_back(std::move(mapping));
    rows.push_back(std::move(row));
  }
  for (int64_t i = 0; i < kAtOnce; ++i) {
    Value isListed = isBelow(add(first, index(i)), count);
    held = chooseIf(
        isListed, [&] { return updateOne(mappings[i], rows[i], held); },
        [&] { return held; });
  }
  return held;
}

void RowEmitter::emit() {
  block = gpu::BlockIdOp::create(builder, loc, gpu::Dimension::x);
  thread = gpu::ThreadIdOp::create(builder, loc, gpu::Dimension::x);
  Value ofWarp = index(kWarpThreads);
  warp = arith::DivUIOp::create(builder, loc, thread, ofWarp);
  lane = arith::RemUIOp::create(builder, loc, thread, ofWarp);
  Value point = arith::DivUIOp::create(builder, loc, block, index(owners));
  point = arith::MulIOp::create(builder, loc, point, index(kPointThreads));
  point = add(point, thread);
  isColumn = isBelow(point, index(*getPointCount(updates.columns)));
  for (auto [variable, value] :
       llvm::zip(updates.columns.getInductionVars(),
                 createPointIndices(updates.columns, point, builder)))
    ofColumn.map(variable, value);
  for (Operation &op : updates.columns.getBody()->without_terminator())
    if (&op != updates.loop)
      builder.clone(op, ofColumn);

  Held none;
  none.is = arith::ConstantIntOp::create(builder, loc, 0, 1);
  none.row.append(updates.rowPlaces.size(), index(0));
  none.element = arith::ConstantOp::create(
      builder, loc, builder.getZeroAttr(updates.old.getType()));
  auto tiles =
      scf::ForOp::create(builder, loc, index(0), index(updates.iterations),
                         index(kTile), none.pack());
  builder.setInsertionPointToStart(tiles.getBody());
  Value count = list(tiles.getInductionVar());
  Held held = chooseIf(
      isColumn,
      [&] {
        auto listed =
            scf::ForOp::create(builder, loc, index(0), count, index(kAtOnce),
                               Held::unpack(tiles.getRegionIterArgs()).pack());
        OpBuilder::InsertionGuard guard(builder);
        builder.setInsertionPointToStart(listed.getBody());
        Held next = update(listed.getInductionVar(), count,
                           Held::unpack(listed.getRegionIterArgs()));
        scf::YieldOp::create(builder, loc, next.pack());
        return Held::unpack(listed.getResults());
      },
      [&] { return Held::unpack(tiles.getRegionIterArgs()); });
  scf::YieldOp::create(builder, loc, held.pack());
  builder.setInsertionPointAfter(tiles);
  held = Held::unpack(tiles.getResults());
  // A thread without a column holds nothing.
  runIf(held.is, [&] { store(held); });
  scf::ParallelOp(updates.columns).erase();
}

void fsdp::emitRowUpdates(const RowUpdates &updates, gpu::GPUFuncOp function,
                          int64_t owners) {
  RowEmitter(updates, function, owners).emit();
}
