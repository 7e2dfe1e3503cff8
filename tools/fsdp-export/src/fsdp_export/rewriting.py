#===- rewriting.py - What torch-mlir leaves behind -----------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Rewrites torch-mlir's own dialects to upstream ones.

A scatter or a scan becomes a loop over one dimension whose body works on
slices, so that a row of an embedding gradient is one vectorisable operation.
"""

import torch
from torch_mlir import ir
from torch_mlir.dialects import arith, cf, linalg, scf, tensor

from .errors import ExportError

_UPSTREAM = {"arith", "builtin", "cf", "func", "linalg", "math", "scf",
             "tensor"}


def operations(module: ir.Module) -> list[ir.Operation]:
    """Every operation, so that the module may change meanwhile."""
    found = []

    def visit(op):
        found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


def rewrite(module: ir.Module) -> None:
    """Rewrites scatters and scans, narrows constants where they stand, and
    lets pools find NaN."""
    # In this order: a rewrite erases what is nested in its operation.
    steps = {"arith.truncf": _fold_truncation,
             "tm_tensor.scatter": _rewrite_scatter,
             "tm_tensor.scan": _rewrite_scan,
             "linalg.generic": _find_nan,
             "ml_program.global": ir.Operation.erase}
    found = {name: [] for name in steps}
    for op in operations(module):
        if op.name in found:
            found[op.name].append(op)
    for name, step in steps.items():
        for op in found[name]:
            with op.location:
                step(op)


def unify_sizes(module: ir.Module) -> None:
    """Reads every size from the first argument; checks on sizes then fold."""
    block = module.body.operations[0].regions[0].blocks[0]
    with ir.InsertionPoint.at_block_begin(block), ir.Location.unknown():
        size = tensor.DimOp(block.arguments[0], _index(0)).result
    for op in operations(module):
        if op.name == "tensor.dim" and op.results[0] != size:
            op.results[0].replace_all_uses_with(size)
            op.erase()


def refuse_leftovers(module: ir.Module) -> None:
    """Everything has to be in a dialect that any MLIR tool knows."""
    for op in operations(module):
        if op.name.split(".")[0] not in _UPSTREAM:
            place = str(op.location).split('"')
            where = f" in {place[1]}" if len(place) > 1 else ""
            raise ExportError("expected operations with a lowering to upstream "
                              f"dialects, got {op.name}{where}")


def _rewrite_scatter(op: ir.Operation) -> None:
    """scatter(updates, indices, table): table[indices[i]] op= updates[i]."""
    updates, indices, table = op.operands
    window = updates.type.shape[1:]
    rank = len(table.type.shape)
    dims = list(ir.DenseI64ArrayAttr(op.attributes["dimension_map"]))
    sizes = [1] * (rank - len(window)) + window
    with ir.InsertionPoint(op):
        zero, one = _index(0), _index(1)
        indices = _check_indices(indices, [table.type.shape[d] for d in dims])
        loop = scf.ForOp(zero, _index(updates.type.shape[0]), one,
                         [_as_fill(table)])
        with ir.InsertionPoint(loop.body):
            i, carried = loop.induction_variable, loop.inner_iter_args[0]
            offsets = [zero] * rank
            for j, dim in enumerate(dims):
                at = tensor.ExtractOp(indices, [i, _index(j)]).result
                offsets[dim] = arith.IndexCastOp(ir.IndexType.get(), at).result
            if all(s == 1 for s in sizes):
                new = tensor.ExtractOp(
                    updates, [i] + [zero] * len(window)).result
                if not _is_overwrite(op):
                    old = tensor.ExtractOp(carried, offsets).result
                    new = _inline(op.regions[0].blocks[0], [new, old])
                result = tensor.InsertOp(new, carried, offsets).result
            else:
                kept = [s for s in window if s != 1]
                new = _slice(updates, [i] + [zero] * len(window), [1] + window,
                             kept)
                if not _is_overwrite(op):
                    old = _slice(carried, offsets, sizes, kept)
                    new = _combine(op.regions[0].blocks[0], new, old)
                result = _insert(new, carried, offsets, sizes)
            scf.YieldOp([result])
    op.results[0].replace_all_uses_with(loop.results[0])
    op.erase()


def _check_indices(indices: ir.Value, sizes: list[int]) -> ir.Value:
    """Counts negative indices from the end and asserts that all are in range.

    `sizes[j]` is the size of the dimension that column j indexes. Where the
    assertion fails the result is 0: no order of operations writes elsewhere.
    """
    kind = indices.type.element_type
    rank = ir.AffineMapAttr.get(ir.AffineMap.get_identity(2))
    parallel = ir.Attribute.parse("#linalg.iterator_type<parallel>")
    empty = tensor.EmptyOp(indices.type.shape, kind).result
    generic = linalg.GenericOp([indices.type], [indices], [empty],
                               ir.ArrayAttr.get([rank] * 2),
                               ir.ArrayAttr.get([parallel] * 2))
    body = generic.regions[0].blocks.append(kind, kind)
    with ir.InsertionPoint(body):
        at, zero = body.arguments[0], _integer(0, kind)
        size = _integer(sizes[0], kind)
        for j, other in enumerate(sizes[1:], start=1):
            if other == sizes[j - 1]:
                continue
            column = linalg.IndexOp(ir.IntegerAttr.get(
                ir.IntegerType.get_signless(64), 1)).result
            later = _compare(arith.CmpIPredicate.sge, column, _index(j))
            size = arith.SelectOp(later, _integer(other, kind), size).result
        negative = _compare(arith.CmpIPredicate.slt, at, zero)
        at = arith.SelectOp(negative, arith.AddIOp(at, size).result, at).result
        inside = arith.AndIOp(
            _compare(arith.CmpIPredicate.sge, at, zero),
            _compare(arith.CmpIPredicate.slt, at, size)).result
        cf.AssertOp(inside, ir.StringAttr.get("index out of range"))
        linalg.YieldOp([arith.SelectOp(inside, at, zero).result])
    return generic.results[0]


def _rewrite_scan(op: ir.Operation) -> None:
    """Inclusive scan: out[0] = in[0]; out[i] = out[i - 1] op in[i]."""
    if not ir.BoolAttr(op.attributes["inclusive"]).value:
        raise ExportError("expected inclusive scans only, got an exclusive one")
    source, out, _ = op.operands
    shape = source.type.shape
    dim = ir.IntegerAttr(op.attributes["dimension"]).value
    sizes = [1 if d == dim else s for d, s in enumerate(shape)]
    kept = [s for d, s in enumerate(shape) if d != dim]
    with ir.InsertionPoint(op):
        zero, one = _index(0), _index(1)

        def at(position: ir.Value) -> list[ir.Value]:
            return [position if d == dim else zero for d in range(len(shape))]

        first = _slice(source, at(zero), sizes, kept)
        start = _insert(first, out, at(zero), sizes)
        loop = scf.ForOp(one, _index(shape[dim]), one, [start])
        with ir.InsertionPoint(loop.body):
            i, carried = loop.induction_variable, loop.inner_iter_args[0]
            before = arith.SubIOp(i, one).result
            last = _slice(carried, at(before), sizes, kept)
            new = _slice(source, at(i), sizes, kept)
            new = _combine(op.regions[0].blocks[0], last, new)
            scf.YieldOp([_insert(new, carried, at(i), sizes)])
        total = _slice(loop.results[0], at(_index(shape[dim] - 1)), sizes, kept)
    op.results[0].replace_all_uses_with(loop.results[0])
    op.results[1].replace_all_uses_with(total)
    op.erase()


def _find_nan(op: ir.Operation) -> None:
    """The index of a pool's largest element that is NaN.

    torch-mlir looks for the first element of a window that equals its largest
    one, which NaN does not: -1 would be left. The last NaN is PyTorch's.

      index = select(found == -1, select(x == largest, here, found), found)
    """
    body = op.regions[0].blocks[0]
    chosen = list(body.operations)[-1].operands[0].owner
    if getattr(chosen, "name", "") != "arith.select":
        return
    first = chosen.operands[1].owner
    if getattr(first, "name", "") != "arith.select":
        return
    compare = first.operands[0].owner
    if getattr(compare, "name", "") != "arith.cmpf":
        return
    element = compare.operands[0]
    if getattr(element.owner, "name", "") != "tensor.extract":
        return
    with ir.InsertionPoint(list(body.operations)[-1]):
        missing = arith.CmpFOp(arith.CmpFPredicate.UNO, element, element)
        result = arith.SelectOp(missing.result, first.operands[1],
                                chosen.results[0]).result
    list(body.operations)[-1].operands[0] = result


def _fold_truncation(op: ir.Operation) -> None:
    """A constant that torch-mlir narrows inside a loop is narrowed here."""
    source = op.operands[0].owner
    if not isinstance(source, ir.Operation | ir.OpView):
        return
    if source.name != "arith.constant" or not isinstance(
            op.results[0].type, (ir.F32Type, ir.BF16Type, ir.F16Type)):
        return
    value = ir.FloatAttr(source.attributes["value"]).value
    to = op.results[0].type
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16,
             "f16": torch.float16}[str(to)]
    narrow = torch.tensor(value, dtype=torch.float64).to(dtype).item()
    with ir.InsertionPoint(source):
        constant = arith.ConstantOp(to, ir.FloatAttr.get(to, narrow))
    op.results[0].replace_all_uses_with(constant.result)
    op.erase()


def _index(value: int) -> ir.Value:
    return arith.ConstantOp(ir.IndexType.get(), value).result


def _integer(value: int, kind: ir.Type) -> ir.Value:
    return arith.ConstantOp(kind, ir.IntegerAttr.get(kind, value)).result


def _compare(predicate, left: ir.Value, right: ir.Value) -> ir.Value:
    return arith.CmpIOp(predicate, left, right).result


def _is_overwrite(op: ir.Operation) -> bool:
    block = op.regions[0].blocks[0]
    operations = list(block.operations)
    return (len(operations) == 1
            and operations[0].operands[0] == block.arguments[0])


def _as_fill(table: ir.Value) -> ir.Value:
    """A splat constant as a fill: the loop needs a buffer of its own."""
    owner = table.owner
    if getattr(owner, "name", "") != "arith.constant":
        return table
    value = ir.DenseElementsAttr(owner.attributes["value"])
    if not value.is_splat:
        return table
    scalar = arith.ConstantOp(table.type.element_type,
                              value.get_splat_value()).result
    empty = tensor.EmptyOp(table.type.shape, table.type.element_type).result
    return linalg.fill(scalar, outs=[empty])


def _slice(source: ir.Value, offsets: list, sizes: list[int],
           shape: list[int]) -> ir.Value:
    kind = ir.RankedTensorType.get(shape, source.type.element_type)
    return tensor.ExtractSliceOp(
        kind, source, list(offsets), [], [],
        [ir.ShapedType.get_dynamic_size()] * len(offsets), sizes,
        [1] * len(offsets)).result


def _insert(value: ir.Value, into: ir.Value, offsets: list,
            sizes: list[int]) -> ir.Value:
    return tensor.InsertSliceOp(
        value, into, list(offsets), [], [],
        [ir.ShapedType.get_dynamic_size()] * len(offsets), sizes,
        [1] * len(offsets)).result


def _combine(block: ir.Block, first: ir.Value, second: ir.Value) -> ir.Value:
    """`block(first, second)` element by element, into a slice of second."""
    rank = len(second.type.shape)
    identity = ir.AffineMapAttr.get(ir.AffineMap.get_identity(rank))
    parallel = ir.Attribute.parse("#linalg.iterator_type<parallel>")
    generic = linalg.GenericOp(
        [second.type], [first], [second],
        ir.ArrayAttr.get([identity] * 2), ir.ArrayAttr.get([parallel] * rank))
    element = second.type.element_type
    body = generic.regions[0].blocks.append(element, element)
    with ir.InsertionPoint(body):
        linalg.YieldOp([_inline(block, list(body.arguments))])
    return generic.results[0]


def _inline(block: ir.Block, values: list[ir.Value]) -> ir.Value:
    """Copies a region's operations here, on other arguments."""
    mapping = dict(zip(block.arguments, values))
    for op in list(block.operations)[:-1]:
        copy = op.operation.clone()
        for i, operand in enumerate(op.operands):
            if operand in mapping:
                copy.operands[i] = mapping[operand]
        mapping.update(zip(op.results, copy.results))
    result = list(block.operations)[-1].operands[0]
    return mapping.get(result, result)
