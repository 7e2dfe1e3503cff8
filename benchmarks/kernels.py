#!/usr/bin/env python3
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Counts what the kernels of a step do on a CUDA device, without one: the step runs on the emulated driver of the tests.

Of each kernel, per step:
  calls    calls of it, and functions that a call launches
  needed   KiB that it must read and write once (the bytes of --profile)
  moved    KiB that its threads load and store, over `needed`: 1 where nothing is read twice. Threads that share an
           element count each; the device's caches serve them
  sectors  KiB that its threads move over the 32-byte sectors that its warps touch: 1 where each brings what is used
  lanes    part of a warp's lanes that are active
  instr    instructions of warps per KiB that is moved
  regs     registers of a thread, and bytes that spill, by ptxas where there is one (sm_90)
"""
import argparse
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from common import MODELS, ROOT, exported, run


def registers(compiler, model, options, folder):
    """(registers, bytes that spill) by function; empty without ptxas."""
    ptxas = shutil.which("ptxas") or shutil.which("ptxas", path="/usr/local/cuda/bin")
    if not ptxas:
        return {}
    code = folder / "step.ptx"
    run([compiler, model, "--target", "cuda", "--emit", "ptx", "-o", code, *options])
    said = subprocess.run([ptxas, "-v", "-arch=sm_90", "-o", folder / "step.cubin", code], capture_output=True,
                          text=True, check=True).stderr
    found = {}
    for name, text in re.findall(r"Compiling entry function '(\w+)'(.*?)(?=Compiling entry|\Z)", said, re.DOTALL):
        spills = sum(map(int, re.findall(r"(\d+) bytes spill", text)))
        found[name] = (int(re.search(r"Used (\d+) registers", text)[1]), spills)
    return found


def measure(program, folder, emulator, ranks, *options):
    """(the profile of a step, statistics by function) of rank 0."""
    stats, profile = folder / "stats.jsonl", folder / "profile.json"
    environment = os.environ | {"FSDP_CUDA_LIBS": str(emulator), "FSDP_EMULATOR_CAPABILITY": "8.0",
                                "FSDP_CUDA_CACHE": "none", "FSDP_EMULATOR_STATS": str(stats)}
    run([program, "-n", ranks, "--device", "cuda", "--init", "seed=0", "--data", "random:seed=0", "--steps", 1, "--quiet",
         "--attention", "own", "--profile", profile, *options], env=environment)
    lines = map(json.loads, stats.read_text().splitlines())
    return json.loads(profile.read_text()), {line["kernel"]: line for line in lines if line.get("device") == 0}


def functions_of(profile, stats):
    """By kernel of the compiler, the functions that a call of it launches."""
    calls = {call["name"] for call in profile["calls"]}
    functions = collections.defaultdict(list)
    for function in stats:
        # The runtime's own, such as marks.
        if function.startswith("fsdp_"):
            continue
        # A kernel of several stages has a function for each.
        functions[function if function in calls else function.rpartition("_")[0]].append(function)
    return functions


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="model.mlir, or a model of models.json (needs torch to export it)")
    parser.add_argument("options", nargs="*", help="of fsdp-compile, after --")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build" / "bin")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="a line of JSON for each function, instead of a table")
    args = parser.parse_args()
    model = exported(args.model) / "model.mlir" if args.model in MODELS else pathlib.Path(args.model)
    compiler = args.bin / "fsdp-compile"
    options = ["--mesh", f"shard={args.ranks}", *args.options]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        run([compiler, model, "--target", "cuda", "-o", folder / "step", *options])
        profile, stats = measure(folder / "step", folder, args.bin.parent / "lib" / "fsdp-emulator", args.ranks)
        used = registers(compiler, model, options, folder)

    calls = {call["name"]: call for call in profile["calls"]}
    functions = functions_of(profile, stats)
    rows = []
    for kernel, names in functions.items():
        call = calls.get(kernel, {"calls": 0, "bytes": 0})
        total = collections.Counter()
        for function in names:
            total.update({key: value for key, value in stats[function].items() if isinstance(value, int)})
        rows.append({"kernel": kernel, "calls": call["calls"], "launches": total["launches"], "needed": call["bytes"],
                     "moved": total["bytes_loaded"] + total["bytes_stored"], "sectors": total["sectors"],
                     "warp_instructions": total["warp_instructions"], "lane_instructions": total["lane_instructions"],
                     "registers": max((used[it][0] for it in names if it in used), default=0),
                     "spilled": sum(used[it][1] for it in names if it in used)})
    rows.sort(key=lambda row: -row["needed"])
    if args.json:
        for row in rows:
            print(json.dumps(row))
        return
    print(f"{'kernel':32} {'calls':>8} {'needed':>9} {'moved':>6} {'sectors':>7} {'lanes':>5} {'instr':>6} {'regs':>6}")
    for row in rows:
        moved = max(1, row["moved"])
        print(f"{row['kernel'][:32]:32} {row['calls']:4}{'' if row['calls'] == row['launches'] else '/' + str(row['launches']):4} "
              f"{row['needed'] / 1024:9.1f} {moved / max(1, row['needed']):6.2f} {moved / 32 / max(1, row['sectors']):7.2f} "
              f"{row['lane_instructions'] / 32 / max(1, row['warp_instructions']):5.2f} "
              f"{row['warp_instructions'] / moved * 1024:6.1f} {row['registers'] or '':>4}"
              f"{'+' + str(row['spilled']) if row['spilled'] else ''}")
    total = collections.Counter()
    for row in rows:
        total.update({key: row[key] for key in ("launches", "needed", "moved", "warp_instructions")})
    products = sum(call["calls"] for call in profile["calls"] if call["kind"] == "matmul")
    print(f"{total['launches']} launches and {products} products; {total['needed'] / 2**20:.1f} MiB needed, "
          f"{total['moved'] / 2**20:.1f} MiB moved, {total['warp_instructions'] / 1e6:.2f} M instructions of warps")


if __name__ == "__main__":
    main()
