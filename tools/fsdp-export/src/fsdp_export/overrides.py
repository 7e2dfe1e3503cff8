#===- overrides.py - Other operations before autograd --------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Takes operations apart before autograd sees them, so that the gradient is
that of the parts."""

import contextlib
from collections.abc import Callable, Iterator

import torch
from torch._C import DispatchKey
from torch._dispatch.python import enable_python_dispatcher

# The keys under which a call on plain tensors, differentiated or not, comes
# first. In inference mode there is none of them; nothing is differentiated.
_KEYS = (DispatchKey.AutogradCPU, DispatchKey.AutogradMeta)


@contextlib.contextmanager
def replaced_before_autograd(
        table: dict[torch._ops.OpOverload, Callable]) -> Iterator[None]:
    """Every call of an operation in `table` runs its function instead.

    Where the function returns NotImplemented the operation itself runs.
    """
    before = {op: dict(op.py_kernels) for op in table}
    try:
        for op, function in table.items():
            for key in _KEYS:
                op.py_kernels[key] = _kernel(op, key, function)
            op._dispatch_cache.clear()
        with enable_python_dispatcher():
            yield
    finally:
        for op, kernels in before.items():
            op.py_kernels.clear()
            op.py_kernels.update(kernels)
            op._dispatch_cache.clear()


def _kernel(op, key: DispatchKey, function: Callable) -> Callable:
    own = _own_kernel(op, key)

    def kernel(*args, **kwargs):
        result = function(*args, **kwargs)
        return own(*args, **kwargs) if result is NotImplemented else result

    return kernel


def _own_kernel(op, key: DispatchKey) -> Callable:
    """What the operation does without a replacement."""
    found = torch._ops.resolve_key(op, key)
    if found in op.py_kernels:
        return op.py_kernels[found]
    return lambda *args, **kwargs: op._op_dk(found, *args, **kwargs)
