#!/usr/bin/env python3
"""Time and memory of the compiler (needs torch to export gpt2-124m; larger traces are arguments).

  compile.py [TRACE.mlir[.gz]=SECONDS...]

Compiles gpt2-124m to an executable for 2 ranks, and each TRACE to collectives for 64 ranks with
`fsdp-opt --fsdp-partition`; exits 1 where one takes more than its SECONDS.
"""
import gzip
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from common import ROOT, exported


def measure(command):
    """Seconds and MiB of the fastest of three runs."""
    best = (float("inf"), 0.0)
    for _ in range(3):
        begin = time.perf_counter()
        process = subprocess.Popen([str(c) for c in command], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            sys.exit(f"error: {command} failed")
        best = min(best, (time.perf_counter() - begin, usage.ru_maxrss / 1024))
    return best


def main():
    if {"-h", "--help"} & set(sys.argv):
        print(__doc__)
        return
    bin_dir, slow = ROOT / "build" / "bin", 0
    print(f"{'trace':24} {'to':12} {'seconds':>8} {'limit':>6} {'MiB':>8}")

    def row(name, target, command, limit):
        nonlocal slow
        seconds, mib = measure(command)
        slow += seconds > limit
        print(f"{name:24} {target:12} {seconds:8.2f} {limit:6.1f} {mib:8.0f}", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        model = exported("gpt2-124m")
        row("gpt2-124m", "executable", [bin_dir / "fsdp-compile", model / "model.mlir", "--optimizer-file",
                                        model / "optimizer.mlir", "--mesh", "shard=2", "-o", f"{folder}/exe"], 20)
        for argument in sys.argv[1:]:
            path, _, limit = argument.partition("=")
            path = pathlib.Path(path)
            if path.suffix == ".gz":
                plain = pathlib.Path(folder) / path.stem
                plain.write_bytes(gzip.decompress(path.read_bytes()))
                path = plain
            row(pathlib.Path(argument.partition("=")[0]).parent.name, "collectives",
                [bin_dir / "fsdp-opt", path, "--fsdp-partition=mesh=shard=64", "-o", f"{folder}/out.mlir"],
                float(limit or "inf"))
    sys.exit(1 if slow else 0)


if __name__ == "__main__":
    main()
