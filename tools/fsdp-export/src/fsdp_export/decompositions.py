#===- decompositions.py - To core operations -----------------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""PyTorch's core decompositions, and a few that suit a compiler better.

PyTorch's own are written for kernels that run one by one. These are written so
that the result is a few operations that fuse, and no scatter where a
comparison does.
"""

import torch
from torch._decomp import core_aten_decompositions, get_decompositions

from . import convolutions

aten = torch.ops.aten


def decompositions() -> dict:
    """The table for the last trace."""
    return {**core_aten_decompositions(), **get_decompositions(_EXTRA), **_OWN}


def _nll_loss_backward(grad_output, x, target, weight, reduction, ignore_index,
                       total_weight):
    """-weight at the target's class, 0 elsewhere: a comparison with a range.

    PyTorch scatters into zeros; a comparison fuses with the softmax around.
    """
    class_dim = 0 if x.dim() < 2 else 1
    if reduction == 1:
        grad_output = grad_output / total_weight
    target = target.unsqueeze(class_dim)
    shape = [1] * x.dim()
    shape[class_dim] = x.shape[class_dim]
    classes = torch.arange(shape[class_dim], device=x.device).view(shape)
    value = -grad_output
    if reduction == 0 and x.dim() > 1:
        value = value.unsqueeze(class_dim)
    if weight is not None:
        value = value * weight.view(shape)
    hit = (classes == target) & (target != ignore_index)
    return torch.where(hit, value, torch.zeros((), dtype=x.dtype)).to(x.dtype)


def _embedding_dense_backward(grad_output, indices, num_weights, padding_idx,
                              scale_grad_by_freq):
    """Adds each row into a table of zeros. Indices were checked forward."""
    if scale_grad_by_freq:
        return NotImplemented
    if padding_idx >= 0:
        keep = (indices != padding_idx).unsqueeze(-1)
        grad_output = torch.where(keep, grad_output,
                                  torch.zeros((), dtype=grad_output.dtype))
    table = grad_output.new_zeros(num_weights, grad_output.shape[-1])
    return aten.index_put(table, [indices], grad_output, True)


def _squeeze_dims(x, dims):
    drop = {d % x.dim() for d in dims if x.shape[d] == 1}
    return x.reshape([s for i, s in enumerate(x.shape) if i not in drop])


def _lerp_scalar(start, end, weight):
    """ATen's formula, with the choice made now: the weight is a number."""
    if abs(weight) < 0.5:
        return start + weight * (end - start)
    return end - (end - start) * (1 - weight)


def _copy(target, source, non_blocking=False):
    """The source itself where the shapes agree, also if they are symbolic."""
    source = source.to(target.dtype)
    same = source.shape == target.shape
    return source.clone() if same else source.expand_as(target)


def _pow(x, exponent):
    """The exponents that PyTorch's kernel does not leave to pow() either."""
    if not x.is_floating_point():
        return NotImplemented
    match float(exponent):
        case 0.5:
            return x.sqrt()
        case -0.5:
            return x.rsqrt()
        case 1.0:
            return x.clone()
        case 2.0:
            return x * x
        case 3.0:
            return x * x * x
        case -1.0:
            return _reciprocal(x)
        case -2.0:
            return _reciprocal(x * x)
    return NotImplemented


def _reciprocal(x):
    """1 / x, without torch-mlir's check that x is not 0."""
    if not x.is_floating_point():
        return NotImplemented
    return torch.ones((), dtype=x.dtype) / x


def _constant_pad_nd(x, pad, value=0):
    """Negative padding, the gradient of padding, cuts off."""
    if min(pad, default=0) >= 0:
        return NotImplemented
    for i, (before, after) in enumerate(zip(pad[::2], pad[1::2])):
        start, end = max(-before, 0), max(-after, 0)
        dim = x.dim() - 1 - i
        x = x.narrow(dim, start, x.shape[dim] - start - end)
    if max(pad) <= 0:
        return x.clone()
    return aten.constant_pad_nd(x, [max(p, 0) for p in pad], value)


# Core operations that torch-mlir does not lower.
_EXTRA = [
    aten._native_batch_norm_legit, aten._native_batch_norm_legit_functional,
    aten._native_batch_norm_legit_no_training,
    aten._batch_norm_with_update_functional, aten.batch_norm_backward,
    aten._adaptive_avg_pool2d, aten.max_pool2d_with_indices_backward,
    aten.native_group_norm, aten.grid_sampler_2d, aten.upsample_bilinear2d,
    # torch-mlir rounds a constant of its tanh form to 0.797724.
    aten.gelu,
]

_OWN = {
    aten.pow.Tensor_Scalar: _pow,
    aten.reciprocal.default: _reciprocal,
    aten.convolution_backward.default: convolutions.convolution_backward,
    aten.avg_pool2d_backward.default: convolutions.avg_pool2d_backward,
    aten._adaptive_avg_pool2d_backward.default:
        convolutions.adaptive_avg_pool2d_backward,
    aten.copy.default: _copy,
    aten.constant_pad_nd.default: _constant_pad_nd,
    aten.nll_loss_backward.default: _nll_loss_backward,
    aten.nll_loss2d_backward.default: _nll_loss_backward,
    aten.embedding_dense_backward.default: _embedding_dense_backward,
    aten.squeeze.dims: _squeeze_dims,
    aten.lerp.Scalar: _lerp_scalar,
}
