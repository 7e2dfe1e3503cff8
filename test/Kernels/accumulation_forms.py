"""Structured ops that accumulate, each with inputs and its exact result."""

import random

from step import decode, encode

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
