"""Usage: helpers.py EXAMPLE MODEL NAMES: the example with parts of it in
functions; and with other names of its parameters."""
import sys

HELPERS = """
  func.func private @memcpy(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
    %e = tensor.empty() : tensor<4xf32>
    %r = linalg.mul ins(%a, %b : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
    return %r : tensor<4xf32>
  }
  func.func private @main(%a: f32, %b: f32) -> f32 {
    %r = arith.subf %a, %b : f32
    return %r : f32
  }
  func.func private @fsdp_rt_matmul(%a: f32, %b: f32) -> f32 {
    %r = call @fsdp_run_step(%a, %b) : (f32, f32) -> f32
    return %r : f32
  }
  func.func private @fsdp_run_step(%a: f32, %b: f32) -> f32 {
    %r = arith.mulf %a, %b : f32
    return %r : f32
  }
  func.func private @k0_elementwise() { return }
  func.func private @_start() { return }
}
"""
CALLS = {
    "%ws = linalg.mul ins(%w, %scale : tensor<4xf32>, tensor<4xf32>) outs(%e4 : tensor<4xf32>) -> tensor<4xf32>":
        "%ws = func.call @memcpy(%w, %scale) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>",
    "%s = arith.subf %a, %f : f32":
        "%s = func.call @main(%a, %f) : (f32, f32) -> f32",
    "%m = arith.mulf %d, %r : f32":
        "%m = func.call @fsdp_rt_matmul(%d, %r) : (f32, f32) -> f32",
}

with open(sys.argv[1], encoding="utf-8") as file:
    example = file.read()
model = example.rstrip()
assert model.endswith("}")
model = model[:-1] + HELPERS
for text, call in CALLS.items():
    assert model.count(text) == 1, text
    model = model.replace(text, call)
with open(sys.argv[2], "w", encoding="utf-8") as file:
    file.write(model)
names = example.replace('fqn = "linear.weight"', 'fqn = "malloc\\1B[2J\\22"')
names = names.replace('fqn = "linear.scale"', 'fqn = "k0_elementwise"')
names = names.replace('fqn = "count"', 'fqn = "fsdp_rt_start"')
names = names.replace('fqn = "linear", class', 'fqn = "main", class')
assert names.count("malloc") == 2
with open(sys.argv[3], "w", encoding="utf-8") as file:
    file.write(names)
