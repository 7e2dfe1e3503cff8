#===- modules.py - Models that sweep.py builds itself --------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""What a user would write for py:modules:NAME. Steps return a scalar loss."""

import torch
from torch import nn
from torch.nn import functional as F


def weigh(y):
    """A scalar in which every element counts differently."""
    weight = torch.linspace(0.1, 2, y.numel()).cos().view(y.shape).to(y.dtype)
    return ((1.3 * y + 0.2 * y.square()) * weight).mean()


class Sum(nn.Module):
    """Weighs the outputs of several modules on one input."""

    def __init__(self, *parts, first=None):
        super().__init__()
        self.first = first or nn.Identity()
        self.parts = nn.ModuleList(parts)

    def forward(self, x):
        x = self.first(x)
        return sum(weigh(p(x)) for p in self.parts)


class Fn(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def _recurrent(cell):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = cell
            size = cell.hidden_size * (2 if cell.bidirectional else 1)
            self.head = nn.Linear(size, 5)

        def forward(self, x, labels):
            y, _ = self.cell(x)
            return F.cross_entropy(self.head(y[:, -1]), labels)

    return Model(), {"x": torch.randn(3, 7, 6),
                     "labels": torch.randint(5, (3,))}


def lstm():
    return _recurrent(nn.LSTM(6, 10, 2, batch_first=True))


def lstm_bidirectional():
    return _recurrent(nn.LSTM(6, 10, 1, batch_first=True, bidirectional=True))


def gru():
    return _recurrent(nn.GRU(6, 10, 2, batch_first=True))


def rnn():
    return _recurrent(nn.RNN(6, 10, 1, batch_first=True))


def norms():
    return Sum(nn.BatchNorm2d(6), nn.GroupNorm(3, 6),
               nn.InstanceNorm2d(6, affine=True),
               nn.LayerNorm([6, 5, 4]), nn.RMSNorm([5, 4]),
               nn.LocalResponseNorm(3),
               nn.Sequential(nn.Flatten(2), nn.BatchNorm1d(6)),
               Fn(lambda x: F.normalize(x, dim=1)),
               first=nn.Conv2d(3, 6, 1)), (torch.randn(2, 3, 5, 4),)


def conv1d():
    return Sum(nn.Conv1d(6, 8, 3), nn.Conv1d(6, 8, 3, 2, 1, dilation=2),
               nn.Conv1d(6, 12, 3, groups=3), nn.Conv1d(6, 6, 4, groups=6),
               nn.Conv1d(6, 8, 3, padding="same"),
               nn.Conv1d(6, 8, 3, padding=2, padding_mode="circular"),
               nn.ConvTranspose1d(6, 4, 3, 2, 1, output_padding=1),
               first=nn.Conv1d(3, 6, 1)), (torch.randn(2, 3, 11),)


def conv2d():
    return Sum(nn.Conv2d(6, 8, 3), nn.Conv2d(6, 8, (3, 2), (2, 1), (1, 0)),
               nn.Conv2d(6, 8, 3, padding=2, dilation=2),
               nn.Conv2d(6, 12, 3, groups=3), nn.Conv2d(6, 6, 3, groups=6),
               nn.Conv2d(6, 12, 3, groups=6, stride=2),
               nn.Conv2d(6, 4, 3, padding=1, padding_mode="reflect"),
               nn.Conv2d(6, 4, 3, padding=1, padding_mode="replicate"),
               nn.Conv2d(6, 8, 1, 2),
               first=nn.Conv2d(3, 6, 1)), (torch.randn(2, 3, 9, 8),)


def conv3d():
    return Sum(nn.Conv3d(4, 6, 3), nn.Conv3d(4, 6, 3, 2, 1),
               nn.Conv3d(4, 4, (1, 3, 3), padding=(0, 1, 1), groups=2),
               nn.ConvTranspose3d(4, 3, 2, 2),
               nn.Sequential(nn.Conv3d(4, 4, 1), nn.BatchNorm3d(4),
                             nn.ReLU()),
               first=nn.Conv3d(2, 4, 1)), (torch.randn(2, 2, 4, 6, 5),)


def conv_transposed():
    return Sum(nn.ConvTranspose2d(6, 8, 3), nn.ConvTranspose2d(6, 8, 3, 2, 1),
               nn.ConvTranspose2d(6, 8, 3, 2, 1, 1),
               nn.ConvTranspose2d(6, 9, 4, 2, 1, groups=3),
               nn.ConvTranspose2d(6, 4, 3, 1, 2, dilation=2),
               nn.ConvTranspose2d(6, 6, 2, 2, groups=6),
               first=nn.Conv2d(3, 6, 1)), (torch.randn(2, 3, 6, 5),)


def pools():
    return Sum(nn.MaxPool2d(2), nn.MaxPool2d(3, 2, 1),
               nn.MaxPool2d(2, 1, dilation=2), nn.AvgPool2d(2),
               nn.AvgPool2d(3, 2, 1), nn.AdaptiveAvgPool2d(1),
               nn.AdaptiveAvgPool2d((4, 2)), nn.AdaptiveMaxPool2d(1),
               nn.LPPool2d(2, 2),
               nn.Sequential(nn.Flatten(2), nn.MaxPool1d(3, 2)),
               nn.Sequential(nn.Flatten(2), nn.AvgPool1d(4, 2)),
               nn.Sequential(nn.Flatten(2), nn.AdaptiveAvgPool1d(4)),
               first=nn.Conv2d(3, 4, 1)), (torch.randn(2, 3, 8, 8),)


def embedding_bag():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.mean = nn.EmbeddingBag(19, 6, mode="mean")
            self.total = nn.EmbeddingBag(19, 6, mode="sum")

        def forward(self, tokens):
            return weigh(self.mean(tokens)) + weigh(self.total(tokens))

    return Model(), {"tokens": torch.randint(19, (4, 5))}


def losses():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.of = nn.ModuleDict({n: nn.Linear(6, 5) for n in self.terms()})

        @staticmethod
        def terms():
            return {
                "ce": lambda y, t, c: F.cross_entropy(y, c, ignore_index=2),
                "smooth": lambda y, t, c: F.cross_entropy(
                    y, c, label_smoothing=0.1),
                "weighted": lambda y, t, c: F.cross_entropy(
                    y, c, weight=torch.linspace(1, 2, 5)),
                "soft": lambda y, t, c: F.cross_entropy(y, t.softmax(-1)),
                "bce": lambda y, t, c: F.binary_cross_entropy(
                    y.sigmoid(), t.sigmoid()),
                "bce_logits": lambda y, t, c:
                    F.binary_cross_entropy_with_logits(y, t.sigmoid()),
                "mse": F_two(F.mse_loss), "l1": F_two(F.l1_loss),
                "huber": F_two(F.huber_loss), "smooth_l1":
                    F_two(F.smooth_l1_loss),
                "kl": lambda y, t, c: F.kl_div(
                    y.log_softmax(-1), t.softmax(-1), reduction="batchmean"),
                "kl_log": lambda y, t, c: F.kl_div(
                    y.log_softmax(-1), t.log_softmax(-1), log_target=True),
                "poisson": F_two(F.poisson_nll_loss),
                "cosine": lambda y, t, c: F.cosine_embedding_loss(
                    y, t, torch.ones(6)),
                "hinge": lambda y, t, c: F.hinge_embedding_loss(y, t.sign()),
                "margin": lambda y, t, c: F.multi_margin_loss(y, c),
                "soft_margin": lambda y, t, c: F.soft_margin_loss(y, t.sign()),
                "triplet": lambda y, t, c: F.triplet_margin_loss(
                    y, t, t.flip(0)),
                "cosine_similarity": lambda y, t, c: F.cosine_similarity(
                    y, t).mean(),
                "distance": lambda y, t, c: torch.cdist(y, t).mean(),
            }

        def forward(self, x, target, classes):
            return sum(f(self.of[n](x), target, classes)
                       for n, f in self.terms().items())

    return Model(), {"x": torch.randn(6, 6), "target": torch.randn(6, 5),
                     "classes": torch.tensor([0, 2, 4, 1, 2, 3])}


def F_two(function):
    return lambda y, t, c: function(y, t)


def multihead_attention():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(
                16, 4, batch_first=True, add_bias_kv=True)

        def forward(self, x, padding_mask):
            y, weights = self.attention(x, x, x, key_padding_mask=padding_mask)
            return weigh(y) + weigh(weights)

    mask = torch.zeros(2, 6, dtype=torch.bool)
    mask[:, 4:] = True
    return Model(), {"x": torch.randn(2, 6, 16), "padding_mask": mask}


def encoder_layer():
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True,
                                       activation="gelu", norm_first=True)
    return (nn.TransformerEncoder(layer, 2, enable_nested_tensor=False),
            (torch.randn(2, 6, 16),), lambda m, x: weigh(m(x)))


