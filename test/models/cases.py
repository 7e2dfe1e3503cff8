#===- cases.py - The models that sweep.py tries --------------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""The list as data: a name, the arguments of fsdp-export, and what is expected
where that is not equality with PyTorch."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """`refused` is a part of the exporter's message, where it has to refuse."""

    name: str
    arguments: tuple[str, ...]
    refused: str = ""


def _text(kind: str, config: str, *more: str, name: str = "",
          refused: str = "") -> Case:
    return Case(name or kind, (f"hf:{kind}", "--config", config, "--batch", "2",
                               "--seq", "12", *more), refused)


def _image(kind: str, config: str, *more: str, refused: str = "") -> Case:
    return Case(kind, (f"hf:{kind}", "--config", config, "--batch", "2",
                       *more, "--optimizer", "sgd:lr=0.01,momentum=0.9"),
                refused)


_SMALL = ("hidden_size=32,num_hidden_layers=2,num_attention_heads=4,"
          "intermediate_size=48,vocab_size=97")
_DECODER = _SMALL + ",max_position_embeddings=32"
_GROUPED = _DECODER + ",num_key_value_heads=2"
_ENCODER = _DECODER + ",type_vocab_size=2,pad_token_id=1"
_SEQ2SEQ = ("d_model=32,encoder_layers=2,decoder_layers=2,"
            "encoder_attention_heads=4,decoder_attention_heads=4,"
            "encoder_ffn_dim=48,decoder_ffn_dim=48,vocab_size=97,"
            "max_position_embeddings=32,pad_token_id=1,bos_token_id=0,"
            "eos_token_id=2,decoder_start_token_id=2")
_VISION = ("hidden_size=32,num_hidden_layers=2,num_attention_heads=4,"
           "intermediate_size=48,image_size=32,patch_size=8,num_labels=5")

