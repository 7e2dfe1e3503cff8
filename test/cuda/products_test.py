# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of bf16 or f16 whose results are f32: the library's on processors and on an emulated driver, against sums in float64.

Sums over experts, heads and tokens, with their gradients: several batch dimensions, transposed factors and results,
factors that a batch shares, sums that begin at a tensor, biases.

FSDP_BIN names the folder of fsdp-compile, FSDP_FIXTURES that of the fixtures, FSDP_CUDA_LIBS that of the doubles of CUDA's libraries.
Standard library only.
"""
import itertools
import json
import math
import pathlib
import random
import re
import struct
import subprocess
import tempfile
import unittest

import compiled
from attention_test import BIN, read_tensors, write_tensors

# Experts, tokens, hidden and intermediate features, batch, heads, features of a head.
SIZES = {"e": 4, "t": 21, "h": 24, "i": 40, "b": 2, "n": 3, "f": 8}
# Of the largest element: other orders of sums.
TOLERANCE = 2 ** -18


def tensor(dims, dtype):
    return f"tensor<{''.join(f'{SIZES[dim]}x' for dim in dims)}{dtype}>"


def shape(dims):
    return [SIZES[dim] for dim in dims]


def places(of, loops):
    """The element of a tensor of dimensions `of` at each point of `loops`."""
    strides = dict(zip(of, [math.prod(shape(of)[i + 1:]) for i in range(len(of))]))
    return [sum(strides.get(dim, 0) * at for dim, at in zip(loops, index))
            for index in itertools.product(*map(range, shape(loops)))]


def rounded(values, dtype):
    """To the nearest, ties to even."""
    if dtype == "f16":
        return [struct.unpack("<e", struct.pack("<e", value))[0] for value in values]
    result = []
    for value in values:
        (bits,) = struct.unpack("<I", struct.pack("<f", value))
        bits = bits + 0x7fff + (bits >> 16 & 1) & 0xffff0000
        result.append(struct.unpack("<f", struct.pack("<I", bits))[0])
    return result


class Step:
    """A traced step of products, in MLIR and in numbers. Tensors are named by letters of their dimensions."""

    def __init__(self, dtype):
        self.dtype, self.rng, self.count = dtype, random.Random(1), 0
        self.arguments, self.results, self.lines, self.dims, self.values = [], [], [], {}, {}
        self.state, self.inputs, self.expected = {}, {}, {}

    def emit(self, text):
        self.count += 1
        self.lines.append(f"  %{self.count} = {text}")
        return f"%{self.count}"

    def add(self, name, dims, role):
        """A parameter or input in f32, and what it is rounded to."""
        values = [struct.unpack("<f", struct.pack("<f", self.rng.gauss(0, 1)))[0] for _ in range(math.prod(shape(dims)))]
        attribute = f'fsdp.param = {{fqn = "{name}"}}' if role == "param" else f'fsdp.input = {{name = "{name}"}}'
        self.arguments.append(f"%{name}: {tensor(dims, 'f32')} {{{attribute}}}")
        if role == "param":
            self.state[name] = (shape(dims), values)
        else:
            self.inputs[name] = ([1, 1, *shape(dims)], values)
        self.dims[f"%{name}"], self.values[f"%{name}"] = dims, values
        narrow = self.cast(f"%{name}", dims)
        self.dims[narrow], self.values[narrow] = dims, rounded(values, self.dtype)
        return narrow

    def generic(self, maps, iterators, inputs, init, body, result):
        text = ", ".join(f"affine_map<({', '.join(iterators)}) -> ({', '.join(dims)})>" for dims in maps)
        kinds = ", ".join(f'"{"parallel" if dim in maps[-1] else "reduction"}"'
                          for dim in iterators)
        types = ", ".join(kind for _, kind in inputs)
        block = ", ".join([f"%x{i}: {kind.split('x')[-1].rstrip('>')}" for i, (_, kind) in enumerate(inputs)]
                          + [f"%o: {result.split('x')[-1].rstrip('>')}"])
        return self.emit(f"linalg.generic {{indexing_maps = [{text}], iterator_types = [{kinds}]}} "
                         f"ins({', '.join(name for name, _ in inputs)} : {types}) outs({init} : {result}) {{\n"
                         f"  ^bb0({block}):\n    {body}\n  }} -> {result}")

    def cast(self, value, dims):
        kind = tensor(dims, self.dtype)
        init = self.emit(f"tensor.empty() : {kind}")
        return self.generic([dims, dims], dims, [(value, tensor(dims, "f32"))], init,
                            f"%r = arith.truncf %x0 : f32 to {self.dtype}\n    linalg.yield %r : {self.dtype}", kind)

    def expand(self, value, dims):
        """One for all of a dimension, as torch.Tensor.expand."""
        of, kind = self.dims[value], tensor(dims, self.dtype)
        init = self.emit(f"tensor.empty() : {kind}")
        result = self.generic([of, dims], dims, [(value, tensor(of, self.dtype))], init,
                              f"linalg.yield %x0 : {self.dtype}", kind)
        self.dims[result] = dims
        self.values[result] = [self.values[value][place] for place in places(of, dims)]
        return result

    def product(self, a, b, dims, begin=None):
        """Sums over what a and b have and `dims` have not, in f32; those of `begin` go on."""
        of_a, of_b = self.dims[a], self.dims[b]
        inner = [dim for dim in of_a if dim in of_b and dim not in dims]
        loops = [*dims, *inner]
        kind = tensor(dims, "f32")
        init = begin
        if not begin:
            empty = self.emit(f"tensor.empty() : {kind}")
            init = self.emit(f"linalg.fill ins(%zero : f32) outs({empty} : {kind}) -> {kind}")
        n = self.dtype
        body = (f"%w0 = arith.extf %x0 : {n} to f32\n    %w1 = arith.extf %x1 : {n} to f32\n"
                "    %p = arith.mulf %w0, %w1 : f32\n    %s = arith.addf %o, %p : f32\n    linalg.yield %s : f32")
        result = self.generic([of_a, of_b, dims], loops, [(a, tensor(of_a, n)), (b, tensor(of_b, n))], init, body, kind)
        self.dims[result] = dims
        self.values[result] = self.multiply(a, b, dims, inner, self.values.get(begin))
        return result

    def multiply(self, a, b, dims, inner, begin):
        x, y = self.values[a], self.values[b]
        x_inner, y_inner = places(self.dims[a], inner), places(self.dims[b], inner)
        return [(begin[i] if begin else 0) + sum(x[p + k] * y[q + l] for k, l in zip(x_inner, y_inner))
                for i, (p, q) in enumerate(zip(places(self.dims[a], dims), places(self.dims[b], dims)))]

    def add_bias(self, value, bias):
        """What PyTorch's linear layers do; in f32."""
        dims, kind = self.dims[value], tensor(self.dims[value], "f32")
        init = self.emit(f"tensor.empty() : {kind}")
        result = self.generic([dims, self.dims[bias], dims], dims, [(value, kind), (bias, tensor(self.dims[bias], "f32"))],
                              init, "%r = arith.addf %x0, %x1 : f32\n    linalg.yield %r : f32", kind)
        row = self.values[bias]
        self.dims[result] = dims
        self.values[result] = [x + row[i % len(row)] for i, x in enumerate(self.values[value])]
        return result

    def keep(self, name, value):
        """As a buffer of the model."""
        dims = self.dims[value]
        self.arguments.append(f"%{name}_old: {tensor(dims, 'f32')} {{fsdp.buffer = {{fqn = \"{name}\"}}}}")
        self.results.append((value, dims, f"fsdp.buffer_update = {{fqn = \"{name}\"}}"))
        self.state[name] = (shape(dims), [0.0] * math.prod(shape(dims)))
        self.expected[name] = self.values[value]

    def differentiate(self, name, value):
        self.results.append((value, self.dims[value], f"fsdp.grad = {{fqn = \"{name}\"}}"))
        self.expected[name] = [p - g for p, g in zip(self.state[name][1], self.values[value])]

    def write(self, folder):
        kinds = ["tensor<f32>"] + [tensor(dims, "f32") for _, dims, _ in self.results]
        declared = ["tensor<f32> {fsdp.loss}"] + [f"{tensor(dims, 'f32')} {{{attribute}}}"
                                                  for _, dims, attribute in self.results]
        text = f"func.func @forward_backward(\n    {', '.join(self.arguments)})\n    -> ({', '.join(declared)}) {{\n"
        text += "  %zero = arith.constant 0.0 : f32\n  %e = tensor.empty() : tensor<f32>\n"
        text += "  %loss = linalg.fill ins(%zero : f32) outs(%e : tensor<f32>) -> tensor<f32>\n" + "\n".join(self.lines)
        text += f"\n  return {', '.join(['%loss'] + [name for name, _, _ in self.results])} : {', '.join(kinds)}\n}}\n"
        (folder / "model.mlir").write_text(text)
        write_tensors(folder / "params.safetensors", self.state)
        write_tensors(folder / "data.safetensors", self.inputs)


