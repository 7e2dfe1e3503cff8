"""Steps written by hand: one for each form of op that has been, or could be,
compiled wrongly."""

from step import FLOATS, Step, Value, tensor

REGISTERED = {}


def case(function):
    def make():
        step = Step()
        function(step)
        step.param([3])
        step.finish()
        return step

    REGISTERED[function.__name__] = make
    return function


def get_cases():
    return dict(REGISTERED)


def dims(n):
    return [f"d{i}" for i in range(n)]


def mapped(step, inputs, dtype, lines, result="%r"):
    """An elementwise op over whole operands of one shape."""
    shape = inputs[0].shape
    identity = dims(len(shape))
    return step.generic(
        len(shape), [(v, identity) for v in inputs],
        [(step.empty(shape, dtype), identity)], [(shape, dtype, 1.0)],
        lambda *args: (lines, [result]))


def reduced(step, x, op, start, axes, out_map=None, dtype=None):
    dtype = dtype or x.dtype
    kept = [i for i in range(len(x.shape)) if i not in axes]
    shape = [x.shape[i] for i in kept]
    init = step.fill(shape, dtype, step.constant(start, dtype))
    return step.generic(
        len(x.shape), [(x, dims(len(x.shape)))],
        [(init, out_map or [f"d{i}" for i in kept])], [(shape, dtype, 1.0)],
        lambda a, o: ([f"%r = arith.{op} {o}, {a} : {dtype}"], ["%r"]), axes)


def keep_nonfinite(step, x):
    """Keeps what no checkpoint holds: x where it is finite, else 0, and beside
    it which element is NaN (1), infinite (2) or its negative (3)."""
    lines = [f"%zero = arith.constant 0.0 : {x.dtype}",
             f"%diff = arith.subf %a0, %a0 : {x.dtype}",
             f"%finite = arith.cmpf oeq, %diff, %zero : {x.dtype}"]
    step.keep(mapped(step, [x], x.dtype, lines + [
        f"%r = arith.select %finite, %a0, %zero : {x.dtype}"]))
    step.keep(mapped(step, [x], "i8", lines + [
        "%c0 = arith.constant 0 : i8", "%c1 = arith.constant 1 : i8",
        "%c2 = arith.constant 2 : i8", "%c3 = arith.constant 3 : i8",
        f"%nan = arith.cmpf uno, %a0, %a0 : {x.dtype}",
        f"%above = arith.cmpf ogt, %a0, %zero : {x.dtype}",
        "%sign = arith.select %above, %c2, %c3 : i8",
        "%kind = arith.select %nan, %c1, %sign : i8",
        "%r = arith.select %finite, %c0, %kind : i8"]))


# Elements.


@case
def integer_division_of_odd_sizes(step):
    # Lanes that do not exist must not divide by zero.
    for dtype in ("i64", "i32", "i8"):
        for shape in ([5], [33], [3, 7]):
            x = step.input(shape, dtype, -9, 10)
            y = step.input(shape, dtype, 1, 5)
            for op in ("divsi", "remsi", "divui", "remui", "floordivsi",
                       "ceildivsi"):
                step.keep(mapped(step, [x, y], dtype,
                                 [f"%r = arith.{op} %a0, %a1 : {dtype}"]))


@case
def division_by_loop_number(step):
    x = step.input([37], "i64", -9, 10)
    step.keep(mapped(step, [x], "i64", [
        "%i = linalg.index 0 : index", "%n = arith.constant 37 : index",
        "%d = arith.subi %n, %i : index",
        "%c = arith.index_cast %d : index to i64",
        "%r = arith.remsi %a0, %c : i64"]))


@case
def body_op_of_two_results(step):
    x = step.input([9], "i32", -9, 10)
    y = step.input([9], "i32", -9, 10)
    for result in ("%r#0", "%r#1"):
        step.keep(mapped(step, [x, y], "i32", [
            "%r:2 = arith.mulsi_extended %a0, %a1 : i32"], result))


@case
def loop_number_in_few_bits(step):
    # Numbers that wrap around in 8 bits, and are widened again.
    x = step.input([200], "i64")
    step.keep(mapped(step, [x], "i64", [
        "%i = linalg.index 0 : index",
        "%n = arith.index_cast %i : index to i8",
        "%w = arith.extsi %n : i8 to i64",
        "%r = arith.addi %w, %a0 : i64"]))


@case
def loop_numbers_in_arithmetic(step):
    x = step.input([6, 40], "i64")
    step.keep(mapped(step, [x], "i64", [
        "%i = linalg.index 0 : index", "%j = linalg.index 1 : index",
        "%c = arith.constant 40 : index", "%m = arith.muli %i, %c : index",
        "%s = arith.addi %m, %j : index",
        "%t = arith.subi %s, %i : index",
        "%q = arith.subi %c, %j : index",
        "%p = arith.muli %t, %q : index",
        "%n = arith.index_cast %p : index to i64",
        "%b = arith.cmpi sgt, %i, %j : index",
        "%r = arith.select %b, %n, %a0 : i64"]))


