"""Random lookups, scatters, scans, branches and windows: as families.py."""

from step import Value, count, tensor
from shapes import LARGEST, dims, pick, pick_shape, squash

# Lookups and loops.


def lookup(step, rng, values):
    """Rows by number, with the guards an exporter writes."""
    table = pick(rng, values, lambda v: len(v.shape) in (1, 2))
    if not table:
        return None
    shape = pick_shape(rng, 1, 2)
    if count(shape) * table.shape[-1] > LARGEST:
        return None
    rows = step.input(shape, rng.choice(["i64", "i32"]), 0, table.shape[0])
    loops = len(shape) + len(table.shape) - 1
    out = shape + list(table.shape[1:])
    guarded = rng.random() < 0.6
    extra = ", %k" if len(table.shape) == 2 else ""

    def body(i, o):
        lines = [f"%r = arith.index_cast {i} : {rows.dtype} to index"]
        if extra:
            lines.append(f"%k = linalg.index {loops - 1} : index")
        if guarded:
            lines += [f"%n = arith.constant {table.shape[0]} : index",
                      "%l = arith.cmpi slt, %r, %n : index",
                      'cf.assert %l, "row out of range"']
        lines.append(f"%v = tensor.extract {table.name}[%r{extra}] : "
                     f"{table.type}")
        return lines, ["%v"]

    return [step.generic(
        loops, [(rows, dims(range(len(shape))))],
        [(step.empty(out, table.dtype), dims(range(loops)))],
        [(out, table.dtype, table.bound)], body)]


def lookup_computed(step, rng, values):
    """Elements at places computed from loop numbers: reversed, or shifted."""
    x = pick(rng, values, lambda v: v.shape)
    if not x:
        return None
    loops = len(x.shape)
    order = list(range(loops))
    rng.shuffle(order)
    shape = [x.shape[i] for i in order]
    where = rng.randrange(loops)

    def body(o):
        lines = [f"%x{i} = linalg.index {i} : index" for i in range(loops)]
        names = ["?"] * loops
        for loop, dim in enumerate(order):
            names[dim] = f"%x{loop}"
        last = x.shape[where] - 1
        lines += [f"%n = arith.constant {last} : index",
                  f"%q = arith.subi %n, {names[where]} : index"]
        names[where] = "%q"
        lines.append(f"%v = tensor.extract {x.name}[{', '.join(names)}] : "
                     f"{x.type}")
        return lines, ["%v"]

    return [step.generic(
        loops, [], [(step.empty(shape, x.dtype), dims(range(loops)))],
        [(shape, x.dtype, x.bound)], body)]


def scatter(step, rng, values):
    """Rows added to a table, in a loop; sometimes into zeros that are added to
    another table."""
    x = pick(rng, values, lambda v: len(v.shape) in (1, 2) and
             v.dtype in ("f32", "f64"))
    if not x:
        return None
    n = rng.choice((1, 4, 9))
    shape = [n] + list(x.shape[1:])
    table = tensor(shape, x.dtype)
    rows = step.input([x.shape[0]], "i64", 0, n)
    other = pick(rng, values, lambda v: v.dtype == x.dtype and
                 v.shape == tuple(shape))
    start = step.fill(shape, x.dtype, step.zero(x.dtype))
    name, zero, one, end = (step.fresh() for _ in range(4))
    step.emit(f"{zero} = arith.constant 0 : index")
    step.emit(f"{one} = arith.constant 1 : index")
    step.emit(f"{end} = arith.constant {x.shape[0]} : index")
    head = (f"{name} = scf.for %i = {zero} to {end} step {one} "
            f"iter_args(%t = {start}) -> ({table}) {{\n"
            f"      %r = tensor.extract {rows.name}[%i] : {rows.type}\n"
            f"      %j = arith.index_cast %r : i64 to index\n")
    if len(shape) == 1:
        body = (f"      %x = tensor.extract {x.name}[%i] : {x.type}\n"
                f"      %o = tensor.extract %t[%j] : {table}\n"
                f"      %s = arith.addf %o, %x : {x.dtype}\n"
                f"      %u = tensor.insert %s into %t[%j] : {table}\n")
    else:
        d = shape[1]
        row = f"tensor<{d}x{x.dtype}>"
        body = (
            f"      %x = tensor.extract_slice {x.name}[%i, 0] [1, {d}] [1, 1] "
            f": {x.type} to {row}\n"
            f"      %o = tensor.extract_slice %t[%j, 0] [1, {d}] [1, 1] : "
            f"{table} to {row}\n"
            f"      %s = linalg.generic {{indexing_maps = ["
            f"affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], "
            f'iterator_types = ["parallel"]}} ins(%x : {row}) outs(%o : {row}) '
            f"{{\n      ^bb0(%a: {x.dtype}, %b: {x.dtype}):\n"
            f"        %c = arith.addf %a, %b : {x.dtype}\n"
            f"        linalg.yield %c : {x.dtype}\n      }} -> {row}\n"
            f"      %u = tensor.insert_slice %s into %t[%j, 0] [1, {d}] [1, 1] "
            f": {row} into {table}\n")
    step.emit(head + body + f"      scf.yield %u : {table}\n    }}")
    made = Value(name, shape, x.dtype, x.shape[0] * x.bound)
    if other:
        loops = len(shape)
        made = step.generic(
            loops, [(made, dims(range(loops))), (other, dims(range(loops)))],
            [(step.empty(shape, x.dtype), dims(range(loops)))],
            [(shape, x.dtype, made.bound + other.bound)],
            lambda a, b, o: ([f"%r = arith.addf {a}, {b} : {x.dtype}"],
                             ["%r"]))
    return [squash(step, made)]


