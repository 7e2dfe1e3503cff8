#!/usr/bin/env python3
"""What memory buys: the plan of a step under budgets from the least that works to the most that it uses.

  budgets.py [MODEL.mlir ..] [--mesh MESH] [--cluster CLUSTER] [--count 32] [-- OPTIONS of fsdp-plan]

Without a model: the Llama 2 7B that cases.py traces (needs torch). test/models/sweep.py --work DIR traces many others.
An optimizer.mlir beside a model is its optimizer. More memory should never make a step slower, but plans are searched
for, not proven: prints each step, how far it is above its bound, and how much slower than the best under a smaller
budget; of several models, a line each. Exits 1 where that is more than 1 %.
"""
import argparse
import json
import pathlib
import sys

from cases import traced
from common import ROOT, run


class Plans:
    """Of one model under --count budgets."""

    def __init__(self, model, args):
        command = [args.bin / "fsdp-plan", model, "--mesh", args.mesh, "--cluster", args.cluster, *args.options, "--json"]
        if (optimizer := model.with_name("optimizer.mlir")).exists():
            command += ["--optimizer-file", optimizer]
        # All that the step uses, and the least that works: a byte never does.
        most = json.loads(run(command))
        reserved = most["reserved_bytes"]
        if not most["fits"]:
            sys.exit(f"error: expected a device of at least {most['least_budget_bytes'] + reserved} bytes for {model} on "
                     f"{args.mesh}")
        most = most["planned_arena_bytes"] + reserved
        least = json.loads(run([*command, "--memory-budget", 1]))["least_budget_bytes"] + reserved
        self.budgets = [least + (most - least) * i // (args.count - 1) for i in range(args.count)]
        asked = "memory-budget=" + ";".join(map(str, self.budgets))
        self.points = json.loads(run([*command, "--sweep", asked]))["points"]
        self.worst, self.slower, self.shown, self.above = 0, 0, 0, 0

    def count(self, show):
        """Calls show(budget, point, gap, how much slower) for each that fits."""
        best = float("inf")
        for budget, point in zip(self.budgets, self.points):
            if point["status"] != "fits":
                continue
            gap, over = point["step_ms"] / point["bound_ms"] - 1, max(0, point["step_ms"] / best - 1)
            best = min(best, point["step_ms"])
            self.worst, self.slower, self.shown = max(self.worst, over), self.slower + (over > 0.001), self.shown + 1
            self.above += gap > 0.02
            show(budget, point, gap, over)

    def summary(self):
        return (f"{self.shown} of {len(self.points)} budgets fit; {self.above} over 1.02 of the bound; {self.slower} slower "
                f"by over 0.1 % than a smaller one, {self.worst:.2%} at worst")


def show_row(budget, point, gap, over):
    print(f"{budget / 2**30:8.2f} {point['step_ms']:9.2f} {point['bound_ms']:9.2f} {gap:7.2%} {over:7.2%}  {point['plan']}")


def show_slower(budget, point, _, over):
    if over > 0.001:
        print(f"  {over:.2%} slower under {budget} bytes: {point['step_ms']:.4f} ms, {point['plan']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=pathlib.Path, metavar="MODEL.mlir")
    parser.add_argument("--mesh", default="shard=64")
    parser.add_argument("--cluster", default="h100-sxm")
    parser.add_argument("--count", type=int, default=32)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build" / "bin")
    words = sys.argv[1:]
    split = words.index("--") if "--" in words else len(words)
    args = parser.parse_args(words[:split])
    args.options = words[split + 1:]
    if args.count < 2:
        sys.exit(f"error: expected --count of at least 2, got {args.count}")
    models = args.models or [traced("llama2-7b-s2048-b1", only_traced=False) / "model.mlir"]
    if len(models) == 1:
        print(f"{'GiB':>8} {'step ms':>9} {'bound ms':>9} {'above':>7} {'slower':>7}")
    worst = 0
    for model in models:
        plans = Plans(model, args)
        plans.count(show_row if len(models) == 1 else show_slower)
        print(("" if len(models) == 1 else f"{model.parent.name}: ") + plans.summary(), flush=True)
        worst = max(worst, plans.worst)
    sys.exit(1 if worst > 0.01 else 0)


if __name__ == "__main__":
    main()
