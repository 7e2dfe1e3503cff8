#!/usr/bin/env python3
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Instructions that a thread of our attention on tensor cores executes for each score, in machine code for sm_90.

  scores.py [MODEL.mlir] [--bin BIN] [--tools DIR] [-- OPTIONS OF FSDP-COMPILE]

Needs ptxas and nvdisasm: on PATH, in CUDA_HOME/bin or /usr/local/cuda/bin, or in DIR, as the wheels nvidia-cuda-nvcc and
nvidia-cuda-nvdisasm have them (site-packages/nvidia/cu13/bin). Of each function and each of its loops over tiles, the main
one first: instructions of one iteration along the path that copies by 16 bytes, scores of a thread in it, their quotient,
and of the instructions those of tensor cores (HMMA), of floats, of integers and predicates (int), of shared and of global
memory; beside them registers and bytes that spill. The script ends with 1 where a main loop needs more than LIMITS say, or
a function spills.
"""
import argparse
import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from common import ROOT, run
from occupancy import assembled

# Instructions of a main loop for each score, at most, by what the function computes.
LIMITS = {"forward": 16, "dq": 20, "dkdv": 20}
MODEL = ROOT / "test" / "fixtures" / "gpt2-head64-bf16" / "model.mlir"

KINDS = {"hmma": r"HMMA", "float": r"F(FMA|MUL|ADD|MNMX|SEL|SETP|SET|RND|2F|2FP|2I)|MUFU|HADD|HMUL|HFMA|I2F", "shared": r"LDS|STS|LDSM",
         "global": r"LDG|STG|LDGSTS"}
Block = collections.namedtuple("Block", "instructions successors")


def tool(name, folder):
    places = [folder] if folder else [None, os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin")]
    for place in places:
        if found := shutil.which(name, path=place):
            return found
    sys.exit(f"error: expected {name} on PATH, in CUDA_HOME or given by --tools, got none")


def blocks_of(text):
    """By its label the basic blocks of one function of nvdisasm's text."""
    lines, labels = [], {}
    for line in text.splitlines():
        if label := re.match(r"\s*(\.L_x_\d+):", line):
            labels[label[1]] = len(lines)
        elif found := re.match(r"\s+/\*[0-9a-f]+\*/\s+(.*?)\s*;", line):
            lines.append(found[1])
    jumps = {}
    for i, line in enumerate(lines):
        found = re.match(r"(@!?U?P\w+ )?(BRA|EXIT|RET|BRX)\b(?!\.DIV)([^`]*)(?:`\((\.L_x_\d+)\))?", line)
        if found:
            # BRA may have its predicate behind it, too.
            isConditional = bool(found[1]) or bool(re.search(r"!?U?P\d", found[3]))
            jumps[i] = (labels.get(found[4]), isConditional)
    leaders = sorted({0, *labels.values(), *(i + 1 for i in jumps)} - {len(lines)})
    blocks = {}
    for begin, end in zip(leaders, leaders[1:] + [len(lines)]):
        to, isConditional = jumps.get(end - 1, (None, True))
        successors = [to] if to is not None else []
        if isConditional and end < len(lines):
            successors.append(end)
        blocks[begin] = Block(lines[begin:end], successors)
    return blocks


