#===- configuration.py - What decides what a model computes --------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""The entries of a Hugging Face configuration that decide what is computed.

They are written into the module, so that parameters of another model are
refused where a config.json beside them says what they are of.
"""

import json
import re

from torch import nn

from .step import PROBABILITY

# Entries that change no step: caches and generation, how parameters begin, and
# heads that have no part in a loss.
_WITHOUT_EFFECT = re.compile(
    r"use_cache|pretraining_tp|(bos|eos|sep|cls|mask)_token_id|initializer_\w+|"
    r"init_\w+|summary_\w+|tokenizer_class|torch_dtype|gradient_checkpointing")


def decisive(root: nn.Module, overridden: set[str] = frozenset()
             ) -> tuple[str, dict] | None:
    """The outermost module with a configuration of a known type, by name, and
    what that has beside what every configuration has; None where there is no
    such module. `overridden` entries are of no checkpoint."""
    for name, module in root.named_modules():
        config = getattr(module, "config", None)
        if getattr(config, "model_type", "") and hasattr(config, "to_dict"):
            break
    else:
        return None
    import transformers
    common = transformers.PretrainedConfig().to_dict().keys() - {"model_type"}
    entries = config.to_dict()
    return name, _plain({k: v for k, v in entries.items()
                         if k not in common and k not in overridden})


def _plain(entries: dict) -> dict:
    """What JSON can hold, of entries with an effect, at any depth."""
    kept = {}
    for key, value in entries.items():
        if (not isinstance(key, str) or _WITHOUT_EFFECT.fullmatch(key)
                or PROBABILITY.fullmatch(key)):
            continue
        if isinstance(value, dict):
            kept[key] = _plain(value)
            continue
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            continue
        kept[key] = value
    return kept
