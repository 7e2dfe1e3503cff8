"""Attention by tensor cores and in float32, in sizes that divide nothing: what an emulated driver computes against
the processors' code, which rounds nothing between the products, and how many tiles it visits.

FSDP_BIN names the folder of fsdp-compile, FSDP_CUDA_LIBS that of the doubles of CUDA's libraries,
FSDP_PTXAS NVIDIA's assembler where there is one.
Standard library only.
"""
import json
import math
import os
import pathlib
import random
import re
import struct
import subprocess
import tempfile
import unittest
from unittest import mock

BIN = pathlib.Path(os.environ["FSDP_BIN"])
PTXAS = os.environ.get("FSDP_PTXAS")
MAPS = """#p3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#p4 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#group = affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>
#row = affine_map<(d0, d1, d2) -> (d0, d1)>
#t = affine_map<(d0, d1, d2) -> (d0, d2, d1)>
#qk = affine_map<(d0, d1, d2) -> (d1, d2)>
"""
# Roundings to bf16, of 8 bits, of probabilities and of gradients of scores, and of the result; in f32 other orders of
# sums.
LEAST = -3.4028234663852886e38
TOLERANCE = {"bf16": 2 ** -7, "f16": 2 ** -7, "f32": 2 ** -16}


def tensor(*shape):
    return f"tensor<{''.join(f'{size}x' for size in shape)}f32>"


