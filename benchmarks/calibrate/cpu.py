#!/usr/bin/env python3
"""Measures this machine's processors with the compiler's own kernels and writes their device table (docs/cluster.md).

  cpu.py -o TABLE.json [--threads 1] [--copies N] [--dtypes f32,bf16] [--quick]

A device is --threads threads. Steps of the sizes to measure are written, compiled and run with --profile, and each
kernel's fastest call counts. --copies processes run at once (default: as many as there are cores for), as the ranks of a
machine do, and share caches and memory.

matmul      x @ w and both gradients, for the widths of transformers
memory      products by elements, by bytes read and written
attention   causal, forward and backward
launch      the smallest kernel
"""
import argparse
import collections
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile

import steps

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS = 6


class Machine:
    def __init__(self, bin_dir, scratch, threads, copies):
        self.bin_dir, self.scratch, self.threads, self.copies = bin_dir, scratch, threads, copies

    def run(self, text):
        """The profile of the step @text."""
        model, program, profile = (self.scratch / name for name in ("step.mlir", "step", "profile.json"))
        model.write_text(text)
        self._execute([self.bin_dir / "fsdp-compile", model, "--mesh", "shard=1", "--optimizer", "sgd", "-o", program])
        command = [program, "--init", "seed=1", "--data", "random:seed=1", "--steps", STEPS, "--quiet", "--threads",
                   self.threads]
        others = [subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL) for _ in range(self.copies - 1)]
        try:
            self._execute([*command, "--profile", profile])
        finally:
            for other in others:
                other.wait()
        return json.loads(profile.read_text())

    def _execute(self, command):
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{pathlib.Path(command[0]).name}: {done.stderr.strip()}")


def microseconds(nanoseconds):
    return max(round(nanoseconds / 1e3, 4), 1e-4)


def kernels(profile):
    """(name, bytes of one call, nanoseconds of the fastest)."""
    for call in profile["calls"]:
        if call["kind"] == "launch":
            yield call["name"], call["bytes"] // call["calls"], call["best_ns"] * profile["steps"] / call["calls"]


def matmuls(machine, widths, tokens, dtypes):
    fastest = {}
    for dtype in dtypes:
        for inner, columns in widths:
            profile = machine.run(steps.matmuls([(rows, inner, columns) for rows in tokens], dtype))
            for p in profile["products"]:
                key = (p["dtype"].lower(), p["m"], p["n"], p["k"])
                fastest[key] = min(p["best_ns"], fastest.get(key, p["best_ns"]))
    return [{"dtype": dtype, "m": m, "n": n, "k": k, "us": microseconds(ns)} for (dtype, m, n, k), ns in sorted(fastest.items())]


def memory(machine, counts):
    """Points by bytes, of the largest kernel of each step: it reads two tensors and writes one."""
    points = []
    for count in counts:
        size, ns = max((size, ns) for _, size, ns in kernels(machine.run(steps.products_of_elements([count]))))
        points.append([size, microseconds(ns)])
    # More bytes never take less time: what says so was disturbed.
    for smaller, larger in reversed(list(zip(points, points[1:]))):
        smaller[1] = min(smaller[1], larger[1])
    return points


def attention(machine, shapes, dtypes):
    rows = []
    for dtype in dtypes:
        for heads, sequence, size in shapes:
            times = collections.defaultdict(list)
            for name, _, ns in kernels(machine.run(steps.attention(heads, sequence, size, dtype))):
                for kind in ("attention_backward", "attention"):
                    if name.endswith("_" + kind):
                        times[kind].append(ns)
                        break
            if set(times) != {"attention", "attention_backward"}:
                sys.exit(f"expected attention, forward and backward, in the profile, got {sorted(times)}")
            rows.append({"dtype": dtype, "batch": 1, "heads": heads, "queries": sequence, "head_size": size, "causal": True,
                         "forward_us": microseconds(min(times["attention"])),
                         "backward_us": microseconds(min(times["attention_backward"]))})
    return rows


def processor():
    for line in open("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", required=True, type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--copies", type=int)
    parser.add_argument("--dtypes", default="f32,bf16")
    parser.add_argument("--bin-dir", type=pathlib.Path, default=ROOT / "build" / "bin")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that it works, says little of the machine")
    args = parser.parse_args()
    dtypes = args.dtypes.split(",")
    if not set(dtypes) <= {"f32", "bf16"}:
        parser.error(f"expected f32 and bf16 in --dtypes, got {args.dtypes}")
    if args.threads < 1 or (args.copies is not None and args.copies < 1):
        parser.error("expected at least 1 thread and 1 copy")
    if not (args.bin_dir / "fsdp-compile").exists():
        parser.error(f"expected fsdp-compile in {args.bin_dir}, got none: --bin-dir names another folder")
    # What would fail at the end is refused before it takes time.
    try:
        if args.output.is_dir():
            raise IsADirectoryError(None, "a directory")
        tempfile.TemporaryFile(dir=args.output.resolve().parent).close()
    except OSError as error:
        parser.error(f"expected to write {args.output}, got {error.strerror.lower()}")
    copies = args.copies or max(len(os.sched_getaffinity(0)) // args.threads, 1)

    if args.quick:
        widths, tokens, counts, shapes = [(64, 64)], [32, 64], [1 << 4, 1 << 12], [(2, 32, 16)]
    else:
        widths = [(128, 128), (128, 512), (256, 256), (256, 1024), (768, 768), (768, 2304), (768, 3072), (2048, 2048)]
        tokens = [128, 512, 2048]
        counts = [1 << power for power in range(4, 25, 2)]
        shapes = [(h, s, d) for h in (4, 12) for s in (128, 512) for d in (32, 64)]
    with tempfile.TemporaryDirectory() as scratch:
        machine = Machine(args.bin_dir, pathlib.Path(scratch), args.threads, copies)
        points = memory(machine, counts)
        table = {
            "format": "fsdp-device-table/1",
            "device": f"{processor()}, threads: {args.threads}",
            "source": f"benchmarks/calibrate/cpu.py, {copies} at once" + (", quick" if args.quick else ""),
            "launch_us": points[0][1],
            "matmul": matmuls(machine, widths, tokens, dtypes),
            "memory": {"us_by_bytes": points},
            "attention": attention(machine, shapes, dtypes),
        }
    text = json.dumps(table, indent=1) + "\n"
    with tempfile.NamedTemporaryFile("w", dir=args.output.resolve().parent, delete=False) as file:
        file.write(text)
    os.chmod(file.name, 0o644)  # a temporary file is its owner's alone
    os.replace(file.name, args.output)


if __name__ == "__main__":
    main()
