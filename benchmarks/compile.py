#!/usr/bin/env python3
"""Time and memory of the compiler (needs torch to export; larger traces are arguments).

  compile.py [--layers 8 32 126] [--ranks 8 64 1024 16384] [TRACE.mlir[.gz]=SECONDS...]

Compiles gpt2-124m to an executable for 2 ranks, of processors and of CUDA devices; Llama 405B with so many of its layers to L3 (collectives,
kernels, schedule, addresses) for 64 ranks, and with the most layers for each number of ranks; and each
TRACE to L3 for 64 ranks. Exits 1 where one takes more than its SECONDS (Llama 405B: 10), or 2 GiB, or
where a layer more costs much more in a long model than in a short one.
"""
import argparse
import gzip
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from common import CACHE, ROOT, exported, run

LLAMA_405B = {"hidden_size": 16384, "intermediate_size": 53248, "num_attention_heads": 128,
              "num_key_value_heads": 8, "vocab_size": 128256}


def measure(command):
    """Seconds, of them processors', and MiB of the fastest of three runs."""
    best = (float("inf"), 0.0, 0.0)
    for _ in range(3):
        begin = time.perf_counter()
        process = subprocess.Popen([str(c) for c in command], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            sys.exit(f"error: {command} failed")
        best = min(best, (time.perf_counter() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024))
    return best


def llama(layers):
    """Llama 405B's shape with so many layers, traced once; without weights."""
    folder = CACHE / f"llama-405b-{layers}"
    if not (folder / "model.mlir").exists():
        config = ",".join(f"{k}={v}" for k, v in {**LLAMA_405B, "num_hidden_layers": layers}.items())
        run([sys.executable, "-m", "fsdp_export", "hf:llama", "--config", config, "--dtype", "bf16", "--batch", 1,
             "--seq", 2048, "--skip-init", "--no-locations", "-o", folder],
            env=os.environ | {"PYTHONPATH": f"{ROOT}/tools/fsdp-export/src"})
    return folder


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="*", metavar="TRACE=SECONDS")
    parser.add_argument("--layers", nargs="*", type=int, default=[8, 32, 126])
    parser.add_argument("--ranks", nargs="*", type=int, default=[8, 64, 1024, 16384])
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build" / "bin")
    args = parser.parse_args()
    bad = 0
    print(f"{'trace':24} {'to':12} {'ranks':>6} {'seconds':>8} {'limit':>6} {'CPU':>8} {'MiB':>8}")

    def row(name, target, ranks, command, limit):
        nonlocal bad
        seconds, cpu, mib = measure(command)
        bad += seconds > limit or mib > 2048
        print(f"{name:24} {target:12} {ranks:6} {seconds:8.2f} {limit:6.1f} {cpu:8.2f} {mib:8.0f}", flush=True)
        return cpu

    with tempfile.TemporaryDirectory() as temporary:
        model = exported("gpt2-124m")
        row("gpt2-124m", "executable", 2, [args.bin / "fsdp-compile", model / "model.mlir", "--optimizer-file",
                                           model / "optimizer.mlir", "--mesh", "shard=2", "-o", f"{temporary}/exe"], 20)
        row("gpt2-124m", "cuda", 2, [args.bin / "fsdp-compile", model / "model.mlir", "--optimizer-file",
                                     model / "optimizer.mlir", "--mesh", "shard=2", "--target", "cuda", "-o",
                                     f"{temporary}/exe"], 30)

        def to_l3(name, ranks, file, limit, *optimizer):
            # No rank holds such a model at 8 ranks; that is not what is measured here.
            return row(name, "L3", ranks, [args.bin / "fsdp-compile", file, *optimizer, "--mesh", f"shard={ranks}",
                                           "--cluster", "h100-sxm", "--memory-budget", "64TiB", "--emit", "ir:L3",
                                           "-o", f"{temporary}/l3.mlir"], limit)

        # Of processors: other work on the machine takes nothing from it.
        seconds = {}
        for layers in sorted(args.layers):
            folder = llama(layers)
            for ranks in args.ranks if layers == max(args.layers) else [64]:
                taken = to_l3(f"llama-405b, {layers} layers", ranks, folder / "model.mlir", 10, "--optimizer-file",
                              folder / "optimizer.mlir")
                if ranks == 64:
                    seconds[layers] = taken
        if len(seconds) >= 3:
            few, some, *_, most = sorted(seconds)
            growth = ((seconds[most] - seconds[some]) / (most - some)) / ((seconds[some] - seconds[few]) / (some - few))
            print(f"a layer more takes {growth:.2f} times as long from {some} to {most} layers as from {few} to {some}")
            bad += growth > 1.5
        for argument in args.traces:
            path, _, limit = argument.partition("=")
            path = pathlib.Path(path)
            if path.suffix == ".gz":
                plain = pathlib.Path(temporary) / path.stem
                plain.write_bytes(gzip.decompress(path.read_bytes()))
                path = plain
            to_l3(pathlib.Path(argument.partition("=")[0]).parent.name, 64, path, float(limit or "inf"))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
