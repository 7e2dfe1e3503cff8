#===- __init__.py - fsdp-export ------------------------------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Exports one PyTorch training step as the input of fsdp-compile."""

__version__ = "0.1.0"
