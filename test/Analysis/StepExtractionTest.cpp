//===- StepExtractionTest.cpp - Programs of steps written by hand ---------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step/StepExtraction.h"
#include "ModuleTest.h"

using namespace mlir;
using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

namespace {
class StepExtraction : public ModuleTest {
protected:
  /// @body in a step of one shard, which is placed at 0 and 64 bytes long.
  static std::string makeStep(llvm::StringRef body,
                              llvm::StringRef flat = kFlatParam) {
    return (R"(
      fsdp.mesh @mesh [#fsdp.axis<"replicate" = 2>, #fsdp.axis<"shard" = 4>, #fsdp.axis<"inner" = 2>]
      func.func private @copy(%x: tensor<16xf32>, %d: tensor<16xf32>) -> tensor<16xf32> {
        return %d : tensor<16xf32>
      }
      fsdp.state @w.param parameter of @w : tensor<16xf32> at 0
      fsdp.program @step(%p: tensor<16xf32> {fsdp.state = @w.param, fsdp.offset = 0 : i64})
          -> (tensor<16xf32> {fsdp.loss}, tensor<16xf32> {fsdp.state = @w.param})
          attributes {arena = #fsdp.arena<bytes = 4096, state = 64,
            communicated = 1984, transient = 2048, host = 256>} {
    )" + body +
            "}" + flat)
        .str();
  }

  static constexpr llvm::StringLiteral kFlatParam = R"(
    fsdp.flat_param @w on @mesh shard ["shard"] replicate [] state f32 gather f32 reduce f32
        numel 64 [<"w", tensor<64xf32> at 0>] {unit = "w"})";

  static ProgramOp getProgram(ModuleOp module) {
    return *module.getOps<ProgramOp>().begin();
  }

  StepProgram extract(llvm::StringRef body) {
    FailureOr<StepProgram> program =
        extractStepProgram(getProgram(parse(makeStep(body))));
    EXPECT_TRUE(succeeded(program));
    if (failed(program))
      return {};
    EXPECT_EQ(checkProgram(*program), "");
    return std::move(*program);
  }

  std::string getError(llvm::StringRef text) {
    std::string message;
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diag) {
      if (message.empty())
        message = diag.str();
    });
    EXPECT_TRUE(failed(extractStepProgram(getProgram(parse(text)))));
    return message;
  }
};
} // namespace

TEST_F(StepExtraction, collectivesWaitAtOnce) {
  StepProgram p = extract(R"(
    %w = fsdp.all_gather %p on @mesh["shard"] for forward {fsdp.offsets = array<i64: 64>} : tensor<16xf32> -> tensor<64xf32>
    %v = fsdp.view %w[16] {fsdp.offsets = array<i64: 128>} : tensor<64xf32> -> tensor<16xf32>
    %y = fsdp.launch @copy(%v) {fsdp.offsets = array<i64: 2048>} : (tensor<16xf32>) -> tensor<16xf32>
    %l = fsdp.all_reduce %y on @mesh["replicate", "shard", "inner"] {fsdp.offsets = array<i64: 2048>} : tensor<16xf32>
    %n = fsdp.launch @copy(%p) tied [0] {fsdp.offsets = array<i64: 0>} : (tensor<16xf32>) -> tensor<16xf32>
    fsdp.return %l, %n : tensor<16xf32>, tensor<16xf32>
  )");
  ASSERT_EQ(p.ops.size(), 6u);
  EXPECT_EQ(p.worldSize, 16);
  EXPECT_EQ(p.arenaBytes, 4096);
  EXPECT_EQ(p.ops[0].queue, Queue::AllGather);
  EXPECT_EQ(p.ops[1].kind, StepOpKind::Wait);
  EXPECT_EQ(p.ops[1].event, p.ops[0].event);
  EXPECT_EQ(p.units, std::vector<std::string>{"w"});
  EXPECT_EQ(p.ops[0].unit, 0);
  EXPECT_EQ(p.ops[2].unit, 0);
  // A view reads a part of the gathered value.
  EXPECT_EQ(p.ops[2].reads[0].value, p.ops[0].writes[0].value);
  EXPECT_EQ(p.ops[2].reads[0].offset, 128);
  EXPECT_EQ(p.ops[2].reads[0].bytes, 64);
  // The whole buffer, the ranks that differ in the axes.
  EXPECT_EQ(p.transfers[0].atomBytes[0], 256);
  EXPECT_EQ(p.groups[0], (RankGroup{4, 2}));
  EXPECT_EQ(p.groups[1], (RankGroup{16, 1}));
  // In place, and what lies over the shard is the shard's memory.
  EXPECT_EQ(p.values[p.ops[3].writes[0].value].buffer,
            p.values[p.ops[3].reads[0].value].buffer);
  const StepBuffer &shard =
      p.buffers[p.values[p.ops[5].writes[0].value].buffer];
  EXPECT_TRUE(shard.isArgument);
  EXPECT_EQ(shard.purpose, Purpose::Parameters);
  EXPECT_EQ(p.buffers[p.values[p.ops[0].writes[0].value].buffer].purpose,
            Purpose::Gathered);
  // Whose sum it is.
  ASSERT_EQ(p.ops[3].kind, StepOpKind::Start);
  ASSERT_GE(p.ops[3].module, 0);
  EXPECT_EQ(p.modules[p.ops[3].module], "loss");
  // The launch that makes the loss is the last of forward.
  EXPECT_FALSE(p.ops[2].backward);
  EXPECT_TRUE(p.ops[3].backward);
}

