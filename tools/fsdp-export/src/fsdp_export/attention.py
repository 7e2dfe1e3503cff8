#===- attention.py - How attention is traced -----------------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""The one place that decides what scaled_dot_product_attention becomes.

Every trace runs inside `attention_lowering`. It chooses the plain
decomposition: the fused operation for this machine has a backward without one.
To keep attention whole, replace the operation here by a function with its own
autograd rule that is traced into a call.
"""

from torch.nn.attention import SDPBackend, sdpa_kernel


def attention_lowering():
    """A context under which attention is traced as matmul, softmax, matmul."""
    return sdpa_kernel(SDPBackend.MATH)