HUGGING_FACE = [
    # Decoders.
    _text("mistral", _GROUPED + ",head_dim=8,sliding_window=6"),
    _text("qwen2", _GROUPED),
    _text("qwen3", _GROUPED + ",head_dim=8"),
    _text("gemma", _GROUPED + ",head_dim=8"),
    _text("gemma2", _GROUPED + ",head_dim=8,sliding_window=6"),
    _text("gemma3_text", _GROUPED + ",head_dim=8,sliding_window=6"),
    _text("phi", _DECODER),
    _text("phi3", _GROUPED + ",pad_token_id=0"),
    _text("opt", "hidden_size=32,word_embed_proj_dim=32,num_hidden_layers=2,"
          "num_attention_heads=4,ffn_dim=48,vocab_size=97,"
          "max_position_embeddings=32"),
    _text("bloom", "hidden_size=32,n_layer=2,n_head=4,vocab_size=97"),
    _text("gpt_neo", "hidden_size=32,num_layers=2,num_heads=4,"
          "attention_types=[[[\"global\",\"local\"],1]],window_size=6,"
          "intermediate_size=48,vocab_size=97,max_position_embeddings=32"),
    _text("gpt_neox", _DECODER),
    _text("gptj", "n_embd=32,n_layer=2,n_head=4,n_inner=48,vocab_size=97,"
          "n_positions=32,rotary_dim=4"),
    _text("gpt_bigcode", "n_embd=32,n_layer=2,n_head=4,n_inner=48,"
          "vocab_size=97,n_positions=32"),
    _text("codegen", "n_embd=32,n_layer=2,n_head=4,n_inner=48,vocab_size=97,"
          "n_positions=32,rotary_dim=4"),
    _text("falcon", "hidden_size=32,num_hidden_layers=2,"
          "num_attention_heads=4,vocab_size=97"),
    _text("stablelm", _GROUPED),
    _text("starcoder2", _GROUPED),
    _text("olmo", _GROUPED + ",pad_token_id=1,eos_token_id=2"),
    _text("olmo2", _GROUPED + ",pad_token_id=1,eos_token_id=2"),
    _text("cohere", _GROUPED + ",pad_token_id=0"),
    _text("granite", _GROUPED + ",pad_token_id=0"),
    _text("glm", _GROUPED + ",head_dim=8,pad_token_id=0"),
    _text("nemotron", _GROUPED + ",pad_token_id=0"),
    _text("mpt", "d_model=32,n_heads=4,n_layers=2,expansion_ratio=2,"
          "max_seq_len=32,vocab_size=97"),
    _text("xglm", "d_model=32,num_layers=2,attention_heads=4,ffn_dim=48,"
          "vocab_size=97,max_position_embeddings=32"),
    _text("ctrl", "n_embd=32,n_layer=2,n_head=4,dff=48,vocab_size=97,"
          "n_positions=32"),
    _text("openai-gpt", "n_embd=32,n_layer=2,n_head=4,vocab_size=97,"
          "n_positions=32"),
    _text("llama", _GROUPED, "--dtype", "bf16", name="llama-bf16"),
    # Mixtures of experts.
    _text("mixtral", _GROUPED + ",num_local_experts=4,num_experts_per_tok=2"),
    _text("qwen2_moe", _GROUPED + ",num_experts=4,num_experts_per_tok=2,"
          "moe_intermediate_size=24,shared_expert_intermediate_size=48"),
    _text("olmoe", _GROUPED + ",num_experts=4,num_experts_per_tok=2,"
          "pad_token_id=1,eos_token_id=2"),
    # State spaces and recurrences.
    _text("mamba", "hidden_size=32,num_hidden_layers=2,vocab_size=97,"
          "state_size=4,time_step_rank=2"),
    _text("mamba2", "hidden_size=32,num_hidden_layers=2,vocab_size=97,"
          "state_size=8,num_heads=8,head_dim=8,n_groups=2,chunk_size=4"),
    _text("falcon_mamba", "hidden_size=32,num_hidden_layers=2,vocab_size=97,"
          "state_size=4,time_step_rank=2"),
    _text("rwkv", "hidden_size=32,attention_hidden_size=32,"
          "num_hidden_layers=2,intermediate_size=48,vocab_size=97"),
    _text("recurrent_gemma", _SMALL + ",num_key_value_heads=1,head_dim=8,"
          "lru_width=32,attention_window_size=8,"
          "block_types=[\"recurrent\",\"attention\"]"),
    # Encoders.
    _text("distilbert", "dim=32,n_layers=2,n_heads=4,hidden_dim=48,"
          "vocab_size=97,max_position_embeddings=32"),
    _text("roberta", _ENCODER),
    _text("xlm-roberta", _ENCODER),
    _text("camembert", _ENCODER),
    _text("albert", _ENCODER + ",embedding_size=16"),
    _text("electra", _ENCODER + ",embedding_size=16"),
    _text("deberta", _ENCODER + ",relative_attention=true,"
          "pos_att_type=[\"c2p\",\"p2c\"]"),
    _text("deberta-v2", _ENCODER + ",relative_attention=true,"
          "pos_att_type=[\"c2p\",\"p2c\"]"),
    _text("mpnet", _DECODER + ",pad_token_id=1"),
    _text("convbert", _ENCODER + ",embedding_size=32,conv_kernel_size=3,"
          "head_ratio=2"),
    _text("fnet", "hidden_size=32,num_hidden_layers=2,intermediate_size=48,"
          "vocab_size=97,max_position_embeddings=32",
          refused="complex"),
    _text("squeezebert", _ENCODER + ",embedding_size=32"),
    _text("mobilebert", _DECODER + ",embedding_size=16,"
          "intra_bottleneck_size=16,true_hidden_size=16"),
    _text("modernbert", _DECODER + ",pad_token_id=0,local_attention=6"),
    _text("longformer", _ENCODER + ",attention_window=4",
          refused="values of tensors"),
    _text("big_bird", _ENCODER + ",attention_type=original_full"),
    _text("nystromformer", _ENCODER + ",num_landmarks=12,"
          "segment_means_seq_len=12"),
    _text("roformer", _ENCODER + ",embedding_size=32"),
    _text("funnel", "d_model=32,n_head=4,d_head=8,d_inner=48,vocab_size=97,"
          "block_sizes=[1,1],num_decoder_layers=1"),
    # Encoders with decoders.
    _text("bart", _SEQ2SEQ),
    _text("mbart", _SEQ2SEQ),
    _text("pegasus", _SEQ2SEQ.replace("bos_token_id=0,", "")),
    _text("blenderbot", _SEQ2SEQ),
    _text("marian", _SEQ2SEQ + ",decoder_vocab_size=97"),
    _text("m2m_100", _SEQ2SEQ),
    _text("led", _SEQ2SEQ.replace("max_position_embeddings=32,", "")
          + ",attention_window=4,max_encoder_position_embeddings=32,"
          "max_decoder_position_embeddings=32", refused="values of tensors"),
    _text("mt5", "d_model=32,num_layers=2,num_heads=4,d_kv=8,d_ff=48,"
          "vocab_size=97"),
    _text("t5", "d_model=32,num_layers=2,num_heads=4,d_kv=8,d_ff=48,"
          "vocab_size=97", "--dtype", "bf16", name="t5-bf16"),
    # Images.
    _image("vit", _VISION),
    _image("deit", _VISION, "--task", "image-classification"),
    _image("beit", _VISION),
    _image("dinov2", "hidden_size=32,num_hidden_layers=2,"
           "num_attention_heads=4,mlp_ratio=2,image_size=32,patch_size=8,"
           "num_labels=5"),
    _image("swin", "embed_dim=16,depths=[2,2],num_heads=[2,4],window_size=4,"
           "image_size=32,patch_size=4,num_labels=5"),
    _image("swinv2", "embed_dim=16,depths=[2,2],num_heads=[2,4],window_size=4,"
           "image_size=32,patch_size=4,num_labels=5"),
    _image("convnext", "hidden_sizes=[8,16],depths=[1,1],num_stages=2,"
           "num_labels=5,image_size=32"),
    _image("convnextv2", "hidden_sizes=[8,16],depths=[1,1],num_stages=2,"
           "num_labels=5,image_size=32"),
    _image("segformer", "hidden_sizes=[8,16,16,16],depths=[1,1,1,1],"
           "num_attention_heads=[1,2,2,2],decoder_hidden_size=16,num_labels=5",
           "--image-size", "32"),
    _image("mobilenet_v1", "depth_multiplier=0.25,min_depth=4,image_size=32,"
           "num_labels=5"),
    _image("mobilenet_v2", "depth_multiplier=0.25,image_size=32,num_labels=5"),
    _image("efficientnet", "width_coefficient=0.25,depth_coefficient=0.3,"
           "image_size=32,hidden_dim=320,num_labels=5"),
    _image("regnet", "embedding_size=8,hidden_sizes=[8,16],depths=[1,1],"
           "groups_width=4,num_labels=5", "--image-size", "32"),
    _image("resnet", "embedding_size=8,hidden_sizes=[16,32],depths=[1,1],"
           "num_labels=5", "--image-size", "32"),
    _image("bit", "embedding_size=8,hidden_sizes=[16,32],depths=[1,1],"
           "num_groups=4,num_labels=5", "--image-size", "32"),
    _image("poolformer", "hidden_sizes=[8,16,16,16],depths=[1,1,1,1],"
           "num_labels=5", "--image-size", "32"),
    _image("pvt_v2", "hidden_sizes=[8,16,16,32],depths=[1,1,1,1],"
           "num_attention_heads=[1,2,2,4],image_size=32,num_labels=5"),
    _image("levit", "image_size=32,hidden_sizes=[16,24,32],"
           "num_attention_heads=[2,3,4],depths=[1,1,1],key_dim=[8,8,8],"
           "num_labels=5"),
    _image("mobilevit", "hidden_sizes=[16,24,32],neck_hidden_sizes="
           "[4,4,8,8,8,8,16],num_attention_heads=2,image_size=64,num_labels=5"),
    _image("focalnet", "embed_dim=8,depths=[1,1],image_size=32,hidden_sizes="
           "[8,16],focal_levels=[2,2],focal_windows=[3,3],num_labels=5"),
    _image("cvt", "embed_dim=[8,16,16],num_heads=[1,2,2],depth=[1,2,3],"
           "num_labels=5", "--image-size", "32"),
]