TEST_F(StepExtraction, launchesWorkForTheModuleOfTheirLocationOrParameter) {
  std::string step = makeStep(R"(
    %w = fsdp.all_gather %p on @mesh["shard"] for forward {fsdp.offsets = array<i64: 64>} : tensor<16xf32> -> tensor<64xf32>
    %v = fsdp.view %w[16] {fsdp.offsets = array<i64: 128>} : tensor<64xf32> -> tensor<16xf32>
    %u = fsdp.view %w[32] {fsdp.offsets = array<i64: 192>} : tensor<64xf32> -> tensor<16xf32>
    %a = fsdp.launch @copy(%v) {fsdp.offsets = array<i64: 2048>} : (tensor<16xf32>) -> tensor<16xf32>
    %b = fsdp.launch @copy(%v) {fsdp.offsets = array<i64: 2112>} : (tensor<16xf32>) -> tensor<16xf32> loc("layers.0.act")
    %l = fsdp.launch @copy(%u) {fsdp.offsets = array<i64: 2176>} : (tensor<16xf32>) -> tensor<16xf32>
    %c = fsdp.launch @copy(%b) {fsdp.offsets = array<i64: 2240>} : (tensor<16xf32>) -> tensor<16xf32>
    %d = fsdp.launch @copy(%c) {fsdp.offsets = array<i64: 2304>} : (tensor<16xf32>) -> tensor<16xf32>
    %k = fsdp.pack %d at 0, %a at 32 {fsdp.offsets = array<i64: 320>} : tensor<16xf32>, tensor<16xf32> -> tensor<64xf32>
    %r = fsdp.reduce_scatter %k on @mesh["shard"] divisor 4 {fsdp.offsets = array<i64: 576>} : tensor<64xf32> -> tensor<16xf32>
    %n = fsdp.launch @update(%r, %p) {fsdp.offsets = array<i64: 2368>} : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    fsdp.return %l, %n : tensor<16xf32>, tensor<16xf32>
  )",
                              R"(
    func.func private @update(%x: tensor<16xf32>, %y: tensor<16xf32>, %d: tensor<16xf32>) -> tensor<16xf32> {
      return %d : tensor<16xf32>
    }
    fsdp.flat_param @w on @mesh shard ["shard"] replicate ["replicate", "inner"] state f32 gather f32 reduce f32 numel 64 [
      <"layers.0.down.weight", tensor<16xf32> at 0 tied []>,
      <"layers.0.up.weight", tensor<16xf32> at 16 tied []>,
      <"scale", tensor<16xf32> at 32 tied []>
    ] {trainable, unit = "layers.0"})");
  FailureOr<StepProgram> p = extractStepProgram(getProgram(parse(step)));
  ASSERT_TRUE(succeeded(p));
  std::vector<std::string> modules;
  for (const StepOp &op : p->ops)
    if (op.kind == StepOpKind::Launch)
      modules.push_back(op.module < 0 ? "" : p->modules[op.module]);
  // By what it reads; by its location first; a parameter of no module; nobody
  // knows; by the gradient that it makes; an update.
  EXPECT_EQ(modules, (std::vector<std::string>{"layers.0.up", "layers.0.act",
                                               "", "", "layers.0.down", ""}));
}