def double_loss():
    """Parts of the loss in f64."""
    def loss(model, x):
        y = model(x).double()
        return (weigh(y) + y.exp().sum(-1).log().mean()).float()

    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4)), (
        torch.randn(5, 6),), loss


def views():
    """Gradients that gather over overlapping views of one parameter."""
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(12, 6))

        def forward(self, x):
            w = self.weight
            a, b, c = w.split(4)
            y = x @ w.view(6, 12) + (x @ w[3:9]).repeat(1, 2)
            y = y + (x @ a.t().reshape(6, 4)).repeat(1, 3)
            y = y * w.diagonal().sum() + w.unfold(0, 3, 2).sum()
            y = y + w.t()[1, ::2].sum() + (b * c).mean() + w[-1, -1]
            return weigh(y)

    return Model(), (torch.randn(4, 6),)


def scalar_parameters():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.tensor(1.5))
            self.shift = nn.Parameter(torch.tensor(0.1))
            self.linear = nn.Linear(4, 3)
            self.temperature = nn.Parameter(torch.ones(1))

        def forward(self, x):
            return weigh(self.linear(x * self.scale + self.shift)
                         / self.temperature.exp())

    return Model(), (torch.randn(5, 4),)


def zero_size():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 3)
            self.empty = nn.Parameter(torch.zeros(0, 3))

        def forward(self, x):
            y = torch.cat([self.linear(x), self.empty])
            return weigh(y) + self.linear(x[:0]).sum()

    return Model(), (torch.randn(5, 4),)


