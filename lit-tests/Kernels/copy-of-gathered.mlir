// RUN: fsdp-compile %s --mesh shard=2 --emit ir:L2 -o %t.l2
// RUN: FileCheck %s < %t.l2
// RUN: fsdp-compile %s --mesh shard=2 --cluster h100-sxm --emit ir:L3 -o /dev/null

// A loss that is a parameter: its mean is that of a copy, so that the gather is freed behind a kernel.
// CHECK-LABEL: func.func @step
// CHECK:         %[[W:.*]] = fsdp.view
// CHECK:         %[[COPY:.*]] = fsdp.launch @{{.*}}(%[[W]]) : (tensor<f32>) -> tensor<f32>
// CHECK-NEXT:    fsdp.all_reduce %[[COPY]]
func.func @forward_backward(%w: tensor<f32> {fsdp.param = {fqn = "w"}})
    -> (tensor<f32> {fsdp.loss}, tensor<f32> {fsdp.grad = {fqn = "w"}}) {
  return %w, %w : tensor<f32>, tensor<f32>
}
