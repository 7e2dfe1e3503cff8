#!/usr/bin/env python3
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Predicts a step on one H200 from counts, without one; needs ptxas and nvdisasm.

  predict.py [MODEL[:BATCHxSEQUENCE]...] [--calls] [--bin BIN] [-- OPTIONS OF FSDP-COMPILE]
  predict.py --lint [MODEL...]  launches of fewer blocks than there are multiprocessors in which a thread waits for over
                            2000 loads one after another; exits 1 where there is one
  predict.py --check        what the log of an H200 measured beside what is predicted; exits 1 beyond --limit

A model is one of models.json (needs torch to export it), or a folder of fsdp-export; parameters are in bf16 for products. Of
each function of its kernels: what warps of some blocks execute (sass.py), on a card of 132 multiprocessors with the
functions' registers and shared memory. A launch takes the longest of

  units      instructions of the busiest quarter of a multiprocessor by the rates of its units, at EFFICIENCY of them
  latency    one warp alone from its first instruction to its last, for each round of resident blocks
  memory     bytes that the call must move once (those that the planner counts in L3), at BANDWIDTH

and GAP comes on top of each. Products take their operations at PRODUCT_RATE and PRODUCT_START.
"""
import argparse
import collections
import json
import math
import pathlib
import re
import sys
import tempfile

import sass
from common import MODELS, ROOT, exported, run
from occupancy import COUNT, launched, resident

LOG = ROOT / "docs" / "measured" / "h200-2026-11-27.log"
# The PTX that the log's section "PTX on the GPU" measured.
PROBES = ROOT / "docs" / "measured" / "probes"

# Constants, each with the line of the log that it comes from.
# "NVIDIA H200, 580.159.04, 143771 MiB, 1980 MHz, 3201 MHz"
CLOCK = 1980e6
# The same line: two transfers a cycle of 6144 bits. EFFICIENCY_OF_MEMORY: an estimate, no line has data beyond the L2.
EFFICIENCY_OF_MEMORY = 0.87
BANDWIDTH = 2 * 3201e6 * 6144 / 8 * EFFICIENCY_OF_MEMORY
# "colsum          16.04 us   1046.2 GB/s": 8 blocks, so 8 multiprocessors; 2 MiB each.
BANDWIDTH_OF_ONE = (2 << 20) / 16.04e-6
# Cycles of a load from the device's memory: as lib/Cost/clusters/h200-sxm.json; "colsum" has 65 of them one after another.
LATENCY = 479
# Part of the units' rates that kernels reach: an estimate, no line of the log is bound by them.
EFFICIENCY = 0.7
# "logits n 50304   first    861.0 us (  735 TF/s)", and the median of what other products of aligned extents take beyond it.
PRODUCT_RATE, PRODUCT_START = 740e12, 2e-6
# "graph: host 3.8 us a launch, all 308.4 us a step", of 300 kernels: less what the kernel itself takes, a load and a store.
NODE = 308.4e-6 / 300
GAP = NODE - (LATENCY + 60) / CLOCK
# "eager: host 1445.5 us a step", of 300 kernels.
EAGER = 1445.5e-6 / 300

CLASSES = ("products", "attention forward", "attention dq", "attention dk, dv", "embedding gradient", "cross entropy", "norms and sums",
           "elementwise", "optimizer", "small sums", "gaps")
DEFAULT = ("gpt2-124m:8x1024", "gpt2-124m:64x1024", "llama-492m", "llama-1b")
# Loads one after another, in a thread of a launch that leaves multiprocessors without a block: of 1000 iterations, each of
# which waits for an index and for what that names.
MOST_WAITS = 2000
# Blocks of a kernel that are followed where neighbours do not execute the same, and warps of each.
BLOCKS, WARPS = 32, 8


class Function:
    """What the warps of a kernel's function execute, in the mean over some of them."""

    def __init__(self, kernel, grid, threads, shared):
        self.kernel, self.grid, self.threads, self.shared = kernel, grid, threads, shared
        warps = math.ceil(threads / 32)
        self.warps = [(2 * i + 1) * warps // (2 * min(warps, WARPS)) for i in range(min(warps, WARPS))]
        middle = grid // 2
        some = [self.follow(block) for block in sorted({middle, min(grid - 1, middle + 1)})]
        if some[0][0].instructions != some[-1][0].instructions:
            some = [self.follow(block % grid) for block in range(middle, middle + min(grid, BLOCKS))]
        paths = [path for paths in some for path in paths]
        self.instructions = sum(path.instructions for path in paths) / len(paths)
        self.units = collections.Counter()
        for path in paths:
            for unit, cycles in path.cycles.items():
                self.units[unit] += cycles / len(paths)
        # Of a block, its slowest warp.
        self.length = sum(max(path.length for path in paths) for paths in some) / len(some)
        self.waits = max(path.waits for path in paths)

    def follow(self, block):
        """The paths of warps of a block: of the first and the last, and where they differ of those between."""
        def of(warp):
            return self.kernel.follow(self.grid, self.threads, block, 32 * warp, LATENCY)
        first, *between, last = self.warps if len(self.warps) > 1 else self.warps * 2
        paths = [of(first), of(last)]
        if paths[0].instructions != paths[1].instructions:
            paths[1:1] = map(of, between)
        return paths

    def seconds(self, moved):
        warps = math.ceil(self.threads / 32)
        of_one = self.grid / COUNT
        # The last round of few is as long as the others.
        of_one = math.ceil(of_one) if of_one < 8 else of_one
        held = max(1, resident(self.kernel.registers, self.shared, self.threads)[0] // warps)
        busiest = max(self.instructions, *self.units.values())
        return {"units": max(1, of_one * warps / 4) * busiest / EFFICIENCY / CLOCK,
                "latency": math.ceil(of_one / held) * self.length / CLOCK,
                "memory": moved / min(BANDWIDTH, BANDWIDTH_OF_ONE * self.grid)}


def product_seconds(m, n, k, batch=1, bytes_=2):
    """Of extents that are no multiples of 16 bytes the rest is a product of its own (docs/cuda.md, ProductParts): a pass over
    an operand, or of k over the result."""
    unit = 16 // bytes_
    seconds = 2.0 * m * n * k * batch / PRODUCT_RATE + PRODUCT_START
    for extent, passes in ((m, n * k), (n, m * k), (k, 2 * m * n)):
        if extent % unit and extent > unit and batch == 1:
            seconds += passes * bytes_ / BANDWIDTH + GAP
    return seconds


def classify(kernel, function, grid, operands, logits):
    """`operands`: of each kernel how many arguments of the program it is given, and the sizes of its tensors."""
    name = kernel["name"]
    arguments, sizes = operands.get(name, (0, ()))
    if kernel["kind"].startswith("product"):
        return "products"
    if name.endswith("_attention"):
        return "attention forward"
    if "_attention_backward" in name:
        return "attention dq" if function.endswith("dq") else "attention dk, dv"
    # A parameter and its moments.
    if arguments >= 2:
        return "optimizer"
    if name.endswith("_for"):
        return "embedding gradient"
    # Rows of the logits may be longer than their number, so that they begin at multiples of 16 bytes.
    if any(logits <= size <= 1.01 * logits for size in sizes):
        return "cross entropy"
    if grid < COUNT:
        return "small sums"
    return "norms and sums" if name.endswith("_reduce") else "elementwise"


def predict(model, compiler, options):
    """Rows (class, name, calls, seconds of a call, what bounds it, launches) of a step, what the planner says, and functions."""
    words = [model / "model.mlir", "--optimizer-file", model / "optimizer.mlir", "--target", "cuda", "--mesh", "shard=1",
             "--param-dtype", "bf16", "--cluster", "h200-sxm", *options]
    plan = json.loads(run([compiler.parent / "fsdp-plan", *words, "--json"]))
    with tempfile.TemporaryDirectory() as folder:
        ptx, ir = pathlib.Path(folder) / "step.ptx", pathlib.Path(folder) / "step.mlir"
        run([compiler, *words, "--emit", "ptx", "-o", ptx])
        run([compiler, *words, "--emit", "ir:L3", "-o", ir])
        code, text = sass.assemble(ptx), ir.read_text()
    operands = {name: (len(re.findall(r"%arg\d+", values)), {math.prod(map(int, shape.split("x"))) for shape in
                                                             re.findall(r"tensor<([\dx]*\d)x[a-z]", types)})
                for name, values, types in re.findall(r"fsdp\.launch @(\w+)\((.*?)\)(.*)", text)}
    launches = collections.defaultdict(list)
    for name, block in re.findall(r"func\.func private @(\w+)\(.*?cuda_code<\[(.*?)\]", text):
        launches[name] = launched(block)
    products = {kernel["name"]: list(map(int, re.findall(r"\d+", kernel["kind"].partition(",")[0])))
                for kernel in plan["kernels"] if kernel["kind"].startswith("product")}
    # Extents of the largest result of all.
    logits = max((m * n for m, n, *_ in products.values()), default=0)
    rows, functions = [], {}
    for kernel in plan["kernels"]:
        if kernel["name"] in products:
            rows.append(("products", kernel["name"], kernel["calls"], product_seconds(*products[kernel["name"]]), "product", 1))
            continue
        if len(kernel.get("launches", [])) != len(launches[kernel["name"]]):
            sys.exit(f"error: {kernel['name']}: expected {len(launches[kernel['name']])} launches as in L3, got "
                     f"{len(kernel.get('launches', []))}")
        for planned, (name, grid, threads, shared) in zip(kernel.get("launches", []), launches[kernel["name"]]):
            function = functions[name] = Function(code[name], grid, threads, planned["shared_bytes"])
            moved = min(kernel["bytes"], planned["read_bytes"] + planned["written_bytes"])
            seconds = function.seconds(moved)
            bound = max(seconds, key=seconds.get)
            rows.append((classify(kernel, name, grid, operands, logits), name, kernel["calls"], seconds[bound], bound, 1))
    return rows, plan, functions


def show(name, rows, plan, calls):
    totals = collections.Counter()
    count = collections.Counter()
    for kind, _, times, seconds, _, launches in rows:
        totals[kind] += times * seconds
        count[kind] += times * launches
    totals["gaps"] = sum(count.values()) * GAP
    step = sum(totals.values())
    tokens = plan["items_per_s"] * plan["step_ms"] / 1e3
    print(f"{name}: {step * 1e3:.2f} ms, {tokens / step:.0f} {plan['item']}/s; fsdp-plan says {plan['step_ms']:.2f} ms")
    count["gaps"] = sum(count.values())
    for kind in CLASSES:
        print(f"  {kind:20} {totals[kind] * 1e3:9.3f} ms {count[kind]:6} launches")
    if calls:
        planned = {kernel["name"]: kernel["ms"] / kernel["calls"] * 1e3 for kernel in plan["kernels"]}
        print(f"  {'us a step':>10} {'calls':>6} {'us each':>9} {'by':8} {'planned':>9}  kernel")
        for kind, function, times, seconds, bound, _ in sorted(rows, key=lambda row: -row[2] * row[3]):
            kernel = function if function in planned else function.rpartition("_")[0]
            print(f"  {times * seconds * 1e6:10.1f} {times:6} {seconds * 1e6:9.2f} {bound:8} {planned.get(kernel, 0):9.2f}  "
                  f"{function} ({kind})")


def find_chains(functions):
    """(function, blocks, waits) of those launches that few threads make last."""
    return [(name, function.grid, function.waits) for name, function in functions.items()
            if function.grid < COUNT and function.waits > MOST_WAITS]


def read_log():
    """(name, microseconds) of what the log measured and this file predicts."""
    text = LOG.read_text()
    found = [(name, float(us)) for name, us in re.findall(r"^(gelu_kernel|softmax|colsum|rowsum|axpb) +([\d.]+) us", text, re.M)]
    # The first of each: later lines are of the sanitizer's run.
    found = list({name: (name, us) for name, us in reversed(found)}.values())
    found += [(name.strip(), float(us)) for name, us in
              re.findall(r"^((?:fc1|fc2|dgrad fc2|wgrad fc1|logits) [\w ]+?) +first +([\d.]+) us", text, re.M)]
    found.append(("graph of 300 kernels", float(re.search(r"^graph: .* all ([\d.]+) us", text, re.M)[1])))
    return found


# Of the probes: file, blocks, threads of x, bytes.
LAUNCHED = {"gelu_kernel": ("ew", 1024, 256, 12 << 20), "softmax": ("smk", 1024, 32, 8 << 20),
            "colsum": ("col", 8, 512, 16 << 20), "rowsum": ("ar", 128, 1024, 16 << 20), "axpb": ("bf", 512, 256, 4 << 20)}
# Of 8192 tokens, 768 and 3072 features: extents of a product by the first words of its line.
PRODUCTS = {"fc1": (8192, 3072, 768), "fc2": (8192, 768, 3072), "dgrad fc2": (8192, 3072, 768), "wgrad fc1": (768, 3072, 8192),
            "logits n 50304": (8192, 50304, 768)}


def predicted(name):
    """Microseconds; None of what is not predicted: epilogues that are not used, products that are cut."""
    if name in LAUNCHED:
        file, grid, threads, moved = LAUNCHED[name]
        function = Function(sass.assemble(PROBES / f"{file}.ptx")[name], grid, threads, 0)
        # Issued one by one, a kernel does not begin before the host has launched it.
        return max(EAGER, max(function.seconds(moved).values()) + GAP) * 1e6
    if name.startswith("graph"):
        return 300 * (GAP + (LATENCY + 60) / CLOCK) * 1e6
    if any(word in name for word in ("GELU", "BGRAD", "50257")):
        return None
    sizes = next(sizes for words, sizes in sorted(PRODUCTS.items(), key=lambda item: -len(item[0])) if name.startswith(words))
    return product_seconds(*sizes) * 1e6


def check(limit):
    """Prints both; how many differ by more than `limit`, a part of what was measured."""
    bad = 0
    print(f"{'':28} {'measured':>9} {'predicted':>9}  us, {LOG.name}")
    for name, measured in read_log():
        us = predicted(name)
        if us is None:
            continue
        wrong = abs(us / measured - 1) > limit
        bad += wrong
        print(f"{name:28} {measured:9.2f} {us:9.2f} {us / measured - 1:+7.1%}{'  beyond the limit' if wrong else ''}")
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=DEFAULT)
    parser.add_argument("--calls", action="store_true", help="each function, those that take longest first")
    parser.add_argument("--lint", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--limit", type=float, default=0.1, help="of --check, a part of what was measured; default: %(default)s")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build" / "bin")
    # Behind "--" stand options of fsdp-compile.
    place = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    args, options = parser.parse_args(sys.argv[1:place]), sys.argv[place + 1:]
    if args.check:
        sys.exit(1 if check(args.limit) else 0)
    chains = 0
    for name in args.models:
        model, _, shape = name.partition(":")
        folder = exported(model, shape=shape, params=False) if model in MODELS else pathlib.Path(name)
        rows, plan, functions = predict(folder, args.bin / "fsdp-compile", options)
        if not args.lint:
            show(name, rows, plan, args.calls)
            continue
        found = find_chains(functions)
        chains += len(found)
        print(f"{name}: {len(functions)} functions, {len(found)} of few blocks and long chains of loads")
        for function, blocks, waits in found:
            print(f"  {function}: {blocks} blocks, {waits} loads one after another")
    if chains:
        sys.exit(1)


if __name__ == "__main__":
    main()
