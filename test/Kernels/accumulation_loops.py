"""Loops that accumulate: scf.for, scf.while, scf.parallel, tensor.generate."""

import random

from accumulation_forms import (PRECISION, ROWS, columns, exact_matmul,
                                factors, form, round_to, running, skewed)


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
