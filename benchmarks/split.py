#!/usr/bin/env python3
"""Where a step's time goes, beside the least that each part could take (needs torch to export).

  split.py [MODEL...] [--world 1 2] [--steps 30]

matmul         floor: the same products, in the same order and places, in the better of OpenBLAS
               and oneDNN called directly (fsdp-floor)
other kernels  floor: operands read once and results written once, at the memory's bandwidth
communication  floor: the bytes that a collective reads and writes in memory, at that bandwidth
waiting        blocked until other ranks arrived; floor 0

Times are those of an undisturbed step: the sum over calls of each one's fastest run.
"""
import argparse
import json
import os
import sys

from common import add_models, compiled, exported, run, train


def memory_bytes(call, world):
    """Bytes that a rank reads and writes for collectives that moved `bytes` to it."""
    moved = call["bytes"] / call["calls"]
    if call["name"] in ("reduce_scatter", "all_reduce"):
        return moved * (world + 1) / (world - 1)
    return 2 * moved * world / (world - 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_models(parser)
    parser.add_argument("--world", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    print(f"{'model':12} {'ranks':>5} {'part':14} {'ms':>8} {'floor':>8} {'ratio':>6}")
    for model in args.models:
        folder = exported(model)
        for world in args.world:
            exe = compiled(folder, world, args.bin)
            profile_file = exe.with_suffix(".profile.json")
            threads = max(1, len(os.sched_getaffinity(0)) // world)
            rows = train(exe, world, args.steps, "--profile", profile_file, "--threads", threads)
            profile = json.loads(profile_file.read_text())
            floor = json.loads(run([args.bin / "fsdp-floor", profile_file, threads, world]))
            bandwidth = floor["bytes_per_s"]
            parts = {"matmul": [0.0, floor["best_ns"]], "other kernels": [0.0, 0.0], "communication": [0.0, 0.0]}
            for call in profile["calls"]:
                if call["kind"] == "matmul":
                    parts["matmul"][0] += call["best_ns"]
                elif call["kind"] == "launch":
                    parts["other kernels"][0] += call["best_ns"]
                    parts["other kernels"][1] += call["bytes"] / profile["steps"] / bandwidth * 1e9
                elif call["kind"] == "collective" and world > 1:
                    parts["communication"][0] += call["best_ns"]
                    per_step = call["calls"] / profile["steps"]
                    parts["communication"][1] += per_step * memory_bytes(call, world) / bandwidth * 1e9
            for part, (ns, least) in parts.items():
                if least:
                    print(f"{model:12} {world:5} {part:14} {ns / 1e6:8.3f} {least / 1e6:8.3f} {ns / least:6.2f}")
            waiting = profile["times"]["waiting_ns"] / profile["steps"]
            print(f"{model:12} {world:5} {'waiting':14} {waiting / 1e6:8.3f} {0:8.3f}")
            print(f"{model:12} {world:5} {'fastest step':14} {min(r['step_ms'] for r in rows):8.3f}"
                  f"          ({profile['blas']}, {bandwidth / 1e9:.1f} GB/s)", flush=True)


if __name__ == "__main__":
    main()
