// RUN: fsdp-opt %s --split-input-file --fsdp-group-collectives --verify-diagnostics | FileCheck %s

// Gathers come to the first, with the cast that one of them sends; reductions to
// the last, and what is computed from the first of them behind it.
fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
func.func private @cast(%x: tensor<4xf32>, %o: tensor<4xbf16>) -> tensor<4xbf16>
func.func private @f(%x: tensor<8xf32>, %o: tensor<8xf32>) -> tensor<8xf32>
func.func private @g(%x: tensor<8xf32>, %w: tensor<8xbf16>, %o: tensor<8xf32>) -> tensor<8xf32>
func.func private @update(%x: tensor<4xf32>, %o: tensor<4xf32>) -> tensor<4xf32>
// CHECK-LABEL: fsdp.program @step
fsdp.program @step(%p: tensor<4xf32>, %q: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK: fsdp.launch @cast
  // CHECK-NEXT: fsdp.all_gather {{.*}}fsdp.group = 0
  // CHECK-NEXT: fsdp.all_gather {{.*}}fsdp.group = 0
  // CHECK-NEXT: fsdp.launch @f
  // CHECK-NEXT: fsdp.launch @g
  // CHECK-NEXT: %[[A:.*]] = fsdp.reduce_scatter {{.*}}fsdp.group = 1
  // CHECK-NEXT: %[[B:.*]] = fsdp.reduce_scatter {{.*}}fsdp.group = 1
  // CHECK-NEXT: fsdp.launch @update(%[[A]])
  // CHECK-NEXT: fsdp.launch @update(%[[B]])
  %w = fsdp.all_gather %p on @mesh["shard"] for forward {fsdp.group = 0} : tensor<4xf32> -> tensor<8xf32>
  %a = fsdp.launch @f(%w) : (tensor<8xf32>) -> tensor<8xf32>
  %c = fsdp.launch @cast(%q) : (tensor<4xf32>) -> tensor<4xbf16>
  %w2 = fsdp.all_gather %c on @mesh["shard"] for forward {fsdp.group = 0} : tensor<4xbf16> -> tensor<8xbf16>
  %r = fsdp.reduce_scatter %a on @mesh["shard"] divisor 2 {fsdp.group = 1} : tensor<8xf32> -> tensor<4xf32>
  %u = fsdp.launch @update(%r) : (tensor<4xf32>) -> tensor<4xf32>
  %b = fsdp.launch @g(%a, %w2) : (tensor<8xf32>, tensor<8xbf16>) -> tensor<8xf32>
  %r2 = fsdp.reduce_scatter %b on @mesh["shard"] divisor 2 {fsdp.group = 1} : tensor<8xf32> -> tensor<4xf32>
  %u2 = fsdp.launch @update(%r2) : (tensor<4xf32>) -> tensor<4xf32>
  fsdp.return %u, %u2 : tensor<4xf32>, tensor<4xf32>
}

// -----

// CHECK-LABEL: func @other
func.func @other() { return }

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.program @step(%p: tensor<4xf32>, %q: tensor<8xf32>) -> (tensor<8xf32>, tensor<4xf32>) {
  // expected-note @below {{it begins here}}
  %w = fsdp.all_gather %p on @mesh["shard"] for forward {fsdp.group = 0} : tensor<4xf32> -> tensor<8xf32>
  // expected-error @below {{expected collectives of one kind in fsdp.group 0 : i64, got another one}}
  %r = fsdp.reduce_scatter %q on @mesh["shard"] divisor 2 {fsdp.group = 0} : tensor<8xf32> -> tensor<4xf32>
  fsdp.return %w, %r : tensor<8xf32>, tensor<4xf32>
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.program @step(%p: tensor<4xf32>) -> tensor<4xf32> {
  // expected-note @below {{it reads what this brings}}
  %a = fsdp.all_reduce %p on @mesh["shard"] divisor 2 {fsdp.group = 0} : tensor<4xf32>
  // expected-error @below {{expected collectives of a group to be independent of each other}}
  %b = fsdp.all_reduce %a on @mesh["shard"] divisor 2 {fsdp.group = 0} : tensor<4xf32>
  fsdp.return %b : tensor<4xf32>
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.program @step(%p: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{expected fsdp.group with an i64 number from 0 to 2147483647, got "first"}}
  %a = fsdp.all_reduce %p on @mesh["shard"] divisor 2 {fsdp.group = "first"} : tensor<4xf32>
  fsdp.return %a : tensor<4xf32>
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.program @step(%p: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{expected fsdp.group with an i64 number from 0 to 2147483647, got 4294967296 : i64}}
  %a = fsdp.all_reduce %p on @mesh["shard"] divisor 2 {fsdp.group = 4294967296 : i64} : tensor<4xf32>
  fsdp.return %a : tensor<4xf32>
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.program @step(%p: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{expected fsdp.group with an i64 number from 0 to 2147483647, got -7 : i64}}
  %a = fsdp.all_reduce %p on @mesh["shard"] divisor 2 {fsdp.group = -7 : i64} : tensor<4xf32>
  fsdp.return %a : tensor<4xf32>
}

// -----

// All that makes what a gather sends comes with it.
fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
func.func private @cast(%x: tensor<4xf32>, %o: tensor<4xf32>) -> tensor<4xf32>
// CHECK-LABEL: fsdp.program @step
fsdp.program @step(%p: tensor<4xf32>, %q: tensor<4xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  // CHECK: %[[C:.*]] = fsdp.launch @cast
  // CHECK-NEXT: %[[D:.*]] = fsdp.launch @cast(%[[C]])
  // CHECK-NEXT: fsdp.all_gather
  // CHECK-NEXT: fsdp.all_gather %[[D]]
  %w = fsdp.all_gather %p on @mesh["shard"] for forward {fsdp.group = 0} : tensor<4xf32> -> tensor<8xf32>
  %c = fsdp.launch @cast(%q) : (tensor<4xf32>) -> tensor<4xf32>
  %d = fsdp.launch @cast(%c) : (tensor<4xf32>) -> tensor<4xf32>
  %v = fsdp.all_gather %d on @mesh["shard"] for forward {fsdp.group = 0} : tensor<4xf32> -> tensor<8xf32>
  fsdp.return %w, %v : tensor<8xf32>, tensor<8xf32>
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.program @step(%p: tensor<4xf32>, %q: tensor<4xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  // expected-error @below {{expected a group whose gathers send nothing that is transferred behind the first of them}}
  %w = fsdp.all_gather %p on @mesh["shard"] for forward {fsdp.group = 0} : tensor<4xf32> -> tensor<8xf32>
  // expected-note @below {{one sends what this brings}}
  %c = fsdp.all_reduce %q on @mesh["shard"] divisor 2 : tensor<4xf32>
  %v = fsdp.all_gather %c on @mesh["shard"] for forward {fsdp.group = 0} : tensor<4xf32> -> tensor<8xf32>
  fsdp.return %w, %v : tensor<8xf32>, tensor<8xf32>
}
