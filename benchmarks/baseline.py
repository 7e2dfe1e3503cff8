#!/usr/bin/env python3
"""The same training step in PyTorch on CPU, in fresh processes; one JSON line.

  baseline.py MODEL eager|compile|ddp|fsdp2 [--world 2] [--threads T] [--steps 20]

A step is zero_grad, forward, loss, backward and AdamW(fused=True) in float32. FSDP2 shards every
block and the root; ranks are processes over gloo. All ranks begin a step together and it lasts
until the slowest is done. `losses` are means over the ranks, with the batches of --batches
(a safetensors file as the compiled programs read it) or random tokens.
"""
import argparse
import json
import os
import tempfile
import time

from common import MODELS


def build(spec):
    import transformers
    config = transformers.AutoConfig.for_model(spec["arch"], **spec["config"], use_cache=False)
    for name in ("attn_pdrop", "embd_pdrop", "resid_pdrop", "attention_dropout"):
        if hasattr(config, name):
            setattr(config, name, 0.0)
    return transformers.AutoModelForCausalLM.from_config(config).train()


def blocks(model):
    """The modules of the longest list: a language model's layers."""
    import torch
    return max((m for m in model.modules() if isinstance(m, torch.nn.ModuleList)), key=len)


def resident_mib():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024


def train(rank, args, threads, store, results):
    import torch
    import torch.distributed as dist
    torch.set_num_threads(threads)
    if args.mode in ("ddp", "fsdp2"):
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=args.world)
    spec = MODELS[args.model]
    torch.manual_seed(0)
    model = build(spec)
    if args.params:
        from safetensors.torch import load_file
        missing, extra = model.load_state_dict(load_file(args.params), strict=False)
        model.tie_weights()
        assert not extra, extra
    if args.mode == "compile":
        run = torch.compile(model)
    elif args.mode == "ddp":
        run = torch.nn.parallel.DistributedDataParallel(model)
    elif args.mode == "fsdp2":
        from torch.distributed.fsdp import fully_shard
        for block in blocks(model):
            fully_shard(block)
        run = fully_shard(model)
    else:
        run = model
    optimizer = torch.optim.AdamW(run.parameters(), lr=args.lr, betas=(0.9, 0.95), eps=1e-8,
                                  weight_decay=0.1, fused=True)
    batches = None
    if args.batches:
        from safetensors import safe_open
        batches = safe_open(args.batches, "pt")
    else:
        generator = torch.Generator().manual_seed(rank)
        tokens = torch.randint(0, model.config.vocab_size, (spec["batch"], spec["seq"]), generator=generator)
        inputs = {"input_ids": tokens, "labels": tokens}
    times, losses = [], []
    for step in range(args.steps):
        if batches:
            inputs = {name: batches.get_tensor(name)[step, rank].long() for name in batches.keys()}
        if dist.is_initialized():
            dist.barrier()
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = run(**inputs).loss
        loss.backward()
        optimizer.step()
        times.append((time.perf_counter() - begin) * 1e3)
        losses.append(loss.item())
    if dist.is_initialized():
        every = [None] * args.world
        dist.all_gather_object(every, (times, losses, resident_mib()))
    else:
        every = [(times, losses, resident_mib())]
    if rank == 0:
        times = [max(t) for t in zip(*(e[0] for e in every))]
        losses = [sum(l) / len(every) for l in zip(*(e[1] for e in every))]
        results.put({"model": args.model, "mode": args.mode, "world": args.world, "threads": threads,
                     "step_ms": times, "losses": losses, "rss_mib": [e[2] for e in every],
                     "torch": torch.__version__})
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()
        # Threads of PyTorch's that outlive the group abort the process now and then where it ends as usual.
        os._exit(0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("mode", choices=["eager", "compile", "ddp", "fsdp2"])
    parser.add_argument("--world", type=int, default=1)
    parser.add_argument("--threads", type=int, help="of each rank; default: cores / ranks")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--batches", help="safetensors with the inputs, [step, rank, ...]")
    parser.add_argument("--params", help="safetensors with the initial parameters")
    args = parser.parse_args()
    threads = args.threads or max(1, len(os.sched_getaffinity(0)) // args.world)
    os.environ["OMP_NUM_THREADS"] = str(threads)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    import torch.multiprocessing as mp
    results = mp.get_context("spawn").SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(train, (args, threads, os.path.join(folder, "store"), results),
                           nprocs=args.world, start_method="spawn")
        print(json.dumps(results.get()))


if __name__ == "__main__":
    main()