@case
def math_functions(step):
    functions = ("absf", "acos", "acosh", "asin", "asinh", "atan", "atanh",
                 "cbrt", "ceil", "cos", "cosh", "erf", "erfc", "exp", "exp2",
                 "expm1", "floor", "log", "log10", "log1p", "log2", "round",
                 "roundeven", "rsqrt", "sin", "sinh", "sqrt", "tan", "tanh",
                 "trunc")
    for dtype in FLOATS:
        x = step.input([19], dtype)
        for function in functions:
            # Arguments that all functions have a value for.
            shift = {"acosh": "2.25", "log": "1.5", "log10": "1.5",
                     "log2": "1.5", "rsqrt": "1.5", "sqrt": "1.5",
                     "log1p": "0.5"}.get(function, "0.0")
            scale = "0.5" if function in ("acos", "asin", "atanh") else "1.0"
            step.keep(mapped(step, [x], dtype, [
                f"%c = arith.constant {shift} : {dtype}",
                f"%k = arith.constant {scale} : {dtype}",
                f"%m = arith.mulf %a0, %k : {dtype}",
                f"%s = arith.addf %m, %c : {dtype}",
                f"%r = math.{function} %s : {dtype}"]))


@case
def math_functions_of_two(step):
    for dtype in ("f32", "f64", "bf16"):
        x = step.input([19], dtype)
        y = step.input([19], dtype)
        for function in ("atan2", "copysign", "powf"):
            step.keep(mapped(step, [x, y], dtype, [
                f"%c = arith.constant 1.5 : {dtype}",
                f"%s = arith.addf %a0, %c : {dtype}",
                f"%r = math.{function} %s, %a1 : {dtype}"]))
        step.keep(mapped(step, [x, y], dtype, [
            f"%r = math.fma %a0, %a1, %a0 : {dtype}"]))
        keep_nonfinite(step, mapped(step, [x, y], dtype, [
            f"%r = arith.remf %a0, %a0 : {dtype}"]))


@case
def powers_with_whole_exponents(step):
    x = step.input([19])
    e = step.input([19], "i32", 0, 4)
    step.keep(mapped(step, [x, e], "f32", [
        "%r = math.fpowi %a0, %a1 : f32, i32"]))
    n = step.input([19], "i64", -3, 4)
    m = step.input([19], "i64", 0, 4)
    step.keep(mapped(step, [n, m], "i64", ["%r = math.ipowi %a0, %a1 : i64"]))


@case
def bits(step):
    for dtype in ("i64", "i32", "i8"):
        x = step.input([19], dtype, -99, 100)
        y = step.input([19], dtype, 0, 7)
        for op in ("andi", "ori", "xori", "shli", "shrsi", "shrui"):
            step.keep(mapped(step, [x, y], dtype, [
                f"%r = arith.{op} %a0, %a1 : {dtype}"]))
        for op in ("math.absi", "math.ctpop", "math.ctlz", "math.cttz"):
            step.keep(mapped(step, [x], dtype, [f"%r = {op} %a0 : {dtype}"]))


@case
def conversions(step):
    for dtype in ("i64", "i32", "i16", "i8", "i1"):
        x = step.input([19], dtype, 0, 2 if dtype == "i1" else 100)
        for to in FLOATS:
            step.keep(mapped(step, [x], to, [
                f"%r = arith.uitofp %a0 : {dtype} to {to}"]))
        if dtype != "i64":
            for op in ("extsi", "extui"):
                step.keep(mapped(step, [x], "i64", [
                    f"%r = arith.{op} %a0 : {dtype} to i64"]))
    for dtype in FLOATS:
        x = step.input([19], dtype)
        step.keep(mapped(step, [x], "i64", [
            f"%r = arith.fptosi %a0 : {dtype} to i64"]))
    x = step.input([19], "f64")
    for to in ("f32", "f16", "bf16"):
        step.keep(mapped(step, [x], to, [
            f"%r = arith.truncf %a0 : f64 to {to}"]))