# Functions of modules.py, one step each.
_REFUSED = {"batch-norm-average": "values of tensors"}
MODULES = [Case(name, (f"py:modules:{name.replace('-', '_')}", *more),
                _REFUSED.get(name, "")) for name, *more in [
    ("whisper",), ("wav2vec2",), ("hubert",), ("clip",), ("siglip",),
    ("llava",), ("detr",), ("vit-mae",), ("segformer-masks",),
    ("lstm",), ("lstm-bidirectional",), ("gru",), ("rnn",),
    ("norms",), ("conv1d",), ("conv2d",), ("conv3d",),
    ("conv-transposed",), ("pools",), ("embedding-bag",), ("losses",),
    ("multihead-attention",), ("encoder-layer",),
    ("double-loss",), ("views",), ("scalar-parameters",),
    ("zero-size", ), ("long-vector",), ("shared-weights",),
    ("frozen-layers",), ("unused-parameters",), ("batch-norm-buffers",),
    ("batch-norm-average",),
    ("bfloat16",), ("mixed-dtypes", "--optimizer", "none"), ("mlp",),
    ("dropout",), ("integers",), ("one-element",), ("deep",),
]]


def operations() -> list[Case]:
    """One case per operation; reading their names needs PyTorch."""
    from operations import OPERATIONS, REFUSED
    return [Case(f"op-{name}", (f"py:operations:{name}",),
                 REFUSED.get(name, "")) for name in OPERATIONS]


def steps() -> list[Case]:
    """Steps with gradients and state that PyTorch treats in a way of its own:
    those of the exporter's tests, trained."""
    from semantics import STEPS
    return [Case(f"step-{name.replace('_', '-')}", (f"py:semantics:{name}",))
            for name in STEPS]
