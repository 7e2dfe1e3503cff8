#!/usr/bin/env python3
"""Resident memory of a rank beside the plan that the compiler made (needs torch to export).

  memory.py [MODEL...] [--world 1 2]

A row is a run: `train` trains, `evaluate` evaluates every second step too, on batches of 8, `shard` and
`whole` train with two micro-batches a step and that kind of accumulators. The plan is the arenas that the
manifest describes: state (parameters, optimizer, accumulators: a W-th of each, but whole accumulators),
and of the program that takes most, communicated (gathered units, gradients on their way) and transient
(activations, gradients). A rank is a process here (MPI). Exits 1 where a rank holds more than 1.1 times
its plan + 60 MiB.
"""
import argparse
import json
import sys

from common import add_models, compiled, exported, run, train

MIB = 1 << 20
# How a run is traced, compiled and started.
RUNS = {
    "train": ([], [], []),
    "evaluate": (["--eval", "--eval-batch", 8], [], ["--eval-data", "random:seed=1", "--eval-every", 2, "--eval-steps", 1]),
    "shard": ([], ["--accumulate-in=shard"], ["--accumulate", 2]),
    "whole": ([], ["--accumulate-in=whole"], ["--accumulate", 2]),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_models(parser)
    parser.add_argument("--world", nargs="+", type=int, default=[1, 2])
    args = parser.parse_args()
    print(f"{'model':12} {'ranks':>5} {'run':8} {'state':>8} {'commun.':>8} {'transient':>9} {'plan':>8} {'resident':>8} {'allowed':>8}  MiB")
    above = 0
    for model in args.models:
        for world in args.world:
            for name, (tracing, compiling, running) in RUNS.items():
                exe = compiled(exported(model, *tracing), world, args.bin, *compiling)
                manifest = json.loads(run([exe, "--describe"]))
                arena = manifest["arena"]
                program = max(manifest["programs"], key=lambda program: program["arena"]["bytes"])
                parts = {s["name"]: s["bytes"] / MIB for s in program["arena"]["segments"]}
                parts["state"] += arena["host_state_bytes"] / MIB
                plan = (arena["bytes"] + arena["host_bytes"] + arena["scratch_bytes"]) / MIB
                resident = max(row["mem_bytes"] for row in train(exe, world, 6, "--backend", "mpi", *running)
                               if "mem_bytes" in row) / MIB
                allowed = 1.1 * plan + 60
                above += resident > allowed
                print(f"{model:12} {world:5} {name:8} {parts['state']:8.1f} {parts['communicated']:8.1f}"
                      f" {parts['transient']:9.1f} {plan:8.1f} {resident:8.1f} {allowed:8.1f}", flush=True)
    sys.exit(1 if above else 0)


if __name__ == "__main__":
    main()