TEST_F(StepExtraction, anExchangeIsOfTheUnitThatItsSumUpdates) {
  std::string step = makeStep(R"(
    %d = fsdp.launch @copy(%p) {fsdp.offsets = array<i64: 64>} : (tensor<16xf32>) -> tensor<16xf32>
    %k = fsdp.pack %d at 0 {fsdp.offsets = array<i64: 320>} : tensor<16xf32> -> tensor<64xf32>
    %e = fsdp.all_to_all %k on @mesh["shard"] divisor 4 {fsdp.offsets = array<i64: 576>} : tensor<64xf32>
    %v = fsdp.view %e[16] {fsdp.offsets = array<i64: 640>} : tensor<64xf32> -> tensor<16xf32>
    %s = fsdp.launch @copy(%v) {fsdp.offsets = array<i64: 2240>} : (tensor<16xf32>) -> tensor<16xf32>
    %n = fsdp.launch @update(%s, %p) {fsdp.offsets = array<i64: 2368>} : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    fsdp.return %n, %n : tensor<16xf32>, tensor<16xf32>
  )",
                              R"(
    func.func private @update(%x: tensor<16xf32>, %y: tensor<16xf32>, %d: tensor<16xf32>) -> tensor<16xf32> {
      return %d : tensor<16xf32>
    }
    fsdp.flat_param @w on @mesh shard ["shard"] replicate ["replicate", "inner"] state f32 gather f32 reduce f32 numel 64 [
      <"layers.0.down.weight", tensor<16xf32> at 0 tied []>
    ] {trainable, unit = "layers.0"})");
  FailureOr<StepProgram> p = extractStepProgram(getProgram(parse(step)));
  ASSERT_TRUE(succeeded(p));
  ASSERT_EQ(p->transfers.size(), 1u);
  const StepTransfer &transfer = p->transfers[0];
  EXPECT_EQ(transfer.kind, TransferKind::AllToAll);
  EXPECT_EQ(transfer.atomBytes, (llvm::SmallVector<int64_t, 1>{256}));
  EXPECT_EQ(transfer.divisors, (llvm::SmallVector<int64_t, 1>{4}));
  for (const StepOp &op : p->ops)
    if (op.kind == StepOpKind::Start) {
      EXPECT_EQ(op.queue, Queue::Reduce);
      EXPECT_TRUE(op.inPlace.empty());
      ASSERT_GE(op.unit, 0);
      EXPECT_EQ(p->units[op.unit], "w");
    }
}

TEST_F(StepExtraction, copiesAreTransfersWithoutAGroup) {
  // Alone, they wait at once; started, one comes after the other.
  StepProgram alone = extract(R"(
    %a = fsdp.launch @copy(%p) {fsdp.offsets = array<i64: 64>} : (tensor<16xf32>) -> tensor<16xf32>
    %h = fsdp.offload %a {fsdp.offsets = array<i64: 0>} : tensor<16xf32> -> !fsdp.host<tensor<16xf32>>
    %b = fsdp.reload %h {fsdp.offsets = array<i64: 2048>} : !fsdp.host<tensor<16xf32>> -> tensor<16xf32>
    fsdp.return %b, %p : tensor<16xf32>, tensor<16xf32>
  )");
  StepProgram started = extract(R"(
    %a = fsdp.launch @copy(%p) {fsdp.offsets = array<i64: 64>} : (tensor<16xf32>) -> tensor<16xf32>
    %s = fsdp.start(%a) on d2h event 0 {
    ^bb0(%x: tensor<16xf32>):
      %h = fsdp.offload %x {fsdp.offsets = array<i64: 0>} : tensor<16xf32> -> !fsdp.host<tensor<16xf32>>
      fsdp.yield %h : !fsdp.host<tensor<16xf32>>
    } : (tensor<16xf32>) -> !fsdp.token<!fsdp.host<tensor<16xf32>>>
    %t = fsdp.start() on h2d event 1 after(%s : !fsdp.token<!fsdp.host<tensor<16xf32>>>) {
    ^bb0(%x: !fsdp.host<tensor<16xf32>>):
      %y = fsdp.reload %x {fsdp.offsets = array<i64: 2048>} : !fsdp.host<tensor<16xf32>> -> tensor<16xf32>
      fsdp.yield %y : tensor<16xf32>
    } : () -> !fsdp.token<tensor<16xf32>>
    %g = fsdp.wait %s {fsdp.offsets = array<i64: 0>} : !fsdp.token<!fsdp.host<tensor<16xf32>>> -> !fsdp.host<tensor<16xf32>>
    %b = fsdp.wait %t {fsdp.offsets = array<i64: 2048>} : !fsdp.token<tensor<16xf32>> -> tensor<16xf32>
    fsdp.return %b, %p : tensor<16xf32>, tensor<16xf32>
  )");
  for (const StepProgram &p : {alone, started}) {
    EXPECT_EQ(p.hostBytes, 256);
    ASSERT_EQ(p.transfers.size(), 2u);
    EXPECT_EQ(p.transfers[0].kind, TransferKind::Offload);
    EXPECT_EQ(p.transfers[1].kind, TransferKind::Reload);
    EXPECT_TRUE(p.groups.empty());
    EventOps events = getEventOps(p);
    const StepOp &there = p.ops[events.start[0]],
                 &back = p.ops[events.start[1]];
    EXPECT_EQ(there.queue, Queue::D2H);
    EXPECT_EQ(back.queue, Queue::H2D);
    EXPECT_EQ(p.transfers[there.transfer].atomBytes[0], 64);
    EXPECT_EQ(p.transfers[there.transfer].dtypes.front(), "f32");
    EXPECT_EQ(p.transfers[back.transfer].dtypes.front(), "f32");
    // Both belong to what made the value.
    EXPECT_EQ(there.unit, p.ops[0].unit);
    EXPECT_EQ(back.unit, p.ops[0].unit);
    Id host = there.writes[0].value;
    EXPECT_EQ(back.reads[0].value, host);
    EXPECT_TRUE(p.buffers[p.values[host].buffer].isHost);
    EXPECT_FALSE(p.buffers[p.values[there.reads[0].value].buffer].isHost);
    EXPECT_FALSE(p.buffers[p.values[back.writes[0].value].buffer].isHost);
  }
  EXPECT_EQ(alone.ops[2].kind, StepOpKind::Wait);
  EXPECT_EQ(started.ops[2].after, (llvm::SmallVector<Id, 2>{0}));
}

