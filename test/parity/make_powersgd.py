"""Records in powersgd.json what DistributedDataParallel does with PyTorch's powerSGD_hook, for reduction_hooks_test.py.

Needs PyTorch and the compiler, whose initial factors both have: python test/parity/make_powersgd.py
"""
import json
import pathlib
import tempfile

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook

import powersgd

CASES = [{"ranks": 2, "rank": 1}, {"ranks": 2, "rank": 2}, {"ranks": 4, "rank": 2}, {"ranks": 4, "rank": 3},
         {"ranks": 2, "rank": 2, "epsilon": 0.5}, {"ranks": 2, "rank": 2, "error-feedback": False}]
# DDP lays its buckets out anew after the first backward.
PLAIN = 2


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        for name, values in powersgd.start().items():
            value = torch.tensor(values).reshape(powersgd.SHAPES[name])
            self.register_parameter(name, torch.nn.Parameter(value))

    def forward(self, gradients):
        return sum((parameter * torch.tensor(gradients[name]).reshape(parameter.shape)).sum()
                   for name, parameter in self.named_parameters())


def train(rank, case, factors, store, queue):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=case["ranks"])
    model = torch.nn.parallel.DistributedDataParallel(Model())
    names = {parameter: name for name, parameter in model.module.named_parameters()}
    state = PowerSGDState(None, matrix_approximation_rank=case["rank"], start_powerSGD_iter=PLAIN,
                          min_compression_rate=1, use_error_feedback=case.get("error-feedback", True),
                          orthogonalization_epsilon=case.get("epsilon", 0))

    def hook(state, bucket):
        if state.iter >= PLAIN and bucket.index() not in state.q_memory_dict:
            q = [torch.tensor(factors[names[parameter]]).reshape(case["rank"], -1).T.reshape(-1)
                 for parameter in bucket.parameters() if names[parameter] in factors]
            state.q_memory_dict[bucket.index()] = torch.cat(q)
            state.p_memory_dict[bucket.index()] = torch.empty(
                sum(powersgd.MATRICES[names[parameter]][0] * case["rank"]
                    for parameter in bucket.parameters() if names[parameter] in factors))
        return powerSGD_hook(state, bucket)

    model.register_comm_hook(state, hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=powersgd.LR)
    recorded = []
    for step in range(-PLAIN, powersgd.STEPS):
        optimizer.zero_grad()
        model(powersgd.gradients(step, rank)).backward()
        if step >= 0:
            optimizer.step()
            recorded.append({name: [float(f"{x:.9g}") for x in parameter.detach().flatten().tolist()]
                             for name, parameter in model.module.named_parameters()})
    if rank == 0:
        queue.put(recorded)
    dist.destroy_process_group()


def record(case, factors):
    with tempfile.TemporaryDirectory() as folder:
        context = torch.multiprocessing.get_context("spawn")
        queue = context.Queue()
        processes = [context.Process(target=train, args=(rank, case, factors, f"{folder}/store", queue))
                     for rank in range(case["ranks"])]
        for process in processes:
            process.start()
        recorded = queue.get()
        for process in processes:
            process.join()
    return recorded


def main():
    from reduction_hooks_test import ReductionHooks, describe
    ReductionHooks.setUpClass()
    cases = []
    for case in CASES:
        factors = ReductionHooks("initial_factors").initial_factors(describe(case), f"shard={case['ranks']}")
        parameters = record(case, factors)
        # What the first steps do shows each formula, the last one what errors add up to.
        kept = {str(step): parameters[step - 1] for step in (1, 2, powersgd.STEPS)}
        cases.append({**case, "factors": factors, "parameters": kept})
    text = json.dumps({"torch": torch.__version__, "cases": cases}, indent=None, separators=(",", ":"))
    pathlib.Path(__file__).with_name("powersgd.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
