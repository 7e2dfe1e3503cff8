"""Steps written by hand whose tensors are made of pieces, or are read in pieces, by loop kernels."""

from cases import case, dims, mapped, reduced
from step import Value, tensor


def sliced(step, x, offsets, sizes):
    ones = [1] * len(sizes)
    return step.result(f"tensor.extract_slice {x.name}{list(offsets)} {list(sizes)} {ones} : {x.type} to "
                       f"{tensor(sizes, x.dtype)}", list(sizes), x.dtype, 1)


def inserted(step, piece, into, offsets):
    """`into` is a name."""
    shape, kind, ones = piece.shape, piece.type, [1] * len(piece.shape)
    return lambda whole: step.result(
        f"tensor.insert_slice {piece.name} into {into}{list(offsets)} {list(shape)} {ones} : {kind} into "
        f"{tensor(whole, piece.dtype)}", list(whole), piece.dtype, 1)


def concatenated(step, pieces, axis):
    shape = list(pieces[0].shape)
    shape[axis] = sum(p.shape[axis] for p in pieces)
    whole, name, last = tensor(shape, pieces[0].dtype), step.fresh(), step.fresh()
    lines, at = [f"{last} = tensor.empty() : {whole}"], 0
    for number, piece in enumerate(pieces):
        offsets = [at if i == axis else 0 for i in range(len(shape))]
        result = name if number == len(pieces) - 1 else step.fresh()
        lines.append(f"{result} = tensor.insert_slice {piece.name} into {last}{offsets} {list(piece.shape)} "
                     f"{[1] * len(shape)} : {piece.type} into {whole}")
        last, at = result, at + piece.shape[axis]
    step.emit(f"{name} = tensor.concat dim({axis}) {', '.join(p.name for p in pieces)} : "
              f"({', '.join(p.type for p in pieces)}) -> {whole}", "\n    ".join(lines))
    return Value(name, shape, pieces[0].dtype)


def negated(step, x):
    return mapped(step, [x], x.dtype, [f"%r = arith.negf %a0 : {x.dtype}"])


def times(step, x, table):
    """A table [positions, head] for every head of x [heads, positions, head]."""
    return step.generic(3, [(x, dims(3)), (table, ["d1", "d2"])], [(step.empty(x.shape, x.dtype), dims(3))],
                        [(x.shape, x.dtype, 1.0)],
                        lambda a, b, o: ([f"%r = arith.mulf {a}, {b} : {x.dtype}"], ["%r"]))


def plus(step, x, y):
    return mapped(step, [x, y], x.dtype, [f"%r = arith.addf %a0, %a1 : {x.dtype}"])


@case
def rotary_embedding_and_its_gradient(step):
    for dtype, heads, positions, head in (("f32", 4, 16, 64), ("bf16", 3, 40, 128), ("f32", 2, 9, 6)):
        half = head // 2
        shape = [heads, positions, head]
        # Positions first, as a product makes it.
        made = step.input([positions, heads, head], dtype)
        x = step.generic(3, [(made, ["d1", "d0", "d2"])], [(step.empty(shape, dtype), dims(3))],
                         [(shape, dtype, 1.0)], lambda a, o: ([], [a]))
        cos, sin = step.input([positions, head], dtype), step.input([positions, head], dtype)
        low, high = (sliced(step, x, [0, 0, at], [heads, positions, half]) for at in (0, half))
        turned = concatenated(step, [negated(step, high), low], 2)
        step.keep(plus(step, times(step, x, cos), times(step, turned, sin)))
        grad = step.input(shape, dtype)
        scaled = times(step, grad, sin)
        low, high = (sliced(step, scaled, [0, 0, at], [heads, positions, half]) for at in (0, half))
        zeros = step.fill(shape, dtype, step.constant("0.0", dtype))
        back = plus(step, inserted(step, negated(step, low), zeros, [0, 0, half])(shape),
                    inserted(step, high, zeros, [0, 0, 0])(shape))
        step.keep(plus(step, back, times(step, grad, cos)))


