#!/usr/bin/env python3
"""Time of a training step of two builds of this compiler, in turn on one machine (needs torch to export).

  pairs.py BEFORE [MODEL...] [--world 1 2] [--pairs 15] [--steps 10]

BEFORE is the other build's bin folder. Each pair runs both executables once, the first of them in turn.
`ratio` is the median over pairs of this build's median step over the other's; `low` and `high` are its
quartiles. Exits 1 where a ratio is above 1.05.
"""
import argparse
import pathlib
import statistics
import sys

from common import add_models, compiled, exported, train


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=pathlib.Path)
    add_models(parser)
    parser.add_argument("--world", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--steps", type=int, default=10)
    args = parser.parse_args()
    print(f"{'model':12} {'ranks':>5} {'before':>9} {'after':>9} {'ratio':>6} {'low':>6} {'high':>6}")
    slow = 0
    for model in args.models:
        for world in args.world:
            executables = {}
            for name, folder in (("before", args.before), ("after", args.bin)):
                exe = compiled(exported(model), world, folder)
                executables[name] = exe.rename(exe.with_name(f"{exe.name}-{name}"))
            steps = {"before": [], "after": []}
            for pair in range(args.pairs):
                for name in sorted(steps, reverse=bool(pair % 2)):
                    rows = train(executables[name], world, args.steps)
                    # The first step also touches the arena's pages.
                    steps[name].append(statistics.median(row["step_ms"] for row in rows[1:]))
            ratios = [after / before for after, before in zip(steps["after"], steps["before"])]
            low, ratio, high = statistics.quantiles(ratios, n=4)
            slow += ratio > 1.05
            print(f"{model:12} {world:5} {statistics.median(steps['before']):9.1f} {statistics.median(steps['after']):9.1f}"
                  f" {ratio:6.3f} {low:6.3f} {high:6.3f}", flush=True)
    sys.exit(1 if slow else 0)


if __name__ == "__main__":
    main()
