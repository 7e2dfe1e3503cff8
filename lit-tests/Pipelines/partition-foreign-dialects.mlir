// Partitioning does not care which dialect computes: here none that anybody
// registered. Every op of the step stays, in its order, and reads what was a
// parameter from the gathered unit.
//
// RUN: fsdp-opt %S/../Partition/Inputs/two-blocks.mlir --allow-unregistered-dialect --fsdp-partition='mesh=shard=4 optimizer=sgd' | FileCheck %s

// CHECK-LABEL: fsdp.program @train(
// CHECK-SAME:    %[[ROOT:[a-z0-9]+]]: tensor<32xf32> {fsdp.state = @root.param}
// CHECK-SAME:    %[[B0:[a-z0-9]+]]: tensor<32xf32> {fsdp.state = @blocks.0.param}
// CHECK-SAME:    %[[B1:[a-z0-9]+]]: tensor<32xf32> {fsdp.state = @blocks.1.param}
// CHECK:         %[[R:.*]] = fsdp.all_gather %[[ROOT]] on @mesh["shard"] for forward : tensor<32xf32> -> tensor<128xf32>
// CHECK:         %[[E:.*]] = fsdp.view %[[R]][0] : tensor<128xf32> -> tensor<8x4xf32>
// CHECK:         "nn.embed"(%{{.*}}, %{{.*}}, %[[E]])
// CHECK:         "nn.norm"
// CHECK:         %[[G:.*]] = fsdp.all_gather %[[B0]] {{.*}} for forward
// CHECK:         %[[W:.*]] = fsdp.view %[[G]][0] : tensor<128xf32> -> tensor<4x7xf32>
// CHECK:         %[[B:.*]] = fsdp.view %[[G]][32] : tensor<128xf32> -> tensor<4xf32>
// CHECK:         "nn.block"(%{{.*}}, %[[W]], %[[B]])
// CHECK:         fsdp.all_gather %[[B1]] {{.*}} for forward
// CHECK:         "nn.block"
// CHECK:         %[[LOSS:.*]] = "nn.head"(%{{.*}}, %[[E]])
// CHECK:         "nn.head_grad"(%{{.*}}, %[[E]])
// CHECK:         fsdp.all_gather %[[B1]] {{.*}} for backward
// CHECK:         %[[D:.*]]:3 = "nn.block_grad"
// CHECK:         %[[P:.*]] = fsdp.pack %[[D]]#1 at 0, %[[D]]#2 at 32
// CHECK:         fsdp.reduce_scatter %[[P]] on @mesh["shard"] divisor 4
// CHECK:         fsdp.all_gather %[[B0]] {{.*}} for backward
// CHECK:         "nn.block_grad"
// CHECK:         fsdp.reduce_scatter
// CHECK:         "nn.norm_grad"
// CHECK:         "nn.embed_grad"
// CHECK:         fsdp.reduce_scatter
// CHECK:         fsdp.all_reduce %[[LOSS]] on @mesh["shard"] divisor 4 : tensor<f32>
