"""Compares what two runs left (benchmarks/gpu.sh); standard library only.

compare.py bits A B                  every tensor of two checkpoints has the same bits
compare.py gradients A B EXPECT      each tensor is within the tolerance of its gradient in expect.json; counts equal words
compare.py parity METRICS EXPECT RANKS   losses and norms are within the fixture's tolerance of PyTorch's
compare.py expected EXPECT lr|steps  prints the learning rate, or how many steps PyTorch's losses are known of

Exits 1 where that is not so.
"""
import array
import json
import math
import pathlib
import struct
import sys

# Of gradients that every operation on the way rounded to bf16: half of a last place, four times.
CEILING = 2.0 ** -5
# Of a gradient that is zero but for rounding, relative to the largest one.
ZERO = 1e-6
# Of tensors that are not gradients, such as running statistics.
OTHER = {"F64": 1e-5, "F32": 1e-5, "F16": 2.0 ** -7, "BF16": 2.0 ** -5}


def read(folder):
    """name -> (dtype, bytes) of the newest checkpoint in a folder, or of the files of one that are there."""
    step = max(pathlib.Path(folder).glob("step-*"), default=pathlib.Path(folder))
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


def decode(dtype, data):
    """The numbers of a tensor."""
    if dtype == "BF16":
        return array.array("f", array.array("I", (half << 16 for half in array.array("H", data))).tobytes())
    if dtype == "F16":
        return array.array("f", (value for (value,) in struct.iter_unpack("<e", data)))
    return array.array({"F64": "d", "F32": "f", "I64": "q", "I32": "i", "I16": "h", "I8": "b", "U8": "B", "BOOL": "B"}[dtype],
                       data)


def same(x, y):
    return x == y or (x != x and y != y)


def norm(numbers):
    return math.sqrt(math.fsum(number * number for number in numbers))


def match(a, b):
    """Both checkpoints' tensors; ends where their names or types differ."""
    first, second = read(a), read(b)
    kinds = [{name: (dtype, len(data)) for name, (dtype, data) in tensors.items()} for tensors in (first, second)]
    if kinds[0] != kinds[1]:
        sys.exit(f"expected the same tensors in {a} and {b}")
    return first, second


def bits(a, b):
    first, second = match(a, b)
    wrong = ["/".join(name) for name in first if first[name] != second[name]]
    print(f"{len(first) - len(wrong)} of {len(first)} tensors have the same bits", *wrong[:5])
    return bool(wrong)


def gradients(a, b, expect):
    first, second = match(a, b)
    rtol = json.loads(pathlib.Path(expect).read_text())["gradients"]["rtol"]
    numbers = {name: (dtype, decode(dtype, data), decode(dtype, second[name][1]))
               for name, (dtype, data) in first.items()}
    largest = max((norm(want) for (_, name), (_, _, want) in numbers.items() if name in rtol), default=0.0)
    equal = total = wrong = 0
    worst = (0.0, "")
    for (file, name), (dtype, got, want) in numbers.items():
        words = sum(map(same, got, want))
        equal, total = equal + words, total + len(want)
        if words == len(want):
            continue
        off, size = norm([x - y for x, y in zip(got, want)]), norm(want)
        limit = OTHER.get(dtype, 0.0)
        if name in rtol:
            # Beyond 10 it is a gradient that is zero but for rounding.
            limit = rtol[name] if rtol[name] > 10 else min(rtol[name], CEILING)
        if not off <= max(limit * size, ZERO * largest if name in rtol else 0.0):
            wrong += 1
            print(f"{file}/{name}: {len(want) - words} of {len(want)} words differ; "
                  f"off by {off / size if size else off:.3g}, at most {limit:.3g} expected")
        elif size and math.isfinite(off):
            worst = max(worst, (off / size, name))
    print(f"{equal} of {total} words equal; the farthest within its tolerance is off by {worst[0]:.2e}: {worst[1]}")
    return wrong > 0


def parity(metrics, expect, ranks):
    lines = [json.loads(line) for line in pathlib.Path(metrics).read_text().splitlines()]
    want = json.loads(pathlib.Path(expect).read_text())
    wrong = False
    for value in ("loss", "grad_norm"):
        got, exact = [line.get(value) for line in lines], want[value][ranks]
        limit = want["rtol"][ranks][value]
        if len(got) != len(exact) or not all(isinstance(g, (int, float)) for g in got):
            print(f"{value}: expected {len(exact)} finite numbers, got {got}")
            wrong = True
            continue
        off = max(abs(g - w) / max(abs(w), 1e-12) for g, w in zip(got, exact))
        wrong |= not off <= limit
        print(f"{value}: {len(got)} steps, off by at most {off:.2e}, tolerance {limit:.2e}")
    return wrong


def expected(expect, what):
    values = json.loads(pathlib.Path(expect).read_text())
    print(values["hyper"]["lr"] if what == "lr" else len(values["loss"]["1"]))


if __name__ == "__main__":
    modes = {"bits": bits, "gradients": gradients, "parity": parity, "expected": expected}
    sys.exit(modes[sys.argv[1]](*sys.argv[2:]))
