#===- nans.py - Operations on what is not finite -------------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Operations that torch-mlir, or PyTorch's own decomposition, computes
otherwise than PyTorch's kernels where something is not finite or overflows.

torch-mlir takes a bound, or the other operand, where a comparison with it is
false, as it is of NaN; its argmax skips NaN, and it folds `x == x` to true. The
choices here take NaN where an operand is NaN. Sums and squares overflow only
where the kernels' do. Integers are left to torch-mlir.
"""

import math

import torch

from .elementwise import NARROW

aten = torch.ops.aten


def _floats(*values) -> list | None:
    """The operands in their common type; None where that is none of floats."""
    dtype = torch.result_type(values[0], values[1])
    for value in values[2:]:
        dtype = torch.promote_types(dtype, torch.result_type(
            values[0], value))
    if not dtype.is_floating_point:
        return None
    return [v.to(dtype) if isinstance(v, torch.Tensor) else
            torch.full((), v, dtype=dtype, device=values[0].device)
            for v in values]


def _wide(x):
    """Narrow floats as f32, which PyTorch's kernels compute in."""
    return x.float() if x.dtype in NARROW else x


def equal(x, y):
    """Not unequal, which is true of NaN and has no fold."""
    found = _floats(x, y)
    return NotImplemented if found is None else ~aten.ne.Tensor(*found)


def clamp(x, min=None, max=None):
    """min(max(x, low), high), also where the bounds are crossed."""
    bounds = [b for b in (min, max) if b is not None]
    found = _floats(x, *bounds)
    if found is None:
        return NotImplemented
    x, *rest = found
    for limit, bound, outside in ((min, rest[0], torch.lt),
                                  (max, rest[-1], torch.gt)):
        if limit is not None:
            replaced = outside(x, bound)
            if isinstance(limit, torch.Tensor) or math.isnan(limit):
                replaced = replaced | (bound != bound)
            x = torch.where(replaced, bound, x)
    return x


def clamp_min(x, min):
    return clamp(x, min=min)


def clamp_max(x, max):
    return clamp(x, max=max)


def hardtanh(x, min_val=-1, max_val=1):
    return clamp(x, min_val, max_val)


def maximum(x, y):
    found = _floats(x, y)
    return NotImplemented if found is None else clamp(found[1], min=found[0])


def minimum(x, y):
    found = _floats(x, y)
    return NotImplemented if found is None else clamp(found[1], max=found[0])


def argmax(x, dim=None, keepdim=False):
    return _place(x, dim, keepdim, torch.amax)


def argmin(x, dim=None, keepdim=False):
    return _place(x, dim, keepdim, torch.amin)


def max_dim(x, dim, keepdim=False):
    return _value_and_place(x, dim, keepdim, torch.amax)


def min_dim(x, dim, keepdim=False):
    return _value_and_place(x, dim, keepdim, torch.amin)


def _value_and_place(x, dim, keepdim, reduce):
    place = _place(x, dim, keepdim, reduce)
    if place is NotImplemented:
        return NotImplemented
    return reduce(x, dim, keepdim), place


def _place(x, dim, keepdim, reduce):
    """Of the first NaN, else of the first element that is the extreme one."""
    if not x.is_floating_point() or not x.numel():
        return NotImplemented
    if x.dim() == 0:
        return torch.zeros_like(x, dtype=torch.int64)
    if dim is None:
        place = _place(x.reshape(-1), 0, False, reduce)
        return place.reshape([1] * x.dim()) if keepdim else place
    n = x.shape[dim]
    shape = [1] * x.dim()
    shape[dim] = n
    at = torch.arange(n, device=x.device).view(shape)
    hit = (x == reduce(x, dim, True)) | (x != x)
    end = torch.full((), n, dtype=torch.int64, device=x.device)
    return torch.where(hit, at, end).amin(dim, keepdim)


def trunc(x):
    """Towards 0, which keeps its sign."""
    if not x.is_floating_point():
        return NotImplemented
    return torch.where(x < 0, torch.ceil(x), torch.floor(x))


def div_mode(x, y, *, rounding_mode=None):
    """Rounded down as Python rounds: what is left over is exact, and NaN where
    x is infinite or y is NaN."""
    found = _floats(x, y)
    if rounding_mode != "floor" or found is None:
        return NotImplemented
    x, y = found
    over = torch.fmod(x, y)
    quotient = (x - over) / y
    # fmod() has the sign of x.
    below = (over != 0) & ((over < 0) != (y < 0))
    quotient = torch.where(below, quotient - 1, quotient)
    down = torch.floor(quotient)
    down = torch.where(quotient - down > 0.5, down + 1, down)
    plain = x / y
    down = torch.where(quotient == 0, plain * 0, down)
    return torch.where(y == 0, plain, down)


