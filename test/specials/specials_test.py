# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operations on NaN, infinities, zeros, the largest and the least numbers, as compiled code computes them: PyTorch's values.

FSDP_BIN names the folder of fsdp-compile; FSDP_DEVICE the device that runs the programs (cuda: FSDP_CUDA_LIBS, too).
generate.py writes the files that are read here, and says what is in them.
"""
import array
import gzip
import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "parity"))
from steps import read_tensors, write_tensors

BIN = pathlib.Path(os.environ["FSDP_BIN"])
DEVICE = os.environ.get("FSDP_DEVICE", "cpu")
TYPES = ("f32", "f64", "bf16", "f16")
# How far a result may be from PyTorch's where both round, relative to its size, and in rows to the row's largest one.
ROUNDING = {"F32": 1e-4, "F64": 1e-7, "BF16": 5e-2, "F16": 5e-2}
LEAST = {"F32": 2.0 ** -126, "F64": 2.0 ** -1022, "BF16": 2.0 ** -126, "F16": 2.0 ** -14}
COLUMNS = 19
INTEGERS = {"I8": "b", "U8": "B", "BOOL": "B", "I16": "h", "I32": "i", "I64": "q"}


def numbers(tensor):
    """The elements of a tensor as Python's numbers."""
    dtype, _, data = tensor
    if dtype == "BF16":
        halves = array.array("H", data)
        return array.array("f", b"".join(struct.pack("<HH", 0, half) for half in halves)).tolist()
    if dtype == "F16":
        return list(struct.unpack(f"<{len(data) // 2}e", data))
    return array.array({"F32": "f", "F64": "d", **INTEGERS}[dtype], data).tolist()


def is_same(got, want, is_signed):
    if math.isnan(want):
        return math.isnan(got)
    return got == want and (not is_signed or math.copysign(1, got) == math.copysign(1, want))


def is_near(got, want, scale, dtype):
    if not (math.isfinite(got) and math.isfinite(want)):
        return is_same(got, want, False)
    return abs(got - want) <= ROUNDING[dtype] * scale + LEAST[dtype]


def is_moderate(value):
    return not math.isfinite(value) or value == 0 or 1e-3 < abs(value) <= 100


