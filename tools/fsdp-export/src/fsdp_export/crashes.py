#===- crashes.py - Lowering that does not take the command with it -------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Runs torch-mlir's passes in a forked child and names the operation that
makes them crash."""

import io
import re
from collections.abc import Callable

from torch_mlir import ir

from . import guarded
from .errors import ExportError

# At most so many operations are tried alone, each kind once.
_TRIES = 400


def guard(module: ir.Module,
          passes: Callable[[ir.Module], None]) -> ir.Module:
    """The module after `passes`, which run on a copy in another process."""

    def run() -> bytes:
        passes(module)
        return _bytes(module)

    try:
        code = guarded.call(run)
    except guarded.Crash as crash:
        culprit = _find(module, passes)
        what = f"got {culprit}" if culprit else "got one that is not known"
        raise ExportError(
            "expected operations with a lowering, "
            f"{what}, on which torch-mlir ends with {crash.signal.name}; "
            "write it with other operations") from crash
    with module.context:
        # Here, too, the passes load the dialects of what they make.
        passes(ir.Module.parse(""))
        return ir.Module.parse(code)


def _bytes(module: ir.Module) -> bytes:
    text = io.BytesIO()
    module.operation.write_bytecode(text)
    return text.getvalue()


def _find(module: ir.Module,
          passes: Callable[[ir.Module], None]) -> str | None:
    """The first operation on which the passes crash, alone or with what its
    operands are made by, and its module's path."""
    body = module.body.operations[0].regions[0].blocks[0]
    # Alone, then with more and more of the operations before it: some crash
    # only where an operand comes from a certain other one.
    for depth in (0, 1, 2, 4, 8):
        tried = set()
        for op in list(body.operations)[:-1]:
            if _is_constant(op) or len(tried) > _TRIES:
                continue
            piece = _piece(module, op, depth)
            if piece is None or piece in tried:
                continue
            tried.add(piece)
            if _crashes(module, piece, passes):
                where = re.search(r'"((?:[^"\\]|\\.)*)":1:0', str(op.location))
                place = where.group(1) if where else "the root module"
                return f"{op.operation.name} in {place}"
    return None


def _crashes(module: ir.Module, text: str, passes) -> bool:
    def run() -> None:
        with module.context:
            passes(ir.Module.parse(text))

    try:
        guarded.call(run)
    except guarded.Crash:
        return True
    except Exception:
        pass  # Refused, but not by a crash.
    return False


def _is_constant(op: ir.OpView) -> bool:
    return not op.operands or op.operation.name.startswith("torch.constant")


def _piece(module: ir.Module, op: ir.OpView, depth: int) -> str | None:
    """A module of `op` and what makes its operands, `depth` operations deep.

    Numbers and lists always come along; other operands become arguments.
    """
    wanted: list[ir.Operation] = []
    arguments: list[ir.Value] = []

    def need(value: ir.Value, left: int) -> None:
        owner = value.owner
        if isinstance(owner, ir.Block):
            outside = True
        else:
            owner = getattr(owner, "operation", owner)
            tensors = any("vtensor" in str(r.type) for r in owner.results)
            outside = tensors and left < 1 and bool(owner.operands)
        if outside:
            if value not in arguments:
                arguments.append(value)
        elif owner not in wanted:
            for operand in owner.operands:
                need(operand, left - 1)
            wanted.append(owner)

    for operand in op.operands:
        need(operand, depth)
    wanted.append(op.operation)
    results = [r for r in op.results]
    if not all("vtensor" in str(v.type) for v in (*arguments, *results)):
        return None
    with module.context, ir.Location.unknown():
        piece = ir.Module.create()
        kinds = ", ".join(str(a.type) for a in arguments)
        found = ", ".join(str(r.type) for r in results)
        shell = ir.Module.parse(
            f"func.func private @f({kinds}) -> ({found})")
        declared = shell.body.operations[0]
        with ir.InsertionPoint(piece.body):
            function = declared.operation.clone()
        del function.attributes["sym_visibility"]
        block = function.regions[0].blocks.append(
            *(a.type for a in arguments))
        mapping = dict(zip(arguments, block.arguments))
        with ir.InsertionPoint(block):
            for source in wanted:
                copy = source.clone()
                for i, operand in enumerate(source.operands):
                    copy.operands[i] = mapping[operand]
                mapping.update(zip(source.results, copy.results))
            ir.Operation.create("func.return",
                                operands=[mapping[r] for r in results])
        return piece.operation.get_asm(enable_debug_info=False)