def floor_divide(x, y):
    return div_mode(x, y, rounding_mode="floor")


def hypot(x, y):
    """The larger one times a root of 1 to 2: neither square is formed."""
    if not x.is_floating_point() or not y.is_floating_point():
        return NotImplemented
    dtype = torch.result_type(x, y)
    x, y = _wide(x.to(dtype)).abs(), _wide(y.to(dtype)).abs()
    first = x > y
    large, small = torch.where(first, x, y), torch.where(first, y, x)
    ratio = small / large
    length = large * (1 + ratio * ratio).sqrt()
    length = torch.where(small == 0, large, length)
    # Of an infinite side, also beside NaN.
    infinite = (x == math.inf) | (y == math.inf)
    length = torch.where(infinite, torch.full(
        (), math.inf, dtype=x.dtype, device=x.device), length)
    return length.to(dtype)


def smooth_l1_loss_backward(grad_output, x, target, reduction, beta):
    """PyTorch's own decomposition has 0 as the sign of NaN."""
    return _within(grad_output, x, target, reduction, beta,
                   lambda d: d / beta, 1)


def huber_loss_backward(grad_output, x, target, reduction, delta):
    return _within(grad_output, x, target, reduction, delta,
                   lambda d: d, delta)


def _within(grad_output, x, target, reduction, bound, inside, outside):
    """`inside(d)` of the distances from -bound to bound, else +-outside."""
    distance = x - target
    high = torch.full((), outside, dtype=distance.dtype, device=x.device)
    slope = torch.where(distance <= -bound, -high, torch.where(
        distance >= bound, high, inside(distance)))
    if reduction == 1:
        slope = slope / x.numel()
    return slope * grad_output


def soft_margin_loss_backward(grad_output, x, target, reduction):
    """As PyTorch's kernel: NaN where exp() is infinite, as its value is."""
    z = (-target * x).exp()
    slope = -target * z / (1 + z)
    if reduction == 1:
        slope = slope / x.numel()
    return slope * grad_output


def native_layer_norm(x, shape, weight, bias, eps):
    """In f32 at least. A variance that overflows makes NaN of its row, not
    zeros: `v - v` is 0 of numbers and NaN of infinity."""
    dims = list(range(x.dim() - len(shape), x.dim()))
    count = math.prod(shape)
    wide = _wide(x)
    mean = wide.sum(dims, keepdim=True) / count
    y = wide - mean
    variance = (y * y).sum(dims, keepdim=True) / count
    scale = (variance + eps).rsqrt() + (variance - variance)
    y = y * scale
    if weight is not None:
        y = y * weight
    if bias is not None:
        y = y + bias
    return y.to(x.dtype), mean, scale


def mean(x, *, dtype=None):
    return mean_dim(x, list(range(x.dim())), dtype=dtype)


def mean_dim(x, dim, keepdim=False, *, dtype=None):
    """Divided before it is rounded: the sum may be too large for f16."""
    if x.dtype not in NARROW or dtype not in (None, x.dtype):
        return NotImplemented
    return aten.mean.dim(_wide(x), dim, keepdim).to(x.dtype)


def lerp_scalar(start, end, weight):
    """ATen's formula, with the choice made now: the weight is a number."""
    dtype = start.dtype
    start, end = _wide(start), _wide(end)
    if abs(weight) < 0.5:
        return (start + weight * (end - start)).to(dtype)
    return (end - (end - start) * (1 - weight)).to(dtype)


LOSSLESS = {
    aten.eq.Tensor: equal,
    aten.clamp.default: clamp,
    aten.clamp.Tensor: clamp,
    aten.clamp_min.default: clamp_min,
    aten.clamp_min.Tensor: clamp_min,
    aten.clamp_max.default: clamp_max,
    aten.clamp_max.Tensor: clamp_max,
    aten.hardtanh.default: hardtanh,
    aten.maximum.default: maximum,
    aten.minimum.default: minimum,
    aten.argmax.default: argmax,
    aten.argmin.default: argmin,
    aten.max.dim: max_dim,
    aten.min.dim: min_dim,
    aten.trunc.default: trunc,
    aten.div.Tensor_mode: div_mode,
    aten.div.Scalar_mode: div_mode,
    aten.floor_divide.default: floor_divide,
    aten.floor_divide.Scalar: floor_divide,
    aten.hypot.default: hypot,
    aten.soft_margin_loss_backward.default: soft_margin_loss_backward,
    aten.mean.default: mean,
    aten.mean.dim: mean_dim,
    aten.lerp.Scalar: lerp_scalar,
    aten.native_layer_norm.default: native_layer_norm,
    aten.smooth_l1_loss_backward.default: smooth_l1_loss_backward,
    aten.huber_loss_backward.default: huber_loss_backward,
}
