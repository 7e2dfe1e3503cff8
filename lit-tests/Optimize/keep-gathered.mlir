// RUN: fsdp-opt %s --split-input-file --fsdp-keep-gathered --verify-diagnostics | FileCheck %s

// The second gather goes, and the cast that nothing else needs; what marks of
// the arena there were are gone, too.
fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
func.func private @cast(%x: tensor<4xf32>, %o: tensor<4xbf16>) -> tensor<4xbf16>
func.func private @f(%x: tensor<8xbf16>, %o: tensor<f32>) -> tensor<f32>
// CHECK-LABEL: fsdp.program @step
// CHECK-SAME: (%[[P:.*]]: tensor<4xf32>)
fsdp.program @step(%p: tensor<4xf32> {fsdp.offset = 0}) -> (tensor<f32> {fsdp.loss}, tensor<f32>)
    attributes {arena = #fsdp.arena<bytes = 0>} {
  // CHECK: %[[C:.*]] = fsdp.launch @cast(%[[P]]) :
  // CHECK: %[[W:.*]] = fsdp.all_gather %[[C]]
  // CHECK-NOT: fsdp.all_gather
  // CHECK-NOT: @cast
  // CHECK: fsdp.launch @f(%[[W]])
  // CHECK: fsdp.launch @f(%[[W]])
  %c = fsdp.launch @cast(%p) {fsdp.offsets = array<i64: 16>} : (tensor<4xf32>) -> tensor<4xbf16>
  %w = fsdp.all_gather %c on @mesh["shard"] for forward : tensor<4xbf16> -> tensor<8xbf16>
  %l = fsdp.launch @f(%w) : (tensor<8xbf16>) -> tensor<f32>
  %c2 = fsdp.launch @cast(%p) : (tensor<4xf32>) -> tensor<4xbf16>
  %w2 = fsdp.all_gather %c2 on @mesh["shard"] for backward {fsdp.keep} : tensor<4xbf16> -> tensor<8xbf16>
  %g = fsdp.launch @f(%w2) : (tensor<8xbf16>) -> tensor<f32>
  fsdp.return %l, %g : tensor<f32>, tensor<f32>
}

// -----

// Without the mark nothing happens.
fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// CHECK-LABEL: fsdp.program @step
fsdp.program @step(%p: tensor<4xf32> {fsdp.offset = 0}) -> (tensor<8xf32>, tensor<8xf32>) {
  // CHECK-COUNT-2: fsdp.all_gather
  %w = fsdp.all_gather %p on @mesh["shard"] for forward : tensor<4xf32> -> tensor<8xf32>
  %w2 = fsdp.all_gather %p on @mesh["shard"] for backward : tensor<4xf32> -> tensor<8xf32>
  fsdp.return %w, %w2 : tensor<8xf32>, tensor<8xf32>
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.program @step(%p: tensor<4xf32>, %q: tensor<4xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %w = fsdp.all_gather %p on @mesh["shard"] for forward : tensor<4xf32> -> tensor<8xf32>
  // expected-error @below {{expected fsdp.keep on a gather of what was gathered before, got the first gather of these bytes}}
  %w2 = fsdp.all_gather %q on @mesh["shard"] for backward {fsdp.keep} : tensor<4xf32> -> tensor<8xf32>
  fsdp.return %w, %w2 : tensor<8xf32>, tensor<8xf32>
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.program @step(%p: tensor<4xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %w = fsdp.all_gather %p on @mesh["shard"] for forward : tensor<4xf32> -> tensor<8xf32>
  // expected-error @below {{expected fsdp.keep or fsdp.group, got both: what is kept is not gathered again}}
  %w2 = fsdp.all_gather %p on @mesh["shard"] for backward {fsdp.keep, fsdp.group = 0} : tensor<4xf32> -> tensor<8xf32>
  fsdp.return %w, %w2 : tensor<8xf32>, tensor<8xf32>
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.program @step(%p: tensor<4xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %w = fsdp.all_gather %p on @mesh["shard"] for forward : tensor<4xf32> -> tensor<8xf32>
  // discardable_c5
  // expected-error @below {{expected fsdp.keep without a value, got false}}
  %w2 = fsdp.all_gather %p on @mesh["shard"] for backward {fsdp.keep = false} : tensor<4xf32> -> tensor<8xf32>
  fsdp.return %w, %w2 : tensor<8xf32>, tensor<8xf32>
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.program @step(%p: tensor<4xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %w = fsdp.all_gather %p on @mesh["shard"] for forward : tensor<4xf32> -> tensor<8xf32>
  // expected-error @below {{expected fsdp.keep without a value, got 3 : i64}}
  %w2 = fsdp.all_gather %p on @mesh["shard"] for backward {fsdp.keep = 3 : i64} : tensor<4xf32> -> tensor<8xf32>
  fsdp.return %w, %w2 : tensor<8xf32>, tensor<8xf32>
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.program @step(%p: tensor<4xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %w = fsdp.all_gather %p on @mesh["shard"] for forward : tensor<4xf32> -> tensor<8xf32>
  // expected-error @below {{expected fsdp.keep without a value, got "no"}}
  %w2 = fsdp.all_gather %p on @mesh["shard"] for backward {fsdp.keep = "no"} : tensor<4xf32> -> tensor<8xf32>
  fsdp.return %w, %w2 : tensor<8xf32>, tensor<8xf32>
}
