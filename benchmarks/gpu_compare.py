"""Compares what two runs left (benchmarks/gpu.sh); standard library only.

gpu_compare.py words A B       tensors of two checkpoints: words that are equal, and how far others are off
gpu_compare.py bits A B        exits 1 unless every tensor has the same bits
gpu_compare.py parity METRICS EXPECT   losses and norms against PyTorch's, within 10 times the fixture's tolerance
"""
import json
import pathlib
import struct
import sys


def read(folder):
    """name -> (dtype, bytes) of the newest checkpoint in a folder."""
    step = sorted(pathlib.Path(folder).glob("step-*"))[-1]
    tensors = {}
    for file in sorted(step.glob("*.safetensors")):
        data = file.read_bytes()
        (size,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8:8 + size])
        header.pop("__metadata__", None)
        for name, entry in header.items():
            begin, end = entry["data_offsets"]
            tensors[file.name, name] = entry["dtype"], data[8 + size:][begin:end]
    return tensors


def words(a, b):
    first, second = read(a), read(b)
    assert first.keys() == second.keys(), "expected the same tensors"
    equal = total = 0
    worst = (0.0, "")
    for name, (dtype, data) in first.items():
        if dtype != "F32":
            continue
        count = len(data) // 4
        got, want = struct.unpack(f"<{count}f", data), struct.unpack(f"<{count}f", second[name][1])
        size = max(map(abs, want), default=0.0) or 1.0
        equal += sum(x == y for x, y in zip(got, want))
        total += count
        worst = max(worst, (max((abs(x - y) for x, y in zip(got, want)), default=0.0) / size, "/".join(name)))
    print(f"{equal} of {total} words equal; the farthest is off by {worst[0]:.2e} of its tensor's largest: {worst[1]}")


def bits(a, b):
    first, second = read(a), read(b)
    wrong = [name for name in first if first[name] != second.get(name)]
    print(f"{len(first) - len(wrong)} of {len(first)} tensors have the same bits", *wrong[:5])
    return bool(wrong)


def parity(metrics, expect):
    lines = [json.loads(line) for line in pathlib.Path(metrics).read_text().splitlines()]
    want = json.loads(pathlib.Path(expect).read_text())
    wrong = False
    for value in ("loss", "grad_norm"):
        got = [line[value] for line in lines if value in line]
        off = max(abs(g - w) / max(abs(w), 1e-12) for g, w in zip(got, want[value]["1"]))
        limit = 10 * want["rtol"]["1"][value]
        wrong |= off > limit or len(got) != len(want[value]["1"])
        print(f"{value}: {len(got)} steps, off by at most {off:.2e}, tolerance {limit:.2e}")
    return wrong


if __name__ == "__main__":
    sys.exit({"words": words, "bits": bits, "parity": parity}[sys.argv[1]](*sys.argv[2:]))
