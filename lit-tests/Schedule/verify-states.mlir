// What a program does not read lies in its arena all the same: another program
// finds it there.

// RUN: split-file %s %t
// RUN: fsdp-opt %t/apart.mlir --fsdp-verify-schedule -o /dev/null
// RUN: sed 's/array<i64: 512>/array<i64: 0>/' %t/apart.mlir | not fsdp-opt --fsdp-verify-schedule 2>&1 | FileCheck %s --check-prefix=WRITTEN
// RUN: not fsdp-opt %t/input.mlir --fsdp-verify-schedule 2>&1 | FileCheck %s --check-prefix=INPUT
// RUN: not fsdp-opt %t/two.mlir --fsdp-verify-schedule 2>&1 | FileCheck %s --check-prefix=TWO
// RUN: not fsdp-opt %t/placeless.mlir --fsdp-verify-schedule 2>&1 | FileCheck %s --check-prefix=PLACELESS
// RUN: not fsdp-opt %t/far.mlir --fsdp-verify-schedule 2>&1 | FileCheck %s --check-prefix=FAR
// RUN: not fsdp-opt %t/far.mlir --fsdp-plan-arena 2>&1 | FileCheck %s --check-prefix=FAR
// RUN: not fsdp-opt %t/sharded.mlir --fsdp-verify-schedule 2>&1 | FileCheck %s --check-prefix=SHARDED
// RUN: not fsdp-opt %t/sharded.mlir --fsdp-plan-arena 2>&1 | FileCheck %s --check-prefix=SHARDED
// RUN: not fsdp-opt %t/large.mlir --fsdp-plan-arena 2>&1 | FileCheck %s --check-prefix=LARGE

//--- apart.mlir
// WRITTEN: error: {{.*}}expected a place apart from state @idle, which the program does not use, got 32 bytes at 0
func.func private @k(%x: tensor<8xf32>, %out: tensor<8xf32>) -> tensor<8xf32> {
  return %out : tensor<8xf32>
}
fsdp.state @idle buffer "idle" : tensor<8xf32> at 0
fsdp.program @step(%x: tensor<8xf32> {fsdp.offset = 256 : i64}) -> tensor<8xf32>
    attributes {arena = #fsdp.arena<bytes = 768, state = 256, inputs = 256, transient = 256>} {
  %y = fsdp.launch @k(%x) {fsdp.offsets = array<i64: 512>} : (tensor<8xf32>) -> tensor<8xf32>
  %z = fsdp.launch @k(%y) {fsdp.offsets = array<i64: 544>} : (tensor<8xf32>) -> tensor<8xf32>
  fsdp.return %z : tensor<8xf32>
}

//--- input.mlir
// The caller writes inputs.
// INPUT: error: {{.*}}expected a place apart from state @idle, which the program does not use, got 32 bytes at 0
fsdp.state @idle buffer "idle" : tensor<8xf32> at 0
fsdp.program @step(%x: tensor<8xf32> {fsdp.offset = 0 : i64}) -> tensor<8xf32>
    attributes {arena = #fsdp.arena<bytes = 256, state = 256>} {
  fsdp.return %x : tensor<8xf32>
}

//--- two.mlir
// TWO: error: {{.*}}expected its place at 32 or after it, got 0
fsdp.state @a buffer "a" : tensor<8xf32> at 0
fsdp.state @idle buffer "idle" : tensor<4xf32> at 0
fsdp.program @step(%x: tensor<8xf32> {fsdp.offset = 0 : i64, fsdp.state = @a}) -> tensor<8xf32>
    attributes {arena = #fsdp.arena<bytes = 256, state = 256>} {
  fsdp.return %x : tensor<8xf32>
}

//--- placeless.mlir
// PLACELESS: error: {{.*}}expected a place, got none (run fsdp-layout-state first)
fsdp.state @a buffer "a" : tensor<8xf32> at 0
fsdp.state @idle buffer "idle" : tensor<8xf32>
fsdp.program @step(%x: tensor<8xf32> {fsdp.offset = 0 : i64, fsdp.state = @a}) -> tensor<8xf32>
    attributes {arena = #fsdp.arena<bytes = 256, state = 256>} {
  fsdp.return %x : tensor<8xf32>
}

//--- far.mlir
// Its end is no int64_t.
// FAR: error: {{.*}}expected its end below byte 2^63, got it at 9223372036854775552
fsdp.state @idle buffer "idle" : tensor<65xf32> at 9223372036854775552
fsdp.program @step(%x: tensor<8xf32> {fsdp.offset = 0 : i64}) -> tensor<8xf32>
    attributes {arena = #fsdp.arena<bytes = 256, inputs = 256>} {
  fsdp.return %x : tensor<8xf32>
}

//--- sharded.mlir
// A type that is not local has no bytes yet.
// SHARDED: error: {{.*}}expected{{.*}}got '!fsdp.sharded<@h0, f32>'
fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate [] state f32 gather f32 reduce f32 numel 64 [
  <"w", tensor<64xf32> at 0>
] {trainable, unit = ""}
fsdp.state @h0.param parameter of @h0 : !fsdp.sharded<@h0, f32> at 0
fsdp.program @step(%x: tensor<8xf32> {fsdp.offset = 256 : i64}) -> tensor<8xf32>
    attributes {arena = #fsdp.arena<bytes = 512, state = 256, inputs = 256>} {
  fsdp.return %x : tensor<8xf32>
}

//--- large.mlir
// Its bytes, 2^64, are none to an int64_t.
// LARGE: error: {{.*}}expected{{.*}}got 'tensor<4611686018427387904xf32>'
fsdp.state @idle buffer "idle" : tensor<4611686018427387904xf32> at 0
fsdp.program @step(%x: tensor<8xf32>) -> tensor<8xf32> {
  fsdp.return %x : tensor<8xf32>
}
