#!/usr/bin/env python3
"""Bytes that forward saves for backward, beside those that torch.compile saves (needs torch).

  saved.py [MODEL...] [--bin BIN] [--target cpu] [--values]

Both trace the same Hugging Face model twice, with fewer and with more layers: `a layer` is the difference of
what they save, divided by that of layers. A saved value is made in forward, or given to the step, and read
after the loss; what shares its memory is counted once. Parameters, their copies and buffers are not counted.
torch: the values that `min_cut_rematerialization_partition` of AOTAutograd hands from the graph of forward to
that of backward. Exits 1 where ours a layer is more than torch's.
"""
import argparse
import json
import logging
import operator
import os
import pathlib
import re
import sys

from common import CACHE, ROOT, run

MIB = 1 << 20
# hf: type, configuration, the setting that is the number of layers, task, how it is traced.
MODELS = {
    "llama": ("llama", {"hidden_size": 512, "intermediate_size": 1792, "num_attention_heads": 4,
                        "num_key_value_heads": 1, "vocab_size": 2048, "max_position_embeddings": 256},
              ["num_hidden_layers"], "causal-lm", {"dtype": "bf16", "batch": 1, "seq": 256}),
    "gpt2": ("gpt2", {"n_embd": 256, "n_head": 4, "vocab_size": 1024, "n_positions": 128, "bos_token_id": 0,
                      "eos_token_id": 0}, ["n_layer"], "causal-lm", {"batch": 2, "seq": 128}),
    "bert": ("bert", {"hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024, "vocab_size": 1024,
                      "max_position_embeddings": 128}, ["num_hidden_layers"], "masked-lm", {"batch": 2, "seq": 128}),
    "t5": ("t5", {"d_model": 256, "d_kv": 64, "d_ff": 1024, "num_heads": 4, "vocab_size": 1024},
           ["num_layers", "num_decoder_layers"], "seq2seq-lm", {"batch": 2, "seq": 128}),
    "vit": ("vit", {"hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024, "image_size": 64,
                    "patch_size": 8}, ["num_hidden_layers"], "image-classification", {"batch": 2}),
}
LAYERS = (2, 4)
DROPOUT = ("attn_pdrop", "embd_pdrop", "resid_pdrop", "attention_dropout", "dropout_rate", "hidden_dropout_prob",
           "attention_probs_dropout_prob", "classifier_dropout")


def configuration(name, layers):
    return MODELS[name][1] | {setting: layers for setting in MODELS[name][2]}


#===------------------------------------------------------------------------===#
# Ours
#===------------------------------------------------------------------------===#

def exported(name, layers):
    kind, _, _, task, how = MODELS[name]
    folder = CACHE / f"saved-{name}-{layers}"
    if not (folder / "model.mlir").exists():
        config = ",".join(f"{k}={v}" for k, v in configuration(name, layers).items())
        options = [word for key, value in how.items() for word in (f"--{key}", value)]
        run([sys.executable, "-m", "fsdp_export", f"hf:{kind}", "--config", config, "--task", task, *options,
             "--no-dropout", "--no-verify", "--no-locations", "-o", folder],
            env=os.environ | {"PYTHONPATH": str(ROOT / "tools" / "fsdp-export" / "src")})
    return folder


ELEMENT_BYTES = {"i1": 1, "i8": 1, "bf16": 2, "f16": 2, "f32": 4, "i32": 4, "f64": 8, "i64": 8}


def bytes_of(type_):
    *dims, element = type_.split("x")
    count = ELEMENT_BYTES[element]
    for dim in dims:
        count *= int(dim)
    return count


