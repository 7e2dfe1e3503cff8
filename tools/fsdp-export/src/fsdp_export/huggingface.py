#===- huggingface.py - hf: models by configuration -----------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Builds any Hugging Face model from its type and a few settings.

Nothing is downloaded: the configuration starts from the type's defaults and
the weights from its own initialisation.
"""

import json
from dataclasses import dataclass, field

import torch

from . import experts
from .errors import ExportError, nearest
from .recorder import InitRecorder
from .step import Step, loss_of

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}

# In the order in which they are preferred where an architecture offers more
# than one. Values: the automatic class and the table of the types it knows.
TASKS = {
    "seq2seq-lm": ("AutoModelForSeq2SeqLM",
                   "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES"),
    "image-classification": ("AutoModelForImageClassification",
                             "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES"),
    "masked-lm": ("AutoModelForMaskedLM", "MODEL_FOR_MASKED_LM_MAPPING_NAMES"),
    "causal-lm": ("AutoModelForCausalLM", "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES"),
}
TEXT_INPUTS = ("input_ids", "attention_mask", "token_type_ids", "position_ids",
               "decoder_input_ids", "decoder_attention_mask", "labels")


@dataclass
class HFOptions:
    """What the command line says about a hf: model."""

    config: dict[str, object] = field(default_factory=dict)
    task: str | None = None
    batch: int = 1
    seq: int = 128
    image_size: int | None = None
    inputs: tuple[str, ...] | None = None
    dtype: str = "f32"


def parse_config(text: str) -> dict[str, object]:
    """`n_layer=4,act=gelu,sizes=[1,2]`: values are JSON, or else strings."""
    items, depth, start = [], 0, 0
    for i, c in enumerate(text + ","):
        depth += (c in "[{") - (c in "]}")
        if c == "," and depth <= 0:
            items.append(text[start:i])
            start = i + 1
    if depth:
        raise ExportError(f"--config: expected balanced brackets, got {text}")
    config = {}
    for item in filter(None, items):
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise ExportError(f"--config: expected key=value, got {item}")
        try:
            config[key.strip()] = json.loads(value)
        except json.JSONDecodeError:
            python = {"True": True, "False": False, "None": None}
            config[key.strip()] = python.get(value, value)
    return config


def build(model_type: str, options: HFOptions, recorder: InitRecorder) -> Step:
    """The step of `hf:model_type`, its module in train mode."""
    try:
        import transformers
    except ImportError:
        raise ExportError("hf: needs the package transformers; install "
                          "fsdp-export[hf]") from None
    transformers.logging.set_verbosity_error()
    config = _config(transformers, model_type, options.config)
    task = _task(transformers, model_type, config, options.task)
    inputs = _inputs(config, task, options)
    factory = getattr(transformers, TASKS[task][0])
    experts.register()
    if config.architectures is None:
        # Iterated where a type has several classes for one task.
        config.architectures = []
    try:
        with recorder:
            module = factory.from_config(config, dtype=DTYPES[options.dtype])
    except Exception as error:
        raise ExportError(f"hf:{model_type}: the configuration was refused: "
                          f"{type(error).__name__}: {error}") from error
    experts.choose(module)
    names = tuple(inputs)

    def loss(model, *values):
        return loss_of(model(**dict(zip(names, values)), return_dict=True))

    text = task != "image-classification"
    # Causal models shift inside; no shift makes the labels of the other two
    # from their tokens.
    shifts = {"causal-lm": {"labels": 0}, "masked-lm": {"labels": None},
              "seq2seq-lm": {"labels": None}}.get(task, {})
    return Step(model_type, module.train(), loss, inputs, recorder,
                {"labels": "input_ids"} if text else {}, shifts)


def make_inputs(config, model_type: str,
                options: HFOptions) -> dict[str, torch.Tensor]:
    """Example inputs of a model that build() made with other options."""
    import transformers
    task = _task(transformers, model_type, config, options.task)
    return _inputs(config, task, options)


def _config(transformers, model_type: str, overrides: dict[str, object]):
    known_types = transformers.CONFIG_MAPPING.keys()
    if model_type not in known_types:
        raise ExportError(f"expected a model type that transformers knows, got "
                          f"{model_type}{nearest(model_type, known_types)}")
    default = transformers.AutoConfig.for_model(model_type)
    known = {*default.to_dict(), *getattr(default, "attribute_map", {}),
             "num_labels", "decoder_start_token_id"}
    for key in overrides:
        if key not in known:
            raise ExportError(f"--config: {model_type} has no {key}"
                              f"{nearest(key, known)}")
    # The attention of one step never looks into a cache.
    cache = {"use_cache": False} if "use_cache" in known else {}
    try:
        config = transformers.AutoConfig.for_model(model_type,
                                                   **(cache | overrides))
    except Exception as error:
        raise ExportError(f"--config: {error}") from error
    # Checkpoints bring their start token with them; it is the pad token's.
    if config.is_encoder_decoder and getattr(
            config, "decoder_start_token_id", None) is None:
        config.decoder_start_token_id = config.pad_token_id
    return config


def _task(transformers, model_type: str, config, wanted: str | None) -> str:
    auto = transformers.models.auto.modeling_auto
    offered = [t for t, (_, table) in TASKS.items()
               if model_type in getattr(auto, table)]
    if not offered:
        raise ExportError(
            f"hf:{model_type} has no head for any of {', '.join(TASKS)}; write "
            "a function that builds it and use py:module:function")
    if wanted:
        if wanted not in offered:
            raise ExportError(f"--task: {model_type} offers "
                              f"{', '.join(offered)}, got {wanted}")
        return wanted
    if "seq2seq-lm" in offered and not config.is_encoder_decoder:
        offered.remove("seq2seq-lm")
    if getattr(config, "is_decoder", False) and "causal-lm" in offered:
        return "causal-lm"
    return offered[0]


def _inputs(config, task: str, options: HFOptions) -> dict[str, torch.Tensor]:
    batch, seq = options.batch, options.seq
    if task != "image-classification":
        if options.image_size is not None:
            raise ExportError(f"--image-size: {task} has no images")
        names = options.inputs or ("input_ids", "labels")
        for name in names:
            if name not in TEXT_INPUTS:
                raise ExportError(f"--inputs: expected some of "
                                  f"{', '.join(TEXT_INPUTS)}, got {name}")
        if "labels" not in names:
            raise ExportError("--inputs: expected labels among them, or there "
                              "is no loss")
        return {n: torch.zeros(batch, seq, dtype=torch.int64) for n in names}
    if options.inputs is not None:
        raise ExportError(f"--inputs: the inputs of {task} are fixed")
    size = getattr(config, "image_size", None)
    if size is not None and options.image_size is not None:
        raise ExportError("--image-size: this model takes it from "
                          "--config image_size=")
    size = size or options.image_size or 224
    height, width = (size, size) if isinstance(size, int) else size
    channels = getattr(config, "num_channels", 3)
    return {"pixel_values": torch.zeros(batch, channels, height, width,
                                        dtype=DTYPES[options.dtype]),
            "labels": torch.zeros(batch, dtype=torch.int64)}
