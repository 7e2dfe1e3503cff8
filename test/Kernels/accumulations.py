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
import random
import shutil
import sys
import tempfile

from step import FLOATS, Step, decode, encode
from toolchain import Failure, Tools

ROWS = 4096
# Where vector code adds in many lanes at once, each lane gets a part.
LONG = 16 * ROWS
# What 2^16 additions in f32 may lose, relative to the sum.
LOSS = 2.0 ** -15
# Bits of the fraction.
PRECISION = {"bf16": 7, "f16": 10}

FORMS = {}


def form(function):
    """function(step, dtype): (result, inputs, exact). `inputs` are (value,
    numbers); exact(*numbers) gives the result's numbers."""
    FORMS[function.__name__] = function
    return function


def round_to(numbers, dtype):
    return decode(encode(numbers, dtype), dtype)


def skewed(dtype, n=ROWS, seed=0, scale=1.0):
    """Numbers of one sign, a few of them far larger; their sum is one of f16."""
    scale *= min(1.0, ROWS / n)
    rng = random.Random(seed)
    numbers = [scale * (rng.uniform(0.5, 1.5) + (4 if rng.random() < 0.01
                                                 else 0)) for _ in range(n)]
    return round_to(numbers, dtype)


def factors(dtype, n=ROWS):
    """Numbers around 1 whose product stays around 1."""
    rng = random.Random(1)
    unit = 2.0 ** -PRECISION[dtype]
    return [1 + rng.choice((unit, -unit)) for _ in range(n)]


def product_of(numbers):
    total = 1.0
    for number in numbers:
        total *= number
    return total


def running(numbers, op, start):
    out = []
    for number in numbers:
        start = op(start, number)
        out.append(start)
    return out


def columns(numbers, n):
    return [numbers[i::n] for i in range(n)]


# Structured ops.


def reduce_generic(step, dtype, x, loops, maps, axes, lines, start, shape):
    return step.generic(
        loops, [(v, m) for v, m in zip(x, maps)],
        [(step.fill(shape, dtype, step.constant(start, dtype)), maps[-1])],
        [(shape, dtype, 1.0)],
        lambda *names: ([line.replace("T", dtype) for line in lines], ["%r"]),
        reductions=axes)


@form
def sum_of_all(step, dtype):
    x = step.input([LONG], dtype)
    y = reduce_generic(step, dtype, [x], 1, [["d0"], []], (0,),
                       ["%r = arith.addf %a1, %a0 : T"], "0.0", ())
    return y, [(x, skewed(dtype, LONG))], lambda v: [sum(v)]


@form
def sum_over_rows(step, dtype):
    """The gradient of a bias."""
    x = step.input([ROWS, 3], dtype)
    y = reduce_generic(step, dtype, [x], 2, [["d0", "d1"], ["d1"]], (0,),
                       ["%r = arith.addf %a0, %a1 : T"], "0.0", (3,))
    return y, [(x, skewed(dtype, 3 * ROWS))], lambda v: [
        sum(c) for c in columns(v, 3)]


@form
def sum_over_columns(step, dtype):
    x = step.input([2, LONG], dtype)
    y = reduce_generic(step, dtype, [x], 2, [["d0", "d1"], ["d0"]], (1,),
                       ["%r = arith.addf %a1, %a0 : T"], "0.0", (2,))
    return y, [(x, skewed(dtype, 2 * LONG))], lambda v: [
        sum(v[:LONG]), sum(v[LONG:])]


@form
def sum_that_starts_from_a_tensor(step, dtype):
    x, start = step.input([ROWS, 2], dtype), step.input([2], dtype)
    y = step.generic(
        2, [(x, ["d0", "d1"])], [(start.name, ["d1"])], [((2,), dtype, 1.0)],
        lambda a, o: ([f"%r = arith.addf {o}, {a} : {dtype}"], ["%r"]),
        reductions=(0,))
    return y, [(x, skewed(dtype, 2 * ROWS)), (start, [1024.0, -512.0])], \
        lambda v, s: [a + sum(c) for a, c in zip(s, columns(v, 2))]


