"""Steps written by hand, of products that do more than multiply on CUDA devices: they add biases and residuals
(fsdp-fuse-epilogues), and hand each other matrices whose rows are longer than their elements fill (fsdp-pitch-rows)."""

from cases import case, dims, mapped, product, reduced
from step import tensor


def cast(step, value, dtype):
    if value.dtype == dtype:
        return value
    op = "extf" if dtype == "f32" else "truncf"
    return mapped(step, [value], dtype, [f"%r = arith.{op} %a0 : {value.dtype} to {dtype}"])


def multiply(step, a, b, sizes, a_loops, b_loops):
    """In the operands' type, summed in f32."""
    if a.dtype == "f32":
        return product(step, a, b, sizes, a_loops, b_loops, [0, 1], [2])
    init = step.fill(sizes[:2], "f32", step.zero("f32"))
    maps = ", ".join(f"affine_map<(d0, d1, d2) -> (d{loops[0]}, d{loops[1]})>" for loops in (a_loops, b_loops, [0, 1]))
    kind = tensor(sizes[:2], "f32")
    wide = step.result(f"linalg.matmul indexing_maps = [{maps}] ins({a.name}, {b.name} : {a.type}, {b.type}) "
                       f"outs({init} : {kind}) -> {kind}", sizes[:2], "f32", 8)
    return cast(step, wide, a.dtype)


def add_rows_between_products(step, rows, columns, dtype, features=32):
    """A product's rows, exp(x - max) / sum of them, and two products of that."""
    x, w = step.input([rows, features], dtype), step.input([columns, features], dtype)
    y = cast(step, multiply(step, x, w, [rows, columns, features], [0, 2], [1, 2]), "f32")
    shape = [rows, columns]

    def over_rows(value, row, lines):
        return step.generic(2, [(value, dims(2)), (row, ["d0"])], [(step.empty(shape, "f32"), dims(2))],
                            [(shape, "f32", 1.0)], lambda a, b, o: (lines, ["%r"]))

    e = over_rows(y, reduced(step, y, "maximumf", "0xFF800000", [1]),
                  ["%s = arith.subf %a0, %a1 : f32", "%r = math.exp %s : f32"])
    p = over_rows(e, reduced(step, e, "addf", "0.0", [1]), ["%r = arith.divf %a0, %a1 : f32"])
    p = cast(step, p, dtype)
    step.keep(multiply(step, p, w, [rows, features, columns], [0, 2], [2, 1]))
    step.keep(multiply(step, p, x, [columns, features, rows], [2, 0], [2, 1]))


@case
def rows_between_products(step):
    # The last vector of a row has 3 of 4 f32, and 3 of 8 bf16.
    for dtype in ("f32", "bf16"):
        add_rows_between_products(step, 40, 1003, dtype)


@case
def products_in_parts(step):
    # 1003 columns are 1000 and 3 of cuBLASLt's, of so many operations that it pays.
    add_rows_between_products(step, 2048, 1003, "bf16", 136)


@case
def rows_between_products_that_the_step_returns(step):
    # What lies in the checkpoint has no longer rows; nor has what a copy reads.
    x, w = step.input([24, 32]), step.input([131, 32])
    y = product(step, x, w, [24, 131, 32], [0, 2], [1, 2], [0, 1], [2])
    step.keep(y)
    step.keep(product(step, y, w, [24, 32, 131], [0, 2], [2, 1], [0, 1], [2]))


def add_residual_block(step, x, dtype, rows, features):
    """x + tanh(x) w + b: what the product depends on is added to it."""
    w, b = step.input([features, features], dtype), step.input([features], dtype)
    h = mapped(step, [x], dtype, [f"%r = math.tanh %a0 : {dtype}"])
    y = multiply(step, h, w, [rows, features, features], [0, 2], [2, 1])
    y = step.generic(2, [(y, dims(2)), (b, ["d1"])], [(step.empty([rows, features], dtype), dims(2))],
                     [([rows, features], dtype, 8)], lambda u, v, o: ([f"%r = arith.addf {u}, {v} : {dtype}"], ["%r"]))
    return mapped(step, [x, y], dtype, [f"%r = arith.addf %a0, %a1 : {dtype}"])


@case
def products_that_add_biases_and_residuals(step):
    for dtype in ("f32", "bf16"):
        # Rows of 20 bf16 begin at multiples of 8 bytes: a residual that has longer ones, and one that has not.
        for features in (24, 20, 140):
            x = mapped(step, [step.input([40, features], dtype)], dtype, [f"%r = arith.negf %a0 : {dtype}"])
            x = add_residual_block(step, x, dtype, 40, features)
            x = add_residual_block(step, x, dtype, 40, features)
            step.keep(mapped(step, [x], dtype, [f"%r = arith.mulf %a0, %a0 : {dtype}"]))


