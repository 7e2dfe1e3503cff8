#===- test_models.py - Whole models --------------------------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Loss, gradients and buffer updates of exported models against PyTorch."""

import re

import pytest
from common import compare, export, hf_step, needs_mlir, parse, py_step

TEXT = "vocab_size=50,max_position_embeddings=32"
LLAMA = ("hidden_size=36,num_hidden_layers=2,num_attention_heads=6,"
         f"num_key_value_heads=2,intermediate_size=56,{TEXT}")
BERT = ("hidden_size=32,num_hidden_layers=2,num_attention_heads=4,"
        f"intermediate_size=56,{TEXT}")

MODELS = {
    "gpt2": ("gpt2", "n_layer=2,n_embd=32,n_head=4,vocab_size=50,"
             "n_positions=16", {}),
    # The second half of the positions is not looked up.
    "gpt2-full": ("gpt2", "n_layer=1,n_embd=16,n_head=2,vocab_size=20,"
                  "n_positions=8", {}),
    "llama": ("llama", LLAMA, {"batch": 3, "seq": 7}),
    "bert": ("bert", BERT,
             {"inputs": ("input_ids", "attention_mask", "labels")}),
    "t5": ("t5", "d_model=32,num_layers=1,num_heads=4,d_ff=56,vocab_size=50,"
           "d_kv=8", {}),
    "vit": ("vit", "hidden_size=32,num_hidden_layers=2,num_attention_heads=4,"
            "intermediate_size=56,image_size=16,patch_size=4,num_labels=7", {}),
    # One of several classes that classify images.
    "deit": ("deit", "hidden_size=16,num_hidden_layers=1,num_attention_heads=2,"
             "intermediate_size=24,image_size=8,patch_size=4,num_labels=3",
             {"task": "image-classification"}),
    "resnet": ("resnet", "embedding_size=8,hidden_sizes=[8,12],depths=[1,1],"
               "layer_type=basic,num_labels=5", {"image_size": 16}),
    "convnext": ("convnext", "hidden_sizes=[8,16],depths=[1,1],num_stages=2,"
                 "num_labels=3,image_size=32", {}),
    "mixtral": ("mixtral", LLAMA + ",num_local_experts=4", {}),
}


@needs_mlir
@pytest.mark.parametrize("name", MODELS)
def test_hugging_face_model_agrees_with_pytorch(name, tmp_path):
    model_type, config, options = MODELS[name]
    compare(hf_step(model_type, config, **options), tmp_path)


@needs_mlir
@pytest.mark.parametrize("name", ["small_transformer", "mixed"])
def test_user_function_agrees_with_pytorch(name, tmp_path):
    compare(py_step(name), tmp_path)


@needs_mlir
@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_bf16_agrees_with_pytorch_to_its_rounding(name, tmp_path):
    model_type, config, options = MODELS[name]
    step = hf_step(model_type, config, dtype="bf16", **options)
    compare(step, tmp_path, tolerance=5e-2)
    text = (tmp_path / "model.mlir").read_text()
    assert re.search(r"%arg0: tensor<50x\d+xbf16> {fsdp.param", text)


@needs_mlir
@pytest.mark.parametrize("model_type, config", [
    ("qwen2", LLAMA), ("gpt_neox", BERT), ("deberta-v2", BERT),
    ("opt", "hidden_size=32,num_hidden_layers=1,num_attention_heads=4,"
     "ffn_dim=56,word_embed_proj_dim=32," + TEXT),
    ("bart", "d_model=32,encoder_layers=1,decoder_layers=1,"
     "encoder_attention_heads=4,decoder_attention_heads=4,encoder_ffn_dim=48,"
     "decoder_ffn_dim=48,vocab_size=50,max_position_embeddings=32,"
     "pad_token_id=0,bos_token_id=1,eos_token_id=2,decoder_start_token_id=0"),
])
def test_other_architectures_export(model_type, config, tmp_path):
    _, text = export(hf_step(model_type, config))
    (tmp_path / "model.mlir").write_text(text)
    parse(tmp_path / "model.mlir")


def test_attention_mask_of_shapes_alone_is_one_comparison():
    traced, _ = export(hf_step(*MODELS["gpt2"][:2]))
    names = [str(n.target) for n in traced.graph.graph.nodes]
    assert names.count("aten.le.Tensor") == 1
    assert not any("cumsum" in n or "index.Tensor" in n for n in names)


def test_only_token_gradients_scatter_and_row_by_row():
    _, text = export(hf_step(*MODELS["gpt2"][:2]))
    loops = re.findall(r"scf\.for.*?\n    }", text, re.S)
    assert len(loops) == 1
    assert "tensor.insert_slice" in loops[0]
    assert loops[0].count("linalg.generic") == 1
    assert "tm_tensor" not in text