@form
def sum_that_is_subtracted(step, dtype):
    x = step.input([LONG], dtype)
    y = reduce_generic(step, dtype, [x], 1, [["d0"], []], (0,),
                       ["%r = arith.subf %a1, %a0 : T"], "0.0", ())
    return y, [(x, skewed(dtype, LONG))], lambda v: [-sum(v)]


@form
def sum_of_squares(step, dtype):
    x = step.input([LONG], dtype)
    y = reduce_generic(step, dtype, [x], 1, [["d0"], []], (0,),
                       ["%s = arith.mulf %a0, %a0 : T",
                        "%r = arith.addf %a1, %s : T"], "0.0", ())
    return y, [(x, skewed(dtype, LONG))], lambda v: [sum(a * a for a in v)]


@form
def sum_with_casts_in_the_body(step, dtype):
    x = step.input([LONG], dtype)
    y = reduce_generic(step, dtype, [x], 1, [["d0"], []], (0,),
                       ["%x = arith.extf %a0 : T to f32",
                        "%o = arith.extf %a1 : T to f32",
                        "%s = arith.addf %o, %x : f32",
                        "%r = arith.truncf %s : f32 to T"], "0.0", ())
    return y, [(x, skewed(dtype, LONG))], lambda v: [sum(v)]


@form
def sum_of_what_a_mask_chooses(step, dtype):
    x, m = step.input([LONG], dtype), step.input([LONG], "i1")
    y = reduce_generic(step, dtype, [x, m], 1, [["d0"], ["d0"], []], (0,),
                       ["%s = arith.addf %a2, %a0 : T",
                        "%r = arith.select %a1, %s, %a2 : T"], "0.0", ())
    rng = random.Random(3)
    mask = [rng.randrange(4) > 0 for _ in range(LONG)]
    return y, [(x, skewed(dtype, LONG)), (m, mask)], lambda v, k: [
        sum(a for a, b in zip(v, k) if b)]


@form
def sum_by_fma(step, dtype):
    x, w = step.input([LONG], dtype), step.input([LONG], dtype)
    y = reduce_generic(step, dtype, [x, w], 1, [["d0"], ["d0"], []], (0,),
                       ["%r = math.fma %a0, %a1, %a2 : T"], "0.0", ())
    return y, [(x, skewed(dtype, LONG)), (w, skewed(dtype, LONG, 5))], \
        lambda v, u: [sum(a * b for a, b in zip(v, u))]


@form
def sum_and_sum_of_squares(step, dtype):
    """Both in one op."""
    x = step.input([LONG], dtype)
    zero = step.constant("0.0", dtype)
    a, b = step.generic(
        1, [(x, ["d0"])], [(step.fill((), dtype, zero), [])] * 2,
        [((), dtype, 1.0)] * 2,
        lambda x, s, q: ([f"%u = arith.addf {s}, {x} : {dtype}",
                          f"%v = arith.mulf {x}, {x} : {dtype}",
                          f"%w = arith.addf {q}, %v : {dtype}"], ["%u", "%w"]),
        reductions=(0,))
    y = step.result(f"tensor.concat dim(0) %cat{a.name[1:].split('#')[0]}a, "
                    f"%cat{a.name[1:].split('#')[0]}b : "
                    f"(tensor<1x{dtype}>, tensor<1x{dtype}>) -> "
                    f"tensor<2x{dtype}>", (2,), dtype, 1.0) \
        if expand(step, a, b) else None
    return y, [(x, skewed(dtype, LONG))], lambda v: [sum(v), sum(a * a for a in v)]


