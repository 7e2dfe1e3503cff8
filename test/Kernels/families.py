"""Random ops of every kind that a traced step may hold. Each function takes a
step, a random generator and the values so far, and returns new values (or None
where it finds nothing to work on)."""

from loops import (branch, convolution, lookup, lookup_computed, pooling, scan,
                   scatter)
from shapes import LARGEST, dims, pick, pick_shape, squash
from step import FLOATS, Value, count, tensor

# Elementwise.


def float_expression(rng, operands, dtype):
    """Lines of a body over (name, bound); the result's name and bound."""
    lines, values = [], list(operands)

    def op(text, bound):
        name = f"%t{len(lines)}"
        lines.append(f"{name} = {text} : {dtype}")
        return name, bound

    for _ in range(rng.randint(1, 5)):
        (x, bx), (y, by) = rng.choice(values), rng.choice(values)
        kind = rng.randrange(13)
        if kind == 0:
            new = op(f"math.tanh {x}", 1.0)
        elif kind == 1:
            new = op(f"arith.addf {x}, {y}", bx + by)
        elif kind == 2:
            new = op(f"arith.subf {x}, {y}", bx + by)
        elif kind == 3 and bx * by < 64:
            new = op(f"arith.mulf {x}, {y}", bx * by)
        elif kind == 4:
            new = op(f"arith.maximumf {x}, {y}", max(bx, by))
        elif kind == 5:
            new = op(f"arith.minimumf {x}, {y}", max(bx, by))
        elif kind == 6:
            new = op(f"arith.negf {x}", bx)
        elif kind == 7 and bx < 16:
            square, _ = op(f"arith.mulf {x}, {x}", bx * bx)
            c = f"%t{len(lines)}"
            lines.append(f"{c} = arith.constant 1.0 : {dtype}")
            total, _ = op(f"arith.addf {square}, {c}", 0)
            new = op(rng.choice([f"math.rsqrt {total}",
                                 f"arith.divf {y}, {total}"]), max(1.0, by))
        elif kind == 8:
            absolute, _ = op(f"math.absf {x}", bx)
            negative, _ = op(f"arith.negf {absolute}", bx)
            new = op(f"math.exp {negative}", 1.0)
        elif kind == 9 and bx < 32:
            new = op(f"math.{rng.choice(['sin', 'cos', 'erf'])} {x}", 1.0)
        elif kind == 10:
            absolute, _ = op(f"math.absf {x}", bx)
            new = op(rng.choice([f"math.sqrt {absolute}",
                                 f"math.log1p {absolute}"]), bx + 1)
        elif kind == 11:
            # Continuous where the condition changes.
            c = f"%t{len(lines)}"
            lines.append(f"{c} = arith.cmpf ogt, {x}, {y} : {dtype}")
            new = op(f"arith.select {c}, {x}, {y}", max(bx, by))
        else:
            new = op(f"math.copysign {x}, {y}", bx) if bx == by else (x, bx)
        values.append(new)
    name, bound = values[-1]
    if bound > 8:
        name, bound = op(f"math.tanh {name}", 1.0)
    return lines, name, bound


def integer_expression(rng, operands, dtype, index):
    lines, values = [], list(operands)

    def op(text):
        name = f"%t{len(lines)}"
        lines.append(f"{name} = {text}")
        return name

    if index is not None:
        i = op(f"linalg.index {index} : index")
        values.append(op(f"arith.index_cast {i} : index to {dtype}"))
    if not values:
        values.append(op(f"arith.constant 3 : {dtype}"))
    for _ in range(rng.randint(1, 4)):
        x, y = rng.choice(values), rng.choice(values)
        kind = rng.randrange(9)
        if kind < 3:
            name = ("addi", "subi", "muli")[kind]
            new = op(f"arith.{name} {x}, {y} : {dtype}")
        elif kind < 5:
            name = ("maxsi", "minsi")[kind - 3]
            new = op(f"arith.{name} {x}, {y} : {dtype}")
        elif kind < 7:
            # A divisor that is positive.
            one = op(f"arith.constant 1 : {dtype}")
            seven = op(f"arith.constant 7 : {dtype}")
            masked = op(f"arith.andi {y}, {seven} : {dtype}")
            divisor = op(f"arith.addi {masked}, {one} : {dtype}")
            name = rng.choice(["divsi", "remsi", "floordivsi"])
            new = op(f"arith.{name} {x}, {divisor} : {dtype}")
        elif kind == 7:
            c = op(f"arith.cmpi slt, {x}, {y} : {dtype}")
            new = op(f"arith.select {c}, {y}, {x} : {dtype}")
        else:
            new = op(f"arith.xori {x}, {y} : {dtype}")
        values.append(new)
    return lines, values[-1]


