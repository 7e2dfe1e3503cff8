#!/usr/bin/env python3
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes what specials_test.py reads: per type a step whose evaluation runs the operations of cases.py, its inputs, and
what PyTorch makes of them. Needs what fsdp-export needs.

  PYTHONPATH=tools/fsdp-export/src python test/specials/generate.py [f32 f64 bf16 f16 clipped]

TYPE.mlir.gz is the step; TYPE.safetensors.gz holds input.NAME and want.NAME, and also.NAME where PyTorch's vectors and its
scalars differ in a result of elementwise operations: either is right.
"""
import gzip
import pathlib
import re
import sys
import tempfile

import torch
from safetensors.torch import save

import cases
from fsdp_export.cli import main

HERE = pathlib.Path(__file__).resolve().parent
# Copies of an element: a whole number of vectors, and one element after the last of them.
COPIES = 64


def write(path, data):
    """Without the time, which would differ."""
    path.write_bytes(gzip.compress(data, mtime=0))


def one_by_one(function, arguments, copies):
    """As cases.run, of each element in a tensor of its own, `copies` times."""
    found = {}
    for i in range(arguments[0].numel()):
        tensors = [t[i].expand(copies).clone() for t in arguments]
        weight = cases.weights(arguments[0].shape, arguments[0].dtype)[i]
        for suffix, value in cases.run(function, tensors, lambda value: weight.to(value.dtype).expand_as(value)).items():
            found.setdefault(suffix, []).append(value[0])
    return {suffix: torch.stack(values) for suffix, values in found.items()}


def same(a, b):
    return torch.equal(a.isnan(), b.isnan()) and torch.equal(a.nan_to_num(0), b.nan_to_num(0)) and torch.equal(
        a.signbit(), b.signbit())


def expected(dtype, dropped):
    inputs = cases.inputs(cases.TYPES[dtype])
    tensors = {f"input.{name}": value for name, value in inputs.items()}
    for name, (arguments, function) in cases.CASES.items():
        if name in cases.LEFT_OUT[dtype]:
            continue
        arguments = [inputs[a] for a in arguments]
        want, also = cases.run(function, arguments), {}
        if arguments[0].dim() == 1:
            want, also = one_by_one(function, arguments, COPIES), one_by_one(function, arguments, 1)
        for suffix, value in want.items():
            if name + suffix in dropped:
                continue
            tensors[f"want.{name}{suffix}"] = value.contiguous()
            if suffix in also and not same(value, also[suffix]):
                tensors[f"also.{name}{suffix}"] = also[suffix]
    return tensors


def generate_guarded():
    """A step that trains, for what runs see of NaN in its data."""
    with tempfile.TemporaryDirectory() as folder:
        status = main(["py:cases:clipped", "--optimizer", "none", "-o", folder + "/step"])
        if not status:
            write(HERE / "clipped.mlir.gz", pathlib.Path(folder, "step", "model.mlir").read_bytes())
    return status


# A result of the function that evaluates, in its type.
OUTPUT = re.compile(r', (tensor<[^>]*>) {fsdp\.output = {name = "([^"]+)"}}')


def without_repeated(text, dtype):
    """The module without outputs that are an earlier output: a program has each once. Of types other than f32, without
    gradients, which are operations that have been looked at: compiling them takes time. And the names."""
    start = text.index("func.func @evaluate")
    function = text[start:]
    returned = re.search(r"\n    return ([^:]*) : ([^\n]*?)( loc\(|\n)", function)
    values, types = returned.group(1).split(", "), returned.group(2).split(", ")
    names = [name for _, name in OUTPUT.findall(function)]
    assert len(values) == len(types) == len(names) + 1
    dropped = {name for i, name in enumerate(names, 1) if values[i] in values[:i]} | cases.REPEATED | {
        name for name in names if name in cases.LEFT_OUT[dtype] or (dtype != "f32" and ".grad_" in name)}
    kept = [0] + [i for i, name in enumerate(names, 1) if name not in dropped]
    function = (function[:returned.start(1)] + ", ".join(values[i] for i in kept) + " : " + ", ".join(types[i] for i in kept)
                + function[returned.end(2):])
    function = OUTPUT.sub(lambda match: "" if match.group(2) in dropped else match.group(0), function)
    return text[:start] + function, dropped


def generate(dtype):
    if dtype == "clipped":
        return generate_guarded()
    with tempfile.TemporaryDirectory() as folder:
        status = main([f"py:cases:{dtype}", "--eval", "--optimizer", "none", "--no-verify", "-o", folder + "/step"])
        if status:
            return status
        text, dropped = without_repeated(pathlib.Path(folder, "step", "model.mlir").read_text(), dtype)
    write(HERE / f"{dtype}.mlir.gz", text.encode())
    rules = {key.lower(): " ".join(sorted(getattr(cases, key))) for key in ("EXACT", "SIGNED", "FUNCTIONS")}
    write(HERE / f"{dtype}.safetensors.gz", save(expected(dtype, dropped), metadata=rules))
    return 0


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.path.insert(0, str(HERE))
    sys.exit(max(map(generate, sys.argv[1:] or [*cases.TYPES, "clipped"])))
