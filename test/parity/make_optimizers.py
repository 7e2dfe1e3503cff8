"""Records what torch.optim's optimizers do, for optimizers_test.py: writes optimizers.json beside this file.

Needs PyTorch; the test does not. Run it where the list of optimizers changes:

  python make_optimizers.py
"""
import json
import pathlib

import numpy as np
import torch

SIZE = 37
# The rate of each step, as a part of the optimizer's: it begins as a warm-up may, and rises again from 0.
RATIOS = [0, 1, 0.5, 2, 0, 1]
BETAS = {"beta1": 0, "beta2": 1}
# As --optimizer takes them; torch.optim's classes are called by the first word.
SPECS = [
    "adamw", "adamw:lr=0.01,beta1=0.8,beta2=0.95,eps=1e-6,weight_decay=0.1,amsgrad=true", "adamw:maximize=true",
    "adam", "adam:lr=0.02,beta1=0.3,weight_decay=0.1,amsgrad=true,maximize=true",
    "adam:weight_decay=0.1,decoupled_weight_decay=true",
    "sgd:lr=0.1", "sgd:lr=0.1,momentum=0.9,weight_decay=0.1", "sgd:lr=0.1,momentum=0.9,nesterov=true",
    "sgd:lr=0.1,momentum=0.9,weight_decay=0.01,dampening=0.5,maximize=true",
    "adagrad", "adagrad:lr=0.1,lr_decay=0.3,weight_decay=0.1,initial_accumulator_value=0.5,eps=1e-6,maximize=true",
    "adadelta", "adadelta:lr=0.5,rho=0.6,eps=1e-3,weight_decay=0.1,maximize=true",
    "rmsprop", "rmsprop:alpha=0.9,momentum=0.8,weight_decay=0.1,centered=true", "rmsprop:momentum=0.9,maximize=true",
    "nadam", "nadam:lr=0.01,beta1=0.8,weight_decay=0.1,momentum_decay=0.1,decoupled_weight_decay=true",
    "nadam:weight_decay=0.1,maximize=true",
    # Rectified from step 6 on.
    "radam:lr=0.1", "radam:lr=0.1,beta2=0.9,weight_decay=0.1,decoupled_weight_decay=true,maximize=true",
    "adamax", "adamax:lr=0.01,beta1=0.8,beta2=0.9,eps=1e-6,weight_decay=0.1,maximize=true",
    "lion", "lion:lr=0.01,beta1=0.6,beta2=0.8,weight_decay=0.1",
]


class Lion(torch.optim.Optimizer):
    """Chen et al. 2023, arXiv 2302.06675, algorithm 2: not in torch.optim."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                average = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                update = average * group["betas"][0] + p.grad * (1 - group["betas"][0])
                p.mul_(1 - group["lr"] * group["weight_decay"]).add_(update.sign(), alpha=-group["lr"])
                average.mul_(group["betas"][1]).add_(p.grad, alpha=1 - group["betas"][1])


def make(spec, param):
    """The optimizer that a text such as adamw:lr=0.1,beta1=0.8,amsgrad=true names."""
    name, _, rest = spec.partition(":")
    kinds = {kind.lower(): getattr(torch.optim, kind) for kind in torch.optim.__all__ if kind[0].isupper()}
    kind = Lion if name == "lion" else kinds[name]
    arguments = {}
    for part in filter(None, rest.split(",")):
        key, value = part.split("=")
        arguments[key] = value == "true" if value in ("true", "false") else float(value)
    if BETAS.keys() & arguments.keys():
        betas = list(kind([param]).defaults["betas"])
        for key in BETAS.keys() & arguments.keys():
            betas[BETAS[key]] = arguments.pop(key)
        arguments["betas"] = tuple(betas)
    # As it is defined; other implementations of it differ in the last bits.
    return kind([param], **arguments, **({} if kind is Lion else {"foreach": False}))


def trace(spec, start, grads):
    """The parameter after each step."""
    param = torch.nn.Parameter(torch.tensor(start))
    optimizer = make(spec, param)
    (group,) = optimizer.param_groups
    rate, after = group["lr"], []
    for ratio, grad in zip(RATIOS, grads):
        group["lr"] = rate * ratio
        param.grad = torch.tensor(grad)
        optimizer.step()
        after.append(param.detach().numpy().copy())
    return after


def numbers(values):
    """Of f32, with as many digits as read back exactly."""
    return [float(f"{value:.9g}") for value in np.asarray(values, dtype=np.float32).ravel()]


def main():
    generator = np.random.default_rng(0)
    start = generator.standard_normal(SIZE).astype(np.float32)
    # Of all sizes; one element's are 0, as those of padding are, one begins with 0, and one is small beside eps.
    grads = (generator.standard_normal((len(RATIOS), SIZE)) * 10.0 ** generator.integers(-3, 3, SIZE)).astype(np.float32)
    grads[:, 5] = 0
    grads[0, 7] = 0
    grads[:, 9] *= 1e-6
    cases = {spec: [numbers(param) for param in trace(spec, start, grads)] for spec in SPECS}
    path = pathlib.Path(__file__).with_name("optimizers.json")
    entries = ",\n".join(f" {json.dumps(spec)}: {json.dumps(params)}" for spec, params in cases.items())
    path.write_text(f'{{"torch": "{torch.__version__}", "ratios": {json.dumps(RATIOS)},\n'
                    f'"start": {json.dumps(numbers(start))},\n'
                    f'"grads": {json.dumps([numbers(grad) for grad in grads])},\n"cases": {{\n{entries}}}}}\n')


if __name__ == "__main__":
    main()
