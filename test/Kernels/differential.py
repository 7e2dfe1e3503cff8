"""Compiles steps with fsdp-compile and with upstream's passes alone, runs both
and compares every result.

  differential.py --bin build/bin --llvm /usr/lib/llvm-22/bin --seeds 1:200
  differential.py ... --cases [NAME..]

A seed stands for one random step (families.py), a case for one written by hand
(cases.py). Every step runs on one rank and on two. --keep DIR leaves the files
of what failed there."""

import argparse
import math
import pathlib
import random
import shutil
import sys
import tempfile

import cases
import families
import piece_cases  # noqa: F401 (registers its cases)
import product_cases  # noqa: F401 (registers its cases)
import row_cases  # noqa: F401 (registers its cases)
import vector_cases  # noqa: F401 (registers its cases)
from step import Step, make_data
from toolchain import Failure, Tools, run_reference

RANKS = 2
TOLERANCE = {"f64": 2e-6, "f32": 2e-4, "f16": 2e-2, "bf16": 6e-2}


def describe_difference(name, dtype, got, expected):
    """What is wrong with the first element that differs; empty where none."""
    if len(got) != len(expected):
        return f"{name}: {len(got)} elements, expected {len(expected)}"
    largest = max((abs(e) for e in expected if math.isfinite(e)), default=0.0)
    for i, (g, e) in enumerate(zip(got, expected)):
        if g == e or (g != g and e != e):
            continue
        if dtype in TOLERANCE:
            if abs(g - e) <= TOLERANCE[dtype] * max(1.0, largest):
                continue
        wrong = sum(not (g == e or abs(g - e) <= 1e-3)
                    for g, e in zip(got, expected))
        return (f"{name}[{i}]: {g!r}, expected {e!r} "
                f"({wrong} of {len(got)} are wrong)")
    return ""


def compare(step, state, inputs, references, compiled, ranks):
    """Differences between a compiled run and the references of all ranks."""
    loss, saved = compiled
    losses = [references[r][0] for r in range(ranks)]
    problems = [describe_difference("loss", "f32", [loss],
                                    [sum(losses) / ranks])]
    for i, (attribute, value) in enumerate(step.outputs):
        name = attribute.split('"')[1]
        results = [references[r][1][i] for r in range(ranks)]
        if "fsdp.grad" in attribute:
            # SGD with learning rate 1 on the average.
            expected = [p - sum(g) / ranks
                        for p, *g in zip(state[name], *results)]
        else:
            expected = results[0]
        problems.append(describe_difference(
            f"{name} ({value.name}: {value.type})", value.dtype, saved[name],
            expected))
    # What the step does not replace stays as it was.
    written = {attribute.split('"')[1] for attribute, _ in step.outputs}
    for arg in step.args:
        if arg.role == "buffer" and arg.name not in written:
            problems.append(describe_difference(
                f"{arg.name} (untouched)", arg.value.dtype, saved[arg.name],
                state[arg.name]))
    return [p for p in problems if p]


def check(step, tools, directory, seed, devices, options):
    """Raises a Failure where the compiled step computes anything else than the
    reference. Of one rank there is a program for each device, of two one for
    all of them."""
    state, inputs = make_data(step, RANKS, seed)
    library = tools.build_reference(step, directory)
    references = [run_reference(library, step, state, inputs, r)
                  for r in range(RANKS)]
    work = [(1, [device]) for device in devices] + [(RANKS, devices)]
    for ranks, targets in work:
        program = tools.compile(step, ranks, directory, targets, options)
        for device in targets:
            compiled = tools.run_program(program, step, state, inputs, ranks,
                                         device)
            problems = compare(step, state, inputs, references, compiled, ranks)
            if problems:
                raise Failure(f"shard={ranks}, {device}:\n  " +
                              "\n  ".join(problems[:8]))


def make_random(seed, ops):
    def make():
        rng = random.Random(seed)
        step = Step()
        families.grow(step, rng, ops)
        return step
    return make


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--llvm", required=True)
    parser.add_argument("--seeds", help="FIRST:LAST, or one number")
    parser.add_argument("--ops", type=int, default=12)
    parser.add_argument("--cases", nargs="*")
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--march", help="processor to compile for")
    parser.add_argument("--devices", nargs="+", default=["cpu"],
                        help="devices to compile for and to run on; of cuda, "
                        "FSDP_CUDA_LIBS names the folder of the libraries")
    args = parser.parse_args()
    options = ["--march", args.march] if args.march else []
    tools = Tools(args.bin, args.llvm)

    work = []
    if args.seeds:
        first, _, last = args.seeds.partition(":")
        for seed in range(int(first), int(last or first) + 1):
            work.append((f"seed {seed}", make_random(seed, args.ops)))
    if args.cases is not None:
        known = cases.get_cases()
        for name in args.cases or known:
            if name not in known:
                parser.error(f"expected one of {', '.join(known)}, got {name}")
            work.append((f"case {name}", known[name]))
    if not work:
        parser.error("expected --seeds or --cases, got neither")

    failed = []
    for name, make in work:
        with tempfile.TemporaryDirectory(prefix="fsdp-kernels-") as temporary:
            directory = pathlib.Path(temporary)
            try:
                check(make(), tools, directory, len(name), args.devices,
                      options)
            except Failure as failure:
                failed.append(name)
                print(f"{name}: {failure}", flush=True)
                if args.keep:
                    target = args.keep / name.replace(" ", "-")
                    shutil.rmtree(target, ignore_errors=True)
                    shutil.copytree(directory, target)
    print(f"{len(work) - len(failed)} of {len(work)} steps agree with the "
          f"reference" + (f"; not: {', '.join(failed)}" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
