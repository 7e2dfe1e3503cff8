# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operations on what is not finite, for generate.py: py:cases:f32 and its like are steps whose evaluation returns each
operation's value, and its gradient where it has one, by name.

ONE takes the vector `x` of all specials. TWO takes `a` and `b`, all pairs of the most special ones. ROWS takes a matrix
whose rows hold some among random numbers, and is applied along rows.
"""
import functools
import math

import torch
from torch import nn
from torch.nn import functional as F

TYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16}
INF, NAN = math.inf, math.nan


def specials(dtype):
    """NaN first: what is cut into vectors repeats the first ones after the last whole vector. None is subnormal in bf16, to
    which processors may convert by an instruction that takes these for 0."""
    info = torch.finfo(dtype)
    least = info.smallest_normal / 4 if dtype != torch.bfloat16 else info.smallest_normal * 4
    few = [NAN, INF, -INF, 0.0, -0.0, 1.0, -2.0, info.max, -info.max, info.smallest_normal, -info.smallest_normal, least, -least]
    more = [0.5, -0.5, 1.5, 2.5, -2.5, 3.5, -3.75, 0.3, -0.7, 20.0, -20.0, 100.0, -100.0, -1.0, -NAN]
    return torch.tensor(few, dtype=dtype), torch.tensor(few + more, dtype=dtype)


def inputs(dtype):
    few, all = specials(dtype)
    x = torch.cat([all, all.roll(3), all[:5]])
    a, b = few.repeat_interleave(len(few)), few.repeat(len(few))
    rows = torch.randn(20, 19, generator=torch.Generator().manual_seed(0)).to(dtype)
    info = torch.finfo(dtype)
    rows[1, 0] = rows[2, 7] = rows[3, 18] = NAN
    rows[4, 3] = INF
    rows[5, 16] = -INF
    rows[6, 2], rows[6, 17] = INF, -INF
    rows[7, 5], rows[7, 11] = INF, INF
    rows[8, 1], rows[8, 9] = NAN, INF
    rows[9, 18], rows[9, 3] = NAN, -INF
    rows[10] = -INF
    rows[11] = INF
    rows[12] = NAN
    rows[13] = info.max / 4
    rows[14] = 0.0
    rows[15, 0::2], rows[15, 1::2] = 0.0, -0.0
    rows[16] *= info.smallest_normal * (1024 if dtype == torch.bfloat16 else 1)
    rows[17, 4:] = -INF
    rows[18, 12], rows[18, 13] = NAN, NAN
    return {"x": x, "a": a, "b": b, "rows": rows}


def _named(module, text):
    return {name: getattr(module, name) for name in text.split()}


ONE = _named(torch, """
    abs neg positive sign ceil floor round trunc frac reciprocal sqrt rsqrt square exp exp2 expm1 log log2 log10 log1p
    sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc sigmoid nan_to_num isnan isinf isfinite
    isposinf isneginf sinc logical_not relu""") | _named(F, """
    relu6 hardtanh hardsigmoid hardswish leaky_relu elu celu selu gelu silu mish softplus softsign tanhshrink
    hardshrink softshrink logsigmoid""") | {
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "hardtanh_of": lambda x: F.hardtanh(x, -0.75, 0.75),
    "celu_of": lambda x: F.celu(x, 0.3),
    "threshold": lambda x: F.threshold(x, 0.1, 0.2),
    # PyTorch's gradient at -0 has the sign of the one at 0.
    "logit": lambda x: torch.logit(x + 0), "prelu": lambda x: F.prelu(x, x.new_full((1,), 0.3)),
    "clamp": lambda x: x.clamp(-1, 0.9),
    "clamp_min": lambda x: x.clamp(min=-1.1),
    "clamp_max": lambda x: x.clamp(max=0.8),
    "clamp_crossed": lambda x: x.clamp(0.9, -1),
    "clamp_infinite": lambda x: x.clamp(-INF, INF),
    "clip_of_tensor": lambda x: x.clamp(min=x.new_tensor(0.25)),
    "nan_to_num_of": lambda x: torch.nan_to_num(x, 0.25, 7.0, -8.0),
    "equals_itself": lambda x: x == x, "differs_from_itself": lambda x: x != x,
    "at_least_itself": lambda x: x >= x, "less_than_itself": lambda x: x < x,
    "minus_itself": lambda x: x - x, "over_itself": lambda x: x / x, "times_zero": lambda x: x * 0,
    "plus_zero": lambda x: x + 0, "zero_minus": lambda x: 0 - x, "minus_zero": lambda x: x - 0.0,
    "positive_": lambda x: x > 0, "at_most_zero": lambda x: x <= 0, "is_zero": lambda x: x == 0,
    "is_not_zero": lambda x: x != 0, "is_not_less": lambda x: ~(x < 0.5), "is_not_equal": lambda x: ~(x == 1),
    "is_infinity": lambda x: x == INF,
    "where_finite": lambda x: torch.where(torch.isfinite(x), x, x * 0 + 0.5),
    "where_positive": lambda x: torch.where(x > 0, x, 0.1 * x),
    "where_not_positive": lambda x: torch.where(x > 0, 0.1, x),
    "masked_fill": lambda x: x.masked_fill(x > 0.5, -INF),
    "pow_0": lambda x: x ** 0, "pow_1": lambda x: x ** 1, "pow_2": lambda x: x ** 2, "pow_3": lambda x: x ** 3,
    "pow_4": lambda x: x ** 4, "pow_half": lambda x: x ** 0.5, "pow_minus_1": lambda x: x ** -1,
    "pow_minus_half": lambda x: x ** -0.5, "pow_2.7": lambda x: x ** 2.7, "power_of_2": lambda x: 2.0 ** x,
    "power_of_1": lambda x: 1.0 ** x, "remainder_of": lambda x: torch.remainder(x, 0.75),
    "remainder_of_negative": lambda x: torch.remainder(x, -0.75), "fmod_of": lambda x: torch.fmod(x, 0.75),
    "floor_divide": lambda x: torch.div(x, 0.5, rounding_mode="floor"),
    "trunc_divide": lambda x: torch.div(x, 0.5, rounding_mode="trunc"),
    "bool": lambda x: x.bool(), "logical_and": lambda x: torch.logical_and(x, x > 0),
    "int32": lambda x: torch.nan_to_num(x, 3, 4, 5).clamp(-30, 30).int(),
    "int64": lambda x: torch.nan_to_num(x, 3, 4, 5).clamp(-30, 30).long(),
    "uint8": lambda x: torch.nan_to_num(x, 3, 4, 5).clamp(0, 200).to(torch.uint8).int(),
    "at_least_0.3": lambda x: x >= 0.3, "more_than_0.7": lambda x: -x > 0.7,
    "to_f32": lambda x: x.float(), "to_f64": lambda x: x.double(), "to_bf16": lambda x: x.bfloat16(),
    "to_f16": lambda x: x.half(), "round_2": lambda x: torch.round(x, decimals=1),
    "xlogy": lambda x: torch.xlogy(x * 0, x), "softplus_of": lambda x: F.softplus(x, 2.0, 5.0),
    "relu_squared": lambda x: F.relu(x).square(), "abs_max": lambda x: x.abs().clamp(max=5),
    "bce_logits": lambda x: F.binary_cross_entropy_with_logits(x, torch.full_like(x, 0.25), reduction="none"),
}

TWO = {name: getattr(torch, name) for name in """
    add sub mul div remainder fmod pow atan2 maximum minimum fmax fmin eq ne lt le gt ge hypot logaddexp xlogy
    logical_or logical_xor""".split()} | {
    "floor_divide_by": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "trunc_divide_by": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "clamp_by": lambda a, b: torch.clamp(a, b, b.abs() + 1), "clamp_min_by": lambda a, b: a.clamp(min=b),
    "clamp_max_by": lambda a, b: a.clamp(max=b), "clamp_bound": lambda a, b: torch.clamp(a * 0 + 0.5, a, b),
    "where": lambda a, b: torch.where(a > b, a, b), "where_not": lambda a, b: torch.where(a <= b, a, b),
    "not_less": lambda a, b: ~(a < b), "not_equal": lambda a, b: ~(a == b),
    "less_or_more": lambda a, b: (a < b) | (a > b), "lerp": lambda a, b: torch.lerp(a, b, 0.25),
    "addcmul": lambda a, b: torch.addcmul(a, a, b, value=0.5), "addcdiv": lambda a, b: torch.addcdiv(a, a, b, value=0.5),
    "huber": lambda a, b: F.huber_loss(a, b, reduction="none"),
    "smooth_l1": lambda a, b: F.smooth_l1_loss(a, b, reduction="none", beta=0.4),
    "mse": lambda a, b: F.mse_loss(a, b, reduction="none"), "l1": lambda a, b: F.l1_loss(a, b, reduction="none"),
    "margin_ranking": lambda a, b: F.margin_ranking_loss(a, b, a * 0 + 1, reduction="none"),
    "hinge_embedding": lambda a, b: F.hinge_embedding_loss(a, b.detach().sign(), reduction="none"),
    "soft_margin": lambda a, b: F.soft_margin_loss(a, b.detach().sign(), reduction="none"),
    "kl_div": lambda a, b: F.kl_div(a, b, reduction="none"),
    "poisson_nll": lambda a, b: F.poisson_nll_loss(a, b, reduction="none"),
    "median_of_3": lambda a, b: torch.maximum(torch.minimum(a, b), torch.minimum(torch.maximum(a, b), a * 0.5)),
    "is_close": lambda a, b: torch.isclose(a, b), "is_close_nan": lambda a, b: torch.isclose(a, b, equal_nan=True),
}


def _image(x):
    return x[:, :18].reshape(1, 20, 3, 6)


def _distinct(x):
    """Rows without equal elements: of those each may come first."""
    return torch.cat([x[:10], x[16:17]])


def _moderate(x):
    """Rows whose sums and squares are no larger than the largest number, and no smaller than the least."""
    return torch.cat([x[:13], x[14:16], x[17:]])


def _finite(x):
    return torch.cat([x[:1], x[14:17]])


def _large(x):
    """Of numbers near it, the squares of their deviations are infinite."""
    return torch.finfo(x.dtype).max / 64


def _classes(x):
    return torch.arange(x.shape[0]) % x.shape[1]


ROWS = {
    "sum": lambda x: x.sum(1), "mean": lambda x: x.mean(1), "prod": lambda x: x.prod(1), "amax": lambda x: x.amax(1),
    "amin": lambda x: x.amin(1), "max": lambda x: x.max(1).values, "min": lambda x: x.min(1).values,
    "max_index": lambda x: x.max(1).indices, "min_index": lambda x: x.min(1).indices,
    "argmax": lambda x: x.argmax(1), "argmin": lambda x: x.argmin(1),
    "softmax": lambda x: x.softmax(1), "log_softmax": lambda x: x.log_softmax(1), "softmin": lambda x: F.softmin(x, 1),
    "logsumexp": lambda x: x.logsumexp(1), "var": lambda x: _moderate(x).var(1), "std": lambda x: _moderate(x).std(1),
    "norm": lambda x: x.norm(dim=1), "norm_1": lambda x: x.norm(1, dim=1), "norm_inf": lambda x: x.norm(INF, dim=1),
    "norm_least": lambda x: x.norm(-INF, dim=1), "norm_3": lambda x: x.norm(3, dim=1), "norm_0": lambda x: x.norm(0, dim=1),
    "nansum": lambda x: x.nansum(1), "nanmean": lambda x: x.nanmean(1), "cumsum": lambda x: x.cumsum(1),
    "cumprod": lambda x: x.cumprod(1), "logcumsumexp": lambda x: x[:13].logcumsumexp(1),
    "sort": lambda x: x.sort(dim=1, stable=True).values, "sort_index": lambda x: x.sort(dim=1, stable=True).indices,
    "sort_descending": lambda x: x.sort(dim=1, descending=True, stable=True).values,
    "topk": lambda x: _distinct(x).topk(3, 1).values, "topk_least": lambda x: _distinct(x).topk(3, 1, largest=False).values,
    "topk_index": lambda x: _distinct(x).topk(2, 1).indices,
    "kthvalue": lambda x: _distinct(x).kthvalue(2, 1).values, "median": lambda x: _distinct(x).median(1).values,
    "any": lambda x: x.any(1), "all": lambda x: x.all(1), "count_nonzero": lambda x: x.count_nonzero(1),
    "isnan_any": lambda x: x.isnan().any(1), "isfinite_all": lambda x: x.isfinite().all(1),
    "max_all": lambda x: x.max(), "min_all": lambda x: x[13:17].min(), "argmax_all": lambda x: x.argmax(),
    "sum_all": lambda x: x.sum(), "mean_finite": lambda x: torch.where(x.isfinite(), x, 0).mean(),
    "aminmax": lambda x: sum(torch.aminmax(x, dim=1)),
    "max_pool1d": lambda x: F.max_pool1d(x[None], 3), "max_pool1d_padded": lambda x: F.max_pool1d(x[None], 3, 2, 1),
    "max_pool2d": lambda x: F.max_pool2d(_image(x), 2),
    # (A window of -inf alone, and the padding beside it, are not told apart.)
    "max_pool2d_padded": lambda x: F.max_pool2d(_image(torch.where(x == -INF, 0, x)), 2, padding=1),
    "max_pool_index": lambda x: F.max_pool2d(_image(x), 2, return_indices=True)[1],
    "adaptive_max_pool1d": lambda x: F.adaptive_max_pool1d(x[None, :, :18], 6),
    "avg_pool1d": lambda x: F.avg_pool1d(x[None], 3), "avg_pool2d": lambda x: F.avg_pool2d(_image(x), 2, padding=1),
    "avg_pool_uncounted": lambda x: F.avg_pool2d(_image(x), 2, padding=1, count_include_pad=False),
    "adaptive_avg_pool1d": lambda x: F.adaptive_avg_pool1d(x[None, :, :18], 6),
    "adaptive_avg_pool_uneven": lambda x: F.adaptive_avg_pool1d(x[None], 4),
    "layer_norm": lambda x: F.layer_norm(_moderate(x), x.shape[-1:]),
    "layer_norm_of_large": lambda x: F.layer_norm(x[:1, :16] * _large(x), (16,)),
    "rms_norm": lambda x: F.rms_norm(_moderate(x), x.shape[-1:], eps=1e-6),
    "group_norm": lambda x: F.group_norm(_moderate(x)[:, :18], 3), "batch_norm": lambda x: F.batch_norm(
        _moderate(x).t(), torch.full((18,), 0.5, dtype=x.dtype), torch.full((18,), 2.0, dtype=x.dtype)),
    "normalize": lambda x: F.normalize(x, dim=1), "cosine_similarity": lambda x: F.cosine_similarity(x, x.flip(1), 1),
    "cross_entropy": lambda x: F.cross_entropy(x, _classes(x), reduction="none"),
    "cross_entropy_smoothed": lambda x: F.cross_entropy(x, _classes(x), reduction="none", label_smoothing=0.1),
    "cross_entropy_ignored": lambda x: F.cross_entropy(
        x, torch.where(torch.arange(20) % 2 == 0, _classes(x), -100), reduction="none"),
    "cross_entropy_mean": lambda x: F.cross_entropy(x[13:15], _classes(x[:2])),
    "nll": lambda x: F.nll_loss(x, _classes(x), reduction="none"),
    "multi_margin": lambda x: F.multi_margin_loss(_finite(x), _classes(_finite(x)), reduction="none"),
    "gather": lambda x: x.gather(1, _classes(x)[:, None]), "index_select": lambda x: x.index_select(1, torch.tensor([3, 0, 3])),
    "embedding": lambda x: F.embedding(torch.tensor([0, 3, 12, 3]), x),
    "embedding_bag": lambda x: F.embedding_bag(torch.tensor([[0, 3], [12, 14], [13, 14]]), x, mode="sum"),
    "embedding_bag_mean": lambda x: F.embedding_bag(torch.tensor([[0, 3], [12, 14], [13, 14]]), x, mode="mean"),
    "scatter_amax": lambda x: torch.zeros_like(x).scatter_reduce(1, _classes(x)[:, None].expand(-1, 4), x[:, :4], "amax"),
    "index_add": lambda x: torch.zeros_like(x).index_add(0, torch.arange(20) // 2, x),
    "scatter_add": lambda x: torch.zeros_like(x).scatter_add(1, _classes(x)[:, None].expand(-1, 4), x[:, :4]),
    "one_hot": lambda x: F.one_hot(x.argmax(1), 19), "where_row": lambda x: torch.where(x.isnan().any(1, keepdim=True), 0, x),
    "cat": lambda x: torch.cat([x, x[:, :3]], 1), "pad": lambda x: F.pad(x, (1, 2), value=-INF),
    "flip": lambda x: x.flip(1), "roll": lambda x: x.roll(2, 1), "tril": lambda x: x.tril(), "diff": lambda x: x.diff(dim=1),
    "matmul": lambda x: x[:, :4] @ x[13:17, :4].t(), "matmul_rows": lambda x: x[12:17] @ x[12:17].t(),
    "conv1d": lambda x: F.conv1d(x[:, None], x.new_ones(1, 1, 3), padding=1),
    "attention": lambda x: F.scaled_dot_product_attention(*(x[None, :, :8],) * 3),
    "attention_causal": lambda x: F.scaled_dot_product_attention(*(x[None, :, :8],) * 3, is_causal=True),
    "interpolate": lambda x: F.interpolate(x[None], 38, mode="nearest"),
    "bucketize": lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 0.5, 1.0], dtype=x.dtype)),
    "searchsorted": lambda x: torch.searchsorted(
        torch.tensor([-1.0, 0.0, 0.5, INF], dtype=x.dtype), x, right=True),
    "quantile": lambda x: _distinct(x)[:10].float().quantile(0.4, dim=1), "glu": lambda x: F.glu(x[:, :18], 1),
    "mse_mean": lambda x: F.mse_loss(x[:2], x[13:15]), "clamp_sum": lambda x: x.clamp(-1, 1).sum(1),
    "max_of_clamp": lambda x: x.clamp(-1, 1).amax(1), "sum_of_squares": lambda x: x.square().sum(1),
    "softmax_masked": lambda x: x.masked_fill(torch.arange(19) > 11, -INF).softmax(1),
    "cdist": lambda x: torch.cdist(x[:5], x[13:17]),
}
# Along columns, too.
COLUMNS = ["sum", "amax", "amin", "argmax", "argmin", "softmax", "log_softmax", "logsumexp", "prod", "norm", "mean", "var",
           "any", "cumsum", "max_index"]

CASES = {name: (("x",), function) for name, function in ONE.items()}
CASES |= {name: (("a", "b"), function) for name, function in TWO.items()}
CASES |= {f"{name}_rows": (("rows",), function) for name, function in ROWS.items()}
CASES |= {f"{name}_columns": (("rows",), functools.partial(lambda f, x: f(x.t()), ROWS[name])) for name in COLUMNS}


# Values in which nothing is rounded but once, and those of them in which a zero's sign is PyTorch's, too. (It is not where a
# kernel chooses between zeros.)
EXACT = set("""
    abs neg positive ceil floor round trunc sqrt nan_to_num relu nan_to_num_of minus_itself over_itself times_zero plus_zero
    zero_minus minus_zero where_finite where_not_positive masked_fill pow_0 pow_1 pow_2 to_f32 to_f64
    to_f16 fmod_of add sub mul div fmod where where_not
    sign frac reciprocal square relu6 hardtanh hardshrink softshrink threshold clamp clamp_min clamp_max clamp_crossed
    clamp_infinite clip_of_tensor remainder_of trunc_divide abs_max remainder maximum minimum fmax fmin clamp_by clamp_min_by
    clamp_max_by clamp_bound median_of_3
    amax_rows amin_rows max_rows min_rows sort_rows sort_descending_rows topk_rows topk_least_rows kthvalue_rows median_rows
    max_all_rows min_all_rows aminmax_rows max_pool1d_rows max_pool2d_rows gather_rows index_select_rows embedding_rows
    scatter_amax_rows cat_rows pad_rows flip_rows roll_rows tril_rows diff_rows interpolate_rows max_of_clamp_rows
    amax_columns amin_columns""".split())
SIGNED = set("""
    abs neg positive ceil floor round trunc sqrt minus_zero plus_zero zero_minus times_zero where_not_positive masked_fill to_f32
    to_f64 to_f16 fmod_of add sub mul div fmod where where_not gather_rows index_select_rows embedding_rows cat_rows
    flip_rows roll_rows""".split())

# Functions, which are as exact as their test says: of these, infinities, NaN, zeros and moderate numbers are compared, and what
# is much less than 1 is 0.
FUNCTIONS = set("""
    exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc sigmoid sinc elu celu
    celu_of selu gelu gelu_tanh silu mish softplus softplus_of tanhshrink logsigmoid logit pow_2.7 power_of_2 xlogy bce_logits pow
    logaddexp soft_margin kl_div poisson_nll""".split())


def weights(shape, dtype):
    """Gradients of results, which differ and are exact in any type."""
    count = math.prod(shape)
    return (torch.arange(count) % 7 * 0.25 + 0.5).reshape(shape).to(dtype)


def run(function, arguments, weigh=lambda value: weights(value.shape, value.dtype)):
    """The value and, of those of floats, the gradients by the arguments."""
    with torch.enable_grad():
        leaves = [t.detach().requires_grad_() for t in arguments]
        value = function(*leaves)
        found = {"": value.detach()}
        if value.requires_grad:
            gradients = torch.autograd.grad(value, leaves, weigh(value), allow_unused=True)
            found |= {f".grad_{i}": g for i, g in enumerate(gradients) if g is not None}
    return found


class Specials(nn.Module):
    def __init__(self, names):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))
        self.names = names

    def forward(self, **tensors):
        results = {}
        for name in self.names:
            arguments, function = CASES[name]
            for suffix, value in run(function, [tensors[k] for k in arguments]).items():
                results[name + suffix] = value
        return results


# Left out:
# - atan2, whose quadrants the compiler's approximation does not tell apart at zeros and infinities;
# - f64: what has no lowering;
# - bf16, f16: what has no kernel in PyTorch; convolutions of PyTorch's that spread NaN beyond their windows; comparisons with
#   numbers that the type does not hold, which are not rounded to it;
# - f16: roots that PyTorch computes by pow(); rounding to digits, where ten times the number is too large.
LEFT_OUT = {"f32": {"atan2"}, "f64": {"erfc", "atan2"}} | dict.fromkeys(("bf16", "f16"), {
    "multi_margin_rows", "cdist_rows", "conv1d_rows", "at_least_0.3", "more_than_0.7", "atan2"})
LEFT_OUT["f16"] = LEFT_OUT["f16"] | {"pow_half", "pow_minus_half", "round_2"}
# Results that the compiler finds to be others.
REPEATED = {"bool"}


def names_of(dtype):
    return [name for name in CASES if name not in LEFT_OUT[dtype]]


def step(dtype, names=None):
    """As py: functions return it."""
    def loss(module, **tensors):
        if not module.training:
            module(**tensors)
        # Every input has to be read; none of what is not finite.
        return module.scale.square().mean() + sum(t[..., 5].isnan().sum() for t in tensors.values())

    return Specials(names or names_of(dtype)), inputs(TYPES[dtype]), loss


class Clipped(nn.Module):
    """Features are clipped before a layer; a missing one is NaN."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        return self.layer(x.clamp(-5, 5)).square().mean()


def clipped():
    torch.manual_seed(0)
    return Clipped(), {"x": torch.rand(2, 3)}


def __getattr__(name):
    if name in TYPES:
        return lambda: step(name)
    raise AttributeError(name)
