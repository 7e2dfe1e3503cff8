#!/usr/bin/env python3
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""same_outputs.py OLD_BIN NEW_BIN [FIXTURE...]: what two builds make of the same steps with the same options.

OLD_BIN and NEW_BIN are folders `bin` of build trees or installations. Each fixture (default: FIXTURES, folders of
test/fixtures) is compiled and planned with each row of options by both: LLVM IR, which holds the manifest, reports,
pipelines, executables with what they --describe, and plans as JSON. Refusals are compared, too. Each difference is
printed with the first lines that differ, and the exit status is then 1. For a change that is to change no output.
"""
import concurrent.futures
import difflib
import os
import pathlib
import subprocess
import sys
import tempfile

MODELS = pathlib.Path(__file__).resolve().parent.parent / "fixtures"
FIXTURES = ["gpt2", "llama", "mixed", "resnet-eval"]
CLUSTER = ["--cluster", "h100-sxm"]
# Options of a step, which all tools take.
STEP = [
    ["--mesh", "shard=2"],
    ["--mesh", "shard=2", "--clip-norm", "--skip-nonfinite"],
    ["--mesh", "shard=2", "--wrap", "pieces", "--optimizer", "sgd:lr=0.1,momentum=0.9"],
    ["--mesh", "shard=4", "--param-dtype", "bf16", "--reduce-dtype", "f32", "--eval-full-precision"],
    ["--mesh", "shard=4", "--buffer-dtype", "bf16", "--output-dtype", "bf16", "--optimizer", "radam",
     "--optimizer-scalars", "eps,beta1"],
    ["--mesh", "shard=2", "--ignore", "*.bias", "--ignore=*norm*", "--replicate", "*0.*"],
    ["--mesh", "shard=2,replicate=2", "--strategy", "hybrid_shard_zero2"],
    ["--mesh", "shard=2", "--unit", "root:strategy=no_shard,param-dtype=bf16"],
    ["--mesh", "shard=2", "--strategy", "no_shard", "--attention", "decomposed"],
    ["--mesh", "shard=2", "--accumulate-in", "whole", "--attention=fused"],
    ["--mesh", "shard=2", "--accumulate-in", "shard", "--offload-optimizer"],
]
# Beside a cluster.
PLANNED = [
    [],
    ["--recompute", "full", "--bucket", "none"],
    ["--offload", "full", "--reshard-after-forward", "true"],
    ["--recompute", "none", "--offload", "none", "--reshard-after-forward", "false"],
    ["--memory-budget", "3GiB"],
    ["--wrap", "auto", "--accumulate-in", "auto"],
]
ORDERED = [
    ["--order", "in_order"],
    ["--order", "fsdp", "--backward-prefetch", "post", "--forward-prefetch=false"],
    ["--order=fsdp", "--limit-all-gathers=false"],
]
REFUSED = [
    ["--mesh", "none"], ["--mesh="], ["--mesh", "shard=1", "--mesh", "shard=2"], ["--strategy", "half_shard"],
    ["--strategy="], ["--wrap", "size:none"], ["--param-dtype", "f7"], ["--ignore", "nope"], ["--replicate", "["],
    ["--optimizer", "muon"], ["--unit", "none:strategy=no_shard"],
    ["--unit", "root"], ["--eval-full-precision"], ["--attention", "x"], ["--accumulate-in", "x"],
    ["--accumulate-in", "auto"], ["--wrap", "auto"], ["--bufer-dtype", "bf16"], ["--memory-budget", "1GiB"],
    ["--recompute", "full"], CLUSTER + ["--recompute", "x"], CLUSTER + ["--offload", "x"], CLUSTER + ["--bucket", "x"],
    CLUSTER + ["--reshard-after-forward", "x"], CLUSTER + ["--memory-budget", "much"],
    CLUSTER + ["--memory-budget", "1KiB"], CLUSTER + ["--memory-budget="], ["--cluster", "nowhere"], ["--cluster="],
    CLUSTER + ["--order", "x"], CLUSTER + ["--order", "fsdp", "--backward-prefetch", "x"],
    CLUSTER + ["--profile", "x", "--wrap", "auto"], ["--profile", "x"], ["--name", "x"], ["--min-items", "1"],
    CLUSTER + ["--strategy", "no_shard", "--reshard-after-forward", "true"],
]


def make_cases(model):
    """The tool, its options and what it writes, of each run."""
    for options in STEP:
        yield "fsdp-compile", [model, *options, "--emit", "llvm", "--march", "x86-64", "-o", "out.ll"], "out.ll"
        yield "fsdp-compile", [model, *options, "--print-pipeline"], None
        yield "fsdp-plan", [model, *options, *CLUSTER, "--json"], None
    step = [model, "--mesh", "shard=2", *CLUSTER]
    for options in PLANNED:
        yield "fsdp-compile", [*step, *options, "--emit", "report"], None
        yield "fsdp-plan", [*step, *options, "--json", "--what-if"], None
        yield "fsdp-plan", [*step, *options], None
    for options in ORDERED + PLANNED[:2]:
        yield "fsdp-compile", [*step, *options, "--emit", "ir:L3", "-o", "out.mlir"], "out.mlir"
        yield "fsdp-compile", [*step, *options, "--guard", "--print-pipeline"], None
    yield "fsdp-compile", [*step, "--target", "cuda", "--tf32", "--emit", "report"], None
    yield "fsdp-compile", [model, "--mesh", "shard=2", "--guard", "--march", "x86-64", "-o", "out"], "out"
    yield "fsdp-plan", [model, "--cluster", "h100-sxm", "--json", "--sweep",
                        "mesh=shard=2;shard=4 wrap=blocks;none param-dtype=f32;bf16 recompute=auto;full"], None
    yield "fsdp-plan", [model, "--json", "--sweep", "cluster=h100-sxm;a100-80g-pcie budget=1GiB;40GiB offload=none;full",
                        "--sweep=strategy=full_shard;no_shard"], None
    for options in REFUSED:
        yield "fsdp-compile", [model, *options, "--emit", "llvm", "-o", "out.ll"], "out.ll"
        yield "fsdp-plan", [model, *options], None
        if "--cluster" not in options:
            yield "fsdp-compile", [model, *options, "--emit", "ir:L1", "-o", "out.mlir"], "out.mlir"


def run(folder, tool, options, written):
    """What a run says and leaves, without the folder's own path."""
    folder = pathlib.Path(folder).resolve()
    with tempfile.TemporaryDirectory() as scratch:
        done = subprocess.run([folder / tool, *options], capture_output=True, cwd=scratch)
        said = {"status": str(done.returncode).encode(), "stdout": done.stdout, "stderr": done.stderr}
        file = pathlib.Path(scratch) / (written or "")
        if written:
            said["file"] = file.read_bytes() if file.exists() else b"none"
        if written == "out" and file.exists():
            said["describe"] = subprocess.run([file, "--describe"], capture_output=True).stdout
    return {name: text.replace(str(folder.parent).encode(), b"BUILD") for name, text in said.items()}


def compare(case, old, new):
    """Lines that tell how the builds differ; none if they do not."""
    lines = []
    before, after = run(old, *case), run(new, *case)
    for name in before:
        if before[name] == after[name]:
            continue
        lines.append(f"{case[0]} {' '.join(map(str, case[1]))}: {name} differs")
        texts = [text[name].decode(errors="replace").splitlines() for text in (before, after)]
        lines += [line[:400] for line in difflib.unified_diff(*texts, "old", "new", n=0, lineterm="")][:8]
    return lines


def main(old, new, *fixtures):
    cases = [case for fixture in fixtures or FIXTURES for case in make_cases(str(MODELS / fixture / "model.mlir"))]
    different = 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for lines in pool.map(lambda case: compare(case, old, new), cases):
            different += bool(lines)
            for line in lines:
                print(line, flush=True)
    print(f"{len(cases)} runs, {different} differ")
    return different != 0


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
