// RUN: fsdp-opt %s --fsdp-tie-inits | FileCheck %s

// Two parts that are written one after another change their tensor in place.

// CHECK-LABEL: fsdp.program @step
// CHECK:         fsdp.launch @parts(%{{.*}}, %{{.*}}) tied [0]
fsdp.program @step(%x: tensor<9xf32>, %a: tensor<2xf32>) -> tensor<9xf32> {
  %0 = fsdp.launch @parts(%x, %a) : (tensor<9xf32>, tensor<2xf32>) -> tensor<9xf32>
  fsdp.return %0 : tensor<9xf32>
}

// CHECK-LABEL: func.func private @parts(
// CHECK-SAME:    %{{.*}}: tensor<9xf32>, %{{.*}}: tensor<2xf32>, %[[OUT:.*]]: tensor<9xf32>)
// CHECK:         %[[FIRST:.*]] = tensor.insert_slice %{{.*}} into %[[OUT]]
// CHECK:         %[[BOTH:.*]] = tensor.insert_slice %{{.*}} into %[[FIRST]]
// CHECK:         return %[[BOTH]]
func.func private @parts(%x: tensor<9xf32>, %a: tensor<2xf32>, %out: tensor<9xf32>) -> tensor<9xf32> {
  %0 = tensor.insert_slice %a into %x[0] [2] [1] : tensor<2xf32> into tensor<9xf32>
  %1 = tensor.insert_slice %a into %0[4] [2] [1] : tensor<2xf32> into tensor<9xf32>
  %s = bufferization.materialize_in_destination %1 in %out : (tensor<9xf32>, tensor<9xf32>) -> tensor<9xf32>
  return %s : tensor<9xf32>
}
