// A traced step with two equal blocks and what the root owns. What the ops
// compute does not matter to partitioning: they are of no dialect.
//
// blocks.0 and blocks.1 hold 32 elements each, in two parameters; the root
// holds head.weight (tied to embed.weight). running_mean is a buffer that the
// forward pass changes, mask one of integers that nothing changes.

module attributes {fsdp.modules = [
    {class = "Net", fqn = ""}, {class = "Embedding", fqn = "embed"},
    {class = "Norm", fqn = "norm"}, {class = "ModuleList", fqn = "blocks"},
    {class = "Block", fqn = "blocks.0"}, {class = "Block", fqn = "blocks.1"},
    {class = "Linear", fqn = "head"}]} {
  func.func @forward_backward(
      %head: tensor<8x4xf32> {fsdp.param = {fqn = "embed.weight", tied = ["head.weight"]}},
      %w0: tensor<4x7xf32> {fsdp.param = {fqn = "blocks.0.weight", init = {kind = "constant", value = 0.0}}},
      %b0: tensor<4xf32> {fsdp.param = {fqn = "blocks.0.bias"}},
      %w1: tensor<4x7xf32> {fsdp.param = {fqn = "blocks.1.weight"}},
      %b1: tensor<4xf32> {fsdp.param = {fqn = "blocks.1.bias"}},
      %mean: tensor<4xf32> {fsdp.buffer = {fqn = "norm.running_mean"}},
      %mask: tensor<2xi64> {fsdp.buffer = {fqn = "mask"}},
      %x: tensor<2xi64> {fsdp.input = {name = "x", low = 0, high = 8}})
      -> (tensor<f32> {fsdp.loss},
          tensor<8x4xf32> {fsdp.grad = {fqn = "embed.weight"}},
          tensor<4x7xf32> {fsdp.grad = {fqn = "blocks.0.weight"}},
          tensor<4xf32> {fsdp.grad = {fqn = "blocks.0.bias"}},
          tensor<4x7xf32> {fsdp.grad = {fqn = "blocks.1.weight"}},
          tensor<4xf32> {fsdp.grad = {fqn = "blocks.1.bias"}},
          tensor<4xf32> {fsdp.buffer_update = {fqn = "norm.running_mean"}}) {
    %e = "nn.embed"(%x, %mask, %head) : (tensor<2xi64>, tensor<2xi64>, tensor<8x4xf32>) -> tensor<2x4xf32>
    %n:2 = "nn.norm"(%e, %mean) : (tensor<2x4xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<4xf32>)
    %y0 = "nn.block"(%n#0, %w0, %b0) : (tensor<2x4xf32>, tensor<4x7xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    %y1 = "nn.block"(%y0, %w1, %b1) : (tensor<2x4xf32>, tensor<4x7xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    %loss = "nn.head"(%y1, %head) : (tensor<2x4xf32>, tensor<8x4xf32>) -> tensor<f32>
    %dy1, %dhead = "nn.head_grad"(%y1, %head) : (tensor<2x4xf32>, tensor<8x4xf32>) -> (tensor<2x4xf32>, tensor<8x4xf32>)
    %dy0, %dw1, %db1 = "nn.block_grad"(%dy1, %y0, %w1, %b1) : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<4x7xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<4x7xf32>, tensor<4xf32>)
    %dn, %dw0, %db0 = "nn.block_grad"(%dy0, %n#0, %w0, %b0) : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<4x7xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<4x7xf32>, tensor<4xf32>)
    %de = "nn.norm_grad"(%dn, %e, %mean) : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    %dembed = "nn.embed_grad"(%de, %x, %dhead) : (tensor<2x4xf32>, tensor<2xi64>, tensor<8x4xf32>) -> tensor<8x4xf32>
    return %loss, %dembed, %dw0, %db0, %dw1, %db1, %n#1 : tensor<f32>, tensor<8x4xf32>, tensor<4x7xf32>, tensor<4xf32>, tensor<4x7xf32>, tensor<4xf32>, tensor<4xf32>
  }
}