def scan(step, rng, values):
    """Sums of the first elements, and the last sum."""
    x = pick(rng, values, lambda v: len(v.shape) == 1 and
             v.dtype in ("f32", "i64"))
    if not x:
        return None
    zero, one, end, name = (step.fresh() for _ in range(4))
    step.emit(f"{zero} = arith.constant 0 : index")
    step.emit(f"{one} = arith.constant 1 : index")
    step.emit(f"{end} = arith.constant {x.shape[0]} : index")
    start, first = step.empty(x.shape, x.dtype), step.zero(x.dtype)
    add = "addf" if x.is_float else "addi"
    step.emit(
        f"{name}:2 = scf.for %i = {zero} to {end} step {one} iter_args(%t = "
        f"{start}, %s = {first}) -> ({x.type}, {x.dtype}) {{\n"
        f"      %x = tensor.extract {x.name}[%i] : {x.type}\n"
        f"      %n = arith.{add} %s, %x : {x.dtype}\n"
        f"      %u = tensor.insert %n into %t[%i] : {x.type}\n"
        f"      scf.yield %u, %n : {x.type}, {x.dtype}\n    }}")
    return [squash(step, Value(f"{name}#0", x.shape, x.dtype,
                               x.bound * x.shape[0]))]


def branch(step, rng, values):
    x = pick(rng, values, lambda v: v.dtype in ("f32", "i64"))
    flag = step.input([], "i64", 0, 2)
    if not x:
        return None
    f, zero, c, name = (step.fresh() for _ in range(4))
    step.emit(f"{f} = tensor.extract {flag.name}[] : tensor<i64>")
    step.emit(f"{zero} = arith.constant 0 : i64")
    step.emit(f"{c} = arith.cmpi eq, {f}, {zero} : i64")
    maps = f"affine_map<({', '.join(dims(range(len(x.shape))))}) -> " \
           f"({', '.join(dims(range(len(x.shape))))})>"
    iterators = ", ".join(['"parallel"'] * len(x.shape))
    add = "addf" if x.is_float else "addi"
    e = step.empty(x.shape, x.dtype)
    step.emit(
        f"{name} = scf.if {c} -> ({x.type}) {{\n"
        f"      %d = linalg.generic {{indexing_maps = [{maps}, {maps}], "
        f"iterator_types = [{iterators}]}} ins({x.name} : {x.type}) "
        f"outs({e} : {x.type}) {{\n"
        f"      ^bb0(%a: {x.dtype}, %o: {x.dtype}):\n"
        f"        %r = arith.{add} %a, %a : {x.dtype}\n"
        f"        linalg.yield %r : {x.dtype}\n      }} -> {x.type}\n"
        f"      scf.yield %d : {x.type}\n"
        f"    }} else {{\n      scf.yield {x.name} : {x.type}\n    }}")
    return [squash(step, Value(name, x.shape, x.dtype, 2 * x.bound))]


# Windows.


def convolution(step, rng, values):
    x = pick(rng, values, lambda v: len(v.shape) == 4 and v.dtype == "f32" and
             v.shape[2] >= 3 and v.shape[3] >= 3)
    if not x:
        return None
    n, c, h, w = x.shape
    f = rng.choice((1, 3))
    kernel = step.input([f, c, 2, 3])
    s = rng.choice((1, 2))
    shape = [n, f, (h - 2) // s + 1, (w - 3) // s + 1]
    init = step.fill(shape, "f32", step.zero("f32"))
    kind = tensor(shape, "f32")
    return [squash(step, step.result(
        f"linalg.conv_2d_nchw_fchw {{dilations = dense<1> : tensor<2xi64>, "
        f"strides = dense<{s}> : tensor<2xi64>}} ins({x.name}, {kernel.name} : "
        f"{x.type}, {kernel.type}) outs({init} : {kind}) -> {kind}", shape,
        "f32", 6 * c * x.bound))]


def pooling(step, rng, values):
    x = pick(rng, values, lambda v: len(v.shape) == 4 and v.dtype == "f32" and
             v.shape[2] >= 2 and v.shape[3] >= 2)
    if not x:
        return None
    n, c, h, w = x.shape
    shape = [n, c, h - 1, w - 1]
    kind, start = rng.choice([("sum", "0.0"), ("max", "0xFF800000")])
    init = step.fill(shape, "f32", step.constant(start, "f32"))
    window = step.empty([2, 2], "f32")
    out = tensor(shape, "f32")
    return [squash(step, step.result(
        f"linalg.pooling_nchw_{kind} {{dilations = dense<1> : tensor<2xi64>, "
        f"strides = dense<1> : tensor<2xi64>}} ins({x.name}, {window} : "
        f"{x.type}, tensor<2x2xf32>) outs({init} : {out}) -> {out}", shape,
        "f32", 4 * x.bound))]
