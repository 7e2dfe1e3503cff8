// reshard-after-forward=RANKS: backward gathers a secondary shard's whole.
//
// RUN: fsdp-opt %S/Inputs/two-blocks.mlir --allow-unregistered-dialect --fsdp-assign-units -o %t
// RUN: fsdp-opt %t --allow-unregistered-dialect --fsdp-flatten-parameters='mesh=shard=8 param-dtype=bf16 unit=blocks.0:reshard-after-forward=2' -o %t.l1
// RUN: FileCheck %s --input-file %t.l1 --check-prefix=L1
// RUN: fsdp-opt %t.l1 --allow-unregistered-dialect --pass-pipeline='builtin.module(fsdp.program(fsdp-insert-reshards,fsdp-verify-lifetimes,fsdp-reduce-gradients),convert-fsdp-logical-to-collectives)' | FileCheck %s --check-prefix=L2
// RUN: fsdp-opt %t --allow-unregistered-dialect --fsdp-flatten-parameters='mesh=shard=12 unit={blocks.0:reshard-after-forward=6},{blocks.1:reshard-after-forward=2}' | FileCheck %s --check-prefix=CHAIN
// RUN: fsdp-opt %t --allow-unregistered-dialect --fsdp-flatten-parameters='mesh=shard=4,replicate=3 unit=blocks.*:reshard-after-forward=2' | FileCheck %s --check-prefix=HYBRID
// RUN: fsdp-opt %t --allow-unregistered-dialect --fsdp-flatten-parameters='mesh=shard=4,replicate=3 strategy=full_shard unit=blocks.*:reshard-after-forward=4' | FileCheck %s --check-prefix=ALL
// RUN: fsdp-opt %t --allow-unregistered-dialect --fsdp-flatten-parameters='mesh=shard=4 reduce-dtype=f16 unit=blocks.*:reshard-after-forward=2' -o %t.f16
// RUN: fsdp-opt %t.f16 --allow-unregistered-dialect --pass-pipeline='builtin.module(fsdp.program(fsdp-reduce-gradients),convert-fsdp-logical-to-collectives)' | FileCheck %s --check-prefix=F16

// Two neighbours hold a unit between forward and backward. The others are as
// they were, over both axes. A flat parameter of 256 elements has shards of 32.
// L1: fsdp.mesh @mesh [#fsdp.axis<"shard_0" = 4>, #fsdp.axis<"shard_1" = 2>]
// L1: fsdp.flat_param @root on @mesh shard ["shard_0", "shard_1"] replicate []
// L1: fsdp.flat_param @blocks.0 on @mesh shard ["shard_1", "shard_0"] secondary ["shard_1"] replicate [] {{.*}} numel 256 [
// L1: fsdp.flat_param @blocks.1 on @mesh shard ["shard_0", "shard_1"] replicate []
// L1: fsdp.program @train
// L1-COUNT-1: %[[S:.*]] = fsdp.gather_secondary %{{.*}} : <@blocks.0, f32> -> <@blocks.0, bf16>
// L1: fsdp.unshard %[[S]] for forward : !fsdp.secondary<@blocks.0, bf16> -> <@blocks.0, bf16>
// L1-NOT: fsdp.gather_secondary
// L1: fsdp.unshard %[[S]] for backward : !fsdp.secondary<@blocks.0, bf16> -> <@blocks.0, bf16>

// What ranks of other secondary shards send is gathered once, and gradients are
// added up first among the ranks of one.
// L2: %[[SECOND:.*]] = fsdp.all_gather %{{.*}} on @mesh["shard_0"] : tensor<32xbf16> -> tensor<128xbf16>
// L2: fsdp.all_gather %[[SECOND]] on @mesh["shard_1"] for forward : tensor<128xbf16> -> tensor<256xbf16>
// L2: fsdp.all_gather %{{.*}} on @mesh["shard_0", "shard_1"] for forward : tensor<32xbf16> -> tensor<256xbf16>
// L2: fsdp.all_gather %{{.*}} on @mesh["shard_0", "shard_1"] for backward : tensor<32xbf16> -> tensor<256xbf16>
// L2: fsdp.all_gather %[[SECOND]] on @mesh["shard_1"] for backward : tensor<128xbf16> -> tensor<256xbf16>
// L2: %[[PART:.*]] = fsdp.reduce_scatter %{{.*}} on @mesh["shard_1"] : tensor<256xbf16> -> tensor<128xbf16>
// L2: fsdp.reduce_scatter %[[PART]] on @mesh["shard_0"] divisor 8 : tensor<128xbf16> -> tensor<32xbf16>

// Each secondary shard is whole axes.
// CHAIN: fsdp.mesh @mesh [#fsdp.axis<"shard_0" = 2>, #fsdp.axis<"shard_1" = 3>, #fsdp.axis<"shard_2" = 2>]
// CHAIN: @root on @mesh shard ["shard_0", "shard_1", "shard_2"] replicate []
// CHAIN: @blocks.0 on @mesh shard ["shard_1", "shard_2", "shard_0"] secondary ["shard_1", "shard_2"] replicate []
// CHAIN: @blocks.1 on @mesh shard ["shard_2", "shard_0", "shard_1"] secondary ["shard_2"] replicate []

// HYBRID: fsdp.mesh @mesh [#fsdp.axis<"replicate" = 3>, #fsdp.axis<"shard_0" = 2>, #fsdp.axis<"shard_1" = 2>]
// HYBRID: @blocks.0 on @mesh shard ["shard_1", "shard_0"] secondary ["shard_1"] replicate ["replicate"]

// The shard axis itself, of a unit that is sharded over more.
// ALL: fsdp.mesh @mesh [#fsdp.axis<"replicate" = 3>, #fsdp.axis<"shard" = 4>]
// ALL: @blocks.0 on @mesh shard ["shard", "replicate"] secondary ["shard"] replicate []

// F16: fsdp.reduce_scatter %{{.*}} on @mesh["shard_1"] divisor 2 : tensor<128xf16> -> tensor<64xf16>
// F16: fsdp.reduce_scatter %{{.*}} on @mesh["shard_0"] divisor 2 : tensor<64xf16> -> tensor<32xf16>
