"""Long sums of f32 and f64, in every form that a traced step may hold them in:
compiled, run, and compared with exact arithmetic.

  long_sums.py --bin build/bin                          # 2^24 numbers
  long_sums.py --bin build/bin --devices cuda --log2 16
  long_sums.py --bin build/bin --mutant build/bin/fsdp-serial-sums

All forms sum the same numbers, or what they compute of each. A result may be
off by LIMIT of the sum of magnitudes, or by LIMIT64: 20 times what PyTorch's
sums of as many are off by, whose own are cut into blocks. The numbers are
0.1 and 0.11 in turn, where all roundings of a serial sum go the same way, and
uniform ones. --mutant names a compiler that adds one number after the other:
then every form has to be found wrong. Where there are several cores, other
numbers of threads must not change a bit."""

import argparse
import array
import math
import pathlib
import random
import shutil
import sys
import tempfile

from step import Step, decode, encode
from toolchain import Failure, Tools

LIMIT, LIMIT64 = 20 * 1e-7, 20 * 1e-15
# The numbers repeat after so many.
PERIOD = 256

FORMS = {}


def form(function):
    """function(step, x): (result, exact). `x` holds the numbers in one
    dimension; exact(p) gives the result's numbers and the sums of magnitudes,
    each divided by the number of periods, of the numbers `p` of one period."""
    FORMS[function.__name__] = function
    return function


def narrow(value):
    """As f32 computes it."""
    return decode(encode([value], "f32"), "f32")[0]


