// RUN: fsdp-opt %s --allow-unregistered-dialect --fsdp-assign-units --fsdp-flatten-parameters='buffer-dtype=bf16 ignore=b.*' | FileCheck %s

// Three buffers whose names end alike. What one module's are read in is not what others' are (pytorch/pytorch#87935: a cast
// of one module's buffers was one of all below it, by their last names), and those of an ignored module are left alone
// (pytorch/pytorch#106766).
// CHECK-LABEL: fsdp.program @train
// CHECK-SAME:    %[[ROOT:[a-z0-9]+]]: tensor<4xf32> {fsdp.state = @buffer.mean}
// CHECK-SAME:    %[[A:[a-z0-9]+]]: tensor<4xf32> {fsdp.state = @buffer.a.mean}
// CHECK-SAME:    %[[B:[a-z0-9]+]]: tensor<4xf32> {fsdp.state = @buffer.b.mean}
// CHECK-DAG:     linalg.generic {{.*}} ins(%[[ROOT]] : tensor<4xf32>) outs(%{{.*}} : tensor<4xbf16>)
// CHECK-DAG:     linalg.generic {{.*}} ins(%[[A]] : tensor<4xf32>) outs(%{{.*}} : tensor<4xbf16>)
// CHECK:         "nn.forward"(%{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %[[B]])
module attributes {fsdp.modules = [{class = "Net", fqn = ""}, {class = "Norm", fqn = "a"}, {class = "Norm", fqn = "b"}]} {
  func.func @forward_backward(
      %a: tensor<4xf32> {fsdp.param = {fqn = "a.weight"}},
      %b: tensor<4xf32> {fsdp.param = {fqn = "b.weight"}},
      %m: tensor<4xf32> {fsdp.buffer = {fqn = "mean"}},
      %am: tensor<4xf32> {fsdp.buffer = {fqn = "a.mean"}},
      %bm: tensor<4xf32> {fsdp.buffer = {fqn = "b.mean"}})
      -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "a.weight"}}, tensor<4xf32> {fsdp.grad = {fqn = "b.weight"}}) {
    %loss = "nn.forward"(%a, %b, %m, %am, %bm)
      : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
    %da, %db = "nn.backward"(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    return %loss, %da, %db : tensor<f32>, tensor<4xf32>, tensor<4xf32>
  }
}
