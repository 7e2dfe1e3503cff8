"""Compares what a program left on the card with what it left on the emulated driver.

  kernels.py HERE NAME SAVED    a checkpoint with HERE/expected/NAME; exits 1 where a word differs that must not

Both execute one PTX, whose instructions round as IEEE 754 says and whose sums have an order. So each word is equal, except
where cuBLASLt multiplies or tensor cores do, whose sums have an order of their own, and where an instruction is one of
PTX's approximations: a tolerance by type is for these. Standard library only.
"""
import json
import math
import pathlib
import sys

from compare import decode, read, same

# Relative to a tensor's largest number.
TOLERANCE = {"F64": 1e-12, "F32": 1e-5, "F16": 2.0 ** -9, "BF16": 2.0 ** -6}
# Of products that tensor cores take from rounded factors, whatever the result's type.
NARROW = 2.0 ** -7


def compare(got, want, tolerance):
    """(words that differ, words, lines about tensors that are wrong); tolerance by type, or None where words are equal."""
    if got.keys() != want.keys():
        return 0, 0, ["other tensors than the emulated run's"]
    differ = total = 0
    wrong = []
    for (_, name), (dtype, data) in want.items():
        pairs = list(zip(decode(dtype, got[_, name][1]), decode(dtype, data)))
        words = sum(not same(x, y) for x, y in pairs)
        differ, total = differ + words, total + len(pairs)
        if not words:
            continue
        first = next(i for i, pair in enumerate(pairs) if not same(*pair))
        largest = max((abs(y) for _, y in pairs if math.isfinite(y)), default=0.0) or 1.0
        off = max(math.inf if math.isnan(x - y) else abs(x - y) for x, y in pairs if not same(x, y)) / largest
        if tolerance is None or not off <= tolerance.get(dtype, 0.0):
            wrong.append(f"{name}: {words} of {len(pairs)} words differ, by up to {off:.2e} of the largest; "
                         f"[{first}] is {pairs[first][0]!r}, emulated {pairs[first][1]!r}")
    return differ, total, wrong


def main(here, name, saved):
    here = pathlib.Path(here)
    ran = json.loads((here / "expected" / name / "profile").read_text())
    kernels = [call["name"] for call in ran["calls"] if call["kind"] in ("launch", "attention")]
    code = (here / "programs" / f"{name}.so").read_bytes()
    tolerance = TOLERANCE if ran["products"] or b".approx." in code or b"div.full." in code else None
    if b"mma.sync" in code:
        tolerance = dict.fromkeys(TOLERANCE, NARROW)
    differ, total, wrong = compare(read(saved), read(here / "expected" / name), tolerance)
    print(f"{name}: {total - differ} of {total} words equal, {'word by word' if tolerance is None else 'within tolerance'}"
          + (f"; kernels: {', '.join(kernels)}" if wrong else ""), *(f"    {text}" for text in wrong), sep="\n")
    return bool(wrong) or not total


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