def long_vector():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(1000003) * 0.1)
            self.bias = nn.Parameter(torch.randn(17))

        def forward(self, x):
            return (self.weight * 0.5).tanh().square().mean() + weigh(
                self.weight[:17] * x + self.bias)

    return Model(), (torch.randn(3, 17),)


class Block(nn.Module):
    def __init__(self, size, inner=None):
        super().__init__()
        self.up = inner or nn.Linear(size, size)
        self.down = nn.Linear(size, size)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(x)))


def shared_weights():
    """One layer that three blocks, three units, share."""
    inner = nn.Linear(8, 8)
    model = nn.Sequential(*(Block(8, inner) for _ in range(3)))
    return model, (torch.randn(4, 8),), lambda m, x: weigh(m(x))


def deep():
    model = nn.Sequential(*(Block(8) for _ in range(24)))
    return model, (torch.randn(4, 8),), lambda m, x: weigh(m(x))


def frozen_layers():
    model = nn.Sequential(*(Block(8) for _ in range(4)))
    for at in (0, 2):
        model[at].requires_grad_(False)
    model[3].down.weight.requires_grad_(False)
    return model, (torch.randn(4, 8),), lambda m, x: weigh(m(x))


def unused_parameters():
    model = nn.Sequential(*(Block(8) for _ in range(3)))
    model.spare = nn.ModuleList([Block(8), nn.LayerNorm(8)])
    return model, (torch.randn(4, 8),), lambda m, x: weigh(m[1](m[0](x)))


def batch_norm_buffers():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8, momentum=0.3), nn.ReLU(),
        nn.Conv2d(8, 8, 1), nn.BatchNorm2d(8, affine=False),
        nn.Conv2d(8, 8, 1), nn.BatchNorm2d(8, track_running_stats=False))
    return model, (torch.randn(3, 3, 8, 8),), lambda m, x: weigh(m(x))


def batch_norm_average():
    """An average over all steps: divides by the number in a buffer."""
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(
        8, momentum=None)), (torch.randn(3, 3, 8, 8),), lambda m, x: weigh(m(x))


def bfloat16():
    model = nn.Sequential(*(Block(16) for _ in range(3))).to(torch.bfloat16)
    return model, (torch.randn(4, 16, dtype=torch.bfloat16),), (
        lambda m, x: weigh(m(x).float()))


def mixed_dtypes():
    """Matrices in bf16, norms in f32."""
    model = nn.Sequential(nn.Linear(16, 16).to(torch.bfloat16),
                          nn.LayerNorm(16), nn.Linear(16, 4))

    def loss(m, x):
        return weigh(m[2](m[1](m[0](x.bfloat16()).float())))

    return model, (torch.randn(4, 16),), loss


def mlp():
    return (nn.Sequential(nn.Linear(7, 33), nn.ReLU(), nn.Linear(33, 5)),
            {"x": torch.randn(9, 7), "labels": torch.randint(5, (9,))},
            lambda m, x, labels: F.cross_entropy(m(x), labels))


