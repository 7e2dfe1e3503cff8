#!/usr/bin/env python3
"""Compares the exposed communication of real steps with the simulator's.

Each model is compiled for a cluster whose ranks have one link each, run with --link of that speed, and simulated with
the kernel times of that very run (--profile). A transfer on such a link sleeps, so that two cores are enough for two
ranks that compute and communicate at once. Of several runs the fastest counts, and of that the fastest third of its
steps: the rest was disturbed by what else the machine did.

    benchmarks/overlap.py                        # the models of test/fixtures
    benchmarks/overlap.py DIR.. --speed 1e7,1e-3 --order scheduled

Ends with 1 where simulated and measured differ by more than --tolerance.
"""
import argparse
import json
import pathlib
import sys
import tempfile

import common

FIXTURES = common.ROOT / "test" / "fixtures"
CLUSTERS = common.ROOT / "lib" / "Cost" / "clusters"


def cluster_of(bandwidth, latency, ranks):
    """A machine as cpu-2core, whose ranks communicate over links of their own and compute beside that."""
    cluster = json.loads((CLUSTERS / "cpu-2core.json").read_text())
    cluster["name"], cluster["gpus_per_node"] = "links", ranks
    cluster["contention"] = []
    cluster["nccl"] = {"architecture": "hopper", "cpu": "intel", "channels": 1, "protocols": ["simple"]}
    cluster["links"] = {"intra": {"kind": "pcie", "gb_per_s": bandwidth / 1e9, "latency_us": 0}}
    # Of the whole buffer each rank receives (ranks - 1) / ranks, of an all_reduce twice that. Close enough for
    # what lies between two sizes to be within a thousandth. A table may say up to 100 s: no buffer here takes as long.
    sizes = sorted({int(8 * 1.05**i) for i in range(0, 480)})
    sizes = [size for size in sizes if latency + 2 * size / bandwidth < 100]
    cluster["collectives"] = [
        {"kind": kind, "nodes": 1, "ranks_per_node": ranks,
         "us_by_bytes": [[1, max(latency * 1e6, 1e-3)]] +
                        [[size, 1e6 * (latency + times * size * (ranks - 1) / ranks / bandwidth) + 1e-3] for size in sizes]}
        for kind, times in (("all_gather", 1), ("reduce_scatter", 1), ("all_reduce", 2))]
    return cluster


def fastest(metrics):
    """The mean of the exposed communication, and of the step, over the fastest third of the steps."""
    steps = sorted(metrics[2:], key=lambda m: m["step_ms"])
    steps = steps[:max(1, len(steps) // 3)]
    return [sum(m[key] for m in steps) / len(steps) for key in ("exposed_comm_ms", "step_ms")]


class Experiment:
    def __init__(self, folder, ranks, bin_dir, scratch):
        self.folder, self.ranks, self.bin_dir, self.scratch = folder, ranks, bin_dir, scratch

    def run(self, order, bandwidth, latency, steps, rounds):
        name = f"{self.folder.name}-{order}"
        cluster = self.scratch / "cluster.json"
        cluster.write_text(json.dumps(cluster_of(bandwidth, latency, self.ranks)))
        step = [self.folder / "model.mlir", "--optimizer-file", self.folder / "optimizer.mlir",
                "--mesh", f"shard={self.ranks}", "--cluster", cluster]
        exe, metrics, profile, kept = (self.scratch / f"{name}{suffix}"
                                       for suffix in ("", ".jsonl", ".profile.json", ".best.json"))
        common.run([self.bin_dir / "fsdp-compile", *step, "--order", order, "-o", exe])
        params, batches = self.folder / "params.safetensors", self.folder / "batches.safetensors"
        start = ["--params", params] if params.exists() else ["--init", "seed=0"]
        # Checked to be of the program that is simulated.
        trace = self.scratch / f"{name}.trace"
        best = None
        for _ in range(rounds):
            common.run([exe, "-n", self.ranks, *start, "--data", batches if batches.exists() else "random:seed=0",
                        "--steps", steps, "--lr", "0.001", "--threads", 1, "--link", f"{bandwidth},{latency}",
                        "--metrics", metrics, "--profile", profile, "--trace", trace, "--quiet"])
            measured = fastest([json.loads(line) for line in metrics.read_text().splitlines()])
            if best is None or measured[1] < best[1]:
                best = measured
                profile.replace(kept)
        exposed, step_ms = best
        plan = json.loads(common.run([self.bin_dir / "fsdp-plan", *step, "--compare", trace, "--profile", kept, "--json"]))
        simulated = next(v for v in plan["compared"] if v["order"] == "compiled")
        return simulated["exposed_ms"], exposed, simulated["step_ms"], step_ms


def parse_speed(text):
    bandwidth, _, latency = text.partition(",")
    return float(bandwidth), float(latency or 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", type=pathlib.Path, help="folders with model.mlir and optimizer.mlir",
                        default=[FIXTURES / name for name in ("gpt2", "llama", "transformer")])
    parser.add_argument("--order", nargs="+", default=["in_order", "scheduled"])
    parser.add_argument("--speed", nargs="+", type=parse_speed, metavar="BYTES_PER_SECOND[,SECONDS]",
                        default=[(5e6, 1e-3), (2e7, 1e-3), (1e8, 5e-4)])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3, help="runs of each program; the fastest counts")
    parser.add_argument("--tolerance", type=float, default=0.1)
    parser.add_argument("--bin", type=pathlib.Path, default=common.ROOT / "build" / "bin")
    args = parser.parse_args()

    print(f"{'model':<18}{'order':<11}{'MB/s':>8}{'latency':>9}   {'exposed: simulated':>18}{'measured':>11}{'ratio':>7}"
          f"   {'step: simulated':>15}{'measured':>11}")
    worst = 0
    with tempfile.TemporaryDirectory() as scratch:
        for folder in args.models:
            experiment = Experiment(folder, args.ranks, args.bin, pathlib.Path(scratch))
            for bandwidth, latency in args.speed:
                for order in args.order:
                    simulated, measured, step, step_measured = experiment.run(order, bandwidth, latency,
                                                                                args.steps, args.rounds)
                    ratio = measured / simulated
                    worst = max(worst, abs(ratio - 1))
                    print(f"{folder.name:<18}{order:<11}{bandwidth / 1e6:>8g}{latency * 1e3:>6g} ms   {simulated:>15.3f} ms"
                          f"{measured:>8.3f} ms{ratio:>7.3f}   {step:>12.3f} ms{step_measured:>8.3f} ms", flush=True)
    print(f"largest difference {100 * worst:.1f} %")
    return worst > args.tolerance


if __name__ == "__main__":
    sys.exit(main())