def elementwise(step, rng, values):
    """Operands transposed, broadcast, or of size 1 in a dimension."""
    first = pick(rng, values, lambda v: v.dtype != "i1" and len(v.shape) <= 4)
    if not first:
        return None
    # The loops are a permutation of the first operand's dimensions, sometimes
    # with one more.
    rank = len(first.shape)
    order = list(range(rank))
    rng.shuffle(order)
    loops = [0] * rank
    for dim, loop in enumerate(order):
        loops[loop] = first.shape[dim]
    first_map = dims(order)
    if rng.random() < 0.2 and count(loops) * 3 <= LARGEST:
        loops.append(3)
    inputs = [(first, first_map)]
    for _ in range(rng.randint(0, 3)):
        other = pick(rng, values,
                     lambda v: v.dtype == first.dtype and
                     all(s == 1 or s in loops for s in v.shape))
        if not other:
            continue
        used, expressions = set(), []
        for size in other.shape:
            free = [i for i, s in enumerate(loops)
                    if s == size and i not in used]
            if free and (size != 1 or rng.random() < 0.5):
                loop = rng.choice(free)
                used.add(loop)
                expressions.append(f"d{loop}")
            elif size == 1:
                expressions.append("0")
            else:
                expressions = None
                break
        if expressions is not None:
            inputs.append((other, expressions))
    permutation = list(range(len(loops)))
    if rng.random() < 0.3:
        rng.shuffle(permutation)
    shape = [loops[i] for i in permutation]
    out_map = dims(permutation)
    dtype = first.dtype
    results = rng.choice([1, 1, 1, 2])
    inits = [(step.empty(shape, dtype), out_map) for _ in range(results)]
    index = rng.randrange(len(loops)) if loops and rng.random() < 0.5 else None
    bounds = []

    def body(*args):
        lines, yielded = [], []
        for r in range(results):
            if dtype in FLOATS:
                part, name, bound = float_expression(
                    rng, [(a, v.bound) for a, (v, _) in zip(args, inputs)],
                    dtype)
            else:
                part, name = integer_expression(
                    rng, list(args[:len(inputs)]), dtype, index)
                bound = 1.0
            if r:
                part = [line.replace("%t", "%u") for line in part]
                name = name.replace("%t", "%u")
            bounds.append(bound)
            lines += part
            yielded.append(name)
        return lines, yielded

    # The bound is known once the body is.
    made = step.generic(len(loops), inputs, inits,
                        [(shape, dtype, 1.0)] * results, body)
    made = made if isinstance(made, list) else [made]
    for value, bound in zip(made, bounds):
        value.bound = bound
    return made


def compare(step, rng, values):
    """A mask, and a choice by it."""
    x = pick(rng, values, lambda v: v.leaf and v.dtype != "i1" and v.shape)
    if not x:
        return None
    loops = len(x.shape)
    mask = (lambda a, o: (
        [f"%c = arith.constant {'0.015' if x.is_float else '1'} : {x.dtype}",
         f"%r = arith.cmp{'f olt' if x.is_float else 'i slt'}, {a}, %c : "
         f"{x.dtype}"], ["%r"]))
    chosen = step.generic(
        loops, [(x, dims(range(loops)))],
        [(step.empty(x.shape, "i1"), dims(range(loops)))],
        [(x.shape, "i1", 1)], mask)
    zero = "0.0" if x.is_float else "0"
    masked = step.generic(
        loops, [(chosen, dims(range(loops))), (x, dims(range(loops)))],
        [(step.empty(x.shape, x.dtype), dims(range(loops)))],
        [(x.shape, x.dtype, x.bound)],
        lambda m, a, o: ([f"%z = arith.constant {zero} : {x.dtype}",
                          f"%r = arith.select {m}, %z, {a} : {x.dtype}"],
                         ["%r"]))
    return [chosen, masked]