@case
def pieces_that_are_inserted_one_after_the_other(step):
    for rows, part in ((24, 16), (7, 33)):
        whole = [rows, 3 * part]
        zeros = step.fill(whole, "f32", step.constant("0.0", "f32"))
        value = None
        for at in (2, 0, 1):
            piece = mapped(step, [step.input([rows, part])], "f32", ["%r = math.exp %a0 : f32"])
            value = inserted(step, piece, value.name if value else zeros, [0, at * part])(whole)
        step.keep(value)
        step.keep(reduced(step, value, "addf", "0.0", [1]))


@case
def pieces_along_each_dimension(step):
    for axis in (0, 1, 2):
        pieces = [step.input([4, 6, 10]) for _ in range(4)]
        both = concatenated(step, pieces, axis)
        step.keep(mapped(step, [both], "f32", ["%r = math.tanh %a0 : f32"]))
        step.keep(reduced(step, both, "maximumf", "0xFF800000", [2]))


@case
def halves_of_a_biased_product_meet(step):
    # A gate that takes slices of what is computed, and a number of the column.
    for dtype, rows, half in (("f32", 20, 48), ("bf16", 33, 72)):
        x, bias = step.input([rows, 2 * half], dtype), step.input([2 * half], dtype)
        biased = step.generic(
            2, [(x, dims(2)), (bias, ["d1"])], [(step.empty(x.shape, dtype), dims(2))], [(x.shape, dtype, 1.0)],
            lambda a, b, o: (["%i = linalg.index 1 : index", "%n = arith.index_cast %i : index to i64",
                              f"%f = arith.sitofp %n : i64 to {dtype}", f"%s = arith.addf {a}, {b} : {dtype}",
                              f"%c = arith.constant 1.0e-2 : {dtype}", f"%g = arith.mulf %f, %c : {dtype}",
                              f"%r = arith.addf %s, %g : {dtype}"], ["%r"]))
        low, high = sliced(step, biased, [0, 0], [rows, half]), sliced(step, biased, [0, half], [rows, half])
        step.keep(mapped(step, [low, high], dtype, [f"%t = math.tanh %a0 : {dtype}",
                                                    f"%r = arith.mulf %t, %a1 : {dtype}"]))


@case
def slices_that_begin_anywhere(step):
    # Their vectors begin at no multiple of their size.
    for dtype in ("f32", "bf16"):
        x = step.input([16, 80], dtype)
        for at in (1, 3, 8):
            part = sliced(step, x, [0, at], [16, 64])
            step.keep(mapped(step, [part, step.input([16, 64], dtype)], dtype,
                             [f"%r = arith.mulf %a0, %a1 : {dtype}"]))


@case
def rows_that_are_scaled_by_sums_of_others(step):
    for rows, columns, others in ((40, 96, [40, 96]), (33, 64, [33, 8, 8]), (48, 50, [48, 50])):
        x, y = step.input([rows, columns]), step.input(others)
        total = reduced(step, x, "addf", "0.0", [1])
        factor = mapped(step, [total], "f32", ["%r = math.tanh %a0 : f32"])
        n = len(others)
        step.keep(step.generic(n, [(y, dims(n)), (factor, ["d0"])], [(step.empty(others, "f32"), dims(n))],
                               [(others, "f32", 1.0)],
                               lambda a, b, o: ([f"%r = arith.mulf {a}, {b} : f32"], ["%r"])))
    # Rows of the one lie across those of the other.
    x, y = step.input([64, 40]), step.input([40, 64])
    total = reduced(step, x, "maximumf", "0xFF800000", [0])
    step.keep(step.generic(2, [(y, dims(2)), (total, ["d0"])], [(step.empty([40, 64], "f32"), dims(2))],
                           [([40, 64], "f32", 1.0)],
                           lambda a, b, o: ([f"%r = arith.subf {a}, {b} : f32"], ["%r"])))