@case
def not_a_number(step):
    x = step.result("arith.constant dense<[0x7FC00000, 1.0, -2.0, 0x7F800000, "
                    "0xFF800000, -0.0, 3.0]> : tensor<7xf32>", [7], "f32", 1)
    y = step.input([7])
    for op in ("maximumf", "minimumf", "maxnumf", "minnumf", "addf"):
        keep_nonfinite(step, mapped(step, [x, y], "f32", [
            f"%r = arith.{op} %a0, %a1 : f32"]))
    for predicate in ("olt", "ult", "oeq", "une", "uno", "ord"):
        step.keep(mapped(step, [x, y], "i1", [
            f"%r = arith.cmpf {predicate}, %a0, %a1 : f32"]))
    keep_nonfinite(step, reduced(step, x, "maximumf", "0xFF800000", [0]))
    keep_nonfinite(step, reduced(step, x, "maxnumf", "0xFF800000", [0]))
    keep_nonfinite(step, reduced(step, x, "minnumf", "0x7F800000", [0]))


@case
def constants_that_are_no_splats(step):
    flags = step.result("arith.constant dense<[true, false, false, true, true]>"
                        " : tensor<5xi1>", [5], "i1", 1)
    for dtype in FLOATS:
        x = step.input([5], dtype)
        c = step.result(f"arith.constant dense<[1.0, 2.5, -3.0, 0.0, 4.0]> : "
                        f"tensor<5x{dtype}>", [5], dtype, 4)
        step.keep(step.generic(
            1, [(flags, ["d0"]), (x, ["d0"]), (c, ["d0"])],
            [(step.empty([5], dtype), ["d0"])], [((5,), dtype, 1)],
            lambda f, a, b, o: ([f"%r = arith.select {f}, {a}, {b} : {dtype}"],
                                ["%r"])))


@case
def scalars(step):
    x = step.input([])
    y = mapped(step, [x], "f32", ["%r = math.tanh %a0 : f32"])
    step.keep(y)
    s, n = step.fresh(), step.fresh()
    step.emit(f"{s} = tensor.extract {y.name}[] : tensor<f32>")
    step.emit(f"{n} = arith.negf {s} : f32")
    v = step.input([17])
    step.keep(mapped(step, [v], "f32", [f"%r = arith.mulf %a0, {n} : f32"]))
    step.keep(step.result(f"tensor.from_elements {n} : tensor<f32>", [],
                          "f32", 1))
    step.keep(step.result(f"tensor.splat {n} : tensor<4x5xf32>", [4, 5],
                          "f32", 1))
    step.keep(Value(step.fill([7], "f32", n), [7], "f32"))


@case
def whole_tensors(step):
    # As compilers other than torch-mlir write elementwise ops.
    x, y = step.input([5, 9]), step.input([5, 9])
    one = step.input([], "f32")
    kind, bits = x.type, tensor([5, 9], "i1")

    def op(text, dtype="f32", shape=(5, 9)):
        return step.result(text, shape, dtype, 1.0)

    total = op(f"arith.addf {x.name}, {y.name} : {kind}")
    constant = op(f"arith.constant dense<0.5> : {kind}")
    less = op(f"arith.cmpf olt, {total.name}, {constant.name} : {kind}", "i1")
    chosen = op(f"arith.select {less.name}, {x.name}, {constant.name} : "
                f"{bits}, {kind}")
    step.keep(op(f"math.tanh {chosen.name} : {kind}"))
    step.keep(less)
    narrow = op(f"arith.truncf {total.name} : {kind} to tensor<5x9xbf16>",
                "bf16")
    step.keep(op(f"arith.extf {narrow.name} : tensor<5x9xbf16> to {kind}"))
    # One of rank 0, and a scalar that chooses between tensors.
    root = op(f"math.exp {one.name} : tensor<f32>", shape=())
    step.keep(root)
    s, positive = step.fresh(), step.fresh()
    step.emit(f"{s} = tensor.extract {root.name}[] : tensor<f32>")
    step.emit(f"{positive} = arith.cmpf ogt, {s}, {s} : f32")
    step.keep(op(f"arith.select {positive}, {x.name}, {y.name} : {kind}"))
    # Its operand is an argument that is read again.
    step.keep(op(f"arith.mulf {x.name}, {x.name} : {kind}"))
    spread = op(f"tensor.splat {s} : {kind}")
    step.keep(op(f"arith.divf {y.name}, {spread.name} : {kind}"))


@case
def init_that_the_body_reads(step):
    x = step.input([9])
    y = step.input([9])
    step.keep(step.generic(
        1, [(x, ["d0"])], [(y.name, ["d0"])], [((9,), "f32", 1)],
        lambda a, o: ([f"%r = arith.mulf {a}, {o} : f32"], ["%r"])))


# Reductions.