def experts(dtype):
    """A Mixtral-like block whose experts all see all tokens: up, down, and the gradients of tokens and matrices."""
    step = Step(dtype)
    x, up, down = step.add("x", "th", "input"), step.add("up", "eih", "param"), step.add("down", "ehi", "param")
    of_up, of_down = step.add("of_up", "eti", "input"), step.add("of_down", "eth", "input")
    act = step.add("act", "eti", "input")
    tokens = step.expand(x, "eth")
    step.keep("first", step.product(tokens, up, "eti"))
    step.keep("second", step.product(act, down, "eth"))
    step.keep("of_act", step.product(of_down, down, "eti"))
    step.keep("of_x", step.product(of_up, up, "eth"))
    step.differentiate("up", step.product(of_up, tokens, "eih"))
    step.differentiate("down", step.product(of_down, act, "ehi"))
    return step, 6


def heads(dtype):
    """Two batch dimensions, of which heads lie inside of tokens; results whose rows are columns; a matrix for all."""
    step = Step(dtype)
    q, k = step.add("q", "btnf", "input"), step.add("k", "binf", "input")
    shared, w = step.add("shared", "nfi", "input"), step.add("w", "hf", "param")
    scores = step.product(q, k, "bnti")
    step.keep("scores", scores)
    step.keep("turned", step.product(q, k, "bnit"))
    step.keep("by_head", step.product(q, step.expand(shared, "bnfi"), "bnti"))
    step.keep("out", step.product(q, w, "btnh"))
    of_out = step.add("of_out", "btnh", "input")
    step.differentiate("w", step.product(of_out, q, "hf"))
    return step, 5


