// RUN: fsdp-opt %s --fsdp-plan-arena --split-input-file | FileCheck %s
// RUN: fsdp-opt %s --fsdp-plan-arena=guard=true --split-input-file | FileCheck %s --check-prefix=GUARD

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]

// Places are multiples of 256 bytes; views lie in what they look into; the
// values of two launches that are never needed at once share one.

// CHECK-LABEL: func.func @step
// CHECK-SAME:    %[[X:.*]]: tensor<64xf32> {fsdp.offset = 0 : i64}
// CHECK-SAME:    fsdp.arena = {bytes = {{[0-9]+}} : i64, {{.*}}transient_bytes = 512 : i64
// CHECK:         fsdp.launch @k(%[[X]]) {fsdp.offsets = array<i64: [[FIRST:[0-9]+]]>}
// CHECK-NEXT:    tensor.expand_shape {{.*}} {fsdp.offsets = array<i64: [[FIRST]]>}
// CHECK-NEXT:    fsdp.launch @m({{.*}}) {fsdp.offsets = array<i64: [[SECOND:[0-9]+]]>}
// CHECK-NEXT:    fsdp.launch @k({{.*}}) {fsdp.offsets = array<i64: [[FIRST]]>}
// Behind each buffer, as aligned, 256 bytes belong to nobody.
// GUARD-LABEL: func.func @step
// GUARD-SAME:    fsdp.arena = {border = 256 : i64, bytes = 1536 : i64, {{.*}}state_bytes = 512 : i64{{.*}}transient_bytes = 1024 : i64
func.func @step(%x: tensor<64xf32>) -> tensor<64xf32> {
  %0 = fsdp.launch @k(%x) : (tensor<64xf32>) -> tensor<64xf32>
  %1 = tensor.expand_shape %0 [[0, 1]] output_shape [8, 8] : tensor<64xf32> into tensor<8x8xf32>
  %2 = fsdp.launch @m(%1) : (tensor<8x8xf32>) -> tensor<64xf32>
  %3 = fsdp.launch @k(%2) : (tensor<64xf32>) -> tensor<64xf32>
  return %3 : tensor<64xf32>
}
func.func private @k(tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
func.func private @m(tensor<8x8xf32>, tensor<64xf32>) -> tensor<64xf32>

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]

// What is packed is computed where the pack wants it, among what ranks exchange.

// CHECK-LABEL: func.func @step
// CHECK:         %[[A:.*]] = fsdp.launch @k(%{{.*}}) {fsdp.offsets = array<i64: [[PACK:[0-9]+]]>}
// CHECK:         fsdp.pack %[[A]] at 0, {{.*}} {fsdp.offsets = array<i64: [[PACK]]>}
func.func @step(%x: tensor<64xf32>) -> tensor<64xf32> {
  %0 = fsdp.launch @k(%x) : (tensor<64xf32>) -> tensor<64xf32>
  %1 = fsdp.pack %0 at 0, %x at 64 : tensor<64xf32>, tensor<64xf32> -> tensor<128xf32>
  %2 = fsdp.reduce_scatter %1 on @mesh["shard"] divisor 2 : tensor<128xf32> -> tensor<64xf32>
  return %2 : tensor<64xf32>
}
func.func private @k(tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>

// -----

// A tied result lies over an argument only where the argument is replaced: @b
// must be whole for the next step.

// CHECK-LABEL: func.func @step
// CHECK-SAME:    %{{.*}}: tensor<64xf32> {fsdp.buffer = {fqn = "a"}, fsdp.offset = [[A:[0-9]+]] : i64}
// CHECK-SAME:    %{{.*}}: tensor<64xf32> {fsdp.buffer = {fqn = "b"}, fsdp.offset = [[B:[0-9]+]] : i64}
// CHECK:         fsdp.launch @k({{.*}}) tied [0] {fsdp.offsets = array<i64: [[A]]>}
// CHECK-NOT:     fsdp.offsets = array<i64: [[B]]>
// CHECK:         return
func.func @step(%a: tensor<64xf32> {fsdp.buffer = {fqn = "a"}}, %b: tensor<64xf32> {fsdp.buffer = {fqn = "b"}})
    -> (tensor<64xf32> {fsdp.buffer_update = {fqn = "a"}}, tensor<64xf32>) {
  %0 = fsdp.launch @k(%a) tied [0] : (tensor<64xf32>) -> tensor<64xf32>
  %1 = fsdp.launch @k(%b) tied [0] : (tensor<64xf32>) -> tensor<64xf32>
  return %0, %1 : tensor<64xf32>, tensor<64xf32>
}
func.func private @k(tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]

// What is offloaded lies in an arena of the host from 0 on, where what is no
// longer needed makes room as well. On the device @k's second result goes where
// the first one was: four values take three places.

// CHECK-LABEL: func.func @step
// CHECK-SAME:    fsdp.arena = {{{.*}}host_bytes = 256 : i64{{.*}}transient_bytes = 768 : i64
// CHECK:         fsdp.launch @k({{.*}}) {fsdp.offsets = array<i64: [[FIRST:[0-9]+]]>}
// CHECK-NEXT:    fsdp.offload {{.*}} {fsdp.offsets = array<i64: 0>}
// CHECK-NEXT:    fsdp.launch @k({{.*}}) {fsdp.offsets = array<i64: [[FIRST]]>}
// CHECK-NEXT:    fsdp.reload
// CHECK:         fsdp.offload {{.*}} {fsdp.offsets = array<i64: 0>}
// GUARD:         fsdp.arena = {border = 256 : i64, {{.*}}host_bytes = 512 : i64
func.func @step(%x: tensor<64xf32>) -> tensor<64xf32> {
  %0 = fsdp.launch @k(%x) : (tensor<64xf32>) -> tensor<64xf32>
  %1 = fsdp.offload %0 : tensor<64xf32> -> !fsdp.host<tensor<64xf32>>
  %2 = fsdp.launch @k(%x) : (tensor<64xf32>) -> tensor<64xf32>
  %3 = fsdp.reload %1 : !fsdp.host<tensor<64xf32>> -> tensor<64xf32>
  %4 = fsdp.launch @l(%2, %3) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %5 = fsdp.offload %4 : tensor<64xf32> -> !fsdp.host<tensor<64xf32>>
  %6 = fsdp.reload %5 : !fsdp.host<tensor<64xf32>> -> tensor<64xf32>
  return %6 : tensor<64xf32>
}
func.func private @k(tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
func.func private @l(tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