def components(nodes, successors):
    """Strongly connected components, of a graph without recursion (Tarjan), successors first."""
    index, low, stack, on, result = {}, {}, [], set(), []
    for root in nodes:
        if root in index:
            continue
        work = [(root, iter(successors(root)))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on.add(root)
        while work:
            node, rest = work[-1]
            for to in rest:
                if to not in index:
                    index[to] = low[to] = len(index)
                    stack.append(to)
                    on.add(to)
                    work.append((to, iter(successors(to))))
                    break
                if to in on:
                    low[node] = min(low[node], index[to])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    part = []
                    while not part or part[-1] != node:
                        part.append(stack.pop())
                        on.discard(part[-1])
                    result.append(part)
    return result


def count(instructions, pattern):
    return sum(bool(re.match(rf"(@!?U?P\w+ )?({pattern})\b", one)) for one in instructions)


def weigh(instructions):
    """Paths with more products win, then those with wider copies, then shorter ones."""
    wide = sum(bool(re.search(r"\b(LDGSTS|LDG|STG)\.E.*\.128", one)) for one in instructions)
    return count(instructions, KINDS["hmma"]), wide, -len(instructions)


def loops_of(blocks):
    """The instructions of an iteration of each outermost loop with products; a loop inside counts once."""
    found = []
    for loop in components(blocks, lambda node: blocks[node].successors):
        inside = set(loop)
        isLoop = len(loop) > 1 or loop[0] in blocks[loop[0]].successors
        if not isLoop or not any(count(blocks[node].instructions, KINDS["hmma"]) for node in loop):
            continue
        entries = [to for node, block in blocks.items() if node not in inside for to in block.successors if to in inside]
        header = min(entries or loop)
        forward = lambda node: [to for to in blocks[node].successors if to in inside and to != header]
        best = {}
        for part in components([header], forward):
            own = [one for node in sorted(part) for one in blocks[node].instructions]
            after = [best[to] for node in part for to in forward(node) if to not in part and best.get(to) is not None]
            isBack = any(header in blocks[node].successors for node in part)
            tails = after + ([[]] if isBack else [])
            chosen = own + max(tails, key=weigh) if tails else None
            for node in part:
                best[node] = chosen
        found.append(best[header])
    return sorted(found, key=lambda loop: (-count(loop, KINDS["hmma"]), len(loop)))


def products(kind, head, value):
    """Features that a score is a term of, or is multiplied by."""
    return {"forward": head + value, "dq": 2 * head + value, "dkdv": 2 * head + 2 * value}[kind]


def attentions(ir):
    """By function of our attentions what it computes, and the sizes of heads."""
    found, name = {}, None
    for line in ir.splitlines():
        if kernel := re.search(r"func\.func .*@(\w+)\(", line):
            name = kernel[1]
        if sizes := re.search(r"fsdp\.attention(_backward)? <batch = .*, head = (\d+), value = (\d+)>", line):
            kinds = {"_dq": "dq", "_dkdv": "dkdv"} if sizes[1] else {"": "forward"}
            for suffix, kind in kinds.items():
                found[name + suffix] = kind, int(sizes[2]), int(sizes[3])
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default=MODEL)
    parser.add_argument("options", nargs="*", help="of fsdp-compile, after --")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build" / "bin")
    parser.add_argument("--tools", help="the folder of ptxas and nvdisasm")
    args = parser.parse_intermixed_args()
    compiler = args.bin / "fsdp-compile"
    compile = [compiler, args.model, "--target", "cuda", *args.options]
    with tempfile.TemporaryDirectory() as folder:
        code = pathlib.Path(folder) / "step.ptx"
        run([*compile, "--emit", "ptx", "-o", code])
        said = subprocess.run([tool("ptxas", args.tools), "-v", "-arch=sm_90", "-o", code.with_suffix(".cubin"), code],
                              capture_output=True, text=True, check=True).stderr
        machine = run([tool("nvdisasm", args.tools), "-c", code.with_suffix(".cubin")])
    used, texts = assembled(said), dict(re.findall(r"^\.text\.(\w+):\n(.*?)(?=^\.text\.|^\s*\.section|\Z)", machine,
                                                   re.DOTALL | re.MULTILINE))
    print(f"{'function':34} {'instructions':>12} {'scores':>6} {'each':>5} {'HMMA':>5} {'float':>5} {'int':>4} {'shared':>6} "
          f"{'global':>6} {'registers':>9} {'spills':>6}")
    wrong, count_of = [], 0
    for function, (kind, head, value) in attentions(run([*compile, "--emit", "ir:L3", "-o", "-"])).items():
        loops = loops_of(blocks_of(texts[function]))
        registers, spilled, _ = used[function]
        for number, loop in enumerate(loops):
            by = {name: count(loop, pattern) for name, pattern in KINDS.items()}
            scores = 64 * by["hmma"] // products(kind, head, value)
            each = len(loop) / scores
            rest = len(loop) - sum(by.values())
            print(f"{function if number == 0 else '':34} {len(loop):12} {scores:6} {each:5.1f} {by['hmma']:5} {by['float']:5} "
                  f"{rest:4} {by['shared']:6} {by['global']:6}" + (f" {registers:9} {spilled:6}" if number == 0 else ""))
            if number == 0:
                count_of += 1
                if each > LIMITS[kind]:
                    wrong.append(f"{function}: expected at most {LIMITS[kind]} instructions a score, got {each:.1f}")
        if spilled:
            wrong.append(f"{function}: expected no spills, got {spilled} bytes")
    if not count_of:
        wrong.append("expected an attention on tensor cores, got none")
    if wrong:
        sys.exit("\n".join(f"error: {one}" for one in wrong))


if __name__ == "__main__":
    main()