def convert(step, rng, values):
    x = pick(rng, values, lambda v: v.dtype != "i1")
    if not x:
        return None
    targets = ["f32", "f64", "i64", "i32", "f32"]
    if x.dtype == "f32":
        targets += ["bf16", "f16"]
    to = rng.choice([t for t in targets if t != x.dtype])
    if x.is_float and to in FLOATS:
        wide = ("f16", "bf16", "f32", "f64")
        if {x.dtype, to} == {"f16", "bf16"}:
            return None
        op = "extf" if wide.index(to) > wide.index(x.dtype) else "truncf"
    elif x.is_float:
        if not x.leaf or x.dtype in ("f16", "bf16"):
            return None
        op = "fptosi"
    elif to in FLOATS:
        # Small numbers, so that they fit.
        if not x.leaf or to in ("f16", "bf16"):
            return None
        op = "sitofp"
    else:
        op = "extsi" if to == "i64" else "trunci"
        if x.dtype in ("i8", "i16"):
            op = "extsi"
    loops = len(x.shape)
    return [step.generic(
        loops, [(x, dims(range(loops)))],
        [(step.empty(x.shape, to), dims(range(loops)))],
        [(x.shape, to, x.bound)],
        lambda a, o: ([f"%r = arith.{op} {a} : {x.dtype} to {to}"], ["%r"]))]


# Reductions.


def reduction(step, rng, values):
    x = pick(rng, values, lambda v: v.shape and v.dtype != "i1" and
             v.dtype not in ("f16", "bf16"))
    if not x:
        return None
    loops = len(x.shape)
    reduced = sorted(rng.sample(range(loops), rng.randint(1, loops)))
    kept = [i for i in range(loops) if i not in reduced]
    rng.shuffle(kept)
    # Reduced dimensions stay as size 1, or go.
    out_map, shape = [], []
    keepdim = rng.random() < 0.3
    for i in kept:
        out_map.append(f"d{i}")
        shape.append(x.shape[i])
    if keepdim:
        at = rng.randint(0, len(shape))
        out_map.insert(at, "0")
        shape.insert(at, 1)
    n = count([x.shape[i] for i in reduced])
    dtype = x.dtype
    if x.is_float:
        kind = rng.choice(["addf", "addf", "maximumf", "minimumf", "maxnumf",
                           "minnumf", "square", "two"])
    else:
        kind = rng.choice(["addi", "maxsi", "minsi", "maxui", "minui", "ori",
                           "andi", "xori", "muli"])
    start = {"maximumf": "0xFF800000", "minimumf": "0x7F800000",
             "maxnumf": "0xFF800000", "minnumf": "0x7F800000", "maxsi": "-128",
             "minsi": "127", "andi": "-1", "muli": "1", "minui": "127"}.get(
                 kind, "0.0" if x.is_float else "0")
    if dtype == "f64" and start.startswith("0x"):
        start = {"0xFF800000": "0xFFF0000000000000",
                 "0x7F800000": "0x7FF0000000000000"}[start]
    if rng.random() < 0.3:
        start = "0.5" if x.is_float else "2"
    init = step.fill(shape, dtype, step.constant(start, dtype))
    if rng.random() < 0.2:
        other = pick(rng, values,
                     lambda v: v.dtype == dtype and v.shape == tuple(shape))
        init = other.name if other else init
    identity = dims(range(loops))
    if kind == "two":
        second = step.fill(shape, dtype, step.zero(dtype))
        made = step.generic(
            loops, [(x, identity)], [(init, out_map), (second, out_map)],
            [(shape, dtype, x.bound), (shape, dtype, n * x.bound + 1)],
            lambda a, o, p: ([f"%m = arith.maximumf {a}, {o} : {dtype}",
                              f"%s = arith.addf {a}, {p} : {dtype}"],
                             ["%m", "%s"]), reduced)
    else:
        op = {"square": "addf"}.get(kind, kind)
        lines = []
        if kind == "square":
            lines = [f"%q = arith.mulf %a0, %a0 : {dtype}"]
        operand = "%q" if kind == "square" else "%a0"
        flip = rng.random() < 0.5
        pair = f"%a1, {operand}" if flip else f"{operand}, %a1"
        bound = x.bound
        if op == "addf":
            bound = n * max(x.bound, x.bound**2) + 8
        made = step.generic(
            loops, [(x, identity)], [(init, out_map)],
            [(shape, dtype, bound)],
            lambda a, o: (lines + [f"%r = arith.{op} {pair} : {dtype}"],
                          ["%r"]), reduced)
    made = made if isinstance(made, list) else [made]
    return [squash(step, v) for v in made]