@case
def combiners(step):
    for dtype in ("f32", "f64", "bf16", "f16"):
        x = step.input([3, 45], dtype)
        for op, start in (("addf", "0.0"), ("addf", "0.5"), ("mulf", "1.0"),
                          ("maximumf", "-8.0"), ("minimumf", "8.0"),
                          ("maxnumf", "-8.0"), ("minnumf", "8.0")):
            for axes in ([0], [1], [0, 1]):
                step.keep(reduced(step, x, op, start, axes))
    for dtype in ("i64", "i32", "i8", "i1"):
        x = step.input([3, 45], dtype, 0, 2 if dtype == "i1" else 3)
        zero, one = ("false", "true") if dtype == "i1" else ("0", "1")
        ops = [("addi", zero), ("muli", one), ("andi", one), ("ori", zero),
               ("xori", zero), ("maxui", zero), ("minui", one)]
        if dtype != "i1":
            ops += [("maxsi", "-9"), ("minsi", "9"), ("addi", "5")]
        for op, start in ops:
            for axes in ([0], [1], [0, 1]):
                step.keep(reduced(step, x, op, start, axes))


@case
def reduction_of_size_one(step):
    x = step.input([7, 1])
    y = step.input([7])
    init = step.fill([7], "f32", step.constant("0.5", "f32"))
    for start in (init, y.name):
        step.keep(step.generic(
            2, [(x, dims(2))], [(start, ["d0"])], [((7,), "f32", 1)],
            lambda a, o: ([f"%r = arith.addf {a}, {o} : f32"], ["%r"]), [1]))


def add_softmax(step, shape):
    """With its gradient."""
    x = step.input(shape)
    top = reduced(step, x, "maximumf", "0xFF800000", [1])
    e = step.generic(
        2, [(x, dims(2)), (top, ["d0"])], [(step.empty(shape, "f32"),
                                            dims(2))],
        [(shape, "f32", 1)],
        lambda a, m, o: ([f"%d = arith.subf {a}, {m} : f32",
                          "%r = math.exp %d : f32"], ["%r"]))
    total = reduced(step, e, "addf", "0.0", [1])
    p = step.generic(
        2, [(e, dims(2)), (total, ["d0"])], [(step.empty(shape, "f32"),
                                              dims(2))],
        [(shape, "f32", 1)],
        lambda a, s, o: ([f"%r = arith.divf {a}, {s} : f32"], ["%r"]))
    g = step.input(shape)
    gp = mapped(step, [g, p], "f32", ["%r = arith.mulf %a0, %a1 : f32"])
    inner = reduced(step, gp, "addf", "0.0", [1])
    step.keep(step.generic(
        2, [(gp, dims(2)), (p, dims(2)), (inner, ["d0"])],
        [(step.empty(shape, "f32"), dims(2))], [(shape, "f32", 1)],
        lambda a, b, s, o: ([f"%q = arith.mulf {b}, {s} : f32",
                             f"%r = arith.subf {a}, %q : f32"], ["%r"])))
    step.keep(p)


@case
def softmax_and_its_gradient(step):
    add_softmax(step, [6, 21])


@case
def largest_and_where(step):
    for shape, axis in (([5, 37], 1), ([37, 5], 0), ([40], 0)):
        x = step.input(shape)
        kept = [i for i in range(len(shape)) if i != axis]
        out = [shape[i] for i in kept]
        best = step.fill(out, "f32", step.constant("0xFF800000", "f32"))
        where = step.fill(out, "i64", step.zero("i64"))
        values = step.generic(
            len(shape), [(x, dims(len(shape)))],
            [(best, [f"d{i}" for i in kept]),
             (where, [f"d{i}" for i in kept])],
            [(out, "f32", 1), (out, "i64", 40)],
            lambda a, b, w: ([
                f"%i = linalg.index {axis} : index",
                "%j = arith.index_cast %i : index to i64",
                f"%g = arith.cmpf ogt, {a}, {b} : f32",
                f"%m = arith.select %g, {a}, {b} : f32",
                f"%n = arith.select %g, %j, {w} : i64"], ["%m", "%n"]), [axis])
        for value in values:
            step.keep(value)


# Contractions.


def product(step, a, b, sizes, a_loops, b_loops, c_loops, reduction, lines=(),
            pair=("%a0", "%a1"), dtype="f32"):
    shape = [sizes[i] for i in c_loops]
    init = step.fill(shape, dtype, step.zero(dtype))
    maps = [[f"d{i}" for i in loops] for loops in (a_loops, b_loops, c_loops)]
    return step.generic(
        len(sizes), [(a, maps[0]), (b, maps[1])], [(init, maps[2])],
        [(shape, dtype, 8)],
        lambda x, y, o: (list(lines) + [
            f"%p = arith.mulf {pair[0]}, {pair[1]} : {dtype}",
            f"%r = arith.addf {o}, %p : {dtype}"], ["%r"]), reduction)


