// RUN: fsdp-compile %s --mesh shard=2 --wrap size:1 --param-dtype bf16 --emit ir:L2 -o %t.l2
// RUN: FileCheck %s < %t.l2
// RUN: fsdp-compile %s --mesh shard=2 --wrap size:1 --param-dtype bf16 --cluster h100-sxm --emit ir:L3 -o /dev/null

// The gradient of `c` needs no gather: it is reduced, and `c` updated, before `c` is gathered for that of `a`. What that
// gather sends is cast by a kernel of its own: one that updates `c`, too, would have the gather wait for the reduction.
// CHECK-LABEL: fsdp.program @train
// CHECK:         %[[CAST:.*]] = fsdp.launch @{{.*}}(%[[C:arg[0-9]+]]) : (tensor<32xf32>) -> tensor<32xbf16>
// CHECK-NEXT:    fsdp.all_gather %[[CAST]] on @mesh["shard"] for backward
module attributes {fsdp.modules = [{fqn = "", class = "M"}, {fqn = "a", class = "L"}, {fqn = "b", class = "L"},
                                   {fqn = "c", class = "L"}]} {
func.func @forward_backward(%a: tensor<4xf32> {fsdp.param = {fqn = "a.w"}}, %b: tensor<4xf32> {fsdp.param = {fqn = "b.w"}},
                            %c: tensor<4xf32> {fsdp.param = {fqn = "c.w"}}, %s: tensor<4xf32> {fsdp.buffer = {fqn = "s"}},
                            %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "a.w"}}, tensor<4xf32> {fsdp.grad = {fqn = "b.w"}},
        tensor<4xf32> {fsdp.grad = {fqn = "c.w"}}) {
  %half = tensor.extract_slice %c[0] [2] [1] : tensor<4xf32> to tensor<2xf32>
  %twice = tensor.concat dim(0) %half, %half : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
  %i = arith.constant 1 : index
  %first = tensor.extract %s[%i] : tensor<4xf32>
  %loss = tensor.from_elements %first : tensor<f32>
  return %loss, %twice, %b, %x : tensor<f32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
}
