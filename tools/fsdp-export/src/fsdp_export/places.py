#===- places.py - Which line of the user's code asked for it -------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Names the module and the line that an operation comes from."""

import os
import re
import sys

import torch
from torch import fx
from torch.fx import traceback as fx_traceback
from torch.overrides import TorchFunctionMode

from .graphs import module_path

_OURS = (os.path.dirname(torch.__file__), os.path.dirname(__file__), "<")
_LINE = re.compile(r'File "([^"]+)", line (\d+)')


def user_line() -> tuple[str, int] | None:
    """The innermost line that is neither PyTorch's nor the exporter's."""
    frame = sys._getframe(1)
    while frame and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return (frame.f_code.co_filename, frame.f_lineno) if frame else None


class UserLines(TorchFunctionMode):
    """Nodes that are recorded meanwhile carry the line that called PyTorch."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        line = user_line()
        meta = fx_traceback.get_current_meta()
        before = meta.get("stack_trace")
        if line:
            meta["stack_trace"] = 'File "{}", line {}'.format(*line)
        try:
            return func(*args, **(kwargs or {}))
        finally:
            # A module call in between may have put another dictionary there.
            meta = fx_traceback.get_current_meta()
            if before is None:
                meta.pop("stack_trace", None)
            else:
                meta["stack_trace"] = before


def place_of(node: fx.Node) -> str:
    """`h.0.attn (model.py:12)`, as much of it as is known."""
    found = _LINE.search(node.meta.get("stack_trace") or "")
    line = f" ({found.group(1)}:{found.group(2)})" if found else ""
    return f"{module_path(node) or 'the root module'}{line}"
