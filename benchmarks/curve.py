#!/usr/bin/env python3
"""Both loss curves of one training in one picture: ours and PyTorch's FSDP2 (needs torch, matplotlib).

  curve.py [--model gpt2-bytes-10m] [--steps 300] [--world 2] [--text FILE...] [-o curve.png]

Byte-level text (default: the license texts of every Debian) is cut into the same batches for both,
from the same initial parameters. Prints the losses as it goes; exits 1 where the mean losses of the
last ten steps differ by more than 1 %.
"""
import argparse
import json
import pathlib
import sys

from common import CACHE, HERE, MODELS, ROOT, compiled, exported, run


def write_batches(texts, spec, steps, world, path):
    """Random windows of the text, [step, rank, batch, seq]; the same for both."""
    import numpy
    from safetensors.numpy import save_file
    data = numpy.frombuffer(b"".join(t.read_bytes() for t in texts), dtype=numpy.uint8)
    shape = (steps, world, spec["batch"])
    starts = numpy.random.default_rng(0).integers(0, len(data) - spec["seq"], shape)
    tokens = data[starts[..., None] + numpy.arange(spec["seq"])].astype(numpy.int64)
    save_file({"input_ids": tokens, "labels": tokens.copy()}, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="gpt2-bytes-10m")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--world", type=int, default=2)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--text", nargs="+", type=pathlib.Path,
                        default=sorted(p for p in pathlib.Path("/usr/share/common-licenses").glob("*") if not p.is_symlink()))
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build" / "bin")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=CACHE / "curve.png")
    args = parser.parse_args()
    folder = exported(args.model)
    batches = CACHE / "curve.safetensors"
    write_batches(args.text, MODELS[args.model], args.steps, args.world, batches)
    exe, metrics = compiled(folder, args.world, args.bin), CACHE / "curve.jsonl"
    run([exe, "-n", args.world, "--params", folder / "params.safetensors", "--data", batches, "--steps", args.steps,
         "--lr", args.lr, "--metrics", metrics, "--quiet"])
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    peer = json.loads(run([sys.executable, HERE / "baseline.py", args.model, "fsdp2", "--world", args.world,
                           "--steps", args.steps, "--lr", args.lr, "--batches", batches,
                           "--params", folder / "params.safetensors"]))
    ours, theirs = [row["loss"] for row in rows], peer["losses"]
    for step in (*range(0, args.steps, max(1, args.steps // 10)), args.steps - 1):
        print(f"step {step + 1:4}  ours {ours[step]:.5f}  FSDP2 {theirs[step]:.5f}")
    last = [sum(l[-10:]) / len(l[-10:]) for l in (ours, theirs)]
    difference = abs(last[0] / last[1] - 1)
    print(f"last ten steps: ours {last[0]:.5f}, FSDP2 {last[1]:.5f}, difference {difference:.3%}")
    total = [sum(row["step_ms"] for row in rows) / 1e3, sum(peer["step_ms"]) / 1e3]
    print(f"time in steps: ours {total[0]:.1f} s, FSDP2 {total[1]:.1f} s")

    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4), sharey=True)
    for losses, times, label, style in ((theirs, peer["step_ms"], f"PyTorch {peer['torch']} FSDP2", "-"),
                                        (ours, [row["step_ms"] for row in rows], "fsdp-mlir", "--")):
        seconds = [sum(times[:i + 1]) / 1e3 for i in range(len(times))]
        left.plot(range(1, len(losses) + 1), losses, style, label=label, linewidth=1.2)
        right.plot(seconds, losses, style, label=label, linewidth=1.2)
    left.set(xlabel="step", ylabel="loss (nats per byte)", title=f"{args.model}, {args.world} ranks")
    right.set(xlabel="seconds in steps", title="the same against time")
    left.legend()
    figure.tight_layout()
    figure.savefig(args.output, dpi=110)
    print(f"picture: {args.output}")
    sys.exit(1 if difference > 0.01 else 0)


if __name__ == "__main__":
    main()