def saved_by_us(name, layers, args):
    """Bytes of the values of @train that are made before the loss and read after it."""
    folder = exported(name, layers)
    text = run([args.bin / "fsdp-compile", folder / "model.mlir", "--optimizer-file", folder / "optimizer.mlir",
                "--mesh", "shard=2", "--target", args.target, "--emit", "ir:L3", "-o", "-"])
    lines = text.splitlines()
    begin = next(i for i, line in enumerate(lines) if re.match(r"\s*fsdp\.program @train\(", line))
    end = next(i for i in range(begin, len(lines)) if re.match(r"\s*fsdp\.return\b|\s*return\b", lines[i]))
    # What each name stands for: (its own memory, bytes); None for what is not counted.
    memory, made, last_read, parents = {}, {}, {}, {}
    for arg, type_, attributes in re.findall(r"(%arg\d+): tensor<([\w]+)>(?: \{([^}]*)\})?", lines[begin]):
        memory[arg] = None if "fsdp.state" in (attributes or "") else bytes_of(type_)
        made[arg] = begin
    calls = {}
    for i in range(begin + 1, end + 1):
        match = re.match(r"\s*(?:(%\w+)(?::(\d+))? = )?(?:\"?([\w.]+)\"?)(.*)", lines[i])
        if not match:
            continue
        result, count, op, rest = match.groups()
        calls[i] = (result, op, rest)
        for read in re.findall(r"%\w+(?:#\d+)?", rest.split(" : ")[0]):
            last_read[read] = max(last_read.get(read, 0), i)
        if not result:
            continue
        types = re.findall(r"tensor<([\w]+)>", rest.rsplit("->", 1)[-1] if "->" in rest else rest.rsplit(" : ", 1)[-1])
        names = [f"{result}#{n}" for n in range(int(count))] if count else [result]
        source = re.search(r"%\w+(?:#\d+)?", rest)
        for which, value in enumerate(names):
            made[value] = i
            if op in ("fsdp.view", "tensor.expand_shape", "tensor.collapse_shape") and source:
                parents[value] = source.group()
            elif op == "fsdp.launch":
                memory[value] = bytes_of(types[which])
            else:
                memory[value] = None
    # The loss: the value of the program's result that is one, up to its mean over ranks.
    results = re.findall(r"%\w+(?:#\d+)?", lines[end].split(" : ")[0])
    outputs = re.search(r"-> \((.*)\)", lines[begin]).group(1)
    index = next(i for i, part in enumerate(re.findall(r"tensor<[^>]*>(?: \{[^}]*\})?", outputs)) if "fsdp.loss" in part)
    loss = results[index]
    while calls[made[loss]][1] != "fsdp.launch":
        loss = re.search(r"%\w+(?:#\d+)?", calls[made[loss]][2]).group()
    border = made[loss]
    crossing = set()
    for value, read in last_read.items():
        whole = value
        while whole in parents:
            whole = parents[whole]
        if made.get(whole, end) <= border < read and read < end and memory.get(whole) and whole != loss:
            crossing.add(whole)
    if args.values:
        for value in sorted(crossing, key=lambda v: made[v]):
            print(f"  {memory[value] / MIB:8.3f}  {value}", file=sys.stderr)
    return sum(memory[value] for value in crossing)


#===------------------------------------------------------------------------===#
# torch
#===------------------------------------------------------------------------===#

