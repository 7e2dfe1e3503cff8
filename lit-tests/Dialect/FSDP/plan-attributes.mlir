// RUN: fsdp-opt %s -split-input-file -verify-diagnostics

// A plan that was edited by hand is refused where it stands, whichever pass
// reads it next.

fsdp.program @step(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // expected-error @below {{expected a result below 2 in fsdp.offload, got -1}}
  %a:2 = fsdp.launch @f(%x) {fsdp.offload = array<i64: 0, -1>} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  fsdp.return %a#0, %a#1 : tensor<4xf32>, tensor<4xf32>
}

// -----

fsdp.program @step(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // expected-error @below {{expected each result once in fsdp.recompute, got 1 twice}}
  %a:2 = fsdp.launch @f(%x) {fsdp.recompute = array<i64: 1, 0, 1>} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  fsdp.return %a#0, %a#1 : tensor<4xf32>, tensor<4xf32>
}

// -----

fsdp.program @step(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // expected-error @below {{expected result 1 in one of fsdp.offload and fsdp.recompute, got it in both}}
  %a:2 = fsdp.launch @f(%x) {fsdp.offload = array<i64: 1>, fsdp.recompute = array<i64: 0, 1>} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  fsdp.return %a#0, %a#1 : tensor<4xf32>, tensor<4xf32>
}

// -----

fsdp.program @step(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{expected fsdp.offload with an array of numbers of results, got [0]}}
  %a = fsdp.launch @f(%x) {fsdp.offload = [0]} : (tensor<4xf32>) -> tensor<4xf32>
  fsdp.return %a : tensor<4xf32>
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.program @step(%p: tensor<4xf32>) -> tensor<8xf32> {
  // expected-error @below {{expected fsdp.keep or fsdp.group, got both: what is kept is not gathered again}}
  %w = fsdp.all_gather %p on @mesh["shard"] for backward {fsdp.keep, fsdp.group = 0} : tensor<4xf32> -> tensor<8xf32>
  fsdp.return %w : tensor<8xf32>
}