def view(step, x, *shape):
    """`x`, one-dimensional, in rows; one size may be -1."""
    known = math.prod(s for s in shape if s != -1)
    shape = tuple(x.shape[0] // known if s == -1 else s for s in shape)
    dims = ", ".join(str(i) for i in range(len(shape)))
    sizes = ", ".join(map(str, shape))
    kind = "".join(f"{s}x" for s in shape) + x.dtype
    return step.result(
        f"tensor.expand_shape {x.name} [[{dims}]] output_shape [{sizes}] : "
        f"{x.type} into tensor<{kind}>", shape, x.dtype, 1.0)


def reduce(step, x, axes, term, results=1, dtype="f32", others=()):
    """Sums over `axes` of `x`; term(name) gives lines, and the names of what is
    added, one per result. `others` are further operands with their maps."""
    loops = [f"d{i}" for i in range(len(x.shape))]
    kept = [i for i in range(len(x.shape)) if i not in axes]
    shape = tuple(x.shape[i] for i in kept)
    init = step.fill(shape, dtype, step.constant("0.0", dtype))

    def body(*args):
        inputs, partials = args[:-results], args[-results:]
        lines, terms = term(*inputs)
        for i, (partial, added) in enumerate(zip(partials, terms)):
            lines.append(f"%sum{i} = arith.addf {partial}, {added} : {dtype}")
        return lines, [f"%sum{i}" for i in range(results)]

    return step.generic(
        len(loops), [(x, loops), *others],
        [(init, [f"d{i}" for i in kept])] * results,
        [(shape, dtype, 1.0)] * results, body, reductions=axes)


def itself(x):
    return [], [x]


def both(numbers):
    """The sums, and those of magnitudes."""
    return numbers, [abs(n) for n in numbers]


def columns(p, n):
    """Sums of every n-th number: of columns of as many rows as there are
    periods."""
    return both([math.fsum(p[i::n]) for i in range(n)])


# Sums.


@form
def sum_of_all(step, x):
    return reduce(step, x, (0,), itself), lambda p: both([math.fsum(p)])


@form
def sum_of_rows(step, x):
    """The gradient of a bias of 4."""
    return reduce(step, view(step, x, -1, 4), (0,), itself), \
        lambda p: columns(p, 4)


@form
def sum_of_rows_of_64(step, x):
    return reduce(step, view(step, x, -1, 64), (0,), itself), \
        lambda p: columns(p, 64)


@form
def sum_of_rows_of_3_less_a_bias(step, x):
    """Columns that fill no vector, and an operand of their shape."""
    rows = x.shape[0] // 4
    part = view(step, x, rows, 4)
    part = step.result(
        f"tensor.extract_slice {part.name}[0, 0] [{rows}, 3] [1, 1] : "
        f"{part.type} to tensor<{rows}x3xf32>", (rows, 3), "f32", 1.0)
    return reduce(step, part, (0,), itself), lambda p: both(
        columns(p, 4)[0][:3])


@form
def sum_of_each_row(step, x):
    """Two sums along the memory; of halves that are whole periods."""
    return reduce(step, view(step, x, 2, -1), (1,), itself), \
        lambda p: both([math.fsum(p) / 2] * 2)


@form
def sum_over_outer_and_inner(step, x):
    """The gradient of a channel's bias."""
    def exact(p):
        return both([math.fsum(p[i * 64:(i + 1) * 64]) for i in range(4)])
    return reduce(step, view(step, x, -1, 4, 64), (0, 2), itself), exact


@form
def sum_and_sum_of_squares(step, x):
    """What a batch norm needs, in one op."""
    s, q = reduce(step, view(step, x, -1, 4), (0,), lambda a: (
        [f"%q = arith.mulf {a}, {a} : f32"], [a, "%q"]), results=2)
    total = step.generic(
        1, [(s, ["d0"]), (q, ["d0"])], [(step.empty((4,), "f32"), ["d0"])],
        [((4,), "f32", 1.0)],
        lambda a, b, _: ([f"%r = arith.addf {a}, {b} : f32"], ["%r"]))
    return total, lambda p: columns([a + narrow(a * a) for a in p], 4)


# Sums of what is computed of each number.


@form
def norm_1(step, x):
    return reduce(step, x, (0,), lambda a: (
        [f"%m = arith.negf {a} : f32", f"%n = math.absf %m : f32"], ["%n"])), \
        lambda p: both([math.fsum(p)])


@form
def norm_2_squared(step, x):
    return reduce(step, x, (0,), lambda a: (
        [f"%q = arith.mulf {a}, {a} : f32"], ["%q"])), \
        lambda p: both([math.fsum(narrow(a * a) for a in p)])


@form
def norm_3_of_rows(step, x):
    return reduce(step, view(step, x, -1, 8), (0,), lambda a: (
        [f"%q = arith.mulf {a}, {a} : f32", f"%c = arith.mulf %q, {a} : f32"],
        ["%c"])), \
        lambda p: columns([narrow(narrow(a * a) * a) for a in p], 8)


@form
def squared_error_to_a_row(step, x):
    """Loops that no operand lets become one."""
    rows = view(step, x, -1, 8)
    base = step.input([8])
    return reduce(step, rows, (0, 1), lambda a, b: (
        [f"%d = arith.subf {a}, {b} : f32", "%q = arith.mulf %d, %d : f32"],
        ["%q"]), others=[(base, ["d1"])]), \
        lambda p: both([math.fsum(narrow(narrow(a - narrow(0.05)) ** 2)
                                  for a in p)])


@form
def sum_of_f64(step, x):
    return reduce(step, view(step, x, -1, 4), (0,), lambda a: (
        ["%t = arith.constant 0.1 : f64", f"%e = arith.extf {a} : f32 to f64",
         "%w = arith.mulf %e, %t : f64"], ["%w"]), dtype="f64"), \
        lambda p: columns([0.1 * a for a in p], 4)


@form
def sum_of_bf16(step, x):
    return reduce(step, view(step, x, -1, 4), (0,), lambda a: (
        [f"%n = arith.truncf {a} : f32 to bf16",
         "%w = arith.extf %n : bf16 to f32"], ["%w"])), \
        lambda p: columns(decode(encode(p, "bf16"), "bf16"), 4)


# Sums that no loop kernel takes.


def generic(step, x, lines):
    """One number of all: `lines` of %x, %o make %r."""
    init = step.fill((), "f32", step.constant("0.0", "f32"))
    return step.generic(
        1, [(x, ["d0"])], [(init, [])], [((), "f32", 1.0)],
        lambda a, o: ([line.replace("%x", a).replace("%o", o)
                       for line in lines], ["%r"]), reductions=(0,))


@form
def sum_that_is_subtracted(step, x):
    return generic(step, x, ["%r = arith.subf %o, %x : f32"]), \
        lambda p: both([-math.fsum(p)])


@form
def sum_by_fma(step, x):
    return generic(step, x, ["%r = math.fma %x, %x, %o : f32"]), \
        lambda p: both([math.fsum(a * a for a in p)])


@form
def sum_of_what_a_mask_chooses(step, x):
    return generic(step, x, [
        "%h = arith.constant 0.105 : f32",
        "%m = arith.cmpf ogt, %x, %h : f32", "%s = arith.addf %o, %x : f32",
        "%r = arith.select %m, %s, %o : f32"]), \
        lambda p: both([math.fsum(a for a in p if a > narrow(0.105))])


@form
def product_of_operands_no_stride_describes(step, x):
    """a[i, k, j] * b[j]: no matrix product."""
    a, b = view(step, x, 2, -1, 2), step.input([2])
    return reduce(step, a, (1, 2), lambda u, v: (
        [f"%p = arith.mulf {u}, {v} : f32"], ["%p"]), others=[(b, ["d2"])]), \
        lambda p: both([math.fsum(narrow(a * narrow(0.05)) for a in p) / 2] * 2)


def pixels(step, x):
    """One image of one channel, and its size."""
    return view(step, x, 1, 1, -1, 64)


@form
def window_of_a_pool(step, x):
    image = pixels(step, x)
    rows = image.shape[2]
    window = step.empty([rows, 64], "f32")
    init = step.fill((1, 1, 1, 1), "f32", step.constant("0.0", "f32"))
    return step.result(
        f"linalg.pooling_nchw_sum ins({image.name}, {window} : {image.type}, "
        f"tensor<{rows}x64xf32>) outs({init} : tensor<1x1x1x1xf32>) -> "
        "tensor<1x1x1x1xf32>", (1, 1, 1, 1), "f32", 1.0), \
        lambda p: both([math.fsum(p)])


@form
def gradient_of_a_convolution(step, x):
    """For a weight: as many terms as the image has pixels."""
    image = pixels(step, x)
    init = step.fill((1, 1, 1, 1), "f32", step.constant("0.0", "f32"))
    return step.result(
        f"linalg.conv_2d_nchw_fchw ins({image.name}, {image.name} : "
        f"{image.type}, {image.type}) outs({init} : tensor<1x1x1x1xf32>) -> "
        "tensor<1x1x1x1xf32>", (1, 1, 1, 1), "f32", 1.0), \
        lambda p: both([math.fsum(narrow(a * a) for a in p)])


NUMBERS = {
    "0.1 and 0.11": [0.1, 0.11] * (PERIOD // 2),
    "uniform": [random.Random(1).uniform(0.0, 1.0) for _ in range(PERIOD)],
}


def run(tools, names, numbers, log2, device, threads, keep):
    """Compiles one step that holds all forms once, and runs it; of each form
    the results, and what they and their magnitudes are exactly, by numbers."""
    step, checks = Step(), []
    x = step.input([1 << log2])
    for name in names:
        value, exact = FORMS[name](step, x)
        buffer = step.argument("buffer", value.shape, value.dtype)
        step.update(buffer, value)
        checks.append((name, buffer, exact))
    step.param([1])
    step.finish()
    state = {a.name: [0.0] * max(1, math.prod(a.value.shape))
             for a in step.args if a.role != "input"}
    periods = (1 << log2) // PERIOD
    with tempfile.TemporaryDirectory(prefix="fsdp-long-sums-") as temporary:
        directory = pathlib.Path(temporary)
        program = tools.compile(step, 1, directory, [device], [])
        if keep:
            shutil.copytree(directory, keep / device, dirs_exist_ok=True)
        for kind in numbers:
            period = decode(encode(NUMBERS[kind], "f32"), "f32")
            inputs = {a.name: [[0.05] * math.prod(a.value.shape)]
                      for a in step.args if a.role == "input"}
            inputs[x.name[1:]] = [array.array("f", period) * periods]
            saved = []
            for count in threads:
                saved.append(tools.run_program(program, step, state, inputs, 1,
                                               device, count)[1])
            for name, buffer, exact in checks:
                sums, magnitudes = exact(period)
                yield (kind, name, buffer.dtype,
                       [s[buffer.name[1:]] for s in saved],
                       [a * periods for a in sums],
                       [a * periods for a in magnitudes])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--devices", nargs="+", default=["cpu"])
    parser.add_argument("--log2", type=int, default=24,
                        help="logarithm of the number of numbers")
    parser.add_argument("--forms", nargs="+", choices=sorted(FORMS),
                        default=list(FORMS))
    parser.add_argument("--numbers", nargs="+", choices=sorted(NUMBERS),
                        default=list(NUMBERS))
    parser.add_argument("--threads", nargs="+", type=int, default=[2])
    parser.add_argument("--mutant", type=pathlib.Path)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--print", action="store_true",
                        help="what each form is off by")
    args = parser.parse_args()
    tools = Tools(args.bin, "")
    if args.mutant:
        tools.compiler = args.mutant
    total = bad = 0
    worst = {"f32": 0.0, "f64": 0.0}
    for device in args.devices:
        try:
            results = list(run(tools, args.forms, args.numbers, args.log2,
                               device, args.threads, args.keep))
        except Failure as failure:
            print(f"{device}: {failure}")
            return 1
        for kind, name, dtype, got, exact, magnitudes in results:
            errors = [abs(g - e) / m
                      for g, e, m in zip(got[0], exact, magnitudes)]
            error = max(errors) if all(map(math.isfinite, errors)) else math.inf
            isWrong = error > (LIMIT64 if dtype == "f64" else LIMIT)
            isOther = any(g != got[0] for g in got[1:])
            isBad = isOther or isWrong != bool(args.mutant)
            total += 1
            bad += isBad
            worst[dtype] = max(worst[dtype], error)
            if isBad or args.print:
                print(f"{device} {name} of {kind}: off by {error:.1e}"
                      f"{', other bits with other threads' if isOther else ''}")
    what = "found wrong" if args.mutant else "right"
    print(f"{total - bad} of {total} sums of 2^{args.log2} numbers are {what}; "
          f"off by {worst['f32']:.1e} in f32, {worst['f64']:.1e} in f64 at "
          "most")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
