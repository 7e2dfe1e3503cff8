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

from . import convolutions, nans, pooling, sorting

aten = torch.ops.aten


def decompositions() -> dict:
    """The table for the last trace."""
    return {**core_aten_decompositions(), **get_decompositions(_EXTRA),
            **nans.LOSSLESS, **_OWN}


def forward_decompositions() -> dict:
    """The table for the first trace: operations whose gradients have no
    lowering are taken apart before they are differentiated."""
    return get_decompositions([
        aten.upsample_nearest1d, aten.upsample_nearest3d,
        aten.upsample_linear1d, aten.upsample_bilinear2d,
        aten.upsample_trilinear3d, aten.upsample_bicubic2d,
        aten._upsample_nearest_exact1d, aten._upsample_nearest_exact2d,
        aten._upsample_nearest_exact3d,
        aten.reflection_pad1d, aten.reflection_pad2d, aten.reflection_pad3d,
    ]) | {
        aten._weight_norm.default: _weight_norm,
        aten.grid_sampler.default: _grid_sampler,
        aten.pad.default: _pad,
        aten.adaptive_max_pool2d.default: _adaptive_max_pool2d,
        aten.avg_pool1d.default: pooling.avg_pool1d,
        aten.avg_pool2d.default: pooling.avg_pool2d,
        aten.avg_pool3d.default: pooling.avg_pool3d,
        aten.adaptive_avg_pool1d.default:
            _of_contiguous(aten.adaptive_avg_pool1d.default),
        aten.adaptive_avg_pool2d.default:
            _of_contiguous(aten.adaptive_avg_pool2d.default),
        aten.adaptive_avg_pool3d.default: pooling.adaptive_avg_pool,
        aten.embedding_bag.padding_idx: pooling.embedding_bag,
        aten.embedding_bag.default: pooling.embedding_bag,
        aten.cdist.default: _cdist,
        aten.one_hot.default: _one_hot,
    }


def _of_contiguous(pool):
    """An adaptive pool; PyTorch's own restrides the result where its input
    does not lie in order."""
    def run(x, output_size):
        result = pooling.adaptive_avg_pool(x, output_size)
        if result is NotImplemented and not x.is_contiguous():
            return pool(x.contiguous(), output_size)
        return result
    return run


def _weight_norm(v, g, dim=0):
    """`dim` is the dimension that keeps its norms; -1: one norm for all."""
    others = [d for d in range(v.dim()) if d != dim]
    return v * (g / torch.linalg.vector_norm(v, 2, others, keepdim=dim != -1))


def _one_hot(x, num_classes=-1):
    """A comparison with a range, of classes that a lookup has checked."""
    if num_classes <= 0:
        return NotImplemented
    classes = torch.arange(num_classes, device=x.device)
    checked = classes.index_select(0, x.flatten().long()).view(x.shape)
    return (checked.unsqueeze(-1) == classes).long()


def _cdist(x, y, p=2.0, compute_mode=None):
    """Every difference; the gradient of a distance of 0 is 0."""
    return torch.linalg.vector_norm(x.unsqueeze(-2) - y.unsqueeze(-3), p, -1)


def _grid_sampler(x, grid, *settings):
    if x.dim() != 4:
        return NotImplemented
    table = get_decompositions([aten.grid_sampler_2d])
    return table[aten.grid_sampler_2d.default](x, grid, *settings)


def _pad(x, padding, mode="constant", value=None):
    """Edges are repeated by looking them up."""
    if mode != "replicate":
        return NotImplemented
    for i, (before, after) in enumerate(zip(padding[::2], padding[1::2])):
        dim = x.dim() - 1 - i
        at = torch.arange(-before, x.shape[dim] + after, device=x.device)
        x = x.index_select(dim, at.clamp(0, x.shape[dim] - 1))
    return x