@case
def contraction_of_functions(step):
    # A function of an operand is no matrix product.
    a, b = step.input([5, 7]), step.input([7, 6])
    for function in ("math.tanh", "arith.negf", "math.exp"):
        step.keep(product(step, a, b, [5, 6, 7], [0, 2], [2, 1], [0, 1], [2],
                          [f"%f = {function} %a0 : f32"], ("%f", "%a1")))
    step.keep(product(step, a, b, [5, 6, 7], [0, 2], [2, 1], [0, 1], [2], [],
                      ("%a0", "%a0")))


@case
def product_with_a_loop_of_one_operand(step):
    # Both loops of one operand are summed over, one of the other's.
    a, b, c = step.input([5, 6, 7]), step.input([7]), step.input([4, 7])
    step.keep(product(step, a, b, [5, 6, 7], [0, 1, 2], [2], [0], [1, 2]))
    step.keep(product(step, b, a, [5, 6, 7], [2], [0, 1, 2], [0], [1, 2]))
    step.keep(product(step, a, c, [5, 4, 6, 7], [0, 2, 3], [1, 3], [0, 1],
                      [2, 3]))


@case
def products_of_every_type(step):
    for dtype in FLOATS:
        a, b = step.input([5, 7], dtype), step.input([7, 6], dtype)
        step.keep(product(step, a, b, [5, 6, 7], [0, 2], [2, 1], [0, 1], [2],
                          dtype=dtype))
    a, b = step.input([5, 7], "i64"), step.input([7, 6], "i64")
    init = step.fill([5, 6], "i64", step.zero("i64"))
    step.keep(step.result(
        f"linalg.matmul ins({a.name}, {b.name} : {a.type}, {b.type}) "
        f"outs({init} : tensor<5x6xi64>) -> tensor<5x6xi64>", [5, 6], "i64", 9))


@case
def products_of_mixed_types(step):
    a, b = step.input([5, 7], "bf16"), step.input([7, 6], "bf16")
    init = step.fill([5, 6], "f32", step.zero("f32"))
    step.keep(step.result(
        f"linalg.matmul ins({a.name}, {b.name} : {a.type}, {b.type}) "
        f"outs({init} : tensor<5x6xf32>) -> tensor<5x6xf32>", [5, 6], "f32", 9))


@case
def products_of_vectors(step):
    a, m, b = step.input([7]), step.input([7, 5]), step.input([5])
    init = step.fill([5], "f32", step.zero("f32"))
    step.keep(step.result(
        f"linalg.vecmat ins({a.name}, {m.name} : {a.type}, {m.type}) "
        f"outs({init} : tensor<5xf32>) -> tensor<5xf32>", [5], "f32", 9))
    init = step.fill([7], "f32", step.zero("f32"))
    step.keep(step.result(
        f"linalg.matvec ins({m.name}, {b.name} : {m.type}, {b.type}) "
        f"outs({init} : tensor<7xf32>) -> tensor<7xf32>", [7], "f32", 9))
    c = step.input([7])
    init = step.fill([], "f32", step.zero("f32"))
    step.keep(step.result(
        f"linalg.dot ins({a.name}, {c.name} : {a.type}, {c.type}) "
        f"outs({init} : tensor<f32>) -> tensor<f32>", [], "f32", 9))


@case
def product_added_to_a_tensor(step):
    # The tensor is read again behind it.
    a, b, c = step.input([5, 7]), step.input([7, 6]), step.input([5, 6])
    d = mapped(step, [c], "f32", ["%r = math.tanh %a0 : f32"])
    e = step.result(
        f"linalg.matmul ins({a.name}, {b.name} : {a.type}, {b.type}) "
        f"outs({d.name} : {d.type}) -> {d.type}", [5, 6], "f32", 9)
    step.keep(e)
    step.keep(mapped(step, [d, e], "f32", ["%r = arith.subf %a0, %a1 : f32"]))


@case
def product_of_broadcasts_and_slices(step):
    # One row for all, and every second column.
    row, b = step.input([1, 7]), step.input([7, 12])
    wide = step.result(
        f"tensor.collapse_shape {row.name} [[0, 1]] : {row.type} into "
        f"tensor<7xf32>", [7], "f32", 1)
    a = step.generic(2, [(wide, ["d1"])], [(step.empty([5, 7], "f32"),
                                            dims(2))],
                     [((5, 7), "f32", 1)], lambda x, o: ([], [x]))
    even = step.result(
        f"tensor.extract_slice {b.name}[0, 1] [7, 6] [1, 2] : {b.type} to "
        f"tensor<7x6xf32>", [7, 6], "f32", 1)
    step.keep(product(step, a, even, [5, 6, 7], [0, 2], [2, 1], [0, 1], [2]))


# What a step returns.


