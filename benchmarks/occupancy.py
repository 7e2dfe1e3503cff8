#!/usr/bin/env python3
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What limits how many warps of each kernel's functions are resident on a multiprocessor, without a GPU; needs ptxas.

  occupancy.py MODEL.mlir [--bin BIN] [-- OPTIONS OF FSDP-COMPILE]
  occupancy.py --block llama       the launches of one block, as blocks.py has them (needs torch and transformers)

Of each function: registers of a thread and bytes that spill, by ptxas for sm_90; KiB of shared memory of a block, threads
of it, blocks of the grid; resident warps of 64 of one multiprocessor and what limits them; and how many of them the grid
gives each of the 132 of a card. A function that spills ends the script with 1.
"""
import argparse
import math
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from common import ROOT, run

# Compute capability 9.0: CUDA C++ Programming Guide, technical specifications per compute capability. Registers are given
# to warps in pieces of 256 within a quarter of the multiprocessor, shared memory in pieces of 128 bytes, of which the
# system takes 1024 of each block.
WARPS, BLOCKS, REGISTERS, SHARED, COUNT = 64, 32, 65536, 228 * 1024, 132


def resident(registers, shared, threads, grid=None):
    """(resident warps, what limits them) of one multiprocessor; with `grid` blocks, of those that a card has for it."""
    warps = math.ceil(threads / 32)
    of_warp = math.ceil(max(1, registers) * 32 / 256) * 256
    limits = {"threads": WARPS // warps, "blocks": BLOCKS,
              "registers": REGISTERS // 4 // of_warp * 4 // warps,
              "shared memory": SHARED // (math.ceil(shared / 128) * 128 + 1024)}
    if grid is not None:
        limits["grid"] = math.ceil(grid / COUNT)
    # Where two limit alike, the first of them.
    limit = min(limits, key=limits.get)
    return limits[limit] * warps, limit


def assembled(said):
    """By function (registers, bytes that spill, bytes of static shared memory), of what ptxas says with -v."""
    found = {}
    for name, text in re.findall(r"Compiling entry function '(\w+)'(.*?)(?=Compiling entry|\Z)", said, re.DOTALL):
        static = re.search(r"(\d+) bytes smem", text)
        found[name] = (int(re.search(r"Used (\d+) registers", text)[1]),
                       sum(map(int, re.findall(r"(\d+) bytes spill", text))), int(static[1]) if static else 0)
    return found


def launched(ir):
    """(function, grid, block, bytes of dynamic shared memory) of each launch that the kernels of `ir` name."""
    pattern = r"<@cuda_kernels::@(\w+), grid = (\d+), block = (\d+), shared = (\d+)>"
    return [(name, *map(int, numbers)) for name, *numbers in re.findall(pattern, ir)]


def functions(compiler, model, *options):
    """Rows (function, registers, spilled, shared, block, grid) of a model's kernels."""
    ptxas = shutil.which("ptxas") or shutil.which("ptxas", path="/usr/local/cuda/bin")
    if not ptxas:
        sys.exit("error: expected ptxas on PATH or in /usr/local/cuda/bin, got none")
    with tempfile.TemporaryDirectory() as name:
        code = pathlib.Path(name) / "step.ptx"
        run([compiler, model, "--target", "cuda", "--emit", "ptx", "-o", code, *options])
        said = subprocess.run([ptxas, "-v", "-arch=sm_90", "-o", code.with_suffix(".cubin"), code], capture_output=True,
                              text=True, check=True).stderr
    used = assembled(said)
    rows = []
    for function, grid, block, dynamic in launched(run([compiler, model, "--target", "cuda", "--emit", "ir:L3", "-o", "-",
                                                        *options])):
        registers, spilled, static = used[function]
        rows.append((function, registers, spilled, static + dynamic, block, grid))
    return rows


def of_block(compiler, name):
    """The same of one block of blocks.py's model, forward and backward, in the order of the launches."""
    import blocks
    import saved
    from kernels import functions_of, measure
    model = saved.exported(name, blocks.LAYERS)
    options = ["--optimizer-file", model / "optimizer.mlir"]
    rows = {row[0]: row for row in functions(compiler, model / "model.mlir", *options)}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        run([compiler, model / "model.mlir", *options, "--target", "cuda", "-o", folder / "step"])
        profile, stats = measure(folder / "step", folder, compiler.parent.parent / "lib" / "fsdp-emulator", 1, "--trace",
                                 folder / "trace")
        calls = blocks.kernel_calls(folder / "trace")
    by_kernel, ordered = functions_of(profile, stats), {}
    for block in blocks.of_phases(calls):
        for call in block:
            for function in by_kernel.get(call["name"], []):
                ordered.setdefault(function, rows[function])
    return list(ordered.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="model.mlir, or with --block a model of blocks.py")
    parser.add_argument("options", nargs="*", help="of fsdp-compile, after --")
    parser.add_argument("--block", action="store_true")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build" / "bin")
    args = parser.parse_args()
    compiler = args.bin / "fsdp-compile"
    if args.block and args.options:
        parser.error("expected no options of fsdp-compile beside --block")
    rows = of_block(compiler, args.model) if args.block else functions(compiler, args.model, *args.options)
    print(f"{'function':32} {'regs':>4} {'spills':>6} {'KiB':>6} {'block':>5} {'grid':>7} {'warps':>5}  {'limit':14} "
          f"{'of the grid':>11}")
    for function, registers, spilled, shared, block, grid in rows:
        warps, limit = resident(registers, shared, block)
        few, by_grid = resident(registers, shared, block, grid)
        print(f"{function[:32]:32} {registers:4} {spilled:6} {shared / 1024:6.1f} {block:5} {grid:7} {warps:5}  {limit:14} "
              f"{few if by_grid == 'grid' else '':>11}".rstrip())
    if any(row[2] for row in rows):
        sys.exit("error: expected no spills, got " + ", ".join(row[0] for row in rows if row[2]))


if __name__ == "__main__":
    main()
