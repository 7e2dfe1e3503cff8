// RUN: fsdp-opt %s --cse | FileCheck %s --check-prefixes=CHECK,CSE
// RUN: fsdp-opt %s --canonicalize | FileCheck %s
// RUN: fsdp-opt %s --loop-invariant-code-motion | FileCheck %s --check-prefix=LICM

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate []
    state f32 gather f32 reduce f32 numel 8 [<"w", tensor<8xf32> at 0>] {trainable, unit = "h.0"}

// Merged, the parameter would stay gathered from forward to backward.
// CHECK-LABEL: @two_unshards_stay_two
// CHECK-COUNT-2: fsdp.unshard
func.func @two_unshards_stay_two(%shard: !fsdp.sharded<@h0, f32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %w0 = fsdp.unshard %shard for forward : <@h0, f32> -> <@h0, f32>
  %m0 = fsdp.member %w0["w"] : <@h0, f32> -> tensor<8xf32>
  %w1 = fsdp.unshard %shard for backward : <@h0, f32> -> <@h0, f32>
  %m1 = fsdp.member %w1["w"] : <@h0, f32> -> tensor<8xf32>
  return %m0, %m1 : tensor<8xf32>, tensor<8xf32>
}

// CHECK-LABEL: @even_equal_unshards_stay_two
// CHECK-COUNT-2: fsdp.unshard
func.func @even_equal_unshards_stay_two(%shard: !fsdp.sharded<@h0, f32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %w0 = fsdp.unshard %shard for forward : <@h0, f32> -> <@h0, f32>
  %m0 = fsdp.member %w0["w"] : <@h0, f32> -> tensor<8xf32>
  %w1 = fsdp.unshard %shard for forward : <@h0, f32> -> <@h0, f32>
  %m1 = fsdp.member %w1["w"] : <@h0, f32> -> tensor<8xf32>
  return %m0, %m1 : tensor<8xf32>, tensor<8xf32>
}

// At L2 gathers are values: the phase keeps them apart, nothing else.
// CHECK-LABEL: @gathers_of_two_phases_stay_two
// CHECK-DAG:     fsdp.all_gather {{.*}} for forward :
// CHECK-DAG:     fsdp.all_gather {{.*}} for backward :
func.func @gathers_of_two_phases_stay_two(%a: tensor<4xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = fsdp.all_gather %a on @mesh["shard"] for forward : tensor<4xf32> -> tensor<8xf32>
  %1 = fsdp.all_gather %a on @mesh["shard"] for backward : tensor<4xf32> -> tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}

// CHECK-LABEL: @equal_gathers_become_one
// CSE-COUNT-1:   fsdp.all_gather
// CSE-NOT:       fsdp.all_gather
// CHECK:         return
func.func @equal_gathers_become_one(%a: tensor<4xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = fsdp.all_gather %a on @mesh["shard"] for forward : tensor<4xf32> -> tensor<8xf32>
  %1 = fsdp.all_gather %a on @mesh["shard"] for forward : tensor<4xf32> -> tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}

