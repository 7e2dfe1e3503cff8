#!/usr/bin/env python3
"""Time of a training step of two builds of this compiler, or with more options and without, in turn on one machine (needs
torch to export).

  pairs.py BEFORE [MODEL...] [--world 1 2] [--pairs 15] [--steps 10] [--limit 1.05]
           [--export OPTIONS] [--compile OPTIONS] [--run OPTIONS]

BEFORE is the other build's bin folder, or this one's. OPTIONS are those of the exporter, of fsdp-compile and of the
executable that the step of this build has beside the other's, in one argument. Each pair runs both executables once, the
first of them in turn. `ratio` is the median over pairs of this build's median step over the other's; `low` and `high` are
its quartiles. Exits 1 where a ratio is above the limit.
"""
import argparse
import pathlib
import shlex
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
    parser.add_argument("--limit", type=float, default=1.05)
    for stage in ("export", "compile", "run"):
        parser.add_argument(f"--{stage}", type=shlex.split, default=[])
    args = parser.parse_args()
    print(f"{'model':12} {'ranks':>5} {'before':>9} {'after':>9} {'ratio':>6} {'low':>6} {'high':>6}")
    slow = 0
    for model in args.models:
        for world in args.world:
            executables = {}
            for name, folder, export, options in (("before", args.before, [], []),
                                                  ("after", args.bin, args.export, args.compile)):
                exe = compiled(exported(model, *export), world, folder, *options)
                executables[name] = exe.rename(exe.with_name(f"{exe.name}-{name}"))
            steps = {"before": [], "after": []}
            for pair in range(args.pairs):
                for name in sorted(steps, reverse=bool(pair % 2)):
                    rows = train(executables[name], world, args.steps, *(args.run if name == "after" else []))
                    # The first step also touches the arena's pages.
                    steps[name].append(statistics.median(row["step_ms"] for row in rows[1:]))
            ratios = [after / before for after, before in zip(steps["after"], steps["before"])]
            low, ratio, high = statistics.quantiles(ratios, n=4)
            slow += ratio > args.limit
            print(f"{model:12} {world:5} {statistics.median(steps['before']):9.1f} {statistics.median(steps['after']):9.1f}"
                  f" {ratio:6.3f} {low:6.3f} {high:6.3f}", flush=True)
    sys.exit(1 if slow else 0)


if __name__ == "__main__":
    main()
