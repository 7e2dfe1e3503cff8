"""Records what torch.amp.GradScaler does, for loss_scale_test.py: writes loss_scale.json beside this file.

Needs PyTorch and transformers, and tools/fsdp-export/src on PYTHONPATH; the test does not. Of one parameter whose gradient
passes through f16 it records scales, which steps were skipped, and the parameter after each step. Of gpt2 and llama in
test/fixtures, two ranks, it records losses and scales in f32, and under autocast in f16 with a scaler:

  PYTHONPATH=tools/fsdp-export/src python test/parity/make_loss_scale.py
"""
import json
import pathlib

import torch
from safetensors.torch import load_file

from fsdp_export import huggingface
from fsdp_export.recorder import InitRecorder
from fsdp_export.step import remove_dropout

HERE = pathlib.Path(__file__).parent
FIXTURES = HERE.parent / "fixtures"
RANKS, STEPS = 2, 50
CONFIGS = {
    "gpt2": ({"n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 256, "n_positions": 64}, 2, 32),
    "llama": ({"hidden_size": 60, "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 2,
               "intermediate_size": 88, "vocab_size": 203, "max_position_embeddings": 64}, 3, 17),
}
# As torch.amp.GradScaler takes them.
SCALERS = {
    "default": {},
    # Overflows at first, and again each time that it has grown.
    "restless": {"init_scale": 2.0 ** 28, "growth_interval": 4},
}
SIZE = 5
# As --optimizer takes it, and the arguments of --loss-scale.
CASES = {
    "sgd": [("sgd:lr=0.25", {}), ("sgd:lr=0.25,momentum=0.5", {"init_scale": 2.0 ** 17, "growth_interval": 3})],
    "adamw": [("adamw:lr=0.125", {"init_scale": 2.0 ** 18, "growth_interval": 2}),
              ("adamw:lr=0.125", {"init_scale": 1000.0, "growth_factor": 3.0, "backoff_factor": 0.25, "growth_interval": 2}),
              # No floats of 32 bits.
              ("adamw:lr=0.125", {"init_scale": 65536.0, "growth_factor": 1.1, "backoff_factor": 0.9, "growth_interval": 1})],
}
# Of the second one, in each step, the largest of the gradients; 60000 overflows with any scale above 1, inf with any.
LARGEST = [1.0, 0.5, 60000.0, 0.25, 1.0, 2.0, float("inf"), float("nan"), 0.5, 0.5, 1.0, 0.125, 0.0, 3.0, 1.0, 60000.0, 1.0, 1.0, 0.5, 0.5]


class Half(torch.autograd.Function):
    """The identity, whose gradient passes through f16."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient.half().float()


def make(spec, parameter):
    name, _, rest = spec.partition(":")
    arguments = {key: float(value) for key, value in (part.split("=") for part in rest.split(","))}
    return {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}[name]([parameter], **arguments, foreach=False)


def gradients():
    generator = torch.Generator().manual_seed(0)
    values = torch.randint(-64, 65, (len(LARGEST), RANKS, SIZE), generator=generator) / 64.0
    for step, largest in enumerate(LARGEST):
        values[step, step % RANKS, step % SIZE] = largest
    return values


def trace_one(spec, arguments, values):
    """Of the loss `w . g`, the mean of two ranks: scales before each step, and the parameter after it."""
    parameter = torch.nn.Parameter(torch.arange(SIZE) / 4.0 - 0.5)
    optimizer = make(spec, parameter)
    scaler = torch.amp.GradScaler("cpu", **arguments)
    scales, after, skipped = [], [], []
    for of_ranks in values:
        scales.append(scaler.get_scale())
        optimizer.zero_grad()
        parts = []
        for grad in of_ranks:
            (part,) = torch.autograd.grad(scaler.scale((Half.apply(parameter) * grad).sum()), parameter)
            parts.append(part)
        parameter.grad = torch.stack(parts).mean(0)
        scaler.unscale_(optimizer)
        skipped.append(not bool(parameter.grad.isfinite().all()))
        scaler.step(optimizer)
        scaler.update()
        after.append([float(f"{x:.9g}") for x in parameter.detach()])
    return {"scales": scales, "skipped": skipped, "parameters": after, "next": scaler.get_scale(),
            "tracker": scaler.state_dict()["_growth_tracker"]}


def build(name):
    config, batch, seq = CONFIGS[name]
    torch.manual_seed(0)
    step = huggingface.build(name, huggingface.HFOptions(config=config, task=None, batch=batch, seq=seq, image_size=None,
                                                         inputs=None, dtype=None), InitRecorder(skip=False))
    remove_dropout(step.module)
    tensors = load_file(FIXTURES / name / "params.safetensors")
    for key, parameter in step.module.named_parameters():
        parameter.data.copy_(tensors[key])
    return step


def trace_model(name, arguments):
    """Losses, and scales where there are `arguments` of a scaler; None: in f32."""
    step = build(name)
    hyper = json.loads((FIXTURES / name / "expect.json").read_text())["hyper"]
    batches = load_file(FIXTURES / name / "batches.safetensors")
    parameters = [p for p in step.module.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=hyper["lr"], betas=hyper["betas"], eps=hyper["eps"],
                                  weight_decay=hyper["weight_decay"], foreach=False)
    scaler = torch.amp.GradScaler("cpu", enabled=arguments is not None, **(arguments or {}))
    losses, scales, skipped = [], [], []
    for i in range(STEPS):
        scales.append(scaler.get_scale())
        optimizer.zero_grad()
        total = 0
        for rank in range(RANKS):
            inputs = [b[i % len(b), rank].clone() for b in (batches[n] for n in step.inputs)]
            with torch.autocast("cpu", dtype=torch.float16, enabled=arguments is not None):
                loss = step.loss(step.module, *inputs)
            # Each rank's gradient is that of its own loss; their mean is taken after it was made.
            scaler.scale(loss).backward()
            total += loss.item() / RANKS
        for p in parameters:
            if p.grad is not None:
                p.grad.div_(RANKS)
        if arguments is not None:
            scaler.unscale_(optimizer)
        skipped.append(not all(bool(p.grad.isfinite().all()) for p in parameters if p.grad is not None))
        scaler.step(optimizer)
        scaler.update()
        losses.append(float(f"{total:.9g}"))
    return {"losses": losses, **({} if arguments is None else {"scales": scales, "skipped": skipped, "scaler": arguments})}


def main():
    values = gradients()
    cases = [{"optimizer": spec, "scaler": arguments, **trace_one(spec, arguments, values)}
             for group in CASES.values() for spec, arguments in group]
    models = {}
    for name in CONFIGS:
        models[name] = {"f32": trace_model(name, None),
                        **{key: trace_model(name, arguments) for key, arguments in SCALERS.items()}}
    encode = json.JSONEncoder(allow_nan=True).encode
    lines = ",\n".join(f" {encode(case)}" for case in cases)
    of_models = ",\n".join(f' {encode(name)}: {{\n{text}}}' for name, text in (
        (name, ",\n".join(f"  {encode(key)}: {encode(value)}" for key, value in of_name.items()))
        for name, of_name in models.items()))
    (HERE / "loss_scale.json").write_text(
        f'{{"torch": "{torch.__version__}", "gradients": {encode(values.tolist())},\n'
        f'"cases": [\n{lines}],\n"models": {{\n{of_models}}}}}\n')


if __name__ == "__main__":
    main()
