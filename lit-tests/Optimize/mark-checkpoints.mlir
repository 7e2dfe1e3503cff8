// RUN: fsdp-opt %s --fsdp-mark-checkpoints=rule=module:Block | FileCheck %s --check-prefix=CLASS
// RUN: fsdp-opt %s --fsdp-mark-checkpoints=rule=*.1 | FileCheck %s --check-prefix=NAME
// RUN: fsdp-opt %s --fsdp-mark-checkpoints=rule=every=2 | FileCheck %s --check-prefix=NAME
// RUN: fsdp-opt %s --fsdp-mark-checkpoints=rule=selective | FileCheck %s --check-prefix=SELECTIVE
// RUN: fsdp-opt %s --fsdp-mark-checkpoints | FileCheck %s --check-prefix=RECORDED
// RUN: fsdp-opt %s --fsdp-mark-checkpoints=rule=none | FileCheck %s --check-prefix=NONE
// RUN: not fsdp-opt %s --fsdp-mark-checkpoints=rule=module:Blok 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not fsdp-opt %s --fsdp-mark-checkpoints=rule=x.* 2>&1 | FileCheck %s --check-prefix=NOMATCH
// RUN: not fsdp-opt %s --fsdp-mark-checkpoints=rule=every=0 2>&1 | FileCheck %s --check-prefix=ZERO
// RUN: not fsdp-opt %s --fsdp-mark-checkpoints=rule=every=3 2>&1 | FileCheck %s --check-prefix=FEW
// RUN: not fsdp-opt %s --fsdp-mark-checkpoints=rule=module:Embedding 2>&1 | FileCheck %s --check-prefix=IDLE
// RUN: fsdp-opt %s | not fsdp-opt --fsdp-mark-checkpoints=rule=every=1 2>&1 | FileCheck %s --check-prefix=NOLOCS

// UNKNOWN: error: expected classes of the model after 'module:', got 'Blok'; there are Model, ModuleList, Block, Linear, Embedding
// NOMATCH: error: expected module:CLASS{{.*}} as what is checkpointed, got 'x.*', which matches no module of the model, such as
// ZERO: error: expected a positive number after 'every=', got '0'
// FEW: error: expected at least 3 blocks in a list to checkpoint every 3, got 2
// IDLE: error: expected modules to checkpoint that compute something, got wte
// NOLOCS: error: expected locations that name the modules to checkpoint {{.*}}--mlir-print-debuginfo
module attributes {fsdp.modules = [
    {fqn = "", class = "Model"}, {fqn = "h", class = "ModuleList"}, {fqn = "h.0", class = "Block", checkpoint = true},
    {fqn = "h.0.up", class = "Linear"}, {fqn = "h.1", class = "Block"}, {fqn = "h.1.up", class = "Linear"},
    {fqn = "wte", class = "Embedding"}]} {
  fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
  fsdp.flat_param @all on @mesh shard ["shard"] replicate [] state f32 gather f32 reduce f32 numel 8 [
    <"h.0.up.weight", tensor<4xf32> at 0>, <"h.1.up.weight", tensor<4xf32> at 4>
  ] {trainable, unit = ""}
  func.func private @matmul(%x: tensor<2x2xf32>, %o: tensor<2x2xf32>) -> tensor<2x2xf32> {
    %y = linalg.matmul ins(%x, %x : tensor<2x2xf32>, tensor<2x2xf32>) outs(%o : tensor<2x2xf32>) -> tensor<2x2xf32>
    return %y : tensor<2x2xf32>
  }
  func.func private @tanh(%x: tensor<2x2xf32>, %o: tensor<2x2xf32>) -> tensor<2x2xf32> {
    %y = linalg.tanh ins(%x : tensor<2x2xf32>) outs(%o : tensor<2x2xf32>) -> tensor<2x2xf32>
    return %y : tensor<2x2xf32>
  }
  func.func private @loss(%x: tensor<2x2xf32>, %o: tensor<f32>) -> tensor<f32>
  fsdp.program @train(%x: tensor<2x2xf32>) -> (tensor<f32> {fsdp.loss}, tensor<2x2xf32>) {
    // The modules' first products are saved where the rule is selective, the second ones are not; what has results of
    // two modules is of neither, and backward is never marked.
    // CLASS: @matmul{{.*}} {fsdp.checkpoint = #fsdp.checkpoint<module = "h.0">}
    // CLASS: @tanh{{.*}} {fsdp.checkpoint = #fsdp.checkpoint<module = "h.0">}
    // CLASS: @matmul{{.*}} {fsdp.checkpoint = #fsdp.checkpoint<module = "h.0">}
    // CLASS: @tanh(%{{[0-9a-z]+}}) :
    // CLASS: @matmul{{.*}} {fsdp.checkpoint = #fsdp.checkpoint<module = "h.1">}
    // CLASS-NOT: fsdp.checkpoint
    // NAME-COUNT-4: fsdp.launch @{{[a-z]+}}(%{{[0-9a-z]+}}) :
    // NAME: @matmul{{.*}} {fsdp.checkpoint = #fsdp.checkpoint<module = "h.1">}
    // NAME-NOT: fsdp.checkpoint
    // SELECTIVE: @matmul{{.*}} {fsdp.checkpoint = #fsdp.checkpoint<module = "h.0", saved = true>}
    // SELECTIVE: @tanh{{.*}} {fsdp.checkpoint = #fsdp.checkpoint<module = "h.0">}
    // SELECTIVE: @matmul{{.*}} {fsdp.checkpoint = #fsdp.checkpoint<module = "h.0">}
    // SELECTIVE: @matmul{{.*}} {fsdp.checkpoint = #fsdp.checkpoint<module = "h.1", saved = true>}
    // RECORDED-COUNT-3: fsdp.checkpoint = #fsdp.checkpoint<module = "h.0">
    // RECORDED-NOT: fsdp.checkpoint
    // NONE-NOT: fsdp.checkpoint
    %a = fsdp.launch @matmul(%x) : (tensor<2x2xf32>) -> tensor<2x2xf32> loc("h.0.up")
    %b = fsdp.launch @tanh(%a) : (tensor<2x2xf32>) -> tensor<2x2xf32> loc(fused["h.0", "h.0.up"])
    %c = fsdp.launch @matmul(%b) : (tensor<2x2xf32>) -> tensor<2x2xf32> loc("h.0")
    %d = fsdp.launch @tanh(%c) : (tensor<2x2xf32>) -> tensor<2x2xf32> loc(fused["h.0", "h.1"])
    %e = fsdp.launch @matmul(%d) : (tensor<2x2xf32>) -> tensor<2x2xf32> loc("h.1.up")
    %f = fsdp.launch @tanh(%e) : (tensor<2x2xf32>) -> tensor<2x2xf32> loc("h.10")
    %l = fsdp.launch @loss(%f) : (tensor<2x2xf32>) -> tensor<f32>
    %g = fsdp.launch @tanh(%b) : (tensor<2x2xf32>) -> tensor<2x2xf32> loc("h.0")
    fsdp.return %l, %g : tensor<f32>, tensor<2x2xf32>
  }
}
