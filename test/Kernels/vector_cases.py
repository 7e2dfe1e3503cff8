"""Steps written by hand, of which a thread of a CUDA device computes several neighbouring points."""

from cases import add_softmax, case, mapped, reduced


@case
def softmax_of_rows_in_vectors(step):
    for shape in ([32, 512], [24, 384], [80, 130]):
        add_softmax(step, shape)


def add_maps_and_sums(step, x, y):
    """What reads both along their rows: a map, and sums of rows and columns."""
    scaled = mapped(step, [x, y], x.dtype, [f"%s = arith.mulf %a0, %a1 : {x.dtype}",
                                            f"%r = arith.addf %s, %a0 : {x.dtype}"])
    step.keep(scaled)
    for axes in ([0], [1]):
        step.keep(reduced(step, scaled, "addf", "0.0", axes))
        step.keep(reduced(step, x, "maximumf", "0xFF800000" if x.dtype == "f32" else "0xFF80", axes))


@case
def vectors_of_neighbouring_points(step):
    # As many as 8 bf16 or 4 f32, 2 of a row of 190, one of a row of 131.
    for shape in ([64, 256], [96, 190], [72, 131]):
        for dtype in ("f32", "bf16"):
            add_maps_and_sums(step, step.input(shape, dtype), step.input(shape, dtype))


@case
def vectors_of_neighbouring_columns(step):
    # Many columns, whose sums several threads share.
    x = step.input([33, 8192])
    step.keep(reduced(step, x, "addf", "0.5", [0]))
    step.keep(reduced(step, x, "maximumf", "0xFF800000", [0]))


@case
def vectors_of_several_types_and_bools(step):
    shape = [64, 128]
    x, y, labels = step.input(shape), step.input(shape, "bf16"), step.input(shape, "i64", 0, 9)
    mask = mapped(step, [labels], "i1", ["%c = arith.constant 4 : i64", "%r = arith.cmpi slt, %a0, %c : i64"])
    wide = mapped(step, [y], "f32", ["%r = arith.extf %a0 : bf16 to f32"])
    step.keep(mapped(step, [mask, x, wide], "f32", ["%r = arith.select %a0, %a1, %a2 : f32"]))
    step.keep(mapped(step, [x], "bf16", ["%r = arith.truncf %a0 : f32 to bf16"]))
    step.keep(mapped(step, [mask], "i8", ["%r = arith.extui %a0 : i1 to i8"]))


@case
def vectors_of_members_of_a_flat_parameter(step):
    # The second begins at the first multiple of 32 elements after the three of the first, and so does its gradient.
    first, second = step.param([3]), step.param([64, 256])
    step.gradient(first, mapped(step, [first], "f32", ["%r = math.tanh %a0 : f32"]))
    step.gradient(second, mapped(step, [second, step.input([64, 256])], "f32",
                                 ["%r = arith.mulf %a0, %a1 : f32"]))


@case
def sums_of_many_rows_in_chunks(step):
    # CUDA devices sum chunks of rows; the product with its rows' factor is written by the same kernel.
    x, factor = step.input([4100, 256], "bf16"), step.input([4100])
    scaled = step.generic(2, [(x, ["d0", "d1"]), (factor, ["d0"])], [(step.empty([4100, 256], "f32"), ["d0", "d1"])],
                          [([4100, 256], "f32", 1.0)],
                          lambda a, b, o: (["%w = arith.extf " + a + " : bf16 to f32",
                                            f"%r = arith.mulf %w, {b} : f32"], ["%r"]))
    step.keep(scaled)
    step.keep(reduced(step, scaled, "addf", "0.5", [0]))
    step.keep(reduced(step, scaled, "minimumf", "0x7F800000", [0]))