class Expected:
    """Inputs and results of a type."""

    def __init__(self, name, folder):
        path = pathlib.Path(folder, f"{name}.safetensors")
        path.write_bytes(gzip.decompress((HERE / f"{name}.safetensors.gz").read_bytes()))
        self.tensors = read_tensors(path)
        data = path.read_bytes()
        rules = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])["__metadata__"]
        self.exact, self.signed, self.functions = (set(rules[key].split()) for key in ("exact", "signed", "functions"))
        self.inputs = {key[6:]: value for key, value in self.tensors.items() if key.startswith("input.")}
        self.names = [key[5:] for key in self.tensors if key.startswith("want.")]
        self.values = {key: numbers(value) for key, value in self.inputs.items()}

    def place(self, name, i, count):
        """What element `i` of a result comes from, in words."""
        if count == len(self.values["x"]):
            return f"x = {self.values['x'][i]!r}"
        if count == len(self.values["a"]):
            return f"a, b = {self.values['a'][i]!r}, {self.values['b'][i]!r}"
        rows = self.inputs["rows"][1][0]
        if count % rows:
            return f"element {i}"
        row, column = divmod(i, count // rows)
        return f"row {row}" + (f", column {column}" if count > rows else "")

    def differences(self, outputs):
        """What is not PyTorch's, a line for each result: its name and its first elements."""
        lines = []
        for name in self.names:
            want = self.tensors["want." + name]
            got = outputs[name]
            if got[0] != want[0] or len(got[2]) != len(want[2]):
                lines.append(f"{name}: {got[0]} of {got[1][2:]}, PyTorch {want[0]} of {want[1]}")
                continue
            got, right = numbers(got), [numbers(want)]
            if "also." + name in self.tensors:
                right.append(numbers(self.tensors["also." + name]))
            bad = [i for i in range(len(got))
                   if not any(self.is_right(name, want[0], got[i], values, i) for values in right)]
            if bad:
                lines.append(f"{name}: {len(bad)} of {len(got)} differ: " + "; ".join(
                    f"{self.place(name, i, len(got))}: {got[i]!r}, PyTorch {' or '.join(repr(v[i]) for v in right)}"
                    for i in bad[:3]))
        return lines

    def is_right(self, name, dtype, got, want, i):
        if dtype in INTEGERS:
            return got == want[i]
        if name in self.exact:
            # Below the least normal number of bf16 there is 0 on some processors.
            if dtype == "BF16" and abs(want[i]) < LEAST[dtype]:
                return abs(got) < LEAST[dtype]
            return is_same(got, want[i], name in self.signed)
        scale, base = abs(want[i]), name.split(".grad_")[0]
        if base in self.functions:
            values = [self.values[key][i] for key in (("x",) if len(want) == len(self.values["x"]) else ("a", "b"))]
            if not all(map(is_moderate, values)):
                return True
            scale = max(scale, 1.0)
        if base.endswith("_rows"):
            first = i - i % COLUMNS
            scale = max([abs(v) for v in want[first:first + COLUMNS] if math.isfinite(v)], default=0.0)
        return is_near(got, want[i], scale, dtype)


class Specials(unittest.TestCase):
    folder = tempfile.TemporaryDirectory(prefix="fsdp-specials-")
    count = 0

    def place(self, name):
        """A path that no other test uses."""
        Specials.count += 1
        return pathlib.Path(self.folder.name, f"{Specials.count}-{name}")

    def execute(self, *words, status=0):
        done = subprocess.run(list(map(str, words)), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, status, done.stderr[-2000:])
        return done

    def compile(self, text, *options):
        model, program = self.place("model.mlir"), self.place("train")
        model.write_bytes(text)
        self.execute(BIN / "fsdp-compile", model, "--optimizer", "sgd:lr=0.1", "--mesh", "shard=1", "--target", DEVICE, *options,
                     "-o", program)
        return [program, "-n", "1", "--device", DEVICE, "--threads", "1"]

    def evaluate(self, expected, text):
        """The outputs of a step of MLIR on the inputs, by name."""
        program, params, batch, outputs = self.compile(text), *map(self.place, ("params", "batch", "outputs"))
        write_tensors(params, {"scale": ("F32", [3], struct.pack("<3f", 1, 1, 1))})
        write_tensors(batch, {key: (dtype, [1, 1, *shape], data)
                              for key, (dtype, shape, data) in expected.inputs.items()})
        self.execute(*program, "--params", params, "--eval-data", batch, "--save-outputs", outputs)
        return read_tensors(outputs)

    def check(self, dtype):
        expected = Expected(dtype, self.folder.name)
        text = gzip.decompress((HERE / f"{dtype}.mlir.gz").read_bytes())
        lines = expected.differences(self.evaluate(expected, text))
        self.assertEqual([], lines, "\n".join(["", *lines]))

    def test_guards_see_what_was_clipped(self):
        """NaN in the data, in front of a clamp: the step's loss and norm are NaN, the run ends or skips it."""
        program = self.compile(gzip.decompress((HERE / "clipped.mlir.gz").read_bytes()), "--skip-nonfinite")
        data, saved = self.place("data"), self.place("saved")
        write_tensors(data, {"x": ("F32", [2, 1, 2, 3], struct.pack("<12f", *[0.5] * 10, math.nan, 0.5))})
        run = (*program, "--init", "seed=0", "--data", data, "--steps", 2)
        done = self.execute(*run, "--stop-on-nan", status=1)
        self.assertIn("step 2: loss is nan and grad_norm is nan (--stop-on-nan)", done.stderr)
        done = self.execute(*run, "--save", saved, "--save-every", 1)
        self.assertIn("step: 2 loss: nan grad_norm: nan ", done.stdout)
        self.assertIn("step 2: loss is nan and grad_norm is nan: its update was skipped", done.stderr)
        one, two = (read_tensors(saved / f"step-0000000{i}" / "params.safetensors") for i in (1, 2))
        self.assertEqual(one, two)

    def test_a_mutant(self):
        """Maxima and minima that leave NaN out are found, by name and element."""
        expected = Expected("f16", self.folder.name)
        text = gzip.decompress((HERE / "f16.mlir.gz").read_bytes())
        mutant = text.replace(b"arith.maximumf", b"arith.maxnumf")
        self.assertNotEqual(text, mutant)
        lines = expected.differences(self.evaluate(expected, mutant))
        (line,) = [line for line in lines if line.startswith("amax_rows: ")]
        self.assertIn("row 1: ", line)
        self.assertIn(", PyTorch nan", line)
        # What is chosen by comparisons is not touched.
        self.assertFalse([line for line in lines if line.startswith("clamp: ")])


for name in TYPES:
    setattr(Specials, f"test_{name}", lambda self, name=name: self.check(name))

if __name__ == "__main__":
    unittest.main()
