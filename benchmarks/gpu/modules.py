"""Steps of one kind of kernel each, in the sizes of real models, for fsdp-export (needs torch).

  modules.py FOLDER [NAME..]    exports all, or these, to FOLDER/NAME, with a file `options` for fsdp-compile and one `run`

A step's parameters are what its function takes; its buffer `result` is what the function returns, and the loss is the sum
of that times an input, so that gradients differ from element to element.
"""
import pathlib
import sys

import torch
from torch import nn
from torch.nn import functional as F

# SGD leaves parameters of about 1 minus gradients of about 1.
SGD = ("--optimizer", "sgd:lr=1"), ("--lr", "1", "--steps", "1")
BF16 = ("--param-dtype", "bf16")
F16 = ("--param-dtype", "f16")


class Applied(nn.Module):
    """`function` of parameters of these shapes, of the integers that the step is given, and of a module's own parameters."""

    def __init__(self, function, shapes, result, module=None):
        super().__init__()
        self.function, self.module = function, module
        self.operands = nn.ParameterList(nn.Parameter(torch.empty(shape).normal_()) for shape in shapes)
        self.register_buffer("result", torch.zeros(result))

    def forward(self, weight, *integers):
        function = self.module if self.function is None else self.function
        value = function(*self.operands, *integers).float()
        with torch.no_grad():
            self.result.copy_(value)
        return (value * weight).sum()


def step(function, shapes, result, *integers, module=None):
    return lambda: (Applied(function, shapes, result, module() if module else None), (torch.randn(result), *integers))


def ints(high, *shape):
    return torch.randint(high, shape)


def rms(x, gain):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * gain


def rotate(x, angle):
    half = x.shape[-1] // 2
    turned = torch.cat([-x[..., half:], x[..., :half]], -1)
    return x * angle.cos() + turned * angle.sin()


def attention(causal):
    return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal)


def heads(size, queries=48, keys=None, count=2):
    return [(1, count, queries, size)] + [(1, count, keys or queries, size)] * 2, (1, count, queries, size)


class Weights(nn.Module):
    """Parameters of many sizes, each multiplied by a number of the step's input."""

    def __init__(self, dtype):
        super().__init__()
        self.weights = nn.ParameterList(nn.Parameter(torch.empty(size, dtype=dtype).normal_())
                                        for size in ((1,), (3,), (1000,), (127, 257), (256, 768)))

    def forward(self, factors):
        return sum((w.float() * factor).sum() for w, factor in zip(self.weights, factors))


def casts(x):
    narrow = x.to(torch.bfloat16) * 3
    half = (x * 100).to(torch.float16) + 1
    return narrow.float() + half.float() + (x.to(torch.float64).abs() + 1).sqrt().float() + (x * 50).to(torch.int32).float()