def expand(step, *scalars):
    """Names %catNa, %catNb for the scalars as tensors of one element."""
    stem = scalars[0].name[1:].split("#")[0]
    for letter, value in zip("ab", scalars):
        step.emit(f"%cat{stem}{letter} = tensor.expand_shape {value.name} [] "
                  f"output_shape [1] : {value.type} into "
                  f"tensor<1x{value.dtype}>")
    return True


@form
def mean_and_variance_as_welford(step, dtype):
    """count, mean and squared deviations, carried together."""
    x = step.input([ROWS], dtype)
    zero = step.constant("0.0", dtype)
    _, mean, deviation = step.generic(
        1, [(x, ["d0"])],
        [(step.fill((), "f32", step.constant("0.0", "f32")), [])] +
        [(step.fill((), dtype, zero), [])] * 2,
        [((), "f32", 1.0)] + [((), dtype, 1.0)] * 2,
        lambda x, n, m, d: (
            [f"%one = arith.constant 1.0 : f32",
             f"%k = arith.addf {n}, %one : f32",
             f"%inv = arith.divf %one, %k : f32",
             f"%i = arith.truncf %inv : f32 to {dtype}",
             f"%e = arith.subf {x}, {m} : {dtype}",
             f"%p = arith.mulf %e, %i : {dtype}",
             f"%q = arith.addf {m}, %p : {dtype}",
             f"%f = arith.subf {x}, %q : {dtype}",
             f"%g = arith.mulf %e, %f : {dtype}",
             f"%h = arith.addf {d}, %g : {dtype}"], ["%k", "%q", "%h"]),
        reductions=(0,))
    expand(step, deviation)
    y = step.result(f"tensor.cast %cat{deviation.name[1:].split('#')[0]}a : "
                    f"tensor<1x{dtype}> to tensor<1x{dtype}>", (1,), dtype, 1)
    step.update(step.argument("buffer", (), dtype), mean)

    def exact(v):
        # 1 / n is rounded to the narrow type by the form itself.
        mean = total = 0.0
        for n, a in enumerate(v, start=1):
            inverse = round_to([1 / n], dtype)[0]
            before = a - mean
            mean += before * inverse
            total += before * (a - mean)
        return [total]
    return y, [(x, skewed(dtype))], exact


@form
def product_of_all(step, dtype):
    x = step.input([LONG], dtype)
    y = reduce_generic(step, dtype, [x], 1, [["d0"], []], (0,),
                       ["%r = arith.mulf %a1, %a0 : T"], "1.0", ())
    return y, [(x, factors(dtype, LONG))], lambda v: [product_of(v)]


@form
def named_reduce(step, dtype):
    x = step.input([2, ROWS, 2], dtype)
    init = step.fill((2, 2), dtype, step.constant("0.0", dtype))
    kind = f"tensor<2x2x{dtype}>"
    y = step.result(f"linalg.reduce ins({x.name} : {x.type}) outs({init} : "
                    f"{kind}) dimensions = [1]\n      (%i: {dtype}, "
                    f"%o: {dtype}) {{\n        %s = arith.addf %o, %i : "
                    f"{dtype}\n        linalg.yield %s : {dtype}\n      }}",
                    (2, 2), dtype, 1.0)
    return y, [(x, skewed(dtype, 4 * ROWS))], lambda v: [
        sum(v[i * 2 * ROWS + j:(i + 1) * 2 * ROWS:2])
        for i in range(2) for j in range(2)]


def named_product(step, dtype, op, a_shape, b_shape, shape, start=None):
    a, b = step.input(a_shape, dtype), step.input(b_shape, dtype)
    init = start.name if start else step.fill(
        shape, dtype, step.constant("0.0", dtype))
    out = f"tensor<{''.join(f'{s}x' for s in shape)}{dtype}>"
    y = step.result(f"linalg.{op} ins({a.name}, {b.name} : {a.type}, {b.type})"
                    f" outs({init} : {out}) -> {out}", shape, dtype, 1.0)
    return a, b, y


