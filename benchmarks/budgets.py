#!/usr/bin/env python3
"""What memory buys: the plan of a step under budgets from the least that works to the most that it uses.

  budgets.py [MODEL.mlir] [--optimizer-file FILE] [--mesh MESH] [--cluster CLUSTER] [--count 32]

Without a model: the Llama 2 7B that cases.py traces (needs torch). More memory should never make a step slower, but
plans are searched for, not proven: prints each step, how far it is above its bound, and how much slower than the best
under a smaller budget. Exits 1 where that is more than 1 %.
"""
import argparse
import json
import pathlib
import sys

from cases import traced
from common import ROOT, run


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", type=pathlib.Path)
    parser.add_argument("--optimizer-file", type=pathlib.Path)
    parser.add_argument("--mesh", default="shard=64")
    parser.add_argument("--cluster", default="h100-sxm")
    parser.add_argument("--count", type=int, default=32)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build" / "bin")
    args = parser.parse_args()
    if args.count < 2:
        sys.exit(f"error: expected --count of at least 2, got {args.count}")
    if not args.model:
        folder = traced("llama2-7b-s2048-b1", only_traced=False)
        args.model, args.optimizer_file = folder / "model.mlir", folder / "optimizer.mlir"
    command = [args.bin / "fsdp-plan", args.model, "--mesh", args.mesh, "--cluster", args.cluster, "--json"]
    if args.optimizer_file:
        command += ["--optimizer-file", args.optimizer_file]

    # All that the step uses, and the least that works: a byte never does.
    most = json.loads(run(command))
    reserved = most["reserved_bytes"]
    if not most["fits"]:
        sys.exit(f"error: expected a device of at least {most['least_budget_bytes'] + reserved} bytes for {args.mesh}")
    most = most["planned_arena_bytes"] + reserved
    least = json.loads(run([*command, "--memory-budget", 1]))["least_budget_bytes"] + reserved
    budgets = [least + (most - least) * i // (args.count - 1) for i in range(args.count)]
    points = json.loads(run([*command, "--sweep", "memory-budget=" + ";".join(map(str, budgets))]))["points"]

    print(f"{'GiB':>8} {'step ms':>9} {'bound ms':>9} {'above':>7} {'slower':>7}")
    best, worst, slower, shown, above = float("inf"), 0, 0, 0, 0
    for budget, point in zip(budgets, points):
        if point["status"] != "fits":
            print(f"{budget / 2**30:8.2f}   {point['status']}")
            continue
        over = max(0, point["step_ms"] / best - 1)
        best = min(best, point["step_ms"])
        worst, slower, shown = max(worst, over), slower + (over > 0.001), shown + 1
        gap = point["step_ms"] / point["bound_ms"] - 1
        above += gap > 0.02
        print(f"{budget / 2**30:8.2f} {point['step_ms']:9.2f} {point['bound_ms']:9.2f} {gap:7.2%} {over:7.2%}  "
              f"{point['plan']}")
    print(f"{shown} of {len(points)} budgets fit; {above} over 1.02 of the bound; {slower} slower by over 0.1 % than a "
          f"smaller one, {worst:.2%} at worst")
    sys.exit(1 if worst > 0.01 else 0)


if __name__ == "__main__":
    main()