# name -> (what builds the step, fsdp-compile's options, the program's)
MODULES = {
    "layer-norm": (step(None, [(64, 768)], (64, 768), module=lambda: nn.LayerNorm(768)), (), SGD),
    "layer-norm-bf16": (step(None, [(64, 768)], (64, 768), module=lambda: nn.LayerNorm(768)), BF16, SGD),
    "rms-norm": (step(rms, [(16, 4096), (4096,)], (16, 4096)), (), SGD),
    "batch-norm": (step(None, [(4, 6, 15, 15)], (4, 6, 15, 15), module=lambda: nn.BatchNorm2d(6)), (), SGD),
    "softmax": (step(lambda x: x.softmax(-1), [(64, 1000)], (64, 1000)), (), SGD),
    "softmax-long": (step(lambda x: x.softmax(-1), [(2, 50257)], (2, 50257)), (), SGD),
    "cross-entropy": (step(lambda x, t: F.cross_entropy(x, t, reduction="none"), [(12, 8209)], (12,), ints(8209, 12)), (), SGD),
    "cross-entropy-bf16": (step(lambda x, t: F.cross_entropy(x.float(), t, reduction="none"), [(12, 8209)], (12,),
                                ints(8209, 12)), BF16, SGD),
    # 1003 columns are 1000 and 3 of cuBLASLt's, of so many operations that it pays.
    "logits-bf16": (step(lambda x, w, t: F.cross_entropy((x @ w.t()).float(), t, reduction="none"),
                         [(2048, 136), (1003, 136)], (2048,), ints(1003, 2048)), BF16, SGD),
    "activations": (step(lambda x: F.gelu(x) + F.gelu(x, approximate="tanh") * F.silu(x) + x.sigmoid() * x.tanh(),
                         [(33, 1001)], (33, 1001)), (), SGD),
    "column-sums": (step(lambda x, b: x + b, [(2048, 96), (96,)], (2048, 96)), (), SGD),
    "column-sums-bf16": (step(lambda x, b: x + b, [(2048, 96), (96,)], (2048, 96)), BF16, SGD),
    "embedding": (step(lambda table, i: F.embedding(i, table), [(500, 192)], (8, 64, 192), ints(500, 8, 64)), (), SGD),
    "gather": (step(lambda x, i: x.gather(1, i), [(40, 300)], (40, 77), ints(300, 40, 77)), (), SGD),
    "scatter": (step(lambda x, y, i: x.index_add(0, i, y), [(60, 128), (200, 128)], (60, 128), ints(60, 200)), (), SGD),
    "convolution": (step(None, [(2, 3, 17, 17)], (2, 8, 9, 9), module=lambda: nn.Conv2d(3, 8, 3, 2, 1)), (), SGD),
    "convolution-grouped": (step(None, [(2, 8, 12, 12)], (2, 8, 12, 12), module=lambda: nn.Conv2d(8, 8, 3, 1, 1, groups=8)),
                            (), SGD),
    "pooling": (step(lambda x: F.max_pool2d(x, 3, 2, 1) + F.avg_pool2d(x, 2), [(2, 5, 14, 14)], (2, 5, 7, 7)), (), SGD),
    "rotary": (step(rotate, [(2, 3, 40, 64), (40, 64)], (2, 3, 40, 64)), (), SGD),
    "prefix-sum": (step(lambda x: x.cumsum(-1), [(20, 300)], (20, 300)), (), SGD),
    "concatenation": (step(lambda x, y: F.pad(torch.cat([x, y], 1), (1, 2)).transpose(0, 1), [(30, 41), (30, 19)], (63, 30)),
                      (), SGD),
    "casts": (step(casts, [(37, 501)], (37, 501)), (), SGD),
    "adamw": (lambda: (Weights(torch.float32), (torch.randn(5),)), (), (("--optimizer", "adamw"), ("--lr", "0.01", "--steps", "3"))),
    "adamw-bf16": (lambda: (Weights(torch.bfloat16), (torch.randn(5),)), (), (("--optimizer", "adamw"), ("--lr", "0.01", "--steps", "3"))),
    **{f"attention-{name}{size}": (step(attention(causal), *heads(size, keys=None if causal else 35)), options, SGD)
       for size, causal in ((32, True), (64, True), (80, False), (128, True), (256, False))
       for name, options in (("f32-", ()), ("bf16-", BF16))},
    "attention-f16-64": (step(attention(True), *heads(64)), F16, SGD),
}


def main(folder, *names):
    from fsdp_export import cli
    here = sys.modules["modules"] = sys.modules["__main__"]
    for name in names or MODULES:
        build, options, (optimizer, run) = MODULES[name]
        torch.manual_seed(0)
        setattr(here, "build", build)
        output = pathlib.Path(folder) / name
        if status := cli.main(["py:modules:build", *optimizer, "--no-verify", "-o", str(output)]):
            sys.exit(f"{name}: fsdp-export ended with {status}")
        (output / "options").write_text("\n".join(options))
        (output / "run").write_text("\n".join(run))


if __name__ == "__main__":
    main(*sys.argv[1:])