@form
def matmul(step, dtype):
    a, b, y = named_product(step, dtype, "matmul", [2, ROWS], [ROWS, 2],
                            (2, 2))
    return y, [(a, skewed(dtype, 2 * ROWS, 1, 0.5)),
               (b, skewed(dtype, 2 * ROWS, 2, 0.5))], exact_matmul


def exact_matmul(a, b, start=(0.0,) * 4):
    return [start[2 * i + j] + sum(
        a[i * ROWS + k] * b[2 * k + j] for k in range(ROWS))
        for i in range(2) for j in range(2)]


@form
def matmul_that_starts_from_a_tensor(step, dtype):
    start = step.input([2, 2], dtype)
    a, b, y = named_product(step, dtype, "matmul", [2, ROWS], [ROWS, 2],
                            (2, 2), start)
    return y, [(a, skewed(dtype, 2 * ROWS, 3, 0.5)),
               (b, skewed(dtype, 2 * ROWS, 4, 0.5)),
               (start, [64.0, -64.0, 128.0, 0.0])], exact_matmul


@form
def matmul_in_a_loop(step, dtype):
    """Where no BLAS call can stand."""
    a, b = step.input([2, ROWS], dtype), step.input([ROWS, 2], dtype)
    kind = f"tensor<2x2x{dtype}>"
    init = step.fill((2, 2), dtype, step.constant("0.0", dtype))
    part, parts = 64, ROWS // 64
    left, right = f"tensor<2x{part}x{dtype}>", f"tensor<{part}x2x{dtype}>"
    y = loop(step, parts, [(init, kind)], [
        f"%c = arith.constant {part} : index", "%k = arith.muli %i, %c : index",
        f"%l = tensor.extract_slice {a.name}[0, %k] [2, {part}] [1, 1] : "
        f"{a.type} to {left}",
        f"%r = tensor.extract_slice {b.name}[%k, 0] [{part}, 2] [1, 1] : "
        f"{b.type} to {right}",
        f"%s = linalg.matmul ins(%l, %r : {left}, {right}) outs(%t0 : {kind}) "
        f"-> {kind}"], ["%s"], (2, 2), dtype)
    return y, [(a, skewed(dtype, 2 * ROWS, 5, 0.5)),
               (b, skewed(dtype, 2 * ROWS, 6, 0.5))], exact_matmul


@form
def dot(step, dtype):
    a, b, y = named_product(step, dtype, "dot", [ROWS], [ROWS], ())
    return y, [(a, skewed(dtype, seed=1, scale=0.5)),
               (b, skewed(dtype, seed=2))], lambda u, v: [
        sum(a * b for a, b in zip(u, v))]