// CHECK-LABEL: @unused_values_go
// CHECK-NEXT:    return
func.func @unused_values_go(%shard: !fsdp.sharded<@h0, f32>, %whole: !fsdp.unsharded<@h0, f32>,
                            %g: tensor<8xf32>, %a: tensor<4xf32>, %h: !fsdp.host<tensor<4xf32>>) {
  %0 = fsdp.unshard %shard for forward : <@h0, f32> -> <@h0, f32>
  %1 = fsdp.member %whole["w"] : <@h0, f32> -> tensor<8xf32>
  %2 = fsdp.reduce_grad @h0(%g) : (tensor<8xf32>) -> !fsdp.sharded<@h0, f32>
  %3 = fsdp.grad_norm %shard : !fsdp.sharded<@h0, f32> -> tensor<f32>
  %4 = fsdp.update @sgd(%shard) : (!fsdp.sharded<@h0, f32>) -> (!fsdp.sharded<@h0, f32>)
  %5 = fsdp.all_gather %a on @mesh["shard"] : tensor<4xf32> -> tensor<8xf32>
  %6 = fsdp.reduce_scatter %a on @mesh["shard"] : tensor<4xf32> -> tensor<2xf32>
  %7 = fsdp.all_reduce %a on @mesh["shard"] : tensor<4xf32>
  %8 = fsdp.all_to_all %a on @mesh["shard"] : tensor<4xf32>
  %9 = fsdp.view %a[0] : tensor<4xf32> -> tensor<2xf32>
  %10 = fsdp.pack %a at 0 : tensor<4xf32> -> tensor<8xf32>
  %12 = fsdp.offload %a : tensor<4xf32> -> !fsdp.host<tensor<4xf32>>
  %13 = fsdp.reload %h : !fsdp.host<tensor<4xf32>> -> tensor<4xf32>
  %11 = fsdp.launch @k(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// CHECK-LABEL: @effects_stay
// CHECK-NEXT:    fsdp.unshard
// CHECK-NEXT:    fsdp.reshard
// CHECK-NEXT:    fsdp.check %{{.*}}, "first"
// CHECK-NEXT:    fsdp.check %{{.*}}, "first"
// CHECK-NEXT:    fsdp.check %{{.*}}, "second"
// CHECK-NEXT:    return
func.func @effects_stay(%shard: !fsdp.sharded<@h0, f32>, %ok: tensor<i1>) {
  %0 = fsdp.unshard %shard for forward : <@h0, f32> -> <@h0, f32>
  fsdp.reshard %0 : <@h0, f32>
  fsdp.check %ok, "first" : tensor<i1>
  fsdp.check %ok, "first" : tensor<i1>
  fsdp.check %ok, "second" : tensor<i1>
  return
}

// A view may leave the loop; a collective may not: the loop may run no turn on
// some rank.
// LICM-LABEL: @collectives_stay_in_their_loop
// LICM:         fsdp.view
// LICM:         scf.for
// LICM-NEXT:      fsdp.all_reduce
func.func @collectives_stay_in_their_loop(%a: tensor<8xf32>, %n: index, %init: tensor<4xf32>) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%x = %init) -> (tensor<4xf32>) {
    %v = fsdp.view %a[0] : tensor<8xf32> -> tensor<4xf32>
    %s = fsdp.all_reduce %v on @mesh["shard"] : tensor<4xf32>
    scf.yield %s : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}

func.func private @sgd(tensor<?xf32>) -> tensor<?xf32>
func.func private @k(tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>

// With places they stand where they were put: repeated, out of a loop, unread.
func.func private @f(%x: tensor<4xf32>, %o: tensor<4xf32>) -> tensor<4xf32>
// CHECK-LABEL: @placed_ops_stay
// CHECK-COUNT-3: fsdp.launch @f
// CHECK-COUNT-2: fsdp.pack
// CHECK-COUNT-2: fsdp.all_gather
// CHECK-COUNT-2: fsdp.offload
// LICM-LABEL: @placed_ops_stay
// LICM-COUNT-2: fsdp.launch
// LICM:         scf.for
// LICM-NEXT:      fsdp.launch
func.func @placed_ops_stay(%a: tensor<4xf32>, %lo: index, %hi: index) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = fsdp.launch @f(%a) {fsdp.offsets = array<i64: 0>} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = fsdp.launch @f(%a) {fsdp.offsets = array<i64: 0>} : (tensor<4xf32>) -> tensor<4xf32>
  scf.for %i = %lo to %hi step %hi {
    fsdp.launch @f(%a) {fsdp.offsets = array<i64: 0>} : (tensor<4xf32>) -> tensor<4xf32>
  }
  fsdp.pack %a at 0 {fsdp.offsets = array<i64: 0>} : tensor<4xf32> -> tensor<8xf32>
  fsdp.pack %a at 0 {fsdp.offsets = array<i64: 0>} : tensor<4xf32> -> tensor<8xf32>
  fsdp.all_gather %a on @mesh["shard"] for forward {fsdp.offsets = array<i64: 0>} : tensor<4xf32> -> tensor<8xf32>
  fsdp.all_gather %a on @mesh["shard"] for forward {fsdp.offsets = array<i64: 0>} : tensor<4xf32> -> tensor<8xf32>
  fsdp.offload %a {fsdp.offsets = array<i64: 0>} : tensor<4xf32> -> !fsdp.host<tensor<4xf32>>
  fsdp.offload %a {fsdp.offsets = array<i64: 0>} : tensor<4xf32> -> !fsdp.host<tensor<4xf32>>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
