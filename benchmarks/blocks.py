#!/usr/bin/env python3
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a block of a transformer runs on a CUDA device, launch by launch, without one.

  blocks.py [MODEL...] [--bin BIN] [--roof GB/S]

A model of four blocks runs a step on the emulated driver of the tests. Of its second block, forward and then backward,
each launch is printed in order: the function's name, launches (a call may have several functions), KiB that it must
read and write once, and the microseconds that these take at `--roof` (default: 3350 GB/s, an H100's). The sum over
all but products, with the matrices that products add, stands beside what is counted by hand from the model
(docs/cuda.md): bytes of the tensors that a block reads and writes if everything between two products, or a product
and attention, is one kernel, or what the product before it adds.
"""
import argparse
import json
import math
import pathlib
import tempfile

import saved
from common import ROOT, run
from kernels import functions_of, measure

LAYERS = 4
# FSDP_RT_EPILOGUE_ADDEND of include/fsdp-rt/abi.h.
ADDEND = 2
BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}


def counted(name):
    """(forward, backward) bytes of all but products, counted by hand: elements of a token by hidden size h, intermediate
    size i, and size k of all keys of a token."""
    config, how = saved.MODELS[name][1], saved.MODELS[name][4]
    tokens = int(how["batch"]) * int(how["seq"])
    element = 2 if how.get("dtype") == "bf16" else 4
    if name == "llama":
        h, i = config["hidden_size"], config["intermediate_size"]
        k = h // config["num_attention_heads"] * config["num_key_value_heads"]
        # Two norms, and residuals that products add; rotary embeddings, attention, the gate.
        forward = 2 * 2 * h + 2 * h + 2 * (h + k) + (2 * h + 2 * k) + 3 * i
        # The gate; norms, of two and of three products, with the residual's gradient and the norm's result, which a
        # product reads; attention; rotary embeddings.
        backward = 6 * i + 6 * h + 7 * h + (4 * h + 4 * k) + 2 * (h + k)
    else:
        h = config["n_embd"]
        # Two norms, and residuals that products add, attention, GELU; products add biases.
        forward = 2 * 2 * h + 2 * h + 4 * h + 2 * 4 * h
        # GELU and its result, which a product reads; two norms; attention; sums of columns for four biases.
        backward = 4 * 4 * h + 2 * 5 * h + 8 * h + (h + 4 * h + h + 3 * h)
    return forward * tokens * element, backward * tokens * element


def kernel_calls(folder):
    """What rank 0 of a run with `--trace folder` called, in order."""
    events = json.loads((folder / "rank-0.json").read_text())["traceEvents"]
    return [event for event in events if event["ph"] == "X" and event["cat"] == "kernel"]


def of_phases(calls):
    """Of forward and of backward, the calls from the second attention up to the third: those of one block."""
    for kind in ("attention", "attention_backward"):
        mark = next(call["name"] for call in calls if kind in call["name"])
        places = [i for i, call in enumerate(calls) if call["name"] == mark]
        yield calls[places[1]:places[2]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["llama", "gpt2"])
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build" / "bin")
    parser.add_argument("--roof", type=float, default=3350.0)
    args = parser.parse_args()
    for name in args.models:
        model = saved.exported(name, LAYERS)
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            run([args.bin / "fsdp-compile", model / "model.mlir", "--optimizer-file", model / "optimizer.mlir",
                 "--target", "cuda", "-o", folder / "step"])
            profile, stats = measure(folder / "step", folder, args.bin.parent / "lib" / "fsdp-emulator", 1,
                                     "--trace", folder / "trace")
            calls = kernel_calls(folder / "trace")
        functions = functions_of(profile, stats)
        products = {call["name"]: 0 for call in profile["calls"] if call["kind"] == "matmul"}
        for product in profile["products"]:
            if product["epilogue"] & ADDEND:
                products[product["name"]] = (product["m"] * product["n"] * math.prod(product["batch"])
                                             * BYTES[product["c_dtype"]])
        print(f"{name}: {LAYERS} blocks, {saved.MODELS[name][1]}")
        for phase, block, by_hand in zip(("forward", "backward"), of_phases(calls), counted(name)):
            launches = moved = 0
            print(f"  {phase:40} launches       KiB   us at the roof")
            for call in block:
                count = 1 if call["name"] in products else len(functions[call["name"]])
                bytes_ = call["args"]["bytes"]
                launches += count
                moved += products.get(call["name"], bytes_)
                print(f"    {call['name']:38} {count:8} {bytes_ / 1024:9.1f} {bytes_ / args.roof / 1e3:10.2f}")
            print(f"    {'in all':38} {launches:8}; all but products {moved / 1024:.1f} KiB, by hand {by_hand / 1024:.1f} "
                  f"KiB, {moved / by_hand:.3f} of that")


if __name__ == "__main__":
    main()