@form
def product_of_operands_no_stride_describes(step, dtype):
    """a[i, k] * b[k mod 2]: no matrix product."""
    a, b = step.input([2, ROWS // 2, 2], dtype), step.input([2], dtype)
    y = step.generic(
        3, [(a, ["d0", "d1", "d2"]), (b, ["d2"])],
        [(step.fill((2,), dtype, step.constant("0.0", dtype)), ["d0"])],
        [((2,), dtype, 1.0)],
        lambda a, b, o: ([f"%p = arith.mulf {a}, {b} : {dtype}",
                          f"%r = arith.addf {o}, %p : {dtype}"], ["%r"]),
        reductions=(1, 2))
    return y, [(a, skewed(dtype, 2 * ROWS)), (b, [0.75, 1.25])], \
        lambda u, v: [sum(u[i * ROWS + k] * v[k % 2] for k in range(ROWS))
                      for i in range(2)]


@form
def convolution(step, dtype):
    x, w = step.input([1, 64, 8, 8], dtype), step.input([1, 64, 8, 8], dtype)
    init = step.fill((1, 1, 1, 1), dtype, step.constant("0.0", dtype))
    y = step.result(f"linalg.conv_2d_nchw_fchw ins({x.name}, {w.name} : "
                    f"{x.type}, {w.type}) outs({init} : tensor<1x1x1x1x"
                    f"{dtype}>) -> tensor<1x1x1x1x{dtype}>", (1, 1, 1, 1),
                    dtype, 1.0)
    return y, [(x, skewed(dtype, seed=7)), (w, skewed(dtype, seed=8))], \
        lambda u, v: [sum(a * b for a, b in zip(u, v))]


@form
def pooled_sum(step, dtype):
    x, window = step.input([1, 1, 64, 64], dtype), step.empty([64, 64], dtype)
    init = step.fill((1, 1, 1, 1), dtype, step.constant("0.0", dtype))
    y = step.result(f"linalg.pooling_nchw_sum ins({x.name}, {window} : "
                    f"{x.type}, tensor<64x64x{dtype}>) outs({init} : "
                    f"tensor<1x1x1x1x{dtype}>) -> tensor<1x1x1x1x{dtype}>",
                    (1, 1, 1, 1), dtype, 1.0)
    return y, [(x, skewed(dtype))], lambda v: [sum(v)]


# Loops.


def loop(step, n, carried, lines, yields, shape, dtype, which=0, start=0):
    """scf.for %i over [start, n) that carries %t0, %t1, ..: (name, type) each.
    Gives result `which`, as a tensor."""
    zero, one, end, name = (step.fresh() for _ in range(4))
    step.emit(f"{zero} = arith.constant {start} : index")
    step.emit(f"{one} = arith.constant 1 : index")
    step.emit(f"{end} = arith.constant {n} : index")
    args = ", ".join(f"%t{i} = {v}" for i, (v, _) in enumerate(carried))
    types = ", ".join(kind for _, kind in carried)
    body = "\n      ".join(lines)
    many = f":{len(carried)}" if len(carried) > 1 else ""
    step.emit(f"{name}{many} = scf.for %i = {zero} to {end} step {one} "
              f"iter_args({args}) -> ({types}) {{\n      {body}\n      "
              f"scf.yield {', '.join(yields)} : {types}\n    }}")
    result = f"{name}#{which}" if many else name
    if not carried[which][1].startswith("tensor"):
        return step.result(f"tensor.from_elements {result} : tensor<{dtype}>",
                           (), dtype, 1.0)
    return step.result(f"tensor.cast {result} : {carried[which][1]} to "
                       f"{carried[which][1]}", shape, dtype, 1.0)


@form
def loop_over_numbers(step, dtype):
    x = step.input([ROWS], dtype)
    y = loop(step, ROWS, [(step.constant("0.0", dtype), dtype)], [
        f"%x = tensor.extract {x.name}[%i] : {x.type}",
        f"%s = arith.addf %t0, %x : {dtype}"], ["%s"], (), dtype)
    return y, [(x, skewed(dtype))], lambda v: [sum(v)]


@form
def nested_loops_with_a_branch(step, dtype):
    x = step.input([64, 64], dtype)
    zero, one, end = (step.fresh() for _ in range(3))
    step.emit(f"{zero} = arith.constant 0 : index")
    step.emit(f"{one} = arith.constant 1 : index")
    step.emit(f"{end} = arith.constant 64 : index")
    limit = step.constant("1.0", dtype)
    y = loop(step, 64, [(step.constant("0.0", dtype), dtype)], [
        f"%u = scf.for %j = {zero} to {end} step {one} iter_args(%v = %t0) "
        f"-> ({dtype}) {{",
        f"  %x = tensor.extract {x.name}[%i, %j] : {x.type}",
        f"  %c = arith.cmpf ogt, %x, {limit} : {dtype}",
        f"  %w = scf.if %c -> ({dtype}) {{",
        f"    %s = arith.addf %v, %x : {dtype}",
        f"    scf.yield %s : {dtype}",
        "  } else {",
        f"    %d = arith.subf %v, %x : {dtype}",
        f"    scf.yield %d : {dtype}",
        "  }",
        f"  scf.yield %w : {dtype}",
        "}"], ["%u"], (), dtype)
    rng = random.Random(9)
    data = round_to([rng.uniform(0.75, 1.75) for _ in range(ROWS)], dtype)
    return y, [(x, data)], lambda v: [sum(a if a > 1 else -a for a in v)]


@form
def while_loop(step, dtype):
    x = step.input([ROWS], dtype)
    name, zero, one, end = (step.fresh() for _ in range(4))
    start = step.constant("0.0", dtype)
    step.emit(f"{zero} = arith.constant 0 : index")
    step.emit(f"{one} = arith.constant 1 : index")
    step.emit(f"{end} = arith.constant {ROWS} : index")
    step.emit(
        f"{name}:2 = scf.while (%i = {zero}, %s = {start}) : (index, {dtype}) "
        f"-> (index, {dtype}) {{\n"
        f"      %c = arith.cmpi slt, %i, {end} : index\n"
        f"      scf.condition(%c) %i, %s : index, {dtype}\n    }} do {{\n"
        f"    ^bb0(%i: index, %s: {dtype}):\n"
        f"      %x = tensor.extract {x.name}[%i] : {x.type}\n"
        f"      %u = arith.addf %s, %x : {dtype}\n"
        f"      %j = arith.addi %i, {one} : index\n"
        f"      scf.yield %j, %u : index, {dtype}\n    }}")
    y = step.result(f"tensor.from_elements {name}#1 : tensor<{dtype}>", (),
                    dtype, 1.0)
    return y, [(x, skewed(dtype))], lambda v: [sum(v)]


@form
def scatter_of_numbers(step, dtype):
    x, at = step.input([ROWS], dtype), step.input([ROWS], "i64", 0, 3)
    kind = f"tensor<3x{dtype}>"
    table = step.fill((3,), dtype, step.constant("0.0", dtype))
    y = loop(step, ROWS, [(table, kind)], [
        f"%r = tensor.extract {at.name}[%i] : {at.type}",
        "%j = arith.index_cast %r : i64 to index",
        f"%x = tensor.extract {x.name}[%i] : {x.type}",
        f"%o = tensor.extract %t0[%j] : {kind}",
        f"%s = arith.addf %o, %x : {dtype}",
        f"%u = tensor.insert %s into %t0[%j] : {kind}"], ["%u"], (3,), dtype)
    return y, [(x, skewed(dtype)), (at, places())], lambda v, k: [
        sum(a for a, b in zip(v, k) if b == row) for row in range(3)]


def places():
    rng = random.Random(11)
    return [rng.randrange(3) for _ in range(ROWS)]


ADD_ROWS = (
    "%s = linalg.generic {{indexing_maps = [affine_map<(d0) -> (d0)>, "
    "affine_map<(d0) -> (d0)>], iterator_types = [\"parallel\"]}} "
    "ins(%{0} : {row}) outs(%{1} : {row}) {{\n      ^bb0(%a: {dtype}, "
    "%b: {dtype}):\n        %c = arith.addf %a, %b : {dtype}\n        "
    "linalg.yield %c : {dtype}\n      }} -> {row}")


@form
def scatter_of_rows(step, dtype):
    """The gradient of an embedding."""
    x, at = step.input([ROWS, 2], dtype), step.input([ROWS], "i64", 0, 3)
    kind, row = f"tensor<3x2x{dtype}>", f"tensor<2x{dtype}>"
    table = step.fill((3, 2), dtype, step.constant("0.0", dtype))
    y = loop(step, ROWS, [(table, kind)], [
        f"%r = tensor.extract {at.name}[%i] : {at.type}",
        "%j = arith.index_cast %r : i64 to index",
        f"%x = tensor.extract_slice {x.name}[%i, 0] [1, 2] [1, 1] : {x.type} "
        f"to {row}",
        f"%o = tensor.extract_slice %t0[%j, 0] [1, 2] [1, 1] : {kind} to {row}",
        ADD_ROWS.format("x", "o", row=row, dtype=dtype),
        f"%u = tensor.insert_slice %s into %t0[%j, 0] [1, 2] [1, 1] : {row} "
        f"into {kind}"], ["%u"], (3, 2), dtype)
    return y, [(x, skewed(dtype, 2 * ROWS)), (at, places())], lambda v, k: [
        sum(v[2 * i + c] for i in range(ROWS) if k[i] == r)
        for r in range(3) for c in range(2)]


@form
def scan_of_rows(step, dtype):
    """cumsum: each row of the result is the one before and a row more."""
    x = step.input([ROWS, 2], dtype)
    row = f"tensor<2x{dtype}>"
    first = step.fresh()
    step.emit(f"{first} = tensor.extract_slice {x.name}[0, 0] [1, 2] [1, 1] : "
              f"{x.type} to {row}")
    start = step.fresh()
    step.emit(f"{start} = tensor.insert_slice {first} into "
              f"{step.empty((ROWS, 2), dtype)}[0, 0] [1, 2] [1, 1] : {row} "
              f"into {x.type}")
    y = loop(step, ROWS, [(start, x.type)], [
        "%one = arith.constant 1 : index",
        "%j = arith.subi %i, %one : index",
        f"%o = tensor.extract_slice %t0[%j, 0] [1, 2] [1, 1] : {x.type} to "
        f"{row}",
        f"%x = tensor.extract_slice {x.name}[%i, 0] [1, 2] [1, 1] : {x.type} "
        f"to {row}",
        ADD_ROWS.format("o", "x", row=row, dtype=dtype),
        f"%u = tensor.insert_slice %s into %t0[%i, 0] [1, 2] [1, 1] : {row} "
        f"into {x.type}"], ["%u"], (ROWS, 2), dtype, start=1)

    def exact(v):
        out = [0.0] * (2 * ROWS)
        for c, column in enumerate(columns(v, 2)):
            out[c::2] = running(column, lambda s, a: s + a, 0.0)
        return out
    return y, [(x, skewed(dtype, 2 * ROWS))], exact


def scan_of_numbers(step, dtype, op, start):
    x = step.input([ROWS], dtype)
    y = loop(step, ROWS,
             [(step.empty((ROWS,), dtype), x.type),
              (step.constant(start, dtype), dtype)], [
        f"%x = tensor.extract {x.name}[%i] : {x.type}",
        f"%s = arith.{op} %t1, %x : {dtype}",
        f"%u = tensor.insert %s into %t0[%i] : {x.type}"], ["%u", "%s"],
        (ROWS,), dtype)
    return x, y


@form
def running_sum(step, dtype):
    x, y = scan_of_numbers(step, dtype, "addf", "0.0")
    return y, [(x, skewed(dtype))], lambda v: running(
        v, lambda s, a: s + a, 0.0)


@form
def running_product(step, dtype):
    x, y = scan_of_numbers(step, dtype, "mulf", "1.0")
    return y, [(x, factors(dtype))], lambda v: running(
        v, lambda s, a: s * a, 1.0)


@form
def linear_recurrence(step, dtype):
    """h = a h + x, as state space models have it."""
    a, x = step.input([ROWS], dtype), step.input([ROWS], dtype)
    y = loop(step, ROWS, [(step.constant("0.0", dtype), dtype)], [
        f"%x = tensor.extract {x.name}[%i] : {x.type}",
        f"%a = tensor.extract {a.name}[%i] : {a.type}",
        f"%p = arith.mulf %a, %t0 : {dtype}",
        f"%s = arith.addf %p, %x : {dtype}"], ["%s"], (), dtype)
    decay = 1 - 2.0 ** -PRECISION[dtype]
    return y, [(a, [decay] * ROWS), (x, skewed(dtype))], lambda u, v: [
        running(list(zip(u, v)), lambda h, p: p[0] * h + p[1], 0.0)[-1]]


@form
def sum_of_exponentials_around_a_maximum(step, dtype):
    """The sum of a softmax in one pass: the largest so far, and what is
    added up in its unit."""
    x = step.input([ROWS], dtype)
    low = step.constant("-6.0e4", dtype)
    y = loop(step, ROWS,
             [(low, dtype), (step.constant("0.0", dtype), dtype)], [
        f"%x = tensor.extract {x.name}[%i] : {x.type}",
        f"%m = arith.maximumf %t0, %x : {dtype}",
        f"%d = arith.subf %t0, %m : {dtype}",
        f"%e = math.exp %d : {dtype}",
        f"%f = arith.mulf %t1, %e : {dtype}",
        f"%g = arith.subf %x, %m : {dtype}",
        f"%h = math.exp %g : {dtype}",
        f"%s = arith.addf %f, %h : {dtype}"], ["%m", "%s"], (), dtype, which=1)
    import math
    rng = random.Random(13)
    data = round_to([rng.uniform(-1.0, 0.0) for _ in range(ROWS)], dtype)
    return y, [(x, data)], lambda v: [
        sum(math.exp(a - max(v)) for a in v)]


@form
def generated_sums(step, dtype):
    """A loop in the body of a tensor.generate."""
    x = step.input([2, ROWS], dtype)
    zero, one, end = (step.fresh() for _ in range(3))
    step.emit(f"{zero} = arith.constant 0 : index")
    step.emit(f"{one} = arith.constant 1 : index")
    step.emit(f"{end} = arith.constant {ROWS} : index")
    start = step.constant("0.0", dtype)
    y = step.result(
        f"tensor.generate {{\n    ^bb0(%i: index):\n"
        f"      %s = scf.for %j = {zero} to {end} step {one} iter_args(%t = "
        f"{start}) -> ({dtype}) {{\n"
        f"        %x = tensor.extract {x.name}[%i, %j] : {x.type}\n"
        f"        %u = arith.addf %t, %x : {dtype}\n"
        f"        scf.yield %u : {dtype}\n      }}\n"
        f"      tensor.yield %s : {dtype}\n    }} : tensor<2x{dtype}>", (2,),
        dtype, 1.0)
    return y, [(x, skewed(dtype, 2 * ROWS))], lambda v: [
        sum(v[:ROWS]), sum(v[ROWS:])]


@form
def parallel_loop(step, dtype):
    x = step.input([ROWS], dtype)
    zero, one, end, name = (step.fresh() for _ in range(4))
    step.emit(f"{zero} = arith.constant 0 : index")
    step.emit(f"{one} = arith.constant 1 : index")
    step.emit(f"{end} = arith.constant {ROWS} : index")
    start = step.constant("0.0", dtype)
    step.emit(
        f"{name} = scf.parallel (%i) = ({zero}) to ({end}) step ({one}) "
        f"init ({start}) -> {dtype} {{\n"
        f"      %x = tensor.extract {x.name}[%i] : {x.type}\n"
        f"      scf.reduce(%x : {dtype}) {{\n"
        f"      ^bb0(%a: {dtype}, %b: {dtype}):\n"
        f"        %s = arith.addf %a, %b : {dtype}\n"
        f"        scf.reduce.return %s : {dtype}\n      }}\n    }}")
    y = step.result(f"tensor.from_elements {name} : tensor<{dtype}>", (),
                    dtype, 1.0)
    return y, [(x, skewed(dtype))], lambda v: [sum(v)]


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
            _, saved = tools.run_compiled(step, state, inputs, 1, directory,
                                          options)
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
        assert dtype in FLOATS
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
