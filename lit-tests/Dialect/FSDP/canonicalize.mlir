// RUN: fsdp-opt %s --canonicalize --split-input-file | FileCheck %s

fsdp.mesh @mesh [#fsdp.axis<"replicate" = 1>, #fsdp.axis<"shard" = 4>]

// CHECK-LABEL: @one_rank_is_the_identity
// CHECK-SAME:    (%[[A:.*]]: tensor<8xf32>)
// CHECK-NEXT:    return %[[A]], %[[A]], %[[A]], %[[A]]
func.func @one_rank_is_the_identity(%a: tensor<8xf32>)
    -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %0 = fsdp.all_gather %a on @mesh["replicate"] for forward : tensor<8xf32> -> tensor<8xf32>
  %1 = fsdp.reduce_scatter %a on @mesh["replicate"] : tensor<8xf32> -> tensor<8xf32>
  %2 = fsdp.all_reduce %a on @mesh["replicate"] : tensor<8xf32>
  %3 = fsdp.all_to_all %a on @mesh["replicate"] : tensor<8xf32>
  return %0, %1, %2, %3 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// CHECK-LABEL: @no_axes_are_the_identity
// CHECK-SAME:    (%[[A:.*]]: tensor<8xf32>)
// CHECK-NEXT:    return %[[A]]
func.func @no_axes_are_the_identity(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = fsdp.all_gather %a on @mesh[] : tensor<8xf32> -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// CHECK-LABEL: @axes_of_one_rank_go
// CHECK-NEXT:    fsdp.all_gather %{{.*}} on @mesh["shard"] for backward : tensor<8xf32> -> tensor<32xf32>
// CHECK-NEXT:    fsdp.reduce_scatter %{{.*}} on @mesh["shard"] divisor 4 : tensor<8xf32> -> tensor<2xf32>
// CHECK-NEXT:    fsdp.all_reduce %{{.*}} on @mesh["shard"] divisor 4 : tensor<8xf32>
// CHECK-NEXT:    fsdp.all_to_all %{{.*}} on @mesh["shard"] divisor 4 : tensor<8xf32>
func.func @axes_of_one_rank_go(%a: tensor<8xf32>)
    -> (tensor<32xf32>, tensor<2xf32>, tensor<8xf32>, tensor<8xf32>) {
  %0 = fsdp.all_gather %a on @mesh["replicate", "shard"] for backward : tensor<8xf32> -> tensor<32xf32>
  %1 = fsdp.reduce_scatter %a on @mesh["replicate", "shard"] divisor 4 : tensor<8xf32> -> tensor<2xf32>
  %2 = fsdp.all_reduce %a on @mesh["replicate", "shard"] divisor 4 : tensor<8xf32>
  %3 = fsdp.all_to_all %a on @mesh["replicate", "shard"] divisor 4 : tensor<8xf32>
  return %0, %1, %2, %3 : tensor<32xf32>, tensor<2xf32>, tensor<8xf32>, tensor<8xf32>
}

// CHECK-LABEL: @a_division_stays
// CHECK-NEXT:    fsdp.reduce_scatter %{{.*}} on @mesh[] divisor 4 : tensor<8xf32> -> tensor<8xf32>
// CHECK-NEXT:    fsdp.all_reduce %{{.*}} on @mesh[] divisor 4 : tensor<8xf32>
func.func @a_division_stays(%a: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = fsdp.reduce_scatter %a on @mesh["replicate"] divisor 4 : tensor<8xf32> -> tensor<8xf32>
  %1 = fsdp.all_reduce %a on @mesh["replicate"] divisor 4 : tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}

// CHECK-LABEL: @the_scatter_divides
// CHECK-NEXT:    %[[R:.*]] = fsdp.reduce_scatter %{{.*}} on @mesh["shard"] divisor 4 : tensor<8xf32> -> tensor<2xf32>
// CHECK-NEXT:    return %[[R]]
func.func @the_scatter_divides(%a: tensor<8xf32>) -> tensor<2xf32> {
  %0 = fsdp.reduce_scatter %a on @mesh["shard"] : tensor<8xf32> -> tensor<2xf32>
  %1 = fsdp.all_reduce %0 on @mesh["replicate"] divisor 4 : tensor<2xf32>
  return %1 : tensor<2xf32>
}

// The sum itself is read, so it must not be divided.
// CHECK-LABEL: @a_scatter_with_another_reader_does_not_divide
// CHECK-NEXT:    %[[S:.*]] = fsdp.reduce_scatter %{{.*}} on @mesh["shard"] : tensor<8xf32> -> tensor<2xf32>
// CHECK-NEXT:    %[[R:.*]] = fsdp.all_reduce %[[S]] on @mesh[] divisor 4
// CHECK-NEXT:    return %[[S]], %[[R]]
func.func @a_scatter_with_another_reader_does_not_divide(%a: tensor<8xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = fsdp.reduce_scatter %a on @mesh["shard"] : tensor<8xf32> -> tensor<2xf32>
  %1 = fsdp.all_reduce %0 on @mesh["replicate"] divisor 4 : tensor<2xf32>
  return %0, %1 : tensor<2xf32>, tensor<2xf32>
}

// Two divisions of a rounded sum are not one.
// CHECK-LABEL: @a_scatter_that_divides_stays
// CHECK-NEXT:    fsdp.reduce_scatter {{.*}} divisor 2
// CHECK-NEXT:    fsdp.all_reduce {{.*}} divisor 4
func.func @a_scatter_that_divides_stays(%a: tensor<8xf32>) -> tensor<2xf32> {
  %0 = fsdp.reduce_scatter %a on @mesh["shard"] divisor 2 : tensor<8xf32> -> tensor<2xf32>
  %1 = fsdp.all_reduce %0 on @mesh["replicate"] divisor 4 : tensor<2xf32>
  return %1 : tensor<2xf32>
}

// What needs no padding is not copied to be padded (pytorch/pytorch#88769).
// CHECK-LABEL: @whole_views_and_packs_go
// CHECK-SAME:    (%[[A:.*]]: tensor<8xf32>)
// CHECK-NEXT:    return %[[A]], %[[A]]
func.func @whole_views_and_packs_go(%a: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = fsdp.view %a[0] : tensor<8xf32> -> tensor<8xf32>
  %1 = fsdp.pack %a at 0 : tensor<8xf32> -> tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}

// CHECK-LABEL: @parts_and_padding_stay
// CHECK-NEXT:    fsdp.view
// CHECK-NEXT:    fsdp.view
// CHECK-NEXT:    fsdp.pack
func.func @parts_and_padding_stay(%a: tensor<8xf32>) -> (tensor<2x4xf32>, tensor<4xf32>, tensor<16xf32>) {
  %0 = fsdp.view %a[0] : tensor<8xf32> -> tensor<2x4xf32>
  %1 = fsdp.view %a[4] : tensor<8xf32> -> tensor<4xf32>
  %2 = fsdp.pack %a at 8 : tensor<8xf32> -> tensor<16xf32>
  return %0, %1, %2 : tensor<2x4xf32>, tensor<4xf32>, tensor<16xf32>
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"replicate" = 2>, #fsdp.axis<"shard" = 4>]

// CHECK-LABEL: @several_ranks_stay
// CHECK-NEXT:    fsdp.all_gather %{{.*}} on @mesh["replicate", "shard"] : tensor<8xf32> -> tensor<64xf32>
// CHECK-NEXT:    %[[S:.*]] = fsdp.reduce_scatter %{{.*}} on @mesh["shard"] : tensor<8xf32> -> tensor<2xf32>
// CHECK-NEXT:    fsdp.all_reduce %[[S]] on @mesh["replicate"] divisor 8 : tensor<2xf32>
func.func @several_ranks_stay(%a: tensor<8xf32>) -> (tensor<64xf32>, tensor<2xf32>) {
  %0 = fsdp.all_gather %a on @mesh["replicate", "shard"] : tensor<8xf32> -> tensor<64xf32>
  %1 = fsdp.reduce_scatter %a on @mesh["shard"] : tensor<8xf32> -> tensor<2xf32>
  %2 = fsdp.all_reduce %1 on @mesh["replicate"] divisor 8 : tensor<2xf32>
  return %0, %2 : tensor<64xf32>, tensor<2xf32>
}
