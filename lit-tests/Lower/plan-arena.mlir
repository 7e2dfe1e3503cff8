// RUN: fsdp-opt %s --fsdp-layout-state --fsdp-plan-arena --split-input-file | FileCheck %s
// RUN: fsdp-opt %s --fsdp-layout-state=guard=true --fsdp-plan-arena=guard=true --split-input-file | FileCheck %s --check-prefix=GUARD

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]

// Places are multiples of 256 bytes; views lie in what they look into; the
// values of two launches that are never needed at once share one.

// CHECK-LABEL: fsdp.program @step
// CHECK-SAME:    %[[X:.*]]: tensor<64xf32> {fsdp.offset = 0 : i64}
// CHECK-SAME:    arena = #fsdp.arena<bytes = {{[0-9]+}}, {{.*}}transient = 512,
// CHECK:         fsdp.launch @k(%[[X]]) {fsdp.offsets = array<i64: [[FIRST:[0-9]+]]>}
// CHECK-NEXT:    tensor.expand_shape {{.*}} {fsdp.offsets = array<i64: [[FIRST]]>}
// CHECK-NEXT:    fsdp.launch @m({{.*}}) {fsdp.offsets = array<i64: [[SECOND:[0-9]+]]>}
// CHECK-NEXT:    fsdp.launch @k({{.*}}) {fsdp.offsets = array<i64: [[FIRST]]>}
// Behind each buffer, as aligned, 256 bytes belong to nobody.
// GUARD-LABEL: fsdp.program @step
// GUARD-SAME:    arena = #fsdp.arena<bytes = 1536, inputs = 512, transient = 1024, border = 256,
fsdp.program @step(%x: tensor<64xf32>) -> tensor<64xf32> {
  %0 = fsdp.launch @k(%x) : (tensor<64xf32>) -> tensor<64xf32>
  %1 = tensor.expand_shape %0 [[0, 1]] output_shape [8, 8] : tensor<64xf32> into tensor<8x8xf32>
  %2 = fsdp.launch @m(%1) : (tensor<8x8xf32>) -> tensor<64xf32>
  %3 = fsdp.launch @k(%2) : (tensor<64xf32>) -> tensor<64xf32>
  fsdp.return %3 : tensor<64xf32>
}
func.func private @k(tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
func.func private @m(tensor<8x8xf32>, tensor<64xf32>) -> tensor<64xf32>

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]

// What is packed is computed where the pack wants it, among what ranks exchange.