def _adaptive_max_pool2d(x, output_size):
    """Windows of equal size are an ordinary pool."""
    sizes = list(zip(x.shape[-2:], output_size))
    if any(n % out for n, out in sizes):
        return NotImplemented
    kernel = [n // out for n, out in sizes]
    return aten.max_pool2d_with_indices(x, kernel, kernel)


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


def _copy(target, source, non_blocking=False):
    """The source itself where the shapes agree, also if they are symbolic."""
    source = source.to(target.dtype)
    same = source.shape == target.shape
    return source.clone() if same else source.expand_as(target)


def _pow(x, exponent):
    """The exponents that PyTorch's kernel does not leave to pow() either."""
    if not x.is_floating_point():
        return _integer_pow(x, exponent)
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


def _integer_pow(x, exponent):
    """By squaring; a negative power of an integer is an error in PyTorch."""
    if type(exponent) is not int or exponent < 0:
        return NotImplemented
    result, power = torch.ones_like(x), x
    while exponent:
        if exponent & 1:
            result = result * power
        power, exponent = power * power, exponent >> 1
    return result


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


def _fmod(x, y):
    """The remainder of the sizes, with the sign of x: exact, as fmod() is."""
    if not x.is_floating_point():
        return NotImplemented
    size = y.abs() if isinstance(y, torch.Tensor) else abs(y)
    rest = torch.remainder(x.abs(), size)
    return torch.where(x < 0, -rest, torch.where(x == 0, rest * x, rest))


def _eye(n, m=None, *, dtype=None, layout=None, device=None, pin_memory=None):
    """By subtraction: torch-mlir crashes on PyTorch's comparison of a column
    with a row."""
    rows = torch.arange(n, device=device).unsqueeze(-1)
    columns = torch.arange(n if m is None else m, device=device)
    return (columns - rows == 0).to(dtype or torch.get_default_dtype())


def _fmax(x, y):
    """The larger one; a number rather than nan."""
    x, y = torch.broadcast_tensors(x, y)
    return torch.where((x >= y) | (y != y), x, y)


def _fmin(x, y):
    x, y = torch.broadcast_tensors(x, y)
    return torch.where((x <= y) | (y != y), x, y)


# exp(t^2) erfc(t) (1 + 2 t), 0.5 <= t <= 27.3, as a polynomial in
# (t - 3) / (t + 3), to 4e-17: the coefficient of the highest power first.
_ERFC = [float.fromhex(c) for c in (
    "0x1.1329023496c91p-27", "0x1.35df9b3c9a4c7p-24", "-0x1.63d39b07d1ce5p-24",
    "-0x1.3acce90f68b47p-21", "0x1.44084bc4413dbp-22", "0x1.cfb78018c2537p-19",
    "-0x1.782485bfc426ep-21", "-0x1.5120d75cdc9fap-16",
    "0x1.4b6d031d7ec50p-18", "0x1.065978c9e5046p-13",
    "-0x1.b90fe39da363ap-14", "-0x1.98db4a63ec853p-11",
    "0x1.ef1bd7a361c1cp-10", "0x1.4b884e1fea012p-9", "-0x1.8574c404a20a9p-6",
    "0x1.17ca2877fea82p-4", "-0x1.e88b803a5bd0dp-4", "0x1.098366a5b445ep-3",
    "-0x1.85a15c58a9c63p-5", "-0x1.15c084bb9e8efp-3", "0x1.40c522d7e4987p+0")]


def _erfc(x):
    """By Shepherd and Laframboise's method (1981) in f64, also where
    1 - erf(x) has no digits left; torch-mlir has no lowering."""
    if not x.is_floating_point():
        return NotImplemented
    wide = x.double()
    size = wide.abs()
    t = torch.where(size > 27.3, 27.3, size)
    place = (t - 3) / (t + 3)
    total = torch.zeros_like(t)
    for c in _ERFC:
        total = total * place + c
    # Of 24 bits; exp(-t^2) = exp(-first^2) exp(-(t - first) (t + first)).
    first = t.float().double()
    value = (total / (1 + 2 * t) * ((first - t) * (first + t)).exp()
             * (-first * first).exp())
    value = torch.where(wide >= 0, value, 2 - value)
    return torch.where(size < 0.5, 1 - wide.erf(), value).to(x.dtype)


def _index_put(x, indices, values, accumulate=False):
    """Dimensions that are not indexed go last: torch-mlir wants no gaps."""
    at = [d for d, i in enumerate(indices) if i is not None]
    used = [indices[d] for d in at]
    if len(at) == len(indices) or any(i.dtype == torch.bool for i in used):
        return NotImplemented
    rest = [d for d in range(x.dim()) if d not in at]
    broadcast = torch.broadcast_shapes(*(i.shape for i in used))
    # Indexed dimensions that stand together keep their place in the values.
    together = at == list(range(at[0], at[-1] + 1))
    first = at[0] if together else 0
    sizes = [x.shape[d] for d in rest]
    values = values.expand(*sizes[:first], *broadcast, *sizes[first:])
    values = values.movedim(list(range(first, first + len(broadcast))),
                            list(range(len(broadcast))))
    order = at + rest
    result = aten.index_put(x.permute(order), used, values, accumulate)
    return result.permute([order.index(d) for d in range(x.dim())])


def _diagonal_scatter(x, source, offset=0, dim1=0, dim2=1):
    """Chooses between both where a row and a column meet."""
    x = x.movedim((dim1, dim2), (-2, -1))
    rows = torch.arange(x.shape[-2], device=x.device).unsqueeze(-1)
    columns = torch.arange(x.shape[-1], device=x.device)
    long = -1 if offset < 0 else -2  # Along which the diagonal is counted.
    source = aten.constant_pad_nd(source, [0, x.shape[long] - source.shape[-1]])
    source = source.unsqueeze(-2 if offset < 0 else -1)
    y = torch.where(columns - rows == offset, source, x)
    return y.movedim((-2, -1), (dim1, dim2)).clone()


def _put(x, index, source, accumulate=False):
    line = aten.index_put(x.reshape(-1), [index.reshape(-1)],
                          source.reshape(-1), accumulate)
    return line.reshape(x.shape)


# Core operations that torch-mlir does not lower.
_EXTRA = [
    aten._native_batch_norm_legit, aten._native_batch_norm_legit_functional,
    aten._native_batch_norm_legit_no_training,
    aten._batch_norm_with_update_functional, aten.batch_norm_backward,
    aten._adaptive_avg_pool2d, aten.max_pool2d_with_indices_backward,
    aten.native_group_norm, aten.grid_sampler_2d, aten.upsample_bilinear2d,
    # torch-mlir rounds a constant of its tanh form to 0.797724.
    aten.gelu,
    # torch-mlir takes exp(x) - 1, which has no digits left near 0.
    aten.elu,
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
    aten.index_put.default: _index_put,
    aten._unsafe_index_put.default: aten.index_put.default,
    aten.put.default: _put,
    aten.diagonal_scatter.default: _diagonal_scatter,
    aten.convolution.default: convolutions.convolution,
    aten.fmod.Scalar: _fmod,
    aten.fmod.Tensor: _fmod,
    aten.eye.default: _eye,
    aten.eye.m: _eye,
    aten.fmax.default: _fmax,
    aten.fmin.default: _fmin,
    aten.erfc.default: _erfc,
    aten.special_erfc.default: _erfc,
    aten.sort.default: sorting.sort,
    aten.sort.stable: sorting.stable_sort,
    aten.topk.default: sorting.topk,
    aten.kthvalue.default: sorting.kthvalue,
    aten.median.dim: sorting.median,
    aten.histc.default: sorting.histc,
    aten.searchsorted.Tensor: sorting.searchsorted,
    aten.bucketize.Tensor: sorting.bucketize,
}
