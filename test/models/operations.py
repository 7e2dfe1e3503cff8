#===- operations.py - Single operations for sweep.py ---------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""py:operations:NAME is a step around one operation on a 6 x 8 matrix, with a
product before it, so that its gradient is needed."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from modules import weigh

_I = torch.tensor([[0, 2, 5, 1], [3, 3, 1, 0]])
_POSITIVE = {"log", "log2", "log10", "log1p", "sqrt", "rsqrt", "lgamma",
             "digamma"}


def _image(x):
    return x.reshape(1, 2, 4, 6)


def _unary(name):
    function = getattr(torch, name)
    if name in _POSITIVE:
        return lambda x: function(x.abs() + 0.3)
    if name in ("asin", "acos", "atanh", "erfinv"):
        return lambda x: function(x.tanh() * 0.9)
    if name == "acosh":
        return lambda x: function(x.abs() + 1.1)
    return function


OPERATIONS = {name: _unary(name) for name in """
    abs acos acosh asin asinh atan atanh ceil cos cosh digamma erf erfc erfinv
    exp exp2 expm1 floor frac lgamma log log10 log1p log2 neg reciprocal round
    rsqrt sigmoid sign sin sinc sinh sqrt square tan tanh trunc i0 logit
    nan_to_num deg2rad positive""".split()}
OPERATIONS |= {name: getattr(F, name) for name in """
    celu elu gelu hardshrink hardsigmoid hardswish hardtanh leaky_relu
    logsigmoid mish relu relu6 selu silu softplus softshrink softsign
    tanhshrink""".split()}