def saved_by_torch(name, layers):
    """Runs in a process of its own; prints the bytes."""
    import torch
    import transformers
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.partitioners import min_cut_rematerialization_partition
    from torch._inductor.decomposition import select_decomp_table

    kind, _, _, task, how = MODELS[name]
    config = transformers.AutoConfig.for_model(kind, **configuration(name, layers))
    for setting in DROPOUT:
        if hasattr(config, setting):
            setattr(config, setting, 0.0)
    config.use_cache = False
    if task == "seq2seq-lm":
        config.decoder_start_token_id = 0
    auto = {"causal-lm": "AutoModelForCausalLM", "masked-lm": "AutoModelForMaskedLM",
            "seq2seq-lm": "AutoModelForSeq2SeqLM", "image-classification": "AutoModelForImageClassification"}[task]
    dtype = torch.bfloat16 if how.get("dtype") == "bf16" else torch.float32
    torch.set_num_threads(1)
    # Warnings of transformers would split the graph.
    torch._dynamo.config.ignore_logging_functions.add(logging.Logger.warning_once)
    model = getattr(transformers, auto).from_config(config).to(dtype).train()
    if task == "image-classification":
        inputs = {"pixel_values": torch.randn(how["batch"], 3, config.image_size, config.image_size, dtype=dtype),
                  "labels": torch.zeros(how["batch"], dtype=torch.long)}
    else:
        tokens = torch.randint(0, config.vocab_size, (how["batch"], how["seq"]))
        inputs = {"input_ids": tokens, "labels": tokens}
    total = 0

    def backend(graph, example_inputs):
        # Parameters and buffers are inputs of the graph, named so.
        places = [node for node in graph.graph.nodes if node.op == "placeholder"]
        states = {f"primals_{i}" for i, node in enumerate(places, 1)
                  if "_parameters_" in node.name or "_buffers_" in node.name}

        def partition(joint, joint_inputs, **kwargs):
            nonlocal total
            forward, backward = min_cut_rematerialization_partition(joint, joint_inputs, **kwargs)
            made = {node.name: node for node in forward.graph.nodes}
            memory = {}
            for node in backward.graph.nodes:
                value = node.meta.get("val")
                if node.op == "placeholder" and node.name in made and isinstance(value, torch.Tensor):
                    memory[memory_of(made[node.name]).name] = value.untyped_storage().nbytes()
            total += sum(count for origin, count in memory.items() if origin not in states)
            return forward, backward

        def compiler(graph, _):
            return make_boxed_func(graph.forward)
        return aot_autograd(fw_compiler=compiler, bw_compiler=compiler, partition_fn=partition,
                            decompositions=select_decomp_table())(graph, example_inputs)

    torch.compile(model, backend=backend, fullgraph=True)(**inputs).loss.backward()
    print(json.dumps(total))


VIEWS = {"view", "_unsafe_view", "permute", "transpose", "t", "expand", "slice", "unsqueeze", "squeeze", "select",
         "reshape", "alias", "detach", "split", "split_with_sizes", "unbind", "as_strided"}


def memory_of(node):
    """The op whose result a value of a graph of torch lies in: through views."""
    while node.op == "call_function":
        of = node.args[0] if node.target is operator.getitem else node
        if of.op != "call_function" or of.target.__name__.split(".")[0] not in VIEWS:
            break
        node = of.args[0]
    return node


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=list(MODELS), help="default: %(default)s")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build" / "bin")
    parser.add_argument("--target", default="cpu", help="default: %(default)s")
    parser.add_argument("--values", action="store_true", help="print what we save, too")
    parser.add_argument("--torch", nargs=2, metavar=("MODEL", "LAYERS"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.torch:
        return saved_by_torch(args.torch[0], int(args.torch[1]))
    few, many = LAYERS
    print(f"{'':8}{'a layer, MiB':>24}{'':8}{f'all of {many} layers, MiB':>24}")
    print(f"{'model':8}{'ours':>12}{'torch':>12}{'ratio':>8}{'ours':>12}{'torch':>12}{'ratio':>8}")
    above = 0
    for name in args.models:
        ours = [saved_by_us(name, layers, args) for layers in LAYERS]
        theirs = [json.loads(run([sys.executable, __file__, "--torch", name, layers]).splitlines()[-1])
                  for layers in LAYERS]
        a_layer = [(many_ - few_) / (many - few) / MIB for few_, many_ in (ours, theirs)]
        total = [ours[1] / MIB, theirs[1] / MIB]
        above += a_layer[0] > a_layer[1]
        print(f"{name:8}{a_layer[0]:12.3f}{a_layer[1]:12.3f}{a_layer[0] / a_layer[1]:8.2f}"
              f"{total[0]:12.3f}{total[1]:12.3f}{total[0] / total[1]:8.2f}", flush=True)
    sys.exit(1 if above else 0)


if __name__ == "__main__":
    main()