// CHECK-LABEL: fsdp.program @step
// CHECK:         %[[A:.*]] = fsdp.launch @k(%{{.*}}) {fsdp.offsets = array<i64: [[PACK:[0-9]+]]>}
// CHECK:         fsdp.pack %[[A]] at 0, {{.*}} {fsdp.offsets = array<i64: [[PACK]]>}
fsdp.program @step(%x: tensor<64xf32>) -> tensor<64xf32> {
  %0 = fsdp.launch @k(%x) : (tensor<64xf32>) -> tensor<64xf32>
  %1 = fsdp.pack %0 at 0, %x at 64 : tensor<64xf32>, tensor<64xf32> -> tensor<128xf32>
  %2 = fsdp.reduce_scatter %1 on @mesh["shard"] divisor 2 : tensor<128xf32> -> tensor<64xf32>
  fsdp.return %2 : tensor<64xf32>
}
func.func private @k(tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>

// -----

// A tied result lies over an argument only where the argument is replaced: @b
// must be whole for the next step.

// CHECK-LABEL: fsdp.program @step
// CHECK-SAME:    %{{.*}}: tensor<64xf32> {fsdp.offset = [[A:[0-9]+]] : i64, fsdp.state = @a}
// CHECK-SAME:    %{{.*}}: tensor<64xf32> {fsdp.offset = [[B:[0-9]+]] : i64, fsdp.state = @b}
// CHECK:         fsdp.launch @k({{.*}}) tied [0] {fsdp.offsets = array<i64: [[A]]>}
// CHECK-NOT:     fsdp.offsets = array<i64: [[B]]>
// CHECK:         return
fsdp.state @a buffer "a" : tensor<64xf32>
fsdp.state @b buffer "b" : tensor<64xf32>
fsdp.program @step(%a: tensor<64xf32> {fsdp.state = @a}, %b: tensor<64xf32> {fsdp.state = @b})
    -> (tensor<64xf32> {fsdp.state = @a}, tensor<64xf32>) {
  %0 = fsdp.launch @k(%a) tied [0] : (tensor<64xf32>) -> tensor<64xf32>
  %1 = fsdp.launch @k(%b) tied [0] : (tensor<64xf32>) -> tensor<64xf32>
  fsdp.return %0, %1 : tensor<64xf32>, tensor<64xf32>
}
func.func private @k(tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]

// What is offloaded lies in an arena of the host from 0 on, where what is no
// longer needed makes room as well. On the device @k's second result goes where
// the first one was: four values take three places.

// CHECK-LABEL: fsdp.program @step
// CHECK-SAME:    arena = #fsdp.arena<{{.*}}transient = 768, host = 256,
// CHECK:         fsdp.launch @k({{.*}}) {fsdp.offsets = array<i64: [[FIRST:[0-9]+]]>}
// CHECK-NEXT:    fsdp.offload {{.*}} {fsdp.offsets = array<i64: 0>}
// CHECK-NEXT:    fsdp.launch @k({{.*}}) {fsdp.offsets = array<i64: [[FIRST]]>}
// CHECK-NEXT:    fsdp.reload
// CHECK:         fsdp.offload {{.*}} {fsdp.offsets = array<i64: 0>}
// GUARD:         arena = #fsdp.arena<{{.*}}host = 512, border = 256,
fsdp.program @step(%x: tensor<64xf32>) -> tensor<64xf32> {
  %0 = fsdp.launch @k(%x) : (tensor<64xf32>) -> tensor<64xf32>
  %1 = fsdp.offload %0 : tensor<64xf32> -> !fsdp.host<tensor<64xf32>>
  %2 = fsdp.launch @k(%x) : (tensor<64xf32>) -> tensor<64xf32>
  %3 = fsdp.reload %1 : !fsdp.host<tensor<64xf32>> -> tensor<64xf32>
  %4 = fsdp.launch @l(%2, %3) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %5 = fsdp.offload %4 : tensor<64xf32> -> !fsdp.host<tensor<64xf32>>
  %6 = fsdp.reload %5 : !fsdp.host<tensor<64xf32>> -> tensor<64xf32>
  fsdp.return %6 : tensor<64xf32>
}
func.func private @k(tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
func.func private @l(tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>

// -----

// States come first, those that this program does not read among them; then
// what is no state, then what is made from them.

// CHECK-LABEL: fsdp.program eval @evaluate
// CHECK-SAME:    %{{.*}}: tensor<64xf32> {fsdp.offset = 1024 : i64}
// CHECK-SAME:    %{{.*}}: tensor<64xf32> {fsdp.offset = 512 : i64, fsdp.state = @count}
// CHECK-SAME:    arena = #fsdp.arena<bytes = 1536, state = 1024, inputs = 256, transient = 256, peak = [0, 512, 0, 0, 256, 768, 0]>
// CHECK:         fsdp.launch @l({{.*}}) {fsdp.offsets = array<i64: 1280>}
// GUARD-LABEL: fsdp.program eval @evaluate
// GUARD-SAME:    %{{.*}}: tensor<64xf32> {fsdp.offset = 1792 : i64}
// GUARD-SAME:    %{{.*}}: tensor<64xf32> {fsdp.offset = 768 : i64, fsdp.state = @count}
// GUARD-SAME:    arena = #fsdp.arena<bytes = 2816, state = 1792, inputs = 512, transient = 512, border = 256,
fsdp.state @large optimizer "large" : tensor<128xf32>
fsdp.state @count buffer "count" : tensor<64xf32>
fsdp.state @other buffer "other" : tensor<64xf32>
fsdp.program eval @evaluate(%x: tensor<64xf32>, %c: tensor<64xf32> {fsdp.state = @count}) -> tensor<64xf32> {
  %0 = fsdp.launch @l(%x, %c) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  fsdp.return %0 : tensor<64xf32>
}
fsdp.program eval @last(%l: tensor<128xf32> {fsdp.state = @large}, %o: tensor<64xf32> {fsdp.state = @other}) -> tensor<64xf32> {
  fsdp.return %o : tensor<64xf32>
}
func.func private @l(tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