OPERATIONS |= {
    "logit": lambda x: torch.logit(x.sigmoid(), 0.1),
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "threshold": lambda x: F.threshold(x, 0.1, 2.0),
    "prelu": lambda x: F.prelu(x, x[0, :1]),
    "glu": F.glu, "softmax": lambda x: x.softmax(0),
    "softmin": lambda x: F.softmin(x, -1),
    "log_softmax": lambda x: x.log_softmax(1),
    "logsumexp": lambda x: x.logsumexp(0),
    "logaddexp": lambda x: torch.logaddexp(x, 2 * x.flip(0)),
    "atan2": lambda x: torch.atan2(x, x.flip(1) + 0.1),
    "hypot": lambda x: torch.hypot(x, x.flip(1)),
    "pow": lambda x: (x.abs() + 0.1) ** 2.7,
    "pow_tensor": lambda x: (x.abs() + 0.1) ** x.flip(0),
    "pow_base": lambda x: 1.7 ** x,
    "pow_4": lambda x: x ** 4,
    "fmod": lambda x: torch.fmod(x, 0.7),
    "remainder": lambda x: torch.remainder(x, 0.7),
    "floor_divide": lambda x: torch.div(x, 0.3, rounding_mode="floor") * x,
    "trunc_divide": lambda x: torch.div(x, 0.3, rounding_mode="trunc") * x,
    "xlogy": lambda x: torch.xlogy(x, x.abs() + 1),
    "clamp": lambda x: x.clamp(-0.5, 0.5),
    "clamp_min": lambda x: x.clamp_min(0.1),
    "clamp_tensor": lambda x: torch.clamp(x, x.flip(0) - 1, x.flip(0) + 1),
    "maximum": lambda x: torch.maximum(x, x.flip(0)),
    "minimum": lambda x: torch.minimum(x, x.flip(0)),
    "fmax": lambda x: torch.fmax(x, x.flip(0)),
    "copysign": lambda x: torch.copysign(x, x.flip(0)),
    "lerp": lambda x: torch.lerp(x, x.flip(0), 0.3),
    "lerp_tensor": lambda x: torch.lerp(x, x.flip(0), x.sigmoid()),
    "addcmul": lambda x: torch.addcmul(x, x, x.flip(0), value=0.5),
    "addcdiv": lambda x: torch.addcdiv(x, x, x.flip(0).abs() + 1, value=0.5),
    "heaviside": lambda x: x * torch.heaviside(x, torch.tensor(0.5)),
    "where": lambda x: torch.where(x > 0, x, x * 0.1),
    "masked_fill": lambda x: x.masked_fill(x > 0.5, 0.0),
    "masked_scatter": lambda x: x.masked_scatter(
        torch.arange(8) % 2 == 0, x.flip(0)),
    # Reductions.
    "sum": lambda x: x.sum(0), "mean": lambda x: x.mean((0, 1)),
    "amax": lambda x: x.amax(1), "amin": lambda x: x.amin(0),
    "max_all": lambda x: x.max(), "max_dim": lambda x: x.max(1).values,
    "min_dim": lambda x: x.min(0).values,
    "prod": lambda x: x.prod(1), "prod_all": lambda x: (x * 0.1 + 1).prod(),
    "std": lambda x: x.std(-1), "var_mean": lambda x: sum(
        torch.var_mean(x, 0, correction=0)),
    "norm": lambda x: x.norm(dim=1), "norm_1": lambda x: x.norm(1, dim=0),
    "norm_inf": lambda x: x.norm(math.inf, dim=0),
    "norm_3": lambda x: x.norm(3, dim=0),
    "vector_norm": lambda x: torch.linalg.vector_norm(x),
    "matrix_norm": lambda x: torch.linalg.matrix_norm(x),
    "cumsum": lambda x: x.cumsum(1), "cumsum_0": lambda x: x.cumsum(0),
    "cumprod": lambda x: x.cumprod(0), "cummax": lambda x: x.cummax(1).values,
    "logcumsumexp": lambda x: x.logcumsumexp(1),
    "diff": lambda x: x.diff(dim=1), "trapz": lambda x: torch.trapz(x),
    "argmax": lambda x: x * (x.argmax(1, keepdim=True) == torch.arange(8)),
    "argmin": lambda x: x * F.one_hot(x.argmin(1), 8),
    "any": lambda x: x * (x > 0).any(1, keepdim=True),
    "all": lambda x: x * (x > -1).all(0),
    "count_nonzero": lambda x: x * (x > 0).sum(0),
    "sort": lambda x: x.sort(1).values,
    "sort_descending": lambda x: x.sort(0, descending=True).values,
    "argsort": lambda x: x.gather(1, x.argsort(1)) + x,
    "topk": lambda x: x.topk(3, 1).values,
    "topk_indices": lambda x: x.gather(1, x.topk(2, 1).indices),
    "kthvalue": lambda x: x.kthvalue(2, 1).values,
    "median": lambda x: x.median(1).values,
    "quantile": lambda x: x.quantile(0.4, dim=1),
    "searchsorted": lambda x: x * torch.searchsorted(
        torch.linspace(-1, 1, 7), x.detach()),
    "bucketize": lambda x: x * torch.bucketize(
        x.detach(), torch.linspace(-1, 1, 7)),
    "histc": lambda x: x * x.detach().histc(8, -1, 1),
    # Indexing.
    "gather": lambda x: x.gather(0, _I.repeat(1, 2)),
    "take_along_dim": lambda x: x.take_along_dim(_I.repeat(1, 2), 0),
    "take": lambda x: x.take(_I), "index_select":
        lambda x: x.index_select(1, _I[0]),
    "index": lambda x: x[:, [0, 2, 2]], "index_2": lambda x: x[_I, _I],
    "index_mixed": lambda x: x.view(6, 2, 4)[_I, :, _I % 4],
    "index_put": lambda x: torch.index_put(
        x, (_I[0],), x[:4] * 2),
    "index_put_accumulate": lambda x: torch.index_put(
        x, (_I, _I), x[0, :4].expand(2, 4), accumulate=True),
    "index_add": lambda x: torch.zeros(9, 8).index_add(
        0, torch.tensor([1, 1, 3, 2, 0, 8]), x),
    "index_copy": lambda x: (x * 1).index_copy(0, _I[0], x[:4] * 2),
    "index_fill": lambda x: x.index_fill(1, _I[0], 0.5),
    "scatter": lambda x: x.scatter(0, _I.repeat(1, 2), x[:2] * 2),
    "scatter_value": lambda x: x.scatter(0, _I.repeat(1, 2), 0.5),
    "scatter_add": lambda x: torch.zeros(6, 8).scatter_add(
        0, _I.repeat(1, 2), x[:2]),
    "scatter_reduce": lambda x: x.scatter_reduce(
        0, _I.repeat(1, 2), x[:2], "amax"),
    "select_scatter": lambda x: x.select_scatter(x[0, :6] * 2, 1, 3),
    "slice_scatter": lambda x: x.slice_scatter(x[:3] * 2, 0, 0, 6, 2),
    "diagonal_scatter": lambda x: x.diagonal_scatter(x[:, 0] * 2),
    "embedding": lambda x: F.embedding(_I, x, padding_idx=1),
    "embedding_max_norm_free": lambda x: F.embedding(
        _I, x, scale_grad_by_freq=False),
    "one_hot": lambda x: F.one_hot(_I, 6).float() @ x,
    "masked_select_sum": lambda x: (x * (x > 0)).sum(),
    # Shapes.
    "roll": lambda x: x.roll((1, -2), (0, 1)), "flip": lambda x: x.flip(0, 1),
    "rot90": lambda x: x.rot90(), "tril": lambda x: x.tril(-1),
    "triu": lambda x: x.triu(1), "diag": lambda x: x.diag(),
    "diag_embed": lambda x: torch.diag_embed(x),
    "diagonal": lambda x: x.diagonal(1), "trace": lambda x: x[:, :6].trace(),
    "pad": lambda x: F.pad(x, (1, 2, 0, 1), value=0.5),
    "pad_negative": lambda x: F.pad(x, (-1, 2)),
    "pad_reflect": lambda x: F.pad(_image(x), (1, 2, 1, 1), "reflect"),
    "pad_reflect_1d": lambda x: F.pad(x, (2, 1), "reflect"),
    "pad_replicate": lambda x: F.pad(_image(x), (1, 2, 1, 1), "replicate"),
    "pad_circular": lambda x: F.pad(_image(x), (1, 2, 1, 1), "circular"),
    "repeat": lambda x: x.repeat(2, 3), "tile": lambda x: x.tile(2),
    "repeat_interleave": lambda x: x.repeat_interleave(2, 1),
    "repeat_interleave_tensor": lambda x: x.repeat_interleave(
        torch.tensor([1, 2, 0, 1, 1, 3]), 0, output_size=8),
    "stack": lambda x: torch.stack([x, x.flip(0)], 1),
    "cat": lambda x: torch.cat([x, x[:, :3]], 1),
    "hstack": lambda x: torch.hstack([x, x]),
    "split": lambda x: x.split([2, 1, 3])[2] * x.split(2)[0][:1],
    "chunk": lambda x: x.chunk(4, 1)[2], "unbind": lambda x: x.unbind(1)[3],
    "narrow": lambda x: x.narrow(1, 2, 3), "stride": lambda x: x[::2, 1::3],
    "expand": lambda x: x[:, None].expand(6, 3, 8),
    "movedim": lambda x: x.view(6, 2, 4).movedim(0, 2),
    "unfold_tensor": lambda x: x.unfold(1, 3, 2),
    "unfold": lambda x: F.unfold(_image(x), 3, padding=1),
    "fold": lambda x: F.fold(x[None], (4, 5), (2, 3), 1)
        if x.shape[1] == 9 else F.fold(x.reshape(1, 4, 12), (4, 5), 2),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x.reshape(1, 4, 3, 4), 2),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(_image(x), 2),
    "channel_shuffle": lambda x: F.channel_shuffle(
        x.reshape(1, 4, 3, 4), 2),
    "as_strided": lambda x: x.as_strided((4, 3), (2, 5), 1),
    "tensor_split": lambda x: x.tensor_split(3, 1)[1],
    "meshgrid": lambda x: sum(torch.meshgrid(x[0], x[1], indexing="ij")),
    "cartesian": lambda x: torch.cartesian_prod(x[0], x[1]),
    "block_diag": lambda x: torch.block_diag(x, x[:2]),
    "outer": lambda x: torch.outer(x[0], x[1]),
    "cross": lambda x: torch.linalg.cross(x[:, :3], x[:, 3:6]),
    "kron": lambda x: torch.kron(x[:2, :2], x),
    # Products.
    "mm": lambda x: x @ x.t(), "bmm": lambda x: x.view(2, 3, 8).bmm(
        x.view(2, 8, 3)),
    "mv": lambda x: x @ x[0], "dot": lambda x: x[0] @ x[1],
    "baddbmm": lambda x: torch.baddbmm(
        x.view(2, 3, 8), x.view(2, 3, 8), x.new_ones(2, 8, 8), beta=0.5,
        alpha=2.0),
    "addmm": lambda x: torch.addmm(x, x, x.new_ones(8, 8), beta=0.5, alpha=2),
    "addmv": lambda x: torch.addmv(x[:, 0], x, x[0]),
    "addbmm": lambda x: torch.addbmm(
        x[:3], x.view(2, 3, 8), x.new_ones(2, 8, 8)),
    "addr": lambda x: torch.addr(x, x[:, 0], x[0]),
    "einsum": lambda x: torch.einsum("ij,kj->ik", x, x),
    "einsum_3": lambda x: torch.einsum(
        "bij,bkj,k->bi", x.view(2, 3, 8), x.view(2, 3, 8), x[0, :3]),
    "einsum_diagonal": lambda x: torch.einsum("ii,ij->j", x[:, :6], x),
    "einsum_outer": lambda x: torch.einsum("i,j,ij->ji", x[:, 0], x[0], x),
    "tensordot": lambda x: torch.tensordot(x.view(3, 2, 8), x.view(2, 3, 8),
                                           ([0, 1], [1, 0])),
    "bilinear": lambda x: F.bilinear(x, x, x.view(1, 6, 8).expand(
        2, 6, 8)[:, :, :].repeat(1, 2, 1)[:, :8]),
    "chain_matmul": lambda x: torch.linalg.multi_dot([x, x.t(), x]),
    "matrix_power": lambda x: torch.linalg.matrix_power(x[:, :6] * 0.3, 3),
    "cdist": lambda x: torch.cdist(x, x.flip(0) + 2),
    "cosine_similarity": lambda x: F.cosine_similarity(x, x.flip(0)),
    "attention": lambda x: F.scaled_dot_product_attention(
        x[None], x[None], x[None], is_causal=True),
    "attention_grouped": lambda x: F.scaled_dot_product_attention(
        x.view(1, 2, 3, 8), x.view(1, 2, 3, 8)[:, :1],
        x.view(1, 2, 3, 8)[:, :1], enable_gqa=True),
    # Resizing.
    "interpolate_nearest": lambda x: F.interpolate(_image(x), scale_factor=2),
    "interpolate_nearest_exact": lambda x: F.interpolate(
        _image(x), (7, 5), mode="nearest-exact"),
    "interpolate_1d": lambda x: F.interpolate(x[None], 5, mode="nearest"),
    "interpolate_linear": lambda x: F.interpolate(x[None], 12, mode="linear"),
    "interpolate_bilinear": lambda x: F.interpolate(
        _image(x), scale_factor=2, mode="bilinear"),
    "interpolate_corners": lambda x: F.interpolate(
        _image(x), (7, 9), mode="bilinear", align_corners=True),
    "interpolate_bicubic": lambda x: F.interpolate(
        _image(x), scale_factor=2, mode="bicubic"),
    "interpolate_area": lambda x: F.interpolate(
        _image(x), (2, 3), mode="area"),
    "grid_sample": lambda x: F.grid_sample(
        _image(x), (x[:4, :6].tanh()).reshape(1, 3, 4, 2),
        align_corners=False),
    "affine_grid": lambda x: F.affine_grid(
        x[0, :6].view(1, 2, 3), [1, 1, 3, 4], align_corners=False),
    # Types.
    "to_double": lambda x: (x.double() * math.pi).float(),
    "to_half": lambda x: x.half().float() * 2,
    "to_bfloat16": lambda x: x.bfloat16().float() * 2,
    "to_int": lambda x: x * (x * 3).int(),
    "to_uint8": lambda x: x * (x.abs() * 3).to(torch.uint8),
    "to_bool": lambda x: x * x.round().bool(),
    "bitwise": lambda x: x * (((x * 5).int() & 6) | 1),
    "shift": lambda x: x * (torch.arange(8) << 1 >> 2),
    "isnan": lambda x: torch.where(x.isnan() | x.isinf(), 0, x),
    "integer_divide": lambda x: x * (torch.arange(8) // 3 - torch.arange(
        8).flip(0) % 3),
    # Pools.
    "max_pool_indices": lambda x: F.max_pool2d(
        _image(x), 2, return_indices=True)[0],
    "avg_pool_uncounted": lambda x: F.avg_pool2d(
        _image(x), 3, 2, 1, count_include_pad=False),
    "avg_pool_ceil": lambda x: F.avg_pool2d(_image(x), 3, 2, ceil_mode=True),
    "max_pool_ceil": lambda x: F.max_pool2d(_image(x), 3, 2, ceil_mode=True),
    "max_pool3d": lambda x: F.max_pool3d(x.view(1, 1, 3, 4, 4), 2),
    "avg_pool3d": lambda x: F.avg_pool3d(x.view(1, 1, 3, 4, 4), 2),
    "adaptive_avg_pool_uneven": lambda x: F.adaptive_avg_pool2d(
        _image(x), (3, 4)),
    "adaptive_max_pool_uneven": lambda x: F.adaptive_max_pool2d(
        _image(x), (3, 4)),
    "adaptive_avg_pool3d": lambda x: F.adaptive_avg_pool3d(
        x.view(1, 1, 3, 4, 4), (1, 2, 2)),
    "lp_pool": lambda x: F.lp_pool1d(x[None].abs(), 2, 3, 2),
    "max_unpool": lambda x: F.max_unpool2d(
        *F.max_pool2d(_image(x), 2, return_indices=True), 2),
    # Linear algebra and others that may have to be refused.
    "cholesky": lambda x: torch.linalg.cholesky(
        x @ x.t() + 9 * torch.eye(6)),
    "inverse": lambda x: torch.linalg.inv(x @ x.t() + 9 * torch.eye(6)),
    "det": lambda x: torch.linalg.det(x @ x.t() * 0.1 + torch.eye(6)),
    "solve": lambda x: torch.linalg.solve(
        x @ x.t() + 9 * torch.eye(6), x),
    "qr": lambda x: torch.linalg.qr(x.t())[1].abs(),
    "svd": lambda x: torch.linalg.svdvals(x),
    "fft": lambda x: torch.fft.rfft(x).abs(),
    "complex": lambda x: torch.view_as_real(
        torch.view_as_complex(x.view(6, 4, 2)) * (1 + 2j)),
    "complex_polar": lambda x: torch.polar(x.abs(), x).real,
    "ctc": lambda x: F.ctc_loss(
        x.log_softmax(-1)[:, None], torch.tensor([[1, 2]]),
        torch.tensor([6]), torch.tensor([2])),
    "bernoulli": lambda x: x * torch.bernoulli(x.sigmoid()),
    "rand_like": lambda x: x + torch.rand_like(x),
    "nonzero": lambda x: x[x > 0].sum(),
    "unique": lambda x: x * len(_I.unique()),
}


