#===- convolutions.py - Gradients of convolutions ------------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Gradients of convolutions and poolings, as convolutions.

torch-mlir's own are wrong for groups, unknown for transposed convolutions and
fail for some sizes. Here both gradients are ordinary convolutions.
"""

import torch

aten = torch.ops.aten


def convolution(x, weight, bias, stride, padding, dilation, transposed,
                output_padding, groups):
    """A transposed one of groups, which torch-mlir fails on, is the gradient
    of a convolution for its input."""
    if not transposed or groups == 1:
        return NotImplemented
    rank = x.dim() - 2
    stride, padding, dilation, more = (
        list(v) * (rank if len(v) == 1 else 1)
        for v in (stride, padding, dilation, output_padding))
    sizes = [(n - 1) * s - 2 * p + d * (k - 1) + o + 1 for n, s, p, d, k, o in
             zip(x.shape[2:], stride, padding, dilation, weight.shape[2:],
                 more)]
    y = input_gradient(x, weight, sizes, stride, padding, dilation, groups)
    return y if bias is None else y + bias.view(-1, *[1] * rank)


def convolution_backward(grad, x, weight, bias_sizes, stride, padding, dilation,
                         transposed, output_padding, groups, output_mask):
    """aten.convolution_backward as convolutions without padding of results."""
    rank = x.dim() - 2
    stride, padding, dilation = (
        list(v) * (rank if len(v) == 1 else 1)
        for v in (stride, padding, dilation))
    args = (stride, padding, dilation, groups)
    grad_x = grad_weight = grad_bias = None
    if output_mask[0] and transposed:
        grad_x = aten.convolution(grad, weight, None, stride, padding, dilation,
                                  False, [0] * rank, groups)
    elif output_mask[0]:
        grad_x = input_gradient(grad, weight, x.shape[2:], *args)
    if output_mask[1]:
        # A transposed convolution is one from its output to its input.
        source, target = (grad, x) if transposed else (x, grad)
        grad_weight = _weight_gradient(target, source, weight.shape[2:], *args)
    if output_mask[2]:
        grad_bias = grad.sum([0, *range(2, grad.dim())])
    return grad_x, grad_weight, grad_bias


def avg_pool2d_backward(grad, x, kernel, stride, padding, ceil_mode,
                        count_include_pad, divisor_override):
    """Each window's gradient, spread evenly: a depthwise convolution."""
    kernel, stride, padding = (list(v) * (2 if len(v) == 1 else 1)
                               for v in (kernel, stride or kernel, padding))
    covered = [(n - 1) * s + k <= size + 2 * p for n, s, k, size, p in zip(
        grad.shape[-2:], stride, kernel, x.shape[-2:], padding)]
    if not all(covered) or (any(padding) and not count_include_pad):
        # Windows of different sizes: no one divisor.
        return NotImplemented
    channels = x.shape[-3]
    divisor = divisor_override or kernel[0] * kernel[1]
    weight = grad.new_full((channels, 1, *kernel), 1 / divisor)
    spread = input_gradient(grad.reshape(-1, *grad.shape[-3:]), weight,
                            x.shape[-2:], stride, padding, [1, 1], channels)
    return spread.reshape(x.shape)


def adaptive_avg_pool2d_backward(grad, x):
    """Windows of equal size: each gradient is repeated over its window."""
    (height, width), (rows, columns) = x.shape[-2:], grad.shape[-2:]
    if height % rows or width % columns:
        return NotImplemented
    inner = (rows, height // rows, columns, width // columns)
    spread = grad / (inner[1] * inner[3])
    spread = spread.unsqueeze(-1).unsqueeze(-3)
    return spread.expand(*x.shape[:-2], *inner).reshape(x.shape)


def input_gradient(grad, weight, sizes, stride, padding, dilation, groups):
    """The gradient for an input whose spatial shape is `sizes`."""
    rank = len(sizes)
    batch, channels, *spatial = grad.shape
    # Zeros between the elements, by padding an inner dimension of size 1.
    apart = grad.reshape(batch, channels, *(s for n in spatial for s in (n, 1)))
    apart = aten.constant_pad_nd(
        apart, [p for s in reversed(stride) for p in (0, s - 1, 0, 0)])
    apart = apart.reshape(batch, channels,
                          *(n * s for n, s in zip(spatial, stride)))
    pads = []
    for n, s, p, d, k, size in reversed(list(zip(
            spatial, stride, padding, dilation, weight.shape[2:], sizes))):
        before = d * (k - 1) - p
        pads += [before, size - 1 + d * (k - 1) - before - (n * s - 1)]
    apart = aten.constant_pad_nd(apart, pads)
    outs, ins = weight.shape[0] // groups, weight.shape[1]
    flipped = weight.reshape(groups, outs, ins, *weight.shape[2:])
    flipped = flipped.transpose(1, 2).reshape(groups * ins, outs,
                                              *weight.shape[2:])
    flipped = flipped.flip(list(range(2, 2 + rank)))
    return aten.convolution(apart, flipped, None, [1] * rank, [0] * rank,
                            dilation, False, [0] * rank, groups)


def _weight_gradient(grad, x, kernel, stride, padding, dilation, groups):
    """Batch and channels change places: the kernel slides over the input."""
    rank = len(kernel)
    batch, ins, outs = x.shape[0], x.shape[1] // groups, grad.shape[1]
    image = x.reshape(batch, groups, ins, *x.shape[2:]).permute(
        2, 1, 0, *range(3, 3 + rank)).reshape(ins, groups * batch, *x.shape[2:])
    taps = grad.transpose(0, 1).reshape(outs, batch, *grad.shape[2:])
    result = aten.convolution(image, taps, None, dilation, padding, stride,
                              False, [0] * rank, groups)
    for dim, size in enumerate(kernel):
        result = result.narrow(2 + dim, 0, size)
    return result.transpose(0, 1)