def rows(dtype):
    """One matrix, as sums that begin at a tensor and as a linear layer."""
    step = Step(dtype)
    x, w, v = step.add("x", "th", "input"), step.add("w", "ih", "param"), step.add("v", "ei", "input")
    step.add("bias", "i", "input")
    step.add("begin", "ti", "input")
    step.keep("linear", step.add_bias(step.product(x, w, "ti"), "%bias"))
    step.keep("added", step.product(x, w, "ti", begin="%begin"))
    of = step.add("of", "ti", "input")
    step.differentiate("w", step.product(of, x, "ih"))
    step.keep("small", step.product(v, w, "eh"))
    return step, 4


class Products(unittest.TestCase):
    def execute(self, *words):
        outcome = subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                 timeout=280)
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        return outcome.stdout

    def check(self, make, dtype, *options):
        step, products = make(dtype)
        with tempfile.TemporaryDirectory(prefix="fsdp-products-") as folder:
            folder = pathlib.Path(folder)
            step.write(folder)
            # Epilogues are of programs for CUDA devices alone.
            for device, target in (("cpu", "cpu,cuda"), ("cuda", "cpu,cuda"), ("cuda", "cuda")):
                if options and device == "cpu":
                    continue
                words = ["--optimizer", "sgd:lr=1", "--mesh", "shard=1", "--target", target, *options]
                self.execute(BIN / "fsdp-compile", folder / "model.mlir", *words, "-o", folder / "train")
                save = folder / f"{device}-{target}"
                self.execute(folder / "train", "--device", device, "--params", folder / "params.safetensors", "--data",
                             folder / "data.safetensors", "--steps", 1, "--threads", 1, "--save", save, "--quiet",
                             "--profile", folder / "profile")
                ran = json.loads((folder / "profile").read_text())["products"]
                wide = [product for product in ran if (product["dtype"], product["c_dtype"]) == (dtype.upper(), "F32")]
                self.assertEqual(len(wide), products)
                # Of a linear layer, a bias.
                self.assertEqual([product["epilogue"] for product in wide if product["epilogue"]],
                                 [1] if make is rows and target == "cuda" else [])
                saved = read_tensors(save / (save / "latest").read_text().strip() / "params.safetensors")
                for name, want in step.expected.items():
                    most = max(map(abs, want))
                    wrong = max(abs(a - b) if a == a else math.inf for a, b in zip(saved[name], want))
                    with self.subTest(step=make.__name__, dtype=dtype, device=device, target=target, tensor=name):
                        self.assertLessEqual(wrong, TOLERANCE * most)

    def test_experts(self):
        for dtype in ("bf16", "f16"):
            self.check(experts, dtype)

    def test_heads(self):
        for dtype in ("bf16", "f16"):
            self.check(heads, dtype)

    def test_rows(self):
        for dtype in ("bf16", "f16"):
            self.check(rows, dtype)

    def test_tf32_is_of_f32_alone(self):
        self.check(experts, "bf16", "--tf32")

    def test_products_beside_transfers(self):
        """They are for the multiprocessors that NCCL's blocks leave, where it has a bound that all ranks know."""
        with tempfile.TemporaryDirectory(prefix="fsdp-products-") as folder:
            folder = pathlib.Path(folder)
            told = r"products: (\d+) beside transfers, for (\d+) of 132 multiprocessors"
            program = compiled.Program(folder, "gpt2", "--mesh", "shard=2", "--cluster", "h100-sxm", "--order", "fsdp")
            saved = {}
            for ctas, free in ((None, None), ("20", 112), ("132", None), ("-1", None)):
                with self.subTest(ctas=ctas):
                    environment = {} if ctas is None else {"NCCL_MAX_CTAS": ctas}
                    directory = folder / f"saved-{ctas}"
                    done = program.run("-n", "2", "--save", directory, quiet=False, FSDP_CUDA_CACHE="none", **environment)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    found = re.search(told, done.stdout + done.stderr)
                    self.assertEqual(found and int(found[2]), free, done.stdout + done.stderr)
                    saved[ctas] = [path.read_bytes() for path in sorted(directory.rglob("*.safetensors"))]
            self.assertEqual(saved["20"], saved[None])
            # Each transfer is waited for at once.
            alone = compiled.Program(folder, "gpt2", "--mesh", "shard=2", "--cluster", "h100-sxm", "--order", "in_order")
            done = alone.run("-n", "2", quiet=False, FSDP_CUDA_CACHE="none", NCCL_MAX_CTAS="20")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn("beside transfers", done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
