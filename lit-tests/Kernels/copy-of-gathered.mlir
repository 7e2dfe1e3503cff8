// RUN: split-file %s %t
// RUN: fsdp-compile %t/loss.mlir --mesh shard=2 --emit ir:L2 -o %t.l2
// RUN: FileCheck %s --check-prefix=LOSS < %t.l2
// RUN: fsdp-compile %t/loss.mlir --mesh shard=2 --cluster h100-sxm --emit ir:L3 -o /dev/null
// RUN: fsdp-compile %t/result.mlir --mesh shard=2 --wrap size:1 --emit ir:L2 -o %t.l2
// RUN: FileCheck %s --check-prefix=RESULT < %t.l2
// RUN: fsdp-compile %t/result.mlir --mesh shard=2 --wrap size:1 --cluster h100-sxm --emit ir:L3 -o /dev/null
// RUN: fsdp-compile %t/result.mlir --mesh shard=2 --wrap none --cluster h100-sxm --emit ir:L3 -o /dev/null
// RUN: fsdp-compile %t/result.mlir --mesh shard=2 --strategy no_shard --emit ir:L2 -o - | FileCheck %s --check-prefix=WHOLE

//--- loss.mlir
// A loss that is a parameter: its mean is that of a copy, so that the gather is freed behind a kernel.
// LOSS-LABEL: fsdp.program @train
// LOSS:         %[[W:.*]] = fsdp.view
// LOSS:         %[[COPY:.*]] = fsdp.launch @{{.*}}(%[[W]]) : (tensor<f32>) -> tensor<f32>
// LOSS:         fsdp.all_reduce %[[COPY]]
func.func @forward_backward(%w: tensor<f32> {fsdp.param = {fqn = "w"}})
    -> (tensor<f32> {fsdp.loss}, tensor<f32> {fsdp.grad = {fqn = "w"}}) {
  return %w, %w : tensor<f32>, tensor<f32>
}

//--- result.mlir
// Buffers that take a parameter's value, whole and in part, take copies, made right behind the gather.
// RESULT-LABEL: fsdp.program @train
// RESULT:         %[[F:.*]] = fsdp.all_gather {{.*}} for forward
// RESULT-NEXT:    %[[W:.*]] = fsdp.view %[[F]][0]
// RESULT-NEXT:    %[[COPY:.*]] = fsdp.launch @{{.*}}(%[[W]]) : (tensor<4xf32>) -> tensor<4xf32>
// RESULT-NEXT:    %[[HALF:.*]] = fsdp.launch @{{.*}}(%[[W]]) : (tensor<4xf32>) -> tensor<2xf32>
// RESULT-NOT:     fsdp.all_gather
// RESULT:         return %{{.*}}, %[[COPY]], %[[HALF]],
// A parameter that is not sharded is not gathered.
// WHOLE-LABEL: fsdp.program @train
// WHOLE-NOT:     fsdp.all_gather
// WHOLE:         return
module attributes {fsdp.modules = [{fqn = "", class = "M"}, {fqn = "a", class = "L"}]} {
func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "a.w"}},
                            %b: tensor<4xf32> {fsdp.buffer = {fqn = "b"}},
                            %h: tensor<2xf32> {fsdp.buffer = {fqn = "h"}},
                            %l: tensor<f32> {fsdp.input = {name = "l"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "a.w"}}, tensor<4xf32> {fsdp.buffer_update = {fqn = "b"}},
        tensor<2xf32> {fsdp.buffer_update = {fqn = "h"}}) {
  %half = tensor.extract_slice %w[2] [2] [1] : tensor<4xf32> to tensor<2xf32>
  return %l, %b, %w, %half : tensor<f32>, tensor<4xf32>, tensor<4xf32>, tensor<2xf32>
}
}