TEST_F(StepExtraction, whatDoesNotLieInPlaceIsCopied) {
  StepProgram p = extract(R"(
    %a = fsdp.launch @copy(%p) tied [0] {fsdp.offsets = array<i64: 64>} : (tensor<16xf32>) -> tensor<16xf32>
    %b = fsdp.launch @copy(%p) {fsdp.offsets = array<i64: 2048>} : (tensor<16xf32>) -> tensor<16xf32>
    %g = fsdp.pack %a at 0, %b at 24 {fsdp.offsets = array<i64: 64>} : tensor<16xf32>, tensor<16xf32> -> tensor<48xf32>
    %l = fsdp.view %g[0] {fsdp.offsets = array<i64: 64>} : tensor<48xf32> -> tensor<16xf32>
    fsdp.return %l, %b : tensor<16xf32>, tensor<16xf32>
  )");
  ASSERT_EQ(p.ops.size(), 4u);
  // A tied operand that is kept; a part elsewhere, and two gaps; a new shard
  // that is not in the old one's place.
  EXPECT_EQ(p.ops[0].copiedBytes, 2 * 64);
  EXPECT_EQ(p.ops[1].copiedBytes, 0);
  EXPECT_EQ(p.ops[2].kind, StepOpKind::Copy);
  EXPECT_EQ(p.ops[2].copiedBytes, 2 * 64 + 64);
  EXPECT_EQ(p.ops[2].places, (llvm::SmallVector<int64_t, 0>{64, 64 + 24 * 4}));
  EXPECT_EQ(p.ops[3].places, (llvm::SmallVector<int64_t, 0>{0}));
  EXPECT_EQ(p.ops[3].name, "keep");
  EXPECT_EQ(p.ops[3].copiedBytes, 2 * 64);
  // The part in place is the pack's memory.
  EXPECT_EQ(p.values[p.ops[0].writes[0].value].buffer,
            p.values[p.ops[2].writes[0].value].buffer);
  EXPECT_NE(p.values[p.ops[1].writes[0].value].buffer,
            p.values[p.ops[2].writes[0].value].buffer);
  // Readers of the old shard do not read the new one.
  EXPECT_NE(p.ops[3].writes[0].value, p.ops[0].reads[0].value);
}

TEST_F(StepExtraction, refusesWhatIsNoPlannedStep) {
  EXPECT_EQ(getError("fsdp.program @step() { fsdp.return }"),
            "'fsdp.program' op expected a planned arena (run fsdp-plan-arena "
            "first)");
  EXPECT_EQ(getError(makeStep(R"(
    %w = fsdp.all_reduce %p on @mesh["replicate", "inner"] {fsdp.offsets = array<i64: 64>} : tensor<16xf32>
    fsdp.return %w, %p : tensor<16xf32>, tensor<16xf32>
  )")),
            "'fsdp.all_reduce' op expected axes that are neighbours in the "
            "mesh, got [\"replicate\", \"inner\"]");
}
