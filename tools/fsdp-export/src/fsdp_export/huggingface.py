#===- huggingface.py - hf: models by configuration -----------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Builds any Hugging Face model from its type and a few settings, or from the
config.json that save_pretrained writes beside a checkpoint.

Nothing is downloaded: the configuration starts from the type's defaults, or is
the checkpoint's, and the weights from its own initialisation.
"""

import json
import os
from dataclasses import dataclass, field

import torch

from . import experts
from .errors import ExportError, nearest
from .recorder import InitRecorder
from .step import Step, dtype_name, loss_of

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16,
          "f16": torch.float16}

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
    dtype: str | None = None


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


def build(source: str, options: HFOptions, recorder: InitRecorder) -> Step:
    """The step of `hf:source`, a type or a folder; its module in train mode."""
    try:
        import transformers
    except ImportError:
        raise ExportError("hf: needs the package transformers; install "
                          "fsdp-export[hf]") from None
    transformers.logging.set_verbosity_error()
    is_folder = _is_folder(transformers, source)
    if is_folder:
        config = _stored_config(transformers, source, options.config)
    else:
        config = _config(transformers, source, options.config)
    task = _task(transformers, config, options.task)
    inputs = _inputs(config, task, options)
    factory = getattr(transformers, TASKS[task][0])
    experts.register()
    if config.architectures is None:
        # Iterated where a type has several classes for one task.
        config.architectures = []
    try:
        with recorder:
            module = factory.from_config(config,
                                         dtype=_dtype(config, options))
    except Exception as error:
        raise ExportError(f"hf:{source}: the configuration was refused: "
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
    step = Step(config.model_type, module.train(), loss, inputs, recorder,
                {"labels": "input_ids"} if text else {}, shifts)
    if is_folder:
        _note_overrides(transformers, source, options, module, step)
    return step


def make_inputs(config, options: HFOptions) -> dict[str, torch.Tensor]:
    """Example inputs of a model that build() made with other options."""
    import transformers
    task = _task(transformers, config, options.task)
    return _inputs(config, task, options)


def _is_folder(transformers, source: str) -> bool:
    """Whether `source` is a path; a type's name is one with a separator."""
    if os.sep not in source and (source in transformers.CONFIG_MAPPING
                                 or not os.path.isdir(source)):
        return False
    if not os.path.isfile(os.path.join(source, "config.json")):
        raise ExportError(f"hf:{source}: expected a folder with a config.json, "
                          "as save_pretrained writes it, found none")
    return True


def _stored_config(transformers, folder: str, overrides: dict[str, object]):
    """The configuration of a checkpoint, with some settings of the user's."""
    def read(**settings):
        try:
            return transformers.AutoConfig.from_pretrained(
                folder, local_files_only=True, **settings)
        except Exception as error:
            raise ExportError(f"hf:{folder}: config.json was refused: "
                              f"{type(error).__name__}: {error}") from error

    config = read()
    _check_settings(config, overrides)
    if getattr(config, "quantization_config", None):
        raise ExportError(
            f"hf:{folder}: expected a checkpoint of floats, got one with a "
            "quantization_config; save its model dequantized")
    if overrides:
        config = read(**overrides)
    if hasattr(config, "use_cache"):
        config.use_cache = False
    return config


def _note_overrides(transformers, folder: str, options: HFOptions, module,
                    step: Step) -> None:
    """Names what the command line says otherwise than the checkpoint."""
    stored = transformers.AutoConfig.from_pretrained(folder,
                                                     local_files_only=True)
    for key, value in options.config.items():
        old = getattr(stored, key, None)
        if old != value:
            step.overridden.add(getattr(stored, "attribute_map", {}).get(
                key, key))
            step.notes.append(f"config.json has {key}={old}: --config makes it "
                              f"{value}")
    made = type(module).__name__
    if stored.architectures and made not in stored.architectures:
        step.notes.append(f"config.json has {stored.architectures[0]}: --task "
                          f"makes it {made}")
    kept = _dtype(stored, HFOptions())
    used = _dtype(stored, options)
    if used != kept:
        step.notes.append(
            f"config.json has parameters of {dtype_name(kept)}: --dtype makes "
            f"them {dtype_name(used)}; --cast-params reads the checkpoint")


def _dtype(config, options: HFOptions) -> torch.dtype:
    """The type of parameters: the option's, or else the checkpoint's."""
    if options.dtype:
        return DTYPES[options.dtype]
    stored = getattr(config, "dtype", None)
    if isinstance(stored, str):
        stored = getattr(torch, stored, None)
    return stored if isinstance(stored, torch.dtype) else torch.float32


def _check_settings(config, overrides: dict[str, object]) -> None:
    known = {*config.to_dict(), *getattr(config, "attribute_map", {}),
             "num_labels", "decoder_start_token_id"}
    for key in overrides:
        if key not in known:
            raise ExportError(f"--config: {config.model_type} has no {key}"
                              f"{nearest(key, known)}")


def _config(transformers, model_type: str, overrides: dict[str, object]):
    known_types = transformers.CONFIG_MAPPING.keys()
    if model_type not in known_types:
        raise ExportError(f"expected a model type that transformers knows, got "
                          f"{model_type}{nearest(model_type, known_types)}")
    default = transformers.AutoConfig.for_model(model_type)
    _check_settings(default, overrides)
    # The attention of one step never looks into a cache.
    cache = {"use_cache": False} if hasattr(default, "use_cache") else {}
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


def _task(transformers, config, wanted: str | None) -> str:
    auto, model_type = transformers.models.auto.modeling_auto, config.model_type
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
    if config.architectures:
        return _stored_task(auto, config, offered)
    if "seq2seq-lm" in offered and not config.is_encoder_decoder:
        offered.remove("seq2seq-lm")
    if getattr(config, "is_decoder", False) and "causal-lm" in offered:
        return "causal-lm"
    return offered[0]


def _stored_task(auto, config, offered: list[str]) -> str:
    """The one whose head a checkpoint's architecture has."""
    for task in offered:
        classes = getattr(auto, TASKS[task][1])[config.model_type]
        classes = (classes,) if isinstance(classes, str) else classes
        if {*classes} & {*config.architectures}:
            return task
    raise ExportError(
        f"expected an architecture with the head of {' or '.join(TASKS)}, got "
        f"{config.architectures[0]} in config.json; --task {offered[0]} trains "
        "its model with that head, py:module:function any other")


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
                                        dtype=_dtype(config, options)),
            "labels": torch.zeros(batch, dtype=torch.int64)}
