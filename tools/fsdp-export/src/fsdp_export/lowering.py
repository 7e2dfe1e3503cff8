#===- lowering.py - From an FX graph to upstream dialects ----------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Imports a functional graph into MLIR through torch-mlir."""

import contextlib
import os
import re
import sys
import tempfile

import numpy
import torch
from torch import fx
from torch_mlir import ir
from torch_mlir.dialects import torch as torch_dialect
from torch_mlir.extras.fx_importer import FxImporter, FxImporterHooks
from torch_mlir.passmanager import PassManager

from . import crashes, rewriting
from .errors import ExportError
from .graphs import module_path

# Module paths travel through torch-mlir as file names.
_LOCATION = re.compile(r'"((?:[^"\\]|\\.)*)":1:0')
# A table of booleans as torch-mlir's version of MLIR prints it.
_BOOLEANS = re.compile(r'dense<"0x([0-9A-F]+)"> : (tensor<(?:\d+x)+i1>)')
_PIPELINE = ("builtin.module(func.func(torch-match-quantized-custom-ops),"
             "torchdynamo-export-to-torch-backend-pipeline,"
             "torch-backend-to-linalg-on-tensors-backend-pipeline"
             "{allow-non-finites=true})")
_CLEANUP = "builtin.module(canonicalize,cse,canonicalize)"


def lower(graph: fx.GraphModule, name: str,
          same_sizes: bool = False) -> ir.Module:
    """A module with one function `name`, in upstream dialects only.

    `same_sizes` says that all dynamic sizes are that of the first argument.
    """
    for node in graph.graph.nodes:
        path = module_path(node)
        node.meta["stack_trace"] = f'File "{path}", line 1,' if path else None
    context = ir.Context()
    # A forked child has no other threads; one function would not use them.
    context.enable_multithreading(False)
    torch_dialect.register_dialect(context)
    importer = FxImporter(context=context, hooks=_Literals())
    try:
        importer.import_stateless_graph(graph.graph, func_name=name)
    except Exception as error:
        reason = (str(error).strip() or "no message").splitlines()[0]
        raise ExportError("expected operations that torch-mlir knows, got "
                          f"{type(error).__name__}: {reason}") from error
    module = crashes.guard(importer.module,
                           lambda m: _run(m, _PIPELINE))
    with context:
        rewriting.rewrite(module)
        if same_sizes:
            rewriting.unify_sizes(module)
        _run(module, _CLEANUP)
        rewriting.refuse_leftovers(module)
    return module


def print_module(module: ir.Module, locations: bool) -> str:
    """The module's text; `locations` keeps the module path of operations."""
    text = module.operation.get_asm(enable_debug_info=locations)
    text = _BOOLEANS.sub(_pack_bits, text)
    return _LOCATION.sub(r'"\1"', text) if locations else text


def print_modules(modules: list[ir.Module], locations: bool) -> str:
    """The text of one module that holds the functions of all; its attributes
    are the first one's."""
    if len(modules) == 1:
        return print_module(modules[0], locations)
    whole = modules[0]
    with whole.context:
        for other in modules[1:]:
            # Another context's: through text, which keeps locations.
            text = other.operation.get_asm(enable_debug_info=True)
            parsed = ir.Module.parse(text, whole.context)
            for operation in list(parsed.body.operations):
                operation.detach_from_parent()
                whole.body.append(operation)
    return print_module(whole, locations)


def dense(value: torch.Tensor, element: ir.Type) -> ir.DenseElementsAttr:
    """The tensor's values as an attribute of its own shape."""
    value = value.detach().cpu().contiguous()
    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    raw = value.view(bits[value.element_size()]).numpy()
    return ir.DenseElementsAttr.get(raw, type=element, shape=list(value.shape))


def _pack_bits(match: re.Match) -> str:
    """MLIR 22 reads booleans as bits; torch-mlir's MLIR prints bytes."""
    values = numpy.frombuffer(bytes.fromhex(match.group(1)), dtype=numpy.uint8)
    packed = numpy.packbits(values, bitorder="little").tobytes().hex().upper()
    return f'dense<"0x{packed}"> : {match.group(2)}'


class _Literals(FxImporterHooks):
    """Tables become dense attributes: resources do not survive every tool."""

    def resolve_literal(self, gni, literal, info):
        if not isinstance(literal, torch.Tensor) or literal.ndim == 0:
            return None
        kind = gni._cc.tensor_to_vtensor_type(literal)
        element = _torch_element_type(literal.dtype)
        return ir.Operation.create(
            "torch.vtensor.literal", results=[kind],
            attributes={"value": dense(literal, element)}).result


def element_type(dtype: torch.dtype) -> ir.Type:
    """The MLIR type of a tensor's elements; integers carry no sign."""
    floats = {torch.float32: ir.F32Type, torch.float64: ir.F64Type,
              torch.bfloat16: ir.BF16Type, torch.float16: ir.F16Type}
    if dtype in floats:
        return floats[dtype].get()
    return ir.IntegerType.get_signless(
        1 if dtype == torch.bool else dtype.itemsize * 8)


def _torch_element_type(dtype: torch.dtype) -> ir.Type:
    """The same as torch-mlir writes it: with a sign."""
    if dtype.is_floating_point or dtype == torch.bool:
        return element_type(dtype)
    if dtype == torch.uint8:
        return ir.IntegerType.get_unsigned(8)
    return ir.IntegerType.get_signed(dtype.itemsize * 8)


def _run(module: ir.Module, pipeline: str) -> None:
    with module.context, _captured_stderr() as noise:
        try:
            PassManager.parse(pipeline).run(module.operation)
        except ir.MLIRError as error:
            raise ExportError(_explain(module, error, noise())) from error


def _explain(module: ir.Module, error: ir.MLIRError, noise: str) -> str:
    """Names the operation that has no lowering, and the module it is in."""
    text = f"{error}\n{noise}"
    where = _LOCATION.search(text)
    op = (re.search(r'name = "(torch\.[\w.]+)"', text)
          or re.search(r"failed to legalize operation '([\w.]+)'", text))
    name = op.group(1) if op else None
    if name and not name.startswith("torch.aten"):
        # Only the operands of the culprit were complained about.
        for left in rewriting.operations(module):
            if left.name.startswith("torch.aten"):
                name, where = left.name, _LOCATION.search(str(left.location))
                break
    place = f" in {where.group(1)}" if where else ""
    if name:
        return f"expected operations with a lowering, got {name}{place}"
    first = re.search(r"error: (?:\S+:1:0: )?(.*)", text)
    reason = first.group(1) if first else text.strip()
    return f"lowering failed{place}: {reason}"


@contextlib.contextmanager
def _captured_stderr():
    """Holds back what C++ prints to file descriptor 2; yields a reader."""
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as sink:
        os.dup2(sink.fileno(), 2)

        def read() -> str:
            sink.seek(0)
            return sink.read().decode(errors="replace")

        try:
            yield read
        finally:
            os.dup2(kept, 2)
            os.close(kept)
