"""Sums, products and scans of narrow floats, in every form that a traced step
may hold them in: compiled, run, and compared with exact arithmetic.

  accumulations.py --bin build/bin                 # all forms, bf16 and f16
  accumulations.py --bin build/bin --forms scan while --keep DIR
  accumulations.py --bin build/bin --mutant build/bin/fsdp-narrow-accumulators

Each form accumulates 4096 numbers or more, which an accumulator of the narrow
type itself would get wrong: a sum of ones in bf16 ends at 256. A result has to
be the exact one, but for what additions in f32 may lose, rounded once. --mutant
names a compiler that leaves the accumulators narrow: then every form has to be
found wrong."""

import argparse
import pathlib
import shutil
import sys
import tempfile

import accumulation_loops  # noqa: F401 (its forms)
from accumulation_forms import FORMS, LOSS, PRECISION, round_to
from step import Step
from toolchain import Failure, Tools


def count_wrong(got, exact, dtype):
    """Elements that are no rounding of what f32 may make of the exact ones."""
    low = round_to([e - LOSS * abs(e) for e in exact], dtype)
    high = round_to([e + LOSS * abs(e) for e in exact], dtype)
    return sum(not a <= g <= b for a, g, b in zip(low, got, high))


def run(tools, names, dtype, keep, options):
    """Compiles one step that holds all forms; the wrong elements of each."""
    step, state, inputs, checks = Step(), {}, {}, []
    for name in names:
        value, data, exact = FORMS[name](step, dtype)
        buffer = step.argument("buffer", value.shape, dtype)
        step.update(buffer, value)
        for source, numbers in data:
            inputs[source.name[1:]] = [numbers]
        checks.append((name, buffer.name[1:],
                       exact(*(numbers for _, numbers in data))))
    step.param([1])
    step.finish()
    for arg in step.args:
        if arg.role == "input":
            inputs.setdefault(arg.name, [[1.0]])
        else:
            state[arg.name] = [0.0] * max(1, len_of(arg.value.shape))
    with tempfile.TemporaryDirectory(prefix="fsdp-accumulate-") as temporary:
        directory = pathlib.Path(temporary)
        try:
            program = tools.compile(step, 1, directory, ["cpu"], options)
            _, saved = tools.run_program(program, step, state, inputs, 1, "cpu")
        finally:
            if keep:
                shutil.copytree(directory, keep / dtype, dirs_exist_ok=True)
    return {name: (count_wrong(saved[buffer], exact, dtype), saved[buffer],
                   exact) for name, buffer, exact in checks}


def len_of(shape):
    n = 1
    for size in shape:
        n *= size
    return n


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--forms", nargs="+", choices=sorted(FORMS),
                        default=list(FORMS))
    parser.add_argument("--dtypes", nargs="+", choices=sorted(PRECISION),
                        default=sorted(PRECISION))
    parser.add_argument("--mutant", type=pathlib.Path)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--march", help="processor to compile for")
    args = parser.parse_args()
    tools = Tools(args.bin, "")
    if args.mutant:
        tools.compiler = args.mutant
    options = ["--march", args.march] if args.march else []
    bad = 0
    for dtype in args.dtypes:
        try:
            results = run(tools, args.forms, dtype, args.keep, options)
        except Failure as failure:
            print(f"{dtype}: {failure}")
            return 1
        for name, (wrong, got, exact) in results.items():
            isBad = (wrong == 0) if args.mutant else (wrong != 0)
            bad += isBad
            i = max(range(len(exact)),
                    key=lambda i: abs(got[i] - exact[i]) / abs(exact[i])
                    if exact[i] else 0)
            if isBad:
                print(f"{dtype} {name}: {wrong} of {len(exact)} elements are "
                      f"wrong; {got[i]!r}, exact {exact[i]!r}")
    total = len(args.forms) * len(args.dtypes)
    what = "found wrong" if args.mutant else "right"
    print(f"{total - bad} of {total} accumulations are {what}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