@case
def results_that_are_slices_and_constants(step):
    x = step.input([6, 8])
    y = mapped(step, [x], "f32", ["%r = math.tanh %a0 : f32"])
    for source in (x, y):
        for offsets, sizes, strides, shape in (
                ([1, 2], [3, 5], [1, 1], [3, 5]), ([0, 3], [6, 1], [1, 1], [6]),
                ([0, 0], [3, 4], [2, 2], [3, 4])):
            value = step.result(
                f"tensor.extract_slice {source.name}{offsets} {sizes} "
                f"{strides} : {source.type} to {tensor(shape, 'f32')}", shape,
                "f32", 1)
            step.update(step.argument("buffer", shape), value)
            step.gradient(step.param(shape), value)
    four = step.result(
        f"tensor.extract_slice {y.name}[0, 0] [4, 4] [1, 1] : {y.type} to "
        "tensor<4x4xf32>", [4, 4], "f32", 1)
    step.gradient(step.param([16]), step.result(
        f"tensor.collapse_shape {four.name} [[0, 1]] : {four.type} into "
        "tensor<16xf32>", [16], "f32", 1))
    ones = Value(step.fill([5], "f32", step.constant("1.0", "f32")), [5], "f32")
    step.gradient(step.param([5]), ones)
    step.update(step.argument("buffer", [5]), ones)
    step.update(step.argument("buffer", [3], "i64"), step.result(
        "arith.constant dense<[3, 1, 2]> : tensor<3xi64>", [3], "i64", 3))


@case
def results_that_are_arguments(step):
    x = step.input([6])
    step.update(step.argument("buffer", [6]), x)
    step.gradient(step.param([6]), x)
    b = step.argument("buffer", [6])
    step.update(b, b)


@case
def one_value_returned_twice(step):
    x = step.input([6])
    y = mapped(step, [x], "f32", ["%r = math.tanh %a0 : f32"])
    step.update(step.argument("buffer", [6]), y)
    step.update(step.argument("buffer", [6]), y)
    step.gradient(step.param([6]), y)


@case
def buffers_that_swap(step):
    a, b = step.argument("buffer", [6]), step.argument("buffer", [6])
    step.update(a, b)
    step.update(b, a)


@case
def buffers_that_move_on(step):
    # A history: each takes the value of the one before it.
    x = step.input([6])
    a, b, c = (step.argument("buffer", [6]) for _ in range(3))
    new = mapped(step, [a, x], "f32", ["%r = arith.addf %a0, %a1 : f32"])
    step.update(a, new)
    step.update(b, a)
    step.update(c, b)


@case
def buffer_that_another_reads_in_the_same_kernel(step):
    x = step.input([40])
    last, total = (step.argument("buffer", [40]) for _ in range(2))
    new = mapped(step, [x], "f32", ["%r = math.tanh %a0 : f32"])
    step.update(last, new)
    step.update(total, mapped(step, [total, last, new], "f32", [
        "%s = arith.addf %a0, %a1 : f32", "%r = arith.subf %s, %a2 : f32"]))


def with_lines(step, values, lines, axis, op):
    """Each value with what was reduced over @axis on its line."""
    return step.generic(
        2, [(values, dims(2)), (lines, [f"d{1 - axis}"])],
        [(step.empty(values.shape, "f32"), dims(2))],
        [(values.shape, "f32", 3)],
        lambda v, r, o: ([f"%r = arith.{op} {v}, {r} : f32"], ["%r"]))


@case
def buffers_written_behind_sums(step):
    # Running means: of rows, and of columns, which lie side by side.
    for shape, axis in (([6, 40], 1), ([40, 37], 0), ([5, 3], 0), ([37, 3], 1)):
        x = step.input(shape)
        sums = reduced(step, x, "addf", "0.0", [axis])
        running = step.argument("buffer", sums.shape)
        step.update(running, mapped(step, [running, sums], "f32", [
            "%h = arith.addf %a0, %a1 : f32", "%r = arith.mulf %h, %h : f32"]))
        step.keep(with_lines(step, x, sums, axis, "subf"))


@case
def buffers_read_again_behind_sums(step):
    # In one of them what is written comes last, and may lie where it is read.
    for last in (False, True):
        b = step.argument("buffer", [6, 40])
        twice = mapped(step, [b], "f32", ["%r = arith.addf %a0, %a0 : f32"])
        most = reduced(step, b, "maximumf", "-100.0", [1])
        powers = mapped(step, [with_lines(step, b, most, 1, "subf")], "f32",
                        ["%r = math.exp %a0 : f32"])
        sums = reduced(step, powers, "addf", "0.0", [1])
        parts = with_lines(step, powers, sums, 1, "divf")
        step.update(b, parts if last else twice)
        step.keep(twice if last else parts)