def tanh_of(step, x):
    return mapped(step, [x], x.dtype, [f"%r = math.tanh %a0 : {x.dtype}"])


def add(step, x, y):
    return mapped(step, [x, y], x.dtype, [f"%r = arith.addf %a0, %a1 : {x.dtype}"])


def add_bias(step, y, bias):
    n = len(y.shape)
    return step.generic(n, [(y, dims(n)), (bias, [f"d{n - 1}"])], [(step.empty(y.shape, y.dtype), dims(n))],
                        [(y.shape, y.dtype, 8)], lambda u, v, o: ([f"%r = arith.addf {u}, {v} : {y.dtype}"], ["%r"]))


@case
def batched_products_that_add(step):
    x, w, b = tanh_of(step, step.input([3, 8, 6])), step.input([3, 6, 6]), step.input([6])
    y = product(step, tanh_of(step, x), w, [3, 8, 6, 6], [0, 1, 3], [0, 3, 2], [0, 1, 2], [3])
    step.keep(tanh_of(step, add(step, add_bias(step, y, b), x)))


@case
def scaled_products_that_add(step):
    # The scale is the product's, what is added is not scaled; a scale after the addition is a loop's.
    x, w, b = tanh_of(step, step.input([8, 6])), step.input([6, 6]), step.input([6])
    half = ["%c = arith.constant 0.5 : f32", "%r = arith.mulf %a0, %c : f32"]
    y = mapped(step, [multiply(step, tanh_of(step, x), w, [8, 6, 6], [0, 2], [2, 1])], "f32", half)
    step.keep(tanh_of(step, mapped(step, [add(step, add_bias(step, y, b), x)], "f32", half)))


@case
def sums_of_products_that_are_transposed(step):
    x, w, b = step.input([6, 6]), step.input([6, 6]), step.input([6])
    y = add_bias(step, multiply(step, x, w, [6, 6, 6], [0, 2], [2, 1]), b)
    step.keep(tanh_of(step, step.generic(2, [(y, ["d1", "d0"])], [(step.empty([6, 6], "f32"), dims(2))],
                                         [([6, 6], "f32", 8)], lambda a, o: ([], [a]))))


@case
def addends_that_kernels_make(step):
    # Of a cheap function of a product, of a factor, of a slice that no strides describe, of rows that are too long, and
    # of rows that the step returns.
    x = step.input([48, 48])
    w = step.input([48, 48])
    h = mapped(step, [multiply(step, x, w, [48, 48, 48], [0, 2], [2, 1])], "f32", ["%r = arith.negf %a0 : f32"])
    step.keep(tanh_of(step, add(step, multiply(step, tanh_of(step, h), w, [48, 48, 48], [0, 2], [2, 1]), h)))
    factor = tanh_of(step, x)
    step.keep(tanh_of(step, add(step, multiply(step, factor, w, [48, 48, 48], [0, 2], [2, 1]), factor)))
    whole = tanh_of(step, step.input([4, 6]))
    step.keep(whole)
    piece = step.result(f"tensor.extract_slice {whole.name}[0, 0] [4, 3] [1, 1] : {whole.type} to tensor<4x3xf32>",
                        [4, 3], "f32", 1)
    row = step.result(f"tensor.collapse_shape {piece.name} [[0, 1]] : tensor<4x3xf32> into tensor<12xf32>", [12], "f32", 1)
    pairs = step.result(f"tensor.expand_shape {row.name} [[0, 1]] output_shape [6, 2] : tensor<12xf32> into tensor<6x2xf32>",
                        [6, 2], "f32", 1)
    step.keep(tanh_of(step, add(step, multiply(step, tanh_of(step, pairs), step.input([2, 2]), [6, 2, 2], [0, 2], [2, 1]),
                                pairs)))
    rows = tanh_of(step, step.input([40, 141]))
    step.keep(rows)
    step.keep(tanh_of(step, add(step, multiply(step, tanh_of(step, rows), step.input([141, 141]), [40, 141, 141], [0, 2],
                                               [2, 1]), rows)))


@case
def products_of_one_row_or_column_that_add(step):
    for dtype in ("f32", "f64", "bf16"):
        for m, n, k in ((1, 6, 5), (8, 1, 5), (8, 6, 1)):
            x, w, b = step.input([m, k], dtype), step.input([k, n], dtype), step.input([n], dtype)
            y = product(step, x, w, [m, n, k], [0, 2], [2, 1], [0, 1], [2], dtype=dtype)
            step.keep(tanh_of(step, add_bias(step, y, b)))