class Attention:
    """The traced step of one attention, whose output is multiplied by w, and its gradients, in float32: of products
    --param-dtype narrows operands and results.
    """

    def __init__(self, name, batch, queries, keys, head, value, isCausal=False, hasBias=False, border=0, group=1, hidden=0,
                 dropped=0):
        """q, k, v and w are slices: `border` features lie on both sides of theirs. `group` neighbours of the batch have
        the same keys and values. The first `hidden` queries see no key: their biases are the least number, so that all keys
        weigh the same. Of the probabilities a share `dropped` is dropped, and the rest is divided by 1 less that.
        """
        self.hidden, self.dropped = hidden, dropped
        self.name, self.isCausal, self.hasBias, self.border = name, isCausal, hasBias, border
        self.group, self.scale = group, 1 / math.sqrt(head)
        self.shapes = {"q": (batch, queries, head), "k": (batch // group, keys, head),
                       "v": (batch // group, keys, value), "w": (batch, value, value)}
        self.result = (batch, queries, value)
        self.bias = (queries, keys)
        self.scores, self.rows = (batch, queries, keys), (batch, queries)
        self.lines, self.count = [], 0

    def emit(self, text):
        self.count += 1
        result = f"%{self.name}_{self.count}"
        self.lines.append(f"  {result} = {text}")
        return result

    def fill(self, shape, constant):
        empty = self.emit(f"tensor.empty() : {tensor(*shape)}")
        return self.emit(f"linalg.fill ins({constant} : f32) outs({empty} : {tensor(*shape)}) -> {tensor(*shape)}")

    def generic(self, inputs, shape, body, init=None, of="#p3"):
        """`inputs`: (name, shape, map); `body`: lines that give %r from %a0, %a1, .. and %o."""
        kind = "reduction" if init else "parallel"
        init = init or self.emit(f"tensor.empty() : {tensor(*shape)}")
        maps = ", ".join([m for _, _, m in inputs] + [of])
        arguments = ", ".join([f"%a{i}: f32" for i in range(len(inputs))] + ["%o: f32"])
        body = "\n    ".join(body)
        return self.emit(
            f"linalg.generic {{indexing_maps = [{maps}], iterator_types = [\"parallel\", \"parallel\", \"{kind}\"]}} "
            f"ins({', '.join(n for n, _, _ in inputs)} : {', '.join(tensor(*s) for _, s, _ in inputs)}) "
            f"outs({init} : {tensor(*shape)}) {{\n  ^bb0({arguments}):\n    {body}\n"
            f"    linalg.yield %r : f32\n  }} -> {tensor(*shape)}")

    def with_border(self, shape):
        return (*shape[:2], shape[2] + 2 * self.border)

    def slices(self, shape):
        return (f"[0, 0, {self.border}] [{', '.join(map(str, shape))}] [1, 1, 1]",
                tensor(*self.with_border(shape)), tensor(*shape))

    def double(self, value, shape):
        return self.generic([(value, shape, "#p3")], shape, ["%r = arith.addf %a0, %a0 : f32"])

    def is_shared(self, letter):
        return letter in "kv" and self.group != 1

    def repeated(self, shape):
        """`shape`, of each of a group, and with the group as a dimension."""
        batch, *rest = shape
        return (batch * self.group, *rest), (batch, self.group, *rest)

    def repeat(self, value, shape):
        """What a group shares, for each of it."""
        all, of_groups = self.repeated(shape)
        empty = self.emit(f"tensor.empty() : {tensor(*of_groups)}")
        copied = self.emit(
            "linalg.generic {indexing_maps = [#group, #p4], "
            "iterator_types = [\"parallel\", \"parallel\", \"parallel\", \"parallel\"]} "
            f"ins({value} : {tensor(*shape)}) outs({empty} : {tensor(*of_groups)}) {{\n"
            f"  ^bb0(%a0: f32, %o: f32):\n    linalg.yield %a0 : f32\n  }} -> {tensor(*of_groups)}")
        return self.emit(f"tensor.collapse_shape {copied} [[0, 1], [2], [3]] : {tensor(*of_groups)} into {tensor(*all)}"), all

    def add_up(self, value, shape):
        """The sum over each group."""
        all, of_groups = self.repeated(shape)
        expanded = self.emit(f"tensor.expand_shape {value} [[0, 1], [2], [3]] output_shape {list(of_groups)} : "
                             f"{tensor(*all)} into {tensor(*of_groups)}")
        return self.emit(
            "linalg.generic {indexing_maps = [#p4, #group], "
            "iterator_types = [\"parallel\", \"reduction\", \"parallel\", \"parallel\"]} "
            f"ins({expanded} : {tensor(*of_groups)}) outs({self.fill(shape, '%zero')} : {tensor(*shape)}) {{\n"
            f"  ^bb0(%a0: f32, %o: f32):\n    %r = arith.addf %a0, %o : f32\n"
            f"    linalg.yield %r : f32\n  }} -> {tensor(*shape)}")

    def read(self, letter):
        """Of twice the parameter, which is no gathered one then."""
        shape = self.shapes[letter]
        doubled = self.double(f"%{self.name}_{letter}", self.with_border(shape))
        at, whole, part = self.slices(shape)
        value = self.emit(f"tensor.extract_slice {doubled}{at} : {whole} to {part}")
        return self.repeat(value, shape) if self.is_shared(letter) else (value, shape)

    def differentiate(self, letter, gradient):
        shape = self.shapes[letter]
        if self.is_shared(letter):
            gradient = self.add_up(gradient, shape)
        doubled = self.double(gradient, shape)
        at, whole, part = self.slices(shape)
        zeros = self.fill(self.with_border(shape), "%zero")
        return self.emit(f"tensor.insert_slice {doubled} into {zeros}{at} : {part} into {whole}")

    def transpose(self, value, shape):
        turned = (shape[0], shape[2], shape[1])
        empty = self.emit(f"tensor.empty() : {tensor(*turned)}")
        return self.emit(
            "linalg.generic {indexing_maps = [#t, #p3], iterator_types = [\"parallel\", \"parallel\", \"parallel\"]} "
            f"ins({value} : {tensor(*shape)}) outs({empty} : {tensor(*turned)}) {{\n"
            f"  ^bb0(%a0: f32, %o: f32):\n    linalg.yield %a0 : f32\n  }} -> {tensor(*turned)}"), turned

    def multiply(self, a, b):
        (a, of_a), (b, of_b) = a, b
        shape = (of_a[0], of_a[1], of_b[2])
        init = self.fill(shape, "%zero")
        return self.emit(f"linalg.batch_matmul ins({a}, {b} : {tensor(*of_a)}, {tensor(*of_b)}) "
                         f"outs({init} : {tensor(*shape)}) -> {tensor(*shape)}"), shape

    def elementwise(self, inputs, body):
        return self.generic(inputs, self.scores, body)

    def reduced(self, value, op, constant):
        return self.generic([(value, self.scores, "#p3")], self.rows, [f"%r = arith.{op} %a0, %o : f32"],
                            init=self.fill(self.rows, constant), of="#row")

    def drop(self, value):
        if not self.dropped:
            return value
        kept = self.elementwise([(value, self.scores, "#p3"), (f"%{self.name}_drawn", self.scores, "#p3")],
                                [f"%keep = arith.constant {1 - self.dropped!r} : f32",
                                 "%isKept = arith.cmpf olt, %a1, %keep : f32", "%one = arith.uitofp %isKept : i1 to f32",
                                 "%r = arith.mulf %a0, %one : f32"])
        return self.elementwise([(kept, self.scores, "#p3")],
                                [f"%rest = arith.constant {1 / (1 - self.dropped)!r} : f32", "%r = arith.mulf %a0, %rest : f32"])

    def build(self):
        """The names of the product and of the gradients of q, k, v and w."""
        of = {letter: self.read(letter) for letter in self.shapes}
        gradient = (f"%{self.name}_gradient", self.result)
        full = lambda value: (value, self.scores, "#p3")
        row = lambda value: (value, self.rows, "#row")
        raw, _ = self.multiply(of["q"], self.transpose(*of["k"]))
        body = [f"%scale = arith.constant {self.scale!r} : f32", "%s = arith.mulf %a0, %scale : f32"]
        inputs = [full(raw)]
        if self.hasBias:
            inputs.append((f"%{self.name}_bias", self.bias, "#qk"))
            body += ["%b = arith.addf %s, %a1 : f32"]
        else:
            body += ["%none = arith.constant 0.0 : f32", "%b = arith.addf %s, %none : f32"]
        if self.isCausal:
            body += ["%i = linalg.index 1 : index", "%j = linalg.index 2 : index",
                     "%seen = arith.cmpi ule, %j, %i : index", "%hidden = arith.constant 0xFF800000 : f32",
                     "%r = arith.select %seen, %b, %hidden : f32"]
        else:
            body += ["%one = arith.constant 1.0 : f32", "%r = arith.mulf %b, %one : f32"]
        scores = self.elementwise(inputs, body)
        shifted = self.elementwise([full(scores), row(self.reduced(scores, "maximumf", "%low"))],
                                   ["%r = arith.subf %a0, %a1 : f32"])
        exponentials = self.elementwise([full(shifted)], ["%r = math.exp %a0 : f32"])
        p = self.elementwise([full(exponentials), row(self.reduced(exponentials, "addf", "%zero"))],
                             ["%r = arith.divf %a0, %a1 : f32"])
        weights = self.drop(p)
        out = self.multiply((weights, self.scores), of["v"])
        product, _ = self.multiply(out, of["w"])
        dw, _ = self.multiply(self.transpose(*out), gradient)
        dout = self.multiply(gradient, self.transpose(*of["w"]))
        dp = self.drop(self.multiply(dout, self.transpose(*of["v"]))[0])
        dv, _ = self.multiply(self.transpose(weights, self.scores), dout)
        weighted = self.elementwise([full(dp), full(p)], ["%r = arith.mulf %a0, %a1 : f32"])
        part = self.elementwise([full(p), row(self.reduced(weighted, "addf", "%zero"))],
                                ["%r = arith.mulf %a0, %a1 : f32"])
        ds = self.elementwise([full(weighted), full(part)], ["%r = arith.subf %a0, %a1 : f32"])
        scaled = self.elementwise([full(ds)], [f"%scale = arith.constant {self.scale!r} : f32",
                                               "%r = arith.mulf %a0, %scale : f32"])
        dq, _ = self.multiply((scaled, self.scores), of["k"])
        dk, _ = self.multiply(self.transpose(scaled, self.scores), of["q"])
        gradients = {"q": dq, "k": dk, "v": dv, "w": dw}
        return {"out": product, **{letter: self.differentiate(letter, value) for letter, value in gradients.items()}}


def write_module(path, attentions):
    arguments, results = [], ["tensor<f32> {fsdp.loss}"]
    kinds, names, lines = ["tensor<f32>"], ["%loss"], []
    for site, attention in enumerate(attentions):
        name = attention.name
        made = attention.build()
        lines += attention.lines
        for letter in attention.shapes:
            shape = attention.with_border(attention.shapes[letter])
            arguments.append(f"%{name}_{letter}: {tensor(*shape)} {{fsdp.param = {{fqn = \"{name}.{letter}\"}}}}")
            results.append(f"{tensor(*shape)} {{fsdp.grad = {{fqn = \"{name}.{letter}\"}}}}")
            kinds.append(tensor(*shape))
            names.append(made[letter])
        arguments.append(f"%{name}_gradient: {tensor(*attention.result)} {{fsdp.input = {{name = \"{name}.gradient\"}}}}")
        if attention.hasBias:
            arguments.append(f"%{name}_bias: {tensor(*attention.bias)} {{fsdp.input = {{name = \"{name}.bias\"}}}}")
        if attention.dropped:
            arguments.append(f"%{name}_drawn: {tensor(*attention.scores)} {{fsdp.random = "
                             f"{{name = \"{name}\", kind = \"uniform\", site = {site}}}}}")
        arguments.append(f"%{name}_old: {tensor(*attention.result)} {{fsdp.buffer = {{fqn = \"{name}.out\"}}}}")
        results.append(f"{tensor(*attention.result)} {{fsdp.buffer_update = {{fqn = \"{name}.out\"}}}}")
        kinds.append(tensor(*attention.result))
        names.append(made["out"])
    text = MAPS + "func.func @forward_backward(\n    " + ",\n    ".join(arguments) + ")\n    -> ("
    text += ",\n    ".join(results) + ") {\n  %zero = arith.constant 0.0 : f32\n  %low = arith.constant 0xFF800000 : f32\n"
    text += "  %e = tensor.empty() : tensor<f32>\n"
    text += "  %loss = linalg.fill ins(%zero : f32) outs(%e : tensor<f32>) -> tensor<f32>\n"
    text += "\n".join(lines) + f"\n  return {', '.join(names)} : {', '.join(kinds)}\n}}\n"
    path.write_text(text)


def write_tensors(path, tensors):
    header, body = {}, b""
    for name, (shape, values) in tensors.items():
        data = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def write_inputs(folder, attentions):
    """Random parameters, which are returned, and inputs."""
    rng = random.Random(1)
    draw = lambda shape, most=1: (shape, [rng.gauss(0, most) for _ in range(math.prod(shape))])
    state, inputs = {}, {}
    for attention in attentions:
        for letter, shape in attention.shapes.items():
            state[f"{attention.name}.{letter}"] = draw(attention.with_border(shape), 0.5)
        state[f"{attention.name}.out"] = (attention.result, [0.0] * math.prod(attention.result))
        wanted = {"gradient": attention.result, **({"bias": attention.bias} if attention.hasBias else {})}
        for name, shape in wanted.items():
            _, values = draw(shape)
            if name == "bias":
                values[:attention.hidden * shape[1]] = [LEAST] * (attention.hidden * shape[1])
            inputs[f"{attention.name}.{name}"] = ((1, 1, *shape), values)
    write_tensors(folder / "params.safetensors", state)
    write_tensors(folder / "data.safetensors", inputs)
    return state


def read_tensors(path):
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: struct.unpack(f"<{(entry['data_offsets'][1] - entry['data_offsets'][0]) // 4}f",
                                data[8 + size:][slice(*entry["data_offsets"])])
            for name, entry in header.items()}


class AttentionTest(unittest.TestCase):
    def execute(self, *words):
        outcome = subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, capture_output=True,
                                 text=True, timeout=280)
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        return outcome.stdout + outcome.stderr

    def train(self, folder, *options):
        self.execute(folder / "train", "--params", folder / "params.safetensors", "--data", folder / "data.safetensors",
                     "--steps", 1, "--quiet", *options)

    def write_ptx(self, folder, dtype):
        """Of the model in `folder`."""
        ptx = folder / "step.ptx"
        self.execute(BIN / "fsdp-compile", folder / "model.mlir", "--optimizer", "sgd:lr=1", "--target", "cuda",
                     "--param-dtype", dtype, "--emit", "ptx", "-o", ptx)
        return ptx

    def check_processors(self, *attentions):
        """One kernel beside the ops as they were traced."""
        with tempfile.TemporaryDirectory(prefix="fsdp-attention-") as folder:
            folder = pathlib.Path(folder)
            write_module(folder / "model.mlir", attentions)
            write_inputs(folder, attentions)
            saved = {}
            for attention in ("fused", "decomposed"):
                remarks = ["--remarks-filter=fsdp-fuse-attention"] if attention == "fused" else []
                said = self.execute(BIN / "fsdp-compile", folder / "model.mlir", "--optimizer", "sgd:lr=1", "--attention", attention,
                                    *remarks, "-o", folder / "train")
                self.assertEqual(said.count("forward and backward"), len(attentions) if remarks else 0, said)
                save = folder / attention
                self.train(folder, "--threads", 1, "--save", save)
                saved[attention] = read_tensors(save / (save / "latest").read_text().strip() / "params.safetensors")
            for name, want in saved["decomposed"].items():
                most, wrong = max(map(abs, want)), max(abs(a - b) for a, b in zip(saved["fused"][name], want))
                self.assertLessEqual(wrong, TOLERANCE["f32"] * most, name)

    def check(self, *attentions, dtype="bf16"):
        with tempfile.TemporaryDirectory(prefix="fsdp-attention-") as folder:
            folder = pathlib.Path(folder)
            write_module(folder / "model.mlir", attentions)
            self.execute(BIN / "fsdp-compile", folder / "model.mlir", "--optimizer", "sgd:lr=1", "--target", "cpu,cuda",
                         "--param-dtype", dtype, "-o", folder / "train")
            ptx = self.write_ptx(folder, dtype)
            # A function for the output, one for dq and one for dk and dv.
            functions = ptx.read_text().split(".visible .entry")[1:]
            self.assertEqual(len([part for part in functions if "_attention" in part.split("(")[0]]), 3 * len(attentions))
            if dtype != "f32":
                used = [part for part in functions
                        if f"mma.sync.aligned.m16n8k16.row.col.f32.{dtype}.{dtype}.f32" in part]
                self.assertEqual(len(used), 3 * len(attentions))
            state = write_inputs(folder, attentions)
            saved = {}
            for device in ("cpu", "cuda"):
                save = folder / device
                self.train(folder, "--device", device, "--threads", 1, "--save", save)
                saved[device] = read_tensors(save / (save / "latest").read_text().strip() / "params.safetensors")
            for name, (_, before) in state.items():
                want = [a - b for a, b in zip(saved["cpu"][name], before)]
                got = [a - b for a, b in zip(saved["cuda"][name], before)]
                most = max(map(abs, want))
                wrong = max(abs(a - b) if a == a else math.inf for a, b in zip(got, want))
                with self.subTest(tensor=name):
                    self.assertGreater(most, 0)
                    self.assertLessEqual(wrong, TOLERANCE[dtype] * most)

    def count(self, attention, dtype):
        """Instructions of warps of the function for dk and dv, bytes that it loads, and what fsdp-plan counts there."""
        with tempfile.TemporaryDirectory(prefix="fsdp-attention-") as folder:
            folder = pathlib.Path(folder)
            write_module(folder / "model.mlir", [attention])
            options = ["--optimizer", "sgd:lr=1", "--target", "cuda", "--param-dtype", dtype]
            self.execute(BIN / "fsdp-compile", folder / "model.mlir", *options, "-o", folder / "train")
            with mock.patch.dict(os.environ, {"FSDP_EMULATOR_STATS": str(folder / "stats")}):
                write_inputs(folder, [attention])
                self.train(folder, "--device", "cuda")
            functions = [line for line in map(json.loads, (folder / "stats").read_text().splitlines())
                         if line.get("kernel", "").endswith("_attention_backward_dkdv")]
            self.assertEqual(len(functions), 1)
            plan = json.loads(self.execute(BIN / "fsdp-plan", folder / "model.mlir", *options, "--mesh", "shard=1",
                                           "--cluster", "h100-sxm", "--json"))
            (launches,) = [kernel["launches"] for kernel in plan["kernels"]
                           if kernel["name"].endswith("_attention_backward")]
        return functions[0], launches[-1]

    def test_tiles_that_are_masked_whole(self):
        """Where heads share keys, a block of keys visits no more tiles of queries than where they do not; and the cost
        model counts those.
        """
        for dtype in ("bf16", "f32"):
            for queries, keys in ((320, 320), (300, 300), (200, 330), (330, 200)):
                with self.subTest(dtype=dtype, queries=queries, keys=keys):
                    sizes = 4, queries, keys, 32, 32
                    alone, _ = self.count(Attention("a", *sizes, isCausal=True), dtype)
                    shared, planned = self.count(Attention("a", *sizes, isCausal=True, group=4), dtype)
                    self.assertLess(shared["warp_instructions"], 1.05 * alone["warp_instructions"])
                    self.assertLess(shared["bytes_loaded"], 1.05 * alone["bytes_loaded"])
                    # A plan counts copies of what lies beyond the last query, up to 64 of 256, which load nothing.
                    for key, executed, most in (("loaded_bytes", "bytes_loaded", 1.4),
                                                ("instructions", "lane_instructions", 1.5)):
                        self.assertLess(planned[key], most * shared[executed], key)
                        self.assertLess(shared[executed], most * planned[key], key)

    def test_sizes(self):
        """Heads that are no multiple of 16, one tile and several, warps without rows."""
        self.check(Attention("a", 2, 40, 56, 40, 40), Attention("b", 1, 70, 70, 64, 64, isCausal=True),
                   Attention("c", 1, 17, 33, 80, 96), Attention("d", 2, 5, 3, 8, 24))

    def test_long_heads(self):
        """Whole in shared memory, and in chunks."""
        self.check(Attention("a", 1, 80, 67, 96, 96), Attention("b", 1, 66, 100, 128, 128, isCausal=True),
                   Attention("c", 1, 20, 40, 256, 256), Attention("d", 1, 18, 18, 32, 144), Attention("e", 1, 20, 18, 144, 80))

    def test_shared_keys(self):
        """Tiles of each head alone, of which masks hide some, and of several heads."""
        for dtype in ("bf16", "f32"):
            self.check(Attention("a", 4, 150, 150, 32, 32, isCausal=True, group=2),
                       Attention("b", 3, 128, 128, 64, 48, isCausal=True, group=3),
                       Attention("c", 4, 90, 200, 40, 24, isCausal=True, group=4),
                       Attention("d", 4, 200, 70, 33, 16, isCausal=True, group=2),
                       Attention("e", 8, 10, 40, 32, 32, isCausal=True, group=4),
                       Attention("f", 4, 70, 90, 32, 32, group=2), dtype=dtype)

    def test_captured_values(self):
        self.check(Attention("a", 2, 35, 64, 64, 64, hasBias=True),
                   Attention("b", 1, 65, 65, 24, 48, isCausal=True, hasBias=True),
                   Attention("c", 1, 70, 130, 32, 32, hasBias=True, hidden=3))

    def test_dropped_probabilities(self):
        """Numbers are drawn again in each kernel: rows that begin within a block of four, tiles of several heads."""
        attentions = [Attention("a", 2, 35, 62, 64, 32, dropped=0.25),
                      Attention("b", 2, 70, 70, 32, 32, isCausal=True, dropped=0.5),
                      Attention("c", 4, 33, 70, 32, 48, isCausal=True, group=2, dropped=0.1),
                      Attention("d", 1, 40, 65, 24, 48, hasBias=True, dropped=0.9)]
        self.check_processors(*attentions)
        for dtype in ("bf16", "f32"):
            self.check(*attentions, dtype=dtype)

    def test_places_that_are_no_multiple_of_16_bytes(self):
        self.check(Attention("a", 1, 40, 40, 64, 64), Attention("b", 1, 19, 21, 33, 7),
                   Attention("c", 1, 40, 40, 64, 64, border=4), Attention("d", 1, 70, 19, 16, 32, border=3),
                   # Of several tiles in two stages, by elements.
                   Attention("e", 1, 150, 150, 64, 64, isCausal=True, border=4))

    def test_f16(self):
        self.check(Attention("a", 1, 40, 70, 64, 48, isCausal=True), dtype="f16")

    @unittest.skipUnless(PTXAS, "no ptxas was found")
    def test_registers(self):
        """Of no function on any card does ptxas put registers into memory."""
        attentions = [Attention(f"h{head}_{group}_{length}", 8, length, length, head, head, isCausal=head != 80, group=group)
                      for head, group, length in ((32, 1, 1024), (64, 1, 1024), (80, 1, 1024), (128, 1, 1024), (256, 1, 1024),
                                                  (64, 4, 1024), (128, 4, 1024), (64, 4, 1000), (128, 4, 1000))]
        with tempfile.TemporaryDirectory(prefix="fsdp-attention-") as folder:
            folder = pathlib.Path(folder)
            write_module(folder / "model.mlir", attentions)
            ptx = self.write_ptx(folder, "bf16")
            for processor in ("sm_80", "sm_90"):
                said = self.execute(PTXAS, "-v", f"-arch={processor}", ptx, "-o", folder / "code")
                spills = re.findall(r"Function properties for (\S+)\s+\d+ bytes stack frame, (\d+) bytes spill stores", said)
                self.assertGreaterEqual(len(spills), 3 * len(attentions))
                self.assertEqual([], [spill for spill in spills if spill[1] != "0"])


if __name__ == "__main__":
    unittest.main()