# A part of the message, of what the exporter has to refuse by name.
REFUSED = {name: f"torch.aten.{name}" for name in
           ("digamma", "erfinv", "lgamma", "i0", "cummax")}
REFUSED |= {"heaviside": "cannot be differentiated",
            "masked_scatter": "masked_scatter_backward",
            "copysign": "torch.aten.view.dtype",
            "bernoulli": "without random numbers",
            "rand_like": "without random numbers",
            "nonzero": "shapes that do not depend",
            "unique": "values of tensors",
            "ctc": "DynamicOutputShape",
            "fft": "complex", "complex": "complex", "complex_polar": "complex",
            "max_pool3d": "max_pool3d_with_indices_backward",
            "adaptive_max_pool_uneven": "adaptive_max_pool2d_backward",
            "cholesky": "linalg_cholesky_ex", "inverse": "linalg_inv_ex",
            "det": "linalg_lu_solve", "solve": "_linalg_solve_ex",
            "qr": "linalg_solve_triangular", "svd": "_linalg_svd"}


class Operation(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 8))
        self.after = nn.Parameter(torch.ones(3))
        self.function = function

    def forward(self, x):
        y = self.function(self.weight * x)
        return weigh(y * self.after[0]) + self.after.square().sum()


def __getattr__(name):
    if name not in OPERATIONS:
        raise AttributeError(name)
    return lambda: (Operation(OPERATIONS[name]), (torch.randn(6, 8),))