def argmax(step, rng, values):
    x = pick(rng, values, lambda v: v.leaf and v.shape and
             v.dtype in ("f32", "f64"))
    if not x:
        return None
    loops = len(x.shape)
    axis = rng.randrange(loops)
    kept = [i for i in range(loops) if i != axis]
    shape = [x.shape[i] for i in kept]
    low = "0xFF800000" if x.dtype == "f32" else "0xFFF0000000000000"
    best = step.fill(shape, x.dtype, step.constant(low, x.dtype))
    where = step.fill(shape, "i64", step.zero("i64"))
    return step.generic(
        loops, [(x, dims(range(loops)))],
        [(best, dims(kept)), (where, dims(kept))],
        [(shape, x.dtype, x.bound), (shape, "i64", 33)],
        lambda a, b, w: ([
            f"%i = linalg.index {axis} : index",
            "%j = arith.index_cast %i : index to i64",
            f"%m = arith.maximumf {a}, {b} : {x.dtype}",
            f"%g = arith.cmpf ogt, {a}, {b} : {x.dtype}",
            f"%n = arith.select %g, %j, {w} : i64"], ["%m", "%n"]), [axis])


# Contractions.


def contraction(step, rng, values):
    """A generic with up to two batch, m, n and k loops in any order."""
    a = pick(rng, values, lambda v: 1 <= len(v.shape) <= 4 and v.dtype in
             ("f32", "f64", "i64"))
    if not a:
        return None
    # Loops of A: each is batch, m or k.
    loops, sizes = [], []
    for size in a.shape:
        loops.append(rng.choice("bmk"))
        sizes.append(size)
    a_map = list(range(len(loops)))
    for _ in range(rng.randint(0, 2)):
        loops.append("n")
        sizes.append(rng.choice((1, 2, 3, 5, 8)))
    if "k" not in loops or count(sizes) > 16 * LARGEST:
        return None
    b_loops = [i for i, kind in enumerate(loops) if kind in "bkn"]
    c_loops = [i for i, kind in enumerate(loops) if kind in "bmn"]
    rng.shuffle(b_loops)
    rng.shuffle(c_loops)
    b_shape = [sizes[i] for i in b_loops]
    shape = [sizes[i] for i in c_loops]
    if count(b_shape) > LARGEST or count(shape) > LARGEST:
        return None
    b = pick(rng, values, lambda v: v.dtype == a.dtype and
             v.shape == tuple(b_shape)) or step.input(b_shape, a.dtype)
    init = step.fill(shape, a.dtype, step.zero(a.dtype))
    if rng.random() < 0.3:
        other = pick(rng, values, lambda v: v.dtype == a.dtype and
                     v.shape == tuple(shape))
        init = other.name if other else init
    f = "f" if a.is_float else "i"
    k = count([s for s, kind in zip(sizes, loops) if kind == "k"])
    product = step.generic(
        len(loops), [(a, dims(a_map)), (b, dims(b_loops))],
        [(init, dims(c_loops))],
        [(shape, a.dtype, k * a.bound * b.bound + 8)],
        lambda x, y, o: ([f"%p = arith.mul{f} {x}, {y} : {a.dtype}",
                          f"%r = arith.add{f} {o}, %p : {a.dtype}"], ["%r"]),
        [i for i, kind in enumerate(loops) if kind == "k"])
    if rng.random() < 0.4 and len(shape) > 1:
        product = transpose_of(step, rng, product)
    return [squash(step, product)]


