#===- models.py - Steps that are not Hugging Face's ----------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""What a user would write for py:models:NAME. Some are wrong on purpose."""

import torch
from torch import nn
from torch.nn import functional


def transformer():
    """nn.Transformer, two layers each way, and a loss beside the module."""
    return _transformer(2)


def small_transformer():
    """The same with one layer each way."""
    return _transformer(1)


def _transformer(layers):
    model = nn.Transformer(32, 4, layers, layers, 64, dropout=0.1,
                           batch_first=True)

    def loss(model, src, tgt):
        return functional.mse_loss(model(src, tgt), tgt)

    return model, (torch.randn(2, 6, 32), torch.randn(2, 6, 32)), loss


class Mixed(nn.Module):
    """Tied, frozen and unused parameters; buffers of every kind."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 12, padding_idx=0)
        self.body = nn.Sequential(nn.Linear(12, 24), nn.GELU(),
                                  nn.Linear(24, 12))
        self.frozen = nn.Linear(12, 12).requires_grad_(False)
        self.unused = nn.Linear(3, 3)
        self.head = nn.Linear(12, 20, bias=False)
        self.head.weight = self.embedding.weight
        self.gain = nn.Parameter(torch.linspace(0.5, 1.5, 12))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mean", torch.zeros(12))
        self.register_buffer("scale", torch.full((12,), 1.5))
        self.register_buffer("keep", torch.arange(12) % 3 != 0)

    def forward(self, tokens, labels, weight):
        x = self.embedding(tokens)
        x = self.frozen(self.body(x)) * self.gain + x
        x = torch.where(self.keep, x, x * self.scale) - self.mean
        with torch.no_grad():
            self.count += 1
            self.mean.mul_(0.9).add_(0.1 * x.mean((0, 1)))
        loss = functional.cross_entropy(
            self.head(x).flatten(0, 1), labels.flatten(), reduction="none")
        return (loss * weight.flatten().exp()).mean()


def mixed():
    """Inputs by name; the module returns the loss."""
    return Mixed(), {"tokens": torch.randint(20, (2, 5)),
                     "labels": torch.randint(20, (2, 5)),
                     "weight": torch.rand(2, 5)}


def _linear(loss):
    return nn.Linear(4, 4), (torch.ones(2, 4),), loss


def not_scalar():
    return nn.Linear(4, 4), (torch.ones(2, 4),)


def branch():
    return _linear(lambda m, x: m(x).sum() if m(x).sum() > 0 else m(x).mean())


def dynamic():
    return _linear(lambda m, x: m(x)[m(x) > 0].sum())


def random():
    return _linear(lambda m, x: (m(x) * torch.randperm(4)).sum())


def compiled_differently():
    """What is traced is not what PyTorch runs."""
    return _linear(lambda m, x: m(x).sum() * (
        2 if torch.compiler.is_compiling() else 1))


def no_parameter():
    return _linear(lambda m, x: x.sum())


def writes_input():
    def loss(module, x):
        x.add_(1)
        return module(x).sum()
    return _linear(loss)


def functional_dropout():
    """In three places; one is not active."""
    def loss(model, x):
        y = functional.dropout(model(x), 0.5) + functional.dropout1d(x)
        y = functional.dropout(y, 0.5, training=False).view(1, 2, 4)
        y = functional.scaled_dot_product_attention(y, y, y, None, 0.1)
        return y.sum()
    return _linear(loss)


def complex_numbers():
    return _linear(lambda m, x: torch.fft.rfft(m(x)).abs().sum())


def no_derivative():
    return _linear(lambda m, x: m(x).heaviside(x).sum())


def number():
    return _linear(lambda m, x: 1.0)


def sorts():
    model = nn.Sequential()
    model.add_module("inner", _Sort())
    return model, (torch.ones(2, 4),)


class _Sort(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x):
        return (x * self.weight).sort(1).values.sum()


def two_types():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4).to(torch.float64))
    return _typed(model)


def _typed(model):
    def loss(model, x):
        return model[1](model[0](x).double()).sum()
    return model, (torch.ones(2, 4),), loss


def shares_storage():
    model = nn.Module()
    model.a = nn.Parameter(torch.ones(4))
    model.b = nn.Parameter(model.a.detach()[:2])
    return model, (torch.ones(4),), lambda m, x: (m.a * x).sum() + m.b.sum()


def raises():
    raise ValueError("the user's own mistake")


def leaves():
    raise SystemExit(3)


def wrong_shape():
    return nn.Linear(4, 4), (torch.ones(2, 5),), lambda m, x: m(x).sum()


def not_a_tuple():
    return nn.Linear(4, 4)


def not_a_tensor():
    return nn.Linear(4, 4), (torch.ones(2, 4), 3), lambda m, x, n: m(x).sum()


def llama_autocast():
    """Llama with weights in f32 and products in bf16; keys and values are
    shared by heads."""
    import transformers
    config = transformers.LlamaConfig(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2, intermediate_size=48, vocab_size=64,
        max_position_embeddings=1024, use_cache=False)
    model = transformers.LlamaForCausalLM(config)
    ids = torch.randint(0, 64, (4, 1024))

    def loss(model, input_ids, labels):
        with torch.autocast("cpu", torch.bfloat16):
            return model(input_ids=input_ids, labels=labels).loss

    return model, {"input_ids": ids, "labels": ids.clone()}, loss


class _Text(nn.Module):
    """A user's own language model, which leaves the shift to the data."""

    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(13, 8), nn.Linear(8, 13)
        self.places = nn.Embedding(4, 8)

    def forward(self, idx, targets):
        return functional.cross_entropy(
            self.head(self.embedding(idx)).flatten(0, 1), targets.flatten())


def _text(loss, ids=None, labels=None):
    ids = torch.randint(13, (2, 5)) if ids is None else ids
    labels = torch.randint(13, (2, 5)) if labels is None else labels
    return _Text(), {"ids": ids, "labels": labels}, (
        lambda m, ids, labels: loss(m, ids, labels))


def text_targets():
    return _Text(), {"idx": torch.randint(13, (2, 5)),
                     "targets": torch.randint(13, (2, 5))}


def float_ids():
    return _text(lambda m, i, t: m(i, t), ids=torch.rand(2, 5))


def labels_of_another_shape():
    return _text(lambda m, i, t: m(i, t), labels=torch.randint(13, (2, 4)))


def more_positions_than_rows():
    return _text(lambda m, i, t: m.places(torch.arange(5)).sum() + m(i, t))


def mixed_types():
    model, inputs, loss = _text(lambda m, i, t: m(i, t))
    model.head.bfloat16()
    return model, inputs, loss


def poisson():
    return _linear(lambda m, x: (m(x) * torch.poisson(x.abs())).sum())


def flex():
    from torch.nn.attention.flex_attention import flex_attention
    return _linear(lambda m, x: flex_attention(
        *[m(x).view(1, 1, 2, 4)] * 3).sum())


def cuda_autocast():
    def loss(model, x):
        with torch.autocast("cuda", torch.bfloat16):
            return model(x).sum()
    return _linear(loss)


def cuda_autocast_decorator():
    return _linear(torch.autocast("cuda", torch.bfloat16)(
        lambda m, x: m(x).sum()))


def none_input():
    return _Text(), {"idx": torch.randint(13, (2, 5)), "targets": None}


def input_of_another_name():
    return _Text(), {"index": torch.randint(13, (2, 5)),
                     "targets": torch.randint(13, (2, 5))}


def index_of_rank_0():
    return nn.Linear(4, 4), (torch.ones(2, 4), torch.tensor(1)), (
        lambda m, x, i: m(x)[i].sum())
