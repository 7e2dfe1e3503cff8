#===- autocast.py - Autocast of other devices ----------------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Refuses autocast for a device that the step is not traced on.

PyTorch switches torch.autocast("cuda") off where there is no such device, with
a warning; the export would compute in other types than the user trains in.
"""

import functools
import warnings

import torch

from .errors import ExportError


def refuse_other_devices() -> None:
    """From now on, entering autocast for another device than the CPU raises.

    Called before the user's code is imported, which may make the context or
    decorate a function with it.
    """
    kind = torch.amp.autocast_mode.autocast
    if hasattr(kind, "_fsdp_wrapped"):
        return
    kind._fsdp_wrapped = True
    create, enter = kind.__init__, kind.__enter__

    @functools.wraps(create)
    def init(self, device_type, dtype=None, enabled=True, cache_enabled=None):
        self._fsdp_wanted = device_type if enabled else None
        with warnings.catch_warnings():
            # That the device is missing is said where it matters.
            warnings.simplefilter("ignore")
            create(self, device_type, dtype, enabled, cache_enabled)

    @functools.wraps(enter)
    def checked(self):
        wanted = getattr(self, "_fsdp_wanted", None)
        if wanted not in (None, "cpu"):
            raise ExportError(
                "expected autocast for the device that the step is traced on, "
                f"got torch.autocast({wanted!r}), which has no effect there; "
                "write torch.autocast('cpu', torch.bfloat16), or take the "
                "device's type from a tensor: x.device.type")
        return enter(self)

    kind.__init__, kind.__enter__ = init, checked