@case
def buffers_that_sums_start_from(step):
    # They are no results, and must not be written.
    a, b = step.input([5, 7]), step.input([7, 6])
    bias = step.argument("buffer", [5, 6])
    step.keep(step.result(
        f"linalg.matmul ins({a.name}, {b.name} : {a.type}, {b.type}) "
        f"outs({bias.name} : {bias.type}) -> {bias.type}", [5, 6], "f32", 9))
    table = step.argument("buffer", [6, 4])
    row = step.input([1, 4])
    step.keep(step.result(
        f"tensor.insert_slice {row.name} into {table.name}[2, 0] [1, 4] "
        f"[1, 1] : {row.type} into {table.type}", [6, 4], "f32", 1))


@case
def buffer_added_to_its_transpose(step):
    b = step.argument("buffer", [40, 40])
    double = mapped(step, [b], "f32", ["%r = arith.addf %a0, %a0 : f32"])
    step.update(b, step.generic(
        2, [(b, dims(2)), (double, ["d1", "d0"])],
        [(step.empty([40, 40], "f32"), dims(2))], [((40, 40), "f32", 3)],
        lambda x, y, o: ([f"%r = arith.subf {x}, {y} : f32"], ["%r"])))


# Loops and branches.


@case
def loop_until(step):
    x = step.input([8])
    n = step.input([], "i64", 1, 6)
    count, zero, one, name = (step.fresh() for _ in range(4))
    step.emit(f"{count} = tensor.extract {n.name}[] : tensor<i64>")
    step.emit(f"{zero} = arith.constant 0 : i64")
    step.emit(f"{one} = arith.constant 1 : i64")
    step.emit(
        f"{name}:2 = scf.while (%i = {zero}, %t = {x.name}) : (i64, {x.type}) "
        f"-> (i64, {x.type}) {{\n"
        f"      %c = arith.cmpi slt, %i, {count} : i64\n"
        f"      scf.condition(%c) %i, %t : i64, {x.type}\n"
        f"    }} do {{\n    ^bb0(%i: i64, %t: {x.type}):\n"
        f"      %j = arith.index_cast %i : i64 to index\n"
        f"      %v = tensor.extract %t[%j] : {x.type}\n"
        f"      %w = arith.addf %v, %v : f32\n"
        f"      %u = tensor.insert %w into %t[%j] : {x.type}\n"
        f"      %n = arith.addi %i, {one} : i64\n"
        f"      scf.yield %n, %u : i64, {x.type}\n    }}")
    step.keep(Value(f"{name}#1", [8], "f32"))


@case
def branch_in_a_loop(step):
    x = step.input([6, 5])
    flags = step.input([6], "i1")
    zero, one, six, name = (step.fresh() for _ in range(4))
    step.emit(f"{zero} = arith.constant 0 : index")
    step.emit(f"{one} = arith.constant 1 : index")
    step.emit(f"{six} = arith.constant 6 : index")
    start = step.fill([5], "f32", step.zero("f32"))
    row = "tensor<5xf32>"
    identity = "affine_map<(d0) -> (d0)>"
    step.emit(
        f"{name} = scf.for %i = {zero} to {six} step {one} iter_args(%t = "
        f"{start}) -> ({row}) {{\n"
        f"      %f = tensor.extract {flags.name}[%i] : tensor<6xi1>\n"
        f"      %s = scf.if %f -> ({row}) {{\n"
        f"        %x = tensor.extract_slice {x.name}[%i, 0] [1, 5] [1, 1] : "
        f"{x.type} to {row}\n"
        f"        %a = linalg.generic {{indexing_maps = [{identity}, "
        f'{identity}], iterator_types = ["parallel"]}} ins(%x : {row}) '
        f"outs(%t : {row}) {{\n        ^bb0(%p: f32, %q: f32):\n"
        f"          %r = arith.addf %p, %q : f32\n"
        f"          linalg.yield %r : f32\n        }} -> {row}\n"
        f"        scf.yield %a : {row}\n      }} else {{\n"
        f"        scf.yield %t : {row}\n      }}\n"
        f"      scf.yield %s : {row}\n    }}")
    step.keep(Value(name, [5], "f32"))


