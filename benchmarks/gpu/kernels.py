"""Runs a program for each kind of kernel on the card and on the emulated driver, and compares what it leaves.

  kernels.py HERE WORK [NAME..]    exits 1 if one differs that must not; standard library only

Both execute one PTX, whose instructions round as IEEE 754 says and whose sums have an order. So each word is equal, except
where cuBLASLt multiplies or tensor cores do, whose sums have an order of their own, and where an instruction is one of
PTX's approximations: a tolerance by type is for these.
"""
import concurrent.futures
import json
import math
import os
import pathlib
import subprocess
import sys

from compare import decode, read, same

# Relative to a tensor's largest number.
TOLERANCE = {"F64": 1e-12, "F32": 1e-5, "F16": 2.0 ** -9, "BF16": 2.0 ** -6}
# Of products that tensor cores take from rounded factors, whatever the result's type.
NARROW = 2.0 ** -7


def run(here, folder, name, device_options, environment=None):
    folder.mkdir(parents=True)
    step = here / "steps" / name
    inputs = []
    for option, file, drawn in (("--params", "params", ("--init", "seed=0")), ("--data", "data", ("--data", "random:seed=0"))):
        path = step / f"{file}.safetensors"
        inputs += [option, str(path)] if path.exists() else drawn
    command = [str(here / "bin" / "fsdp-run"), str(here / "programs" / f"{name}.so"), "--device", "cuda", *inputs,
               *(step / "run").read_text().split(), "--save", str(folder / "saved"), "--quiet", *device_options]
    libraries = os.pathsep.join(filter(None, [str(here / "lib"), os.environ.get("LD_LIBRARY_PATH")]))
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=60,
                             env={**os.environ, "LD_LIBRARY_PATH": libraries, **(environment or {})})
    if outcome.returncode:
        raise RuntimeError(f"exit {outcome.returncode}: {outcome.stderr.strip()[-500:]}")


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


def check(here, work, name):
    """(whether it is right, what is to be said)."""
    folder = work / "kernels" / name
    try:
        profile = folder / "profile.json"
        emulator = {"FSDP_CUDA_LIBS": str(here / "emulator"), "FSDP_EMULATOR_CAPABILITY": "8.0", "FSDP_CUDA_CACHE": "none"}
        run(here, folder / "card", name, ())
        run(here, folder / "emulated", name, ("--profile", str(profile)), emulator)
        ran = json.loads(profile.read_text())
        kernels = [call["name"] for call in ran["calls"] if call["kind"] in ("launch", "attention")]
        code = (here / "programs" / f"{name}.so").read_bytes()
        tolerance = TOLERANCE if ran["products"] or b".approx." in code else None
        if b"mma.sync" in code:
            tolerance = dict.fromkeys(TOLERANCE, NARROW)
        differ, total, wrong = compare(read(folder / "card" / "saved"), read(folder / "emulated" / "saved"), tolerance)
    except (RuntimeError, subprocess.TimeoutExpired, OSError, IndexError, KeyError, ValueError) as error:
        return False, f"{name}: {error}"
    how = "word by word" if tolerance is None else "within tolerance"
    line = f"{name}: {total - differ} of {total} words equal, {how}"
    if wrong:
        line += f"; kernels: {', '.join(kernels)}" + "".join(f"\n    {text}" for text in wrong)
    return not wrong, line


def main(here, work, *names):
    here, work = pathlib.Path(here), pathlib.Path(work)
    names = names or sorted(path.stem for path in (here / "programs").glob("kernel-*.so"))
    failed = []
    with concurrent.futures.ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        for name, (right, line) in zip(names, pool.map(lambda name: check(here, work, name), names)):
            failed += [] if right else [name]
            print("" if right else "WRONG ", line, sep="", flush=True)
    print(f"{len(names) - len(failed)} of {len(names)} programs are right" + (f"; not: {', '.join(failed)}" if failed else ""))
    return 1 if failed or not names else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