def dropout():
    """Removed by the exporter, in every form it can see."""
    model = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.AlphaDropout(),
                          nn.Linear(8, 4), nn.Dropout1d(0.3))
    return model, (torch.randn(5, 6),), lambda m, x: weigh(m(x))


def integers():
    """Integer and boolean arithmetic between float layers."""
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(11, 6)
            self.register_buffer("offsets", torch.arange(5, dtype=torch.int32))

        def forward(self, tokens, keep, small):
            ids = (tokens * 3 + self.offsets) % 11
            ids = torch.where(keep, ids, ids // 2)
            ids = ids.clamp(1, 9) ^ (small.long() & 1)
            y = self.embedding(ids) * keep.unsqueeze(-1)
            return weigh(y) + (y.sum(-1) * (ids > 4).float()).mean()

    return Model(), {"tokens": torch.randint(11, (3, 5)),
                     "keep": torch.rand(3, 5) > 0.3,
                     "small": torch.randint(4, (3, 5), dtype=torch.int8)}


def one_element():
    """Fewer elements than ranks in every unit."""
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(1, 1, bias=False)
            self.b = nn.Linear(1, 1)

        def forward(self, x):
            return weigh(self.b(self.a(x).tanh()))

    return Model(), (torch.randn(4, 1),)


#===----------------------------------------------------------------------===#
# Hugging Face models whose inputs `hf:` does not make
#===----------------------------------------------------------------------===#

def whisper():
    from transformers import WhisperConfig, WhisperForConditionalGeneration
    config = WhisperConfig(
        vocab_size=97, num_mel_bins=8, d_model=32, encoder_layers=2,
        decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=48, decoder_ffn_dim=48, max_source_positions=10,
        max_target_positions=16, pad_token_id=0, bos_token_id=1,
        eos_token_id=2, decoder_start_token_id=3, use_cache=False,
        suppress_tokens=None, begin_suppress_tokens=None)
    return WhisperForConditionalGeneration(config).train(), {
        "input_features": torch.randn(2, 8, 20),
        "labels": torch.randint(97, (2, 6))}


_AUDIO = dict(vocab_size=19, hidden_size=32, num_hidden_layers=2,
              num_attention_heads=4, intermediate_size=48,
              conv_dim=(16, 16), conv_stride=(4, 2), conv_kernel=(8, 3),
              num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=4,
              num_feat_extract_layers=2, apply_spec_augment=False,
              classifier_proj_size=16, num_labels=4)


def _audio(cls, config):
    model = cls(config(**_AUDIO)).train()
    return model, {"input_values": torch.randn(2, 160),
                   "labels": torch.randint(4, (2,))}


def wav2vec2():
    from transformers import (Wav2Vec2Config,
                              Wav2Vec2ForSequenceClassification)
    return _audio(Wav2Vec2ForSequenceClassification, Wav2Vec2Config)


def hubert():
    from transformers import HubertConfig, HubertForSequenceClassification
    return _audio(HubertForSequenceClassification, HubertConfig)


_TEXT = dict(hidden_size=32, intermediate_size=48, num_attention_heads=4,
             num_hidden_layers=2, vocab_size=97, max_position_embeddings=16,
             projection_dim=16, eos_token_id=2, bos_token_id=0, pad_token_id=1)
_PATCHES = dict(hidden_size=32, intermediate_size=48, num_attention_heads=4,
                num_hidden_layers=2, image_size=16, patch_size=8,
                projection_dim=16)


def clip():
    from transformers import CLIPConfig, CLIPModel
    model = CLIPModel(CLIPConfig(text_config=_TEXT, vision_config=_PATCHES,
                                 projection_dim=16)).train()

    def loss(m, input_ids, pixel_values):
        return m(input_ids=input_ids, pixel_values=pixel_values,
                 return_loss=True).loss

    return model, {"input_ids": torch.randint(3, 97, (3, 8)),
                   "pixel_values": torch.randn(3, 3, 16, 16)}, loss


def siglip():
    from transformers import SiglipConfig, SiglipModel
    text = {k: v for k, v in _TEXT.items() if k != "projection_dim"}
    patches = {k: v for k, v in _PATCHES.items() if k != "projection_dim"}
    model = SiglipModel(SiglipConfig(
        text_config=text | {"projection_size": 32},
        vision_config=patches)).train()

    def loss(m, input_ids, pixel_values):
        return m(input_ids=input_ids, pixel_values=pixel_values,
                 return_loss=True).loss

    return model, {"input_ids": torch.randint(3, 97, (3, 8)),
                   "pixel_values": torch.randn(3, 3, 16, 16)}, loss


def llava():
    """A picture's patches in front of the text, as LLaVA has them."""
    from transformers import (CLIPVisionConfig, CLIPVisionModel, LlamaConfig,
                              LlamaForCausalLM)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.vision = CLIPVisionModel(CLIPVisionConfig(**_PATCHES))
            self.projector = nn.Sequential(nn.Linear(32, 32), nn.GELU(),
                                           nn.Linear(32, 32))
            self.language = LlamaForCausalLM(LlamaConfig(
                hidden_size=32, intermediate_size=48, num_hidden_layers=2,
                num_attention_heads=4, vocab_size=97, use_cache=False,
                max_position_embeddings=32))

        def forward(self, input_ids, pixel_values):
            image = self.vision(pixel_values).last_hidden_state[:, 1:]
            text = self.language.get_input_embeddings()(input_ids)
            logits = self.language(inputs_embeds=torch.cat(
                [self.projector(image), text], 1)).logits
            text = logits[:, image.shape[1]:-1]
            return F.cross_entropy(text.flatten(0, 1),
                                   input_ids[:, 1:].flatten())

    return Model().train(), {"input_ids": torch.randint(97, (2, 8)),
                             "pixel_values": torch.randn(2, 3, 16, 16)}


def detr():
    """DETR's shape without its matching: boxes are assigned in order."""
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.backbone = nn.Sequential(
                nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(),
                nn.Conv2d(8, 16, 3, 2, 1))
            self.transformer = nn.Transformer(16, 4, 2, 2, 32,
                                              batch_first=True)
            self.queries = nn.Parameter(torch.randn(5, 16))
            self.rows = nn.Parameter(torch.rand(8, 8))
            self.columns = nn.Parameter(torch.rand(8, 8))
            self.classes = nn.Linear(16, 7)
            self.boxes = nn.Linear(16, 4)

        def forward(self, image, labels, boxes):
            x = self.backbone(image)
            h, w = x.shape[-2:]
            position = torch.cat([
                self.columns[:w].unsqueeze(0).repeat(h, 1, 1),
                self.rows[:h].unsqueeze(1).repeat(1, w, 1)], -1).flatten(0, 1)
            y = self.transformer(position + x.flatten(2).transpose(1, 2),
                                 self.queries.expand(len(x), -1, -1))
            return F.cross_entropy(self.classes(y).transpose(1, 2), labels) + (
                F.l1_loss(self.boxes(y).sigmoid(), boxes.sigmoid()))

    return Model(), {"image": torch.randn(2, 3, 16, 16),
                     "labels": torch.randint(7, (2, 5)),
                     "boxes": torch.randn(2, 5, 4)}


def vit_mae():
    """A masked autoencoder with a fixed mask as an input."""
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.patches = nn.Conv2d(3, 32, 4, 4)
            self.mask = nn.Parameter(torch.zeros(1, 1, 32))
            layer = nn.TransformerEncoderLayer(32, 4, 48, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2)
            self.head = nn.Linear(32, 48)

        def forward(self, image, order):
            x = self.patches(image).flatten(2).transpose(1, 2)
            keep = order[:, :6].unsqueeze(-1).expand(-1, -1, 32)
            y = self.encoder(x.gather(1, keep))
            full = self.mask.expand_as(x).scatter(1, keep, y)
            target = F.pixel_unshuffle(image, 4).flatten(2).transpose(1, 2)
            return (self.head(full) - target).square().mean()

    order = torch.stack([torch.randperm(16) for _ in range(2)])
    return Model(), {"image": torch.randn(2, 3, 16, 16), "order": order}


def segformer_masks():
    """Features of two scales, resized and added; a class per pixel."""
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.fine = nn.Conv2d(3, 8, 3, 2, 1)
            self.coarse = nn.Conv2d(8, 8, 3, 2, 1)
            self.head = nn.Conv2d(8, 4, 1)

        def forward(self, image, labels):
            fine = F.gelu(self.fine(image))
            coarse = F.gelu(self.coarse(fine))
            both = fine + F.interpolate(coarse, scale_factor=2, mode="nearest")
            logits = F.interpolate(self.head(both), size=image.shape[-2:],
                                   mode="bilinear", align_corners=False)
            return F.cross_entropy(logits, labels, ignore_index=0)

    return Model(), {"image": torch.randn(2, 3, 8, 8),
                     "labels": torch.randint(4, (2, 8, 8))}
