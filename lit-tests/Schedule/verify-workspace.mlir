// RUN: fsdp-opt %s --fsdp-verify-schedule -split-input-file -verify-diagnostics

// Of a program's workspace: what launches need, where no value lies.

func.func private @k(%x: tensor<8xf32>, %out: tensor<8xf32>) -> tensor<8xf32> attributes {
    fsdp.impl = {cuda = #fsdp.cuda_code<[<@cuda_kernels::@k, grid = 1, block = 32, shared = 0>], traffic = 64, workspace = 300>}} {
  return %out : tensor<8xf32>
}
fsdp.program @step(%x: tensor<8xf32> {fsdp.offset = 0 : i64}) -> tensor<8xf32>
    attributes {arena = #fsdp.arena<bytes = 1024, inputs = 256, transient = 256, workspace = 512>} {
  %y = fsdp.launch @k(%x) {fsdp.offsets = array<i64: 256>} : (tensor<8xf32>) -> tensor<8xf32>
  fsdp.return %y : tensor<8xf32>
}

// -----

func.func private @k(%x: tensor<8xf32>, %out: tensor<8xf32>) -> tensor<8xf32> attributes {
    fsdp.impl = {cuda = #fsdp.cuda_code<[<@cuda_kernels::@k, grid = 1, block = 32, shared = 0>], traffic = 64, workspace = 300>}} {
  return %out : tensor<8xf32>
}
fsdp.program @too_small(%x: tensor<8xf32> {fsdp.offset = 0 : i64}) -> tensor<8xf32>
    attributes {arena = #fsdp.arena<bytes = 768, inputs = 256, transient = 256, workspace = 256>} {
  // expected-error @below {{expected a workspace of at least 300 bytes for k (op 0), got 256}}
  %y = fsdp.launch @k(%x) {fsdp.offsets = array<i64: 256>} : (tensor<8xf32>) -> tensor<8xf32>
  fsdp.return %y : tensor<8xf32>
}

// -----

func.func private @k(%x: tensor<8xf32>, %out: tensor<8xf32>) -> tensor<8xf32> attributes {
    fsdp.impl = {cuda = #fsdp.cuda_code<[<@cuda_kernels::@k, grid = 1, block = 32, shared = 0>], traffic = 64, workspace = 300>}} {
  return %out : tensor<8xf32>
}
// expected-error @below {{expected bytes = 1024 in its arena, as the places are, got 1280}}
fsdp.program @too_large(%x: tensor<8xf32> {fsdp.offset = 0 : i64}) -> tensor<8xf32>
    attributes {arena = #fsdp.arena<bytes = 1280, inputs = 256, transient = 256, workspace = 768>} {
  %y = fsdp.launch @k(%x) {fsdp.offsets = array<i64: 256>} : (tensor<8xf32>) -> tensor<8xf32>
  fsdp.return %y : tensor<8xf32>
}

// -----

func.func private @k(%x: tensor<8xf32>, %out: tensor<8xf32>) -> tensor<8xf32> attributes {
    fsdp.impl = {cuda = #fsdp.cuda_code<[<@cuda_kernels::@k, grid = 1, block = 32, shared = 0>], traffic = 64, workspace = 300>}} {
  return %out : tensor<8xf32>
}
fsdp.program @in_it(%x: tensor<8xf32> {fsdp.offset = 0 : i64}) -> tensor<8xf32>
    attributes {arena = #fsdp.arena<bytes = 1024, inputs = 256, transient = 256, workspace = 512>} {
  // expected-error @below {{expected k (op 0) to touch bytes apart from the workspace [512, 1024), got [768, 800) of activations}}
  %y = fsdp.launch @k(%x) {fsdp.offsets = array<i64: 768>} : (tensor<8xf32>) -> tensor<8xf32>
  fsdp.return %y : tensor<8xf32>
}

// -----

// A transfer would run beside the launches that use it.

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
func.func private @k(%x: tensor<8xf32>, %out: tensor<8xf32>) -> tensor<8xf32> attributes {
    fsdp.impl = {cuda = #fsdp.cuda_code<[<@cuda_kernels::@k, grid = 1, block = 32, shared = 0>], traffic = 64, workspace = 300>}} {
  return %out : tensor<8xf32>
}
fsdp.program @transfer(%x: tensor<8xf32> {fsdp.offset = 0 : i64}) -> (tensor<8xf32>, tensor<16xf32>)
    attributes {arena = #fsdp.arena<bytes = 1024, inputs = 256, communicated = 256, workspace = 512>} {
  // expected-error @below {{expected all_gather (op 0) to touch bytes apart from the workspace [512, 1024), got [512, 576) of gathered}}
  %t = fsdp.start(%x) on all_gather event 0 {
  ^bb0(%a: tensor<8xf32>):
    %g = fsdp.all_gather %a on @mesh["shard"] {fsdp.offsets = array<i64: 512>} : tensor<8xf32> -> tensor<16xf32>
    fsdp.yield %g : tensor<16xf32>
  } : (tensor<8xf32>) -> !fsdp.token<tensor<16xf32>>
  %y = fsdp.launch @k(%x) {fsdp.offsets = array<i64: 256>} : (tensor<8xf32>) -> tensor<8xf32>
  %w = fsdp.wait %t {fsdp.offsets = array<i64: 512>} : !fsdp.token<tensor<16xf32>> -> tensor<16xf32>
  fsdp.return %y, %w : tensor<8xf32>, tensor<16xf32>
}