def named_matmul(step, rng, values):
    a = pick(rng, values, lambda v: v.dtype == "f32" and len(v.shape) in (2, 3))
    if not a:
        return None
    n = rng.choice((1, 3, 8, 17))
    *batch, m, k = a.shape
    b = step.input([*batch, k, n])
    shape = [*batch, m, n]
    init = step.fill(shape, "f32", step.zero("f32"))
    name = "batch_matmul" if batch else "matmul"
    kind = tensor(shape, "f32")
    return [squash(step, step.result(
        f"linalg.{name} ins({a.name}, {b.name} : {a.type}, {b.type}) "
        f"outs({init} : {kind}) -> {kind}", shape, "f32", k * a.bound + 1))]


# Views and copies.


def transpose_of(step, rng, x):
    order = list(range(len(x.shape)))
    rng.shuffle(order)
    shape = [x.shape[i] for i in order]
    return step.result(
        f"linalg.transpose ins({x.name} : {x.type}) "
        f"outs({step.empty(shape, x.dtype)} : {tensor(shape, x.dtype)}) "
        f"permutation = {order}", shape, x.dtype, x.bound)


def transpose(step, rng, values):
    x = pick(rng, values, lambda v: len(v.shape) > 1)
    return [transpose_of(step, rng, x)] if x else None


