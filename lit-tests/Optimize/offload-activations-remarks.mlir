// RUN: fsdp-opt %s --fsdp-offload-activations --remarks-filter='.*' -o /dev/null 2>&1 | FileCheck %s

// CHECK: [Passed] Offload | Category:fsdp-offload-activations | {{.*}}result 0 of f waits on the host from behind loss to before b
// CHECK: [Passed] Offload | Category:fsdp-offload-activations | {{.*}}result 1 of f waits on the host from behind f to before b
func.func private @f(%x: tensor<4xf32>, %o: tensor<4xf32>, %s: tensor<2xf32>) -> (tensor<4xf32>, tensor<2xf32>)
func.func private @loss(%x: tensor<4xf32>, %o: tensor<f32>) -> tensor<f32>
func.func private @b(%x: tensor<4xf32>, %y: tensor<2xf32>, %o: tensor<4xf32>) -> tensor<4xf32>
fsdp.program @step(%x: tensor<4xf32>) -> (tensor<f32> {fsdp.loss}, tensor<4xf32>) {
  %f:2 = fsdp.launch @f(%x) {fsdp.offload = array<i64: 0, 1>} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<2xf32>)
  %l = fsdp.launch @loss(%f#0) : (tensor<4xf32>) -> tensor<f32>
  %b = fsdp.launch @b(%f#0, %f#1) : (tensor<4xf32>, tensor<2xf32>) -> tensor<4xf32>
  fsdp.return %l, %b : tensor<f32>, tensor<4xf32>
}
