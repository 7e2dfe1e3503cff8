"""A model whose gradients are its batch, for make_powersgd.py and reduction_hooks_test.py. Standard library only."""
import random

# By name the shapes of parameters: two that PowerSGD approximates, and a vector, which it does not.
SHAPES = {"w": [12, 10], "k": [10, 2, 6], "b": [12]}
SIZES = {"w": 120, "k": 120, "b": 12}
MATRICES = {"w": (12, 10), "k": (10, 12)}
STEPS = 8
LR = 0.25

MODEL = """
func.func @forward_backward(
    %w: tensor<12x10xf32> {fsdp.param = {fqn = "w"}}, %k: tensor<10x2x6xf32> {fsdp.param = {fqn = "k"}},
    %b: tensor<12xf32> {fsdp.param = {fqn = "b"}}, %gw: tensor<12x10xf32> {fsdp.input = {name = "gw"}},
    %gk: tensor<10x2x6xf32> {fsdp.input = {name = "gk"}}, %gb: tensor<12xf32> {fsdp.input = {name = "gb"}})
    -> (tensor<f32> {fsdp.loss}, tensor<12x10xf32> {fsdp.grad = {fqn = "w"}},
        tensor<10x2x6xf32> {fsdp.grad = {fqn = "k"}}, tensor<12xf32> {fsdp.grad = {fqn = "b"}}) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<f32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<f32>) -> tensor<f32>
  %loss = linalg.dot ins(%b, %gb : tensor<12xf32>, tensor<12xf32>) outs(%init : tensor<f32>) -> tensor<f32>
  %ow = tensor.empty() : tensor<12x10xf32>
  %dw = linalg.copy ins(%gw : tensor<12x10xf32>) outs(%ow : tensor<12x10xf32>) -> tensor<12x10xf32>
  %ok = tensor.empty() : tensor<10x2x6xf32>
  %dk = linalg.copy ins(%gk : tensor<10x2x6xf32>) outs(%ok : tensor<10x2x6xf32>) -> tensor<10x2x6xf32>
  %ob = tensor.empty() : tensor<12xf32>
  %db = linalg.copy ins(%gb : tensor<12xf32>) outs(%ob : tensor<12xf32>) -> tensor<12xf32>
  return %loss, %dw, %dk, %db : tensor<f32>, tensor<12x10xf32>, tensor<10x2x6xf32>, tensor<12xf32>
}
"""


def start():
    """name -> numbers of the parameters before the first step."""
    source = random.Random(1)
    return {name: [source.uniform(-1, 1) for _ in range(size)] for name, size in SIZES.items()}


def gradients(step, rank):
    """name -> numbers: a matrix that all steps have in common, and noise."""
    common, noise = random.Random(2), random.Random(1000 * step + rank + 3)
    return {name: [common.gauss(0, 1) + 0.5 * noise.gauss(0, 1) for _ in range(size)] for name, size in SIZES.items()}