def reshape(step, rng, values):
    x = pick(rng, values, lambda v: v.shape)
    if not x:
        return None
    if rng.random() < 0.5 and len(x.shape) > 1:
        # Neighbours become one.
        groups, at = [], 0
        while at < len(x.shape):
            n = rng.randint(1, len(x.shape) - at)
            groups.append(list(range(at, at + n)))
            at += n
        shape = [count([x.shape[i] for i in g]) for g in groups]
        return [step.result(
            f"tensor.collapse_shape {x.name} {groups} : {x.type} into "
            f"{tensor(shape, x.dtype)}", shape, x.dtype, x.bound)]
    groups, shape = [], []
    for size in x.shape:
        group = [size]
        for factor in (2, 3, 5, 1):
            if size % factor == 0 and rng.random() < 0.4 and len(shape) < 4:
                group = [factor, size // factor]
                rng.shuffle(group)
                break
        groups.append(list(range(len(shape), len(shape) + len(group))))
        shape += group
    return [step.result(
        f"tensor.expand_shape {x.name} {groups} output_shape {shape} : "
        f"{x.type} into {tensor(shape, x.dtype)}", shape, x.dtype, x.bound)]


def extract_slice(step, rng, values):
    x = pick(rng, values, lambda v: v.shape)
    if not x:
        return None
    offsets, sizes, strides, shape = [], [], [], []
    for size in x.shape:
        stride = rng.choice([1, 1, 1, 2]) if size > 2 else 1
        n = rng.randint(1, (size + stride - 1) // stride)
        offset = rng.randint(0, size - (n - 1) * stride - 1)
        if rng.random() < 0.4:
            n, offset, stride = size, 0, 1
        offsets.append(offset)
        sizes.append(n)
        strides.append(stride)
        if n != 1 or rng.random() < 0.6:
            shape.append(n)
    return [step.result(
        f"tensor.extract_slice {x.name}{offsets} {sizes} {strides} : {x.type} "
        f"to {tensor(shape, x.dtype)}", shape, x.dtype, x.bound)]


def insert_slice(step, rng, values):
    x = pick(rng, values, lambda v: v.shape)
    if not x:
        return None
    into = pick(rng, values, lambda v: v.dtype == x.dtype and
                len(v.shape) == len(x.shape) and
                all(a <= b for a, b in zip(x.shape, v.shape)))
    offsets = [rng.randint(0, b - a) for a, b in zip(x.shape, into.shape)]
    return [step.result(
        f"tensor.insert_slice {x.name} into {into.name}{offsets} "
        f"{list(x.shape)} {[1] * len(x.shape)} : {x.type} into {into.type}",
        into.shape, x.dtype, max(x.bound, into.bound))]


def pad(step, rng, values):
    x = pick(rng, values, lambda v: v.shape)
    if not x:
        return None
    low = [rng.randint(0, 2) for _ in x.shape]
    high = [rng.randint(0, 2) for _ in x.shape]
    shape = [a + b + c for a, b, c in zip(low, x.shape, high)]
    if count(shape) > LARGEST:
        return None
    args = ", ".join(f"%x{i}: index" for i in range(len(shape)))
    zero = step.zero(x.dtype)
    return [step.result(
        f"tensor.pad {x.name} low{low} high{high} {{\n    ^bb0({args}):\n"
        f"      tensor.yield {zero} : {x.dtype}\n    }} : {x.type} to "
        f"{tensor(shape, x.dtype)}", shape, x.dtype, x.bound)]


def concat(step, rng, values):
    x = pick(rng, values, lambda v: v.shape)
    if not x:
        return None
    axis = rng.randrange(len(x.shape))
    parts = [x]
    for _ in range(rng.randint(1, 2)):
        other = pick(rng, values, lambda v: v.dtype == x.dtype and
                     len(v.shape) == len(x.shape) and all(
                         a == b or i == axis
                         for i, (a, b) in enumerate(zip(v.shape, x.shape))))
        parts.append(other)
    shape = list(x.shape)
    shape[axis] = sum(p.shape[axis] for p in parts)
    if count(shape) > LARGEST:
        return None
    kind = tensor(shape, x.dtype)
    name = step.fresh()
    # Upstream does not bufferize tensor.concat.
    lines, current, at = [], f"{name}_0", 0
    lines.append(f"{current} = tensor.empty() : {kind}")
    for i, part in enumerate(parts):
        offsets = [0] * len(shape)
        offsets[axis] = at
        at += part.shape[axis]
        new = name if i + 1 == len(parts) else f"{name}_{i + 1}"
        lines.append(
            f"{new} = tensor.insert_slice {part.name} into {current}{offsets} "
            f"{list(part.shape)} {[1] * len(shape)} : {part.type} into {kind}")
        current = new
    step.emit(f"{name} = tensor.concat dim({axis}) "
              f"{', '.join(p.name for p in parts)} : "
              f"({', '.join(p.type for p in parts)}) -> {kind}",
              "\n    ".join(lines))
    return [Value(name, shape, x.dtype, max(p.bound for p in parts))]


# The whole.

FAMILIES = (
    [elementwise] * 8 + [reduction] * 5 + [contraction] * 4 +
    [named_matmul, transpose, transpose, reshape, reshape, reshape,
     extract_slice, extract_slice, insert_slice, pad, concat, compare, convert,
     convert, argmax, lookup, lookup, lookup_computed, scatter, scan, branch,
     convolution, pooling])


def grow(step, rng, ops):
    """Adds `ops` random ops to an empty step and makes their results visible."""
    # What is computed from parameters alone may not be a result of the step.
    factor = step.input([])
    values = []
    for _ in range(3):
        param = step.param(pick_shape(rng, 1, 4))
        loops = len(param.shape)
        values.append(step.generic(
            loops, [(param, dims(range(loops))), (factor, [])],
            [(step.empty(param.shape, "f32"), dims(range(loops)))],
            [(param.shape, "f32", 1.0)],
            lambda a, b, o: (["%r = arith.mulf %a0, %a1 : f32"], ["%r"])))
    values += [step.input(pick_shape(rng, 0, 4)) for _ in range(3)]
    values.append(step.input(pick_shape(rng, 0, 3), rng.choice(
        ["i64", "i32", "i16", "i8", "f64"])))
    values.append(step.argument("buffer", pick_shape(rng, 0, 3), "i64"))
    made = []
    while len(made) < ops:
        # Recent values are more interesting.
        near = values if rng.random() < 0.4 else values[-8:]
        new = rng.choice(FAMILIES)(step, rng, near)
        for value in new or []:
            values.append(value)
            made.append(value)
    # What others read is not always kept.
    text = "\n".join(line for line, _ in step.lines)
    for value in made:
        used = text.count(value.name + " ") + text.count(value.name + ",") > 1
        if not used or rng.random() < 0.3:
            step.keep(value)
    loss = pick(rng, made, lambda v: v.dtype == "f32") or values[0]
    loops = len(loss.shape)
    scale = step.constant(repr(1.0 / count(loss.shape)), "f32")
    zero = step.fill((), "f32", step.zero("f32"))
    step.loss = step.generic(
        loops, [(loss, dims(range(loops)))], [(zero, [])], [((), "f32", 1.0)],
        lambda a, o: ([f"%m = arith.mulf {a}, {scale} : f32",
                       f"%r = arith.addf {o}, %m : f32"], ["%r"]),
        range(loops))
    step.finish()