def running_sum(step, x, axis):
    """Sums of a tensor's first lines, one after another, from a copy of it."""
    lines, size = x.shape if axis == 0 else x.shape[::-1]
    zero, one, end, name = (step.fresh() for _ in range(4))
    for constant, number in ((zero, 0), (one, 1), (end, lines)):
        step.emit(f"{constant} = arith.constant {number} : index")
    row = f"tensor<{size}xf32>"

    def slice_at(index):
        offsets, sizes = (f"{index}, 0", f"1, {size}") if axis == 0 else (
            f"0, {index}", f"{size}, 1")
        return f"[{offsets}] [{sizes}] [1, 1]"
    identity = "affine_map<(d0) -> (d0)>"
    step.emit(
        f"{name} = scf.for %i = {one} to {end} step {one} iter_args(%t = "
        f"{x.name}) -> ({x.type}) {{\n"
        f"      %j = arith.subi %i, {one} : index\n"
        f"      %a = tensor.extract_slice %t{slice_at('%j')} : {x.type} to {row}\n"
        f"      %b = tensor.extract_slice %t{slice_at('%i')} : {x.type} to {row}\n"
        f"      %s = linalg.generic {{indexing_maps = [{identity}, {identity}], "
        f'iterator_types = ["parallel"]}} ins(%a : {row}) outs(%b : {row}) {{\n'
        "        ^bb0(%p: f32, %q: f32):\n"
        "          %r = arith.addf %p, %q : f32\n"
        f"          linalg.yield %r : f32\n        }} -> {row}\n"
        f"      %n = tensor.insert_slice %s into %t{slice_at('%i')} : {row} into "
        f"{x.type}\n"
        f"      scf.yield %n : {x.type}\n    }}")
    return Value(name, x.shape, "f32")


@case
def temporary_tensors(step):
    """Small ones, and more than the 48 KiB that a block of a CUDA device has."""
    for shape in ([5, 7], [20, 1000]):
        x = step.input(shape)
        step.keep(running_sum(step, x, 0))
        y = running_sum(step, step.input(shape), 1)
        step.keep(mapped(step, [y], "f32", ["%r = math.tanh %a0 : f32"]))


@case
def softmax_of_a_transposed_concatenation(step):
    for rows, columns in ((3, 4), (90, 70)):
        x, y = step.input([rows, columns]), step.input([rows, columns])
        both, empty, half = (step.fresh() for _ in range(3))
        shape = [rows, 2 * columns]
        whole = f"tensor<{shape[0]}x{shape[1]}xf32>"
        parts = [f"[0, {at}] [{rows}, {columns}] [1, 1] : {x.type} into {whole}"
                 for at in (0, columns)]
        step.emit(f"{both} = tensor.concat dim(1) {x.name}, {y.name} : "
                  f"({x.type}, {y.type}) -> {whole}",
                  f"{empty} = tensor.empty() : {whole}\n"
                  f"    {half} = tensor.insert_slice {x.name} into {empty}{parts[0]}\n"
                  f"    {both} = tensor.insert_slice {y.name} into {half}{parts[1]}")
        concatenation = Value(both, shape, "f32")
        turned = shape[::-1]
        exps = step.generic(
            2, [(concatenation, ["d1", "d0"])],
            [(step.empty(turned, "f32"), dims(2))], [(turned, "f32", 1.0)],
            lambda a, o: ([f"%r = math.exp {a} : f32"], ["%r"]))
        sums = reduced(step, exps, "addf", "0.0", [1])
        step.keep(step.generic(
            2, [(exps, dims(2)), (sums, ["d0"])],
            [(step.empty(turned, "f32"), dims(2))], [(turned, "f32", 1.0)],
            lambda a, b, o: ([f"%r = arith.divf {a}, {b} : f32"], ["%r"])))


@case
def generated(step):
    x = step.input([6, 5])
    step.keep(step.result(
        f"tensor.generate {{\n    ^bb0(%i: index, %j: index):\n"
        f"      %v = tensor.extract {x.name}[%j, %i] : {x.type}\n"
        f"      tensor.yield %v : f32\n    }} : tensor<5x6xf32>", [5, 6],
        "f32", 1))


# Tensors without elements.


@case
def empty_tensors(step):
    x = step.input([4, 5])
    none = step.result(
        f"tensor.extract_slice {x.name}[0, 0] [4, 0] [1, 1] : {x.type} to "
        "tensor<4x0xf32>", [4, 0], "f32", 1)
    some = mapped(step, [none], "f32", ["%r = math.tanh %a0 : f32"])
    step.keep(reduced(step, some, "addf", "0.5", [1]))
    b = step.result("tensor.empty() : tensor<0x3xf32>", [0, 3], "f32", 1)
    step.keep(product(step, some, b, [4, 3, 0], [0, 2], [2, 1], [0, 1], [2]))
    name = step.fresh()
    step.emit(f"{name} = tensor.concat dim(1) {some.name}, {x.name} : "
              "(tensor<4x0xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>",
              f"{name} = tensor.insert_slice {x.name} into {x.name}[0, 0] "
              "[4, 5] [1, 1] : tensor<4x5xf32> into tensor<4x5xf32>")
    step.keep(Value(name, [4, 5], "f32"))
