#===- test_checkpoints.py - Models of checkpoints ------------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""hf:DIR is the model that a config.json describes, and the export says which
configuration its parameters must have."""

import json
import re

import pytest
import torch
import transformers
from common import hf_step
from fsdp_export import configuration
from fsdp_export.cli import main
from fsdp_export.errors import ExportError

LLAMA = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1,
         "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 20,
         "rms_norm_eps": 0.01,
         "rope_parameters": {"rope_theta": 100.0, "rope_type": "default"}}


@pytest.fixture
def folder(tmp_path):
    """A checkpoint of Llama without its parameters."""
    config = transformers.LlamaConfig(
        **LLAMA, architectures=["LlamaForCausalLM"], dtype="bfloat16")
    config.save_pretrained(tmp_path / "hf")
    return tmp_path / "hf"


def change(folder, **entries) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | entries))


def test_the_model_of_a_folder(folder):
    step = hf_step(str(folder), "")
    assert type(step.module) is transformers.LlamaForCausalLM
    layer = step.module.model.layers[0]
    assert layer.input_layernorm.variance_epsilon == 0.01
    assert layer.mlp.up_proj.weight.dtype == torch.bfloat16
    # 1 / 100 ** (i / 8) for i = 0, 2, ..
    assert step.module.model.rotary_emb.inv_freq[1].item() == pytest.approx(
        100 ** -0.25)
    assert not step.notes and not step.overridden


def test_options_override_and_are_named(folder):
    step = hf_step(str(folder), "rms_norm_eps=0.5,vocab_size=20", dtype="f32")
    layer = step.module.model.layers[0]
    assert layer.input_layernorm.variance_epsilon == 0.5
    assert layer.mlp.up_proj.weight.dtype == torch.float32
    assert step.notes == [
        "config.json has rms_norm_eps=0.01: --config makes it 0.5",
        "config.json has parameters of bf16: --dtype makes them f32; "
        "--cast-params reads the checkpoint"]
    # Its own checkpoint is no other model's.
    name, entries = configuration.decisive(step.module, step.overridden)
    assert not name and "rms_norm_eps" not in entries


def test_the_class_is_the_architecture(folder):
    change(folder, model_type="bart", architectures=["BartForCausalLM"],
           d_model=8, encoder_layers=1, decoder_layers=1, vocab_size=20,
           encoder_attention_heads=2, decoder_attention_heads=2,
           encoder_ffn_dim=8, decoder_ffn_dim=8)
    assert type(hf_step(str(folder), "").module) is transformers.BartForCausalLM
    step = hf_step(str(folder), "", task="seq2seq-lm")
    assert type(step.module) is transformers.BartForConditionalGeneration
    assert step.notes == ["config.json has BartForCausalLM: --task makes it "
                          "BartForConditionalGeneration"]


@pytest.mark.parametrize("entries, message", [
    ({"architectures": ["LlamaModel"]},
     "got LlamaModel in config.json; --task causal-lm trains"),
    ({"quantization_config": {"quant_method": "gptq", "bits": 4}},
     "a checkpoint of floats"),
    ({"model_type": "no-such"}, "config.json was refused: ")])
def test_what_is_refused(folder, entries, message):
    change(folder, **entries)
    with pytest.raises(ExportError, match=message):
        hf_step(str(folder), "")


def test_folders_without_a_configuration(tmp_path, monkeypatch):
    with pytest.raises(ExportError, match="a folder with a config.json"):
        hf_step(str(tmp_path), "")
    with pytest.raises(ExportError, match="has no rms_norm_ep; did you mean"):
        hf_step("llama", "rms_norm_ep=1")
    # A folder with a type's name is an export of it, as likely as not.
    (tmp_path / "gpt2").mkdir()
    monkeypatch.chdir(tmp_path)
    step = hf_step("gpt2", "n_layer=1,n_embd=8,n_head=2,vocab_size=20")
    assert step.name == "gpt2"


def test_the_configuration_is_exported(folder, tmp_path, capsys):
    assert main([f"hf:{folder}", "--seq", "8", "--no-verify",
                 "-o", str(tmp_path / "out")]) == 0
    text = (tmp_path / "out/model.mlir").read_text()
    found = re.search(r'config = "((?:[^"\\]|\\.)*)", fqn = ""', text).group(1)
    config = json.loads(found.replace("\\22", '"'))
    stored = json.loads((folder / "config.json").read_text())
    assert {k: config[k] for k in LLAMA} == LLAMA
    assert config["model_type"] == "llama"
    assert all(stored[k] == v for k, v in config.items())
    # What no step depends on.
    assert not config.keys() & {"use_cache", "attention_dropout", "dtype",
                                "initializer_range", "eos_token_id"}
