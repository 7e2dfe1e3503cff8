#===- linear.py - The example of the input contract, by hand --------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""linear.py write FOLDER: parameters and batches for two ranks.
linear.py check FOLDER: compares metrics.jsonl with the same training in Python.
"""

import json
import random
import struct
import sys
from pathlib import Path

STEPS, RANKS, ROWS, FEATURES, LR = 5, 2, 8, 4, 0.05


def data():
    """The weight, the frozen scale, and x and class per step and rank."""
    rng = random.Random(7)
    # Multiples of 1/8: the same numbers in float32.
    eighths = lambda n: [rng.randrange(-8, 9) / 8 for _ in range(n)]
    weight, scale = eighths(FEATURES), [0.5, 1.0, 1.5, 2.0]
    x = [[[eighths(FEATURES) for _ in range(ROWS)] for _ in range(RANKS)]
         for _ in range(STEPS)]
    classes = [[[rng.randrange(2) for _ in range(ROWS)] for _ in range(RANKS)]
               for _ in range(STEPS)]
    return weight, scale, x, classes


def flatten(values):
    return ([y for value in values for y in flatten(value)]
            if isinstance(values, list) else [values])


def write_safetensors(path, tensors):
    header, body = {}, b""
    for name, (dtype, code, shape, values) in tensors.items():
        packed = struct.pack(f"<{len(flatten(values))}{code}", *flatten(values))
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [len(body), len(body) + len(packed)]}
        body += packed
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def write(folder):
    weight, scale, x, classes = data()
    write_safetensors(folder / "params.safetensors", {
        "linear.weight": ("F32", "f", [FEATURES], weight),
        "linear.scale": ("F32", "f", [FEATURES], scale),
        "count": ("I64", "q", [], [0])})
    write_safetensors(folder / "batches.safetensors", {
        "x": ("F32", "f", [STEPS, RANKS, ROWS, FEATURES], x),
        "class": ("I64", "q", [STEPS, RANKS, ROWS], classes)})


def train():
    """The mean loss over the ranks, per step."""
    weight, scale, x, classes = data()
    losses = []
    for step in range(STEPS):
        loss, gradient = 0.0, [0.0] * FEATURES
        for rank in range(RANKS):
            for row, label in zip(x[step][rank], classes[step][rank]):
                distance = sum(r * w * s for r, w, s in
                               zip(row, weight, scale)) - label
                loss += distance**2 / ROWS / RANKS
                for i in range(FEATURES):
                    gradient[i] += (2 * distance * row[i] * scale[i]
                                    / ROWS / RANKS)
        losses.append(loss)
        weight = [w - LR * g for w, g in zip(weight, gradient)]
    return losses


def check(folder):
    expected = train()
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    got = [json.loads(line)["loss"] for line in lines]
    if len(got) != len(expected) or any(
            abs(a - b) > 1e-5 * abs(b) for a, b in zip(got, expected)):
        sys.exit(f"expected losses {expected}, got {got}")


{"write": write, "check": check}[sys.argv[1]](Path(sys.argv[2]))
