# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Steps written by hand that reduce rows and sum columns of the same rows, as gradients of norms do, large enough for CUDA
devices to do both in one kernel."""

from cases import case, get_cases  # noqa: F401 (of those here)
from step import Value


def elementwise(step, inputs, lines, shape, dtype="f32"):
    """`lines` compute %r of %a0, %a1, ..., elements of `inputs`; these have all dimensions of `shape`, the last one, or all but
    the last one."""
    loops = [f"d{i}" for i in range(len(shape))]

    def getMap(value):
        if len(value.shape) == len(shape):
            return loops
        return loops[-1:] if value.shape == (shape[-1],) else loops[:-1]

    return step.generic(len(shape), [(value, getMap(value)) for value in inputs], [(step.empty(shape, dtype), loops)],
                        [(shape, dtype, 1.0)], lambda *_: (lines, ["%r"]))


def reduced(step, value, kept, op="addf", start="0.0"):
    """Of the dimensions of `value` those in `kept` are left."""
    rank, dtype = len(value.shape), value.dtype
    loops = [f"d{i}" for i in range(rank)]
    shape = [value.shape[i] for i in kept]
    init = step.fill(shape, dtype, step.constant(start, dtype))
    return step.generic(rank, [(value, loops)], [(init, [loops[i] for i in kept])], [(shape, dtype, 1.0)],
                        lambda *_: ([f"%r = arith.{op} %a0, %a1 : {dtype}"], ["%r"]),
                        reductions=[i for i in range(rank) if i not in kept])


def flat(step, value):
    """[a, b, c] as [a * b, c]."""
    a, b, c = value.shape
    shape = (a * b, c)
    return step.result(f"tensor.collapse_shape {value.name} [[0, 1], [2]] : {value.type} into "
                       f"{Value('', shape, value.dtype).type}", shape, value.dtype, 1.0)


def keep(step, value):
    """As a gradient: what is computed for forward shares no kernel with what is computed for backward."""
    step.gradient(step.param(value.shape), value)


def norm(step, batch, rows, columns, of="f32", mean=True, keepsRows=False):
    shape = (batch, rows, columns)
    dy, x, gamma = step.input(shape, of), step.input(shape), step.input([columns])
    if of != "f32":
        dy = elementwise(step, [dy], [f"%r = arith.extf %a0 : {of} to f32"], shape)
    g = elementwise(step, [dy, gamma], ["%r = arith.mulf %a0, %a1 : f32"], shape)
    product = elementwise(step, [g, x], ["%r = arith.mulf %a0, %a1 : f32"], shape)
    # Of the second sum alone where there is no mean.
    first = reduced(step, g, [0, 1]) if mean else None
    second = reduced(step, product, [0, 1])
    scale = f"%n = arith.constant {1 / columns!r} : f32"
    dx = elementwise(step, [g, x, second], [scale, "%s = arith.mulf %a2, %n : f32", "%t = arith.mulf %a1, %s : f32",
                                            "%r = arith.subf %a0, %t : f32"], shape)
    if mean:
        dx = elementwise(step, [dx, first], [scale, "%s = arith.mulf %a1, %n : f32", "%r = arith.subf %a0, %s : f32"], shape)
    keep(step, dx)
    weights = elementwise(step, [dy, x], ["%r = arith.mulf %a0, %a1 : f32"], shape)
    keep(step, reduced(step, weights, [2]))
    if mean:
        keep(step, reduced(step, dy, [2]))
        # The gradient of the bias before the norm.
        keep(step, reduced(step, flat(step, dx), [1]))
    if keepsRows:
        keep(step, second)


@case
def sweep_of_a_norm(step):
    norm(step, 2, 4096, 128)


@case
def sweep_of_a_norm_without_mean(step):
    """One reduction of a row: threads of two rows have no barrier between them but its own."""
    norm(step, 1, 4096, 260, mean=False)


@case
def sweep_of_bf16_rows_in_odd_vectors(step):
    norm(step, 2, 4096, 130, of="bf16")


@case
def sweep_of_rows_that_no_vectors_divide(step):
    norm(step, 1, 8192, 129)


@case
def sweep_of_long_rows(step):
    """Two vectors of a thread, of which the last one is beyond the row's end, and warps that are no power of two."""
    norm(step, 1, 512, 4100)


@case
def sweep_that_stores_results_of_rows(step):
    norm(step, 4, 2048, 192, keepsRows=True)


@case
def sweep_of_largest_elements(step):
    shape = (4096, 256)
    x, y = step.input(shape), step.input(shape)
    most = reduced(step, x, [0], "maximumf", "0xFF800000")
    keep(step, elementwise(step, [x, most], ["%r = arith.subf %a0, %a1 : f32"], shape))
    keep(step, reduced(step, elementwise(step, [x, y], ["%r = arith.mulf %a0, %a1 : f32"], shape), [1]))
    keep(step, reduced(step, x, [1], "minimumf", "0x7F800000"))


@case
def sweep_with_inits_of_numbers(step):
    """Sums of rows and of columns that begin at a half."""
    shape = (4096, 256)
    x, y = step.input(shape), step.input(shape)
    rows = reduced(step, x, [0], start="0.5")
    keep(step, elementwise(step, [x, rows], ["%r = arith.mulf %a0, %a1 : f32"], shape))
    keep(step, reduced(step, elementwise(step, [x, y], ["%r = arith.mulf %a0, %a1 : f32"], shape), [1], start="0.5"))


@case
def sweep_of_columns_of_one_warp(step):
    shape = (16384, 64)
    x = step.input(shape)
    most = reduced(step, x, [0], "maximumf", "0xFF800000")
    keep(step, elementwise(step, [x, most], ["%r = arith.subf %a0, %a1 : f32"], shape))
    keep(step, reduced(step, x, [1]))
    keep(step, reduced(step, x, [1], "maximumf", "0xFF800000"))
