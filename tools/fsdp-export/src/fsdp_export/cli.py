#===- cli.py - The command fsdp-export -----------------------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Parses the command line. Exit status: 0 done, 1 the user's mistake or the
machine's failure, 2 a fault of ours."""

import argparse
import logging
import sys
import traceback
import warnings
from pathlib import Path

from .errors import ExportError

EPILOG = """examples:
  fsdp-export hf:gpt2 --config n_layer=4,n_embd=128 --batch 4 --seq 64 -o gpt2
  fsdp-export hf:./Llama-3.2-1B --seq 2048 -o llama
  fsdp-export py:my_module:build_step --optimizer sgd:lr=0.1 -o mine

Nothing is downloaded: a hf: model starts from its type's configuration, or that
in DIR, and from its own random initialisation; a checkpoint's parameters are
given to the executable, by --params DIR."""

# Options that make sense for hf: models alone, and their defaults there.
HF_ONLY = {"config": "", "task": None, "batch": 1, "seq": 128,
           "image_size": None, "inputs": None, "dtype": None}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str):
        raise ExportError(f"{message}; see fsdp-export --help")


def make_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="fsdp-export", epilog=EPILOG, allow_abbrev=False,
        description="Exports one training step as the input of fsdp-compile.",
        formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("source", help="hf:MODEL_TYPE, hf:DIR or py:MODULE:FUNCTION; DIR has a "
        "config.json, as save_pretrained writes it")
    add("-o", "--output", required=True, type=Path, metavar="DIR")
    add("--config", metavar="K=V,..", help="settings of the hf: model")
    add("--task", help="seq2seq-lm, image-classification, masked-lm or "
        "causal-lm; default: the first that the model offers")
    add("--batch", type=_positive, metavar="N", help="per rank; default 1")
    add("--seq", type=_positive, metavar="N", help="tokens; default 128")
    add("--image-size", type=_positive, metavar="N",
        help="for models whose configuration has none; default 224")
    add("--inputs", metavar="NAME,..",
        help="inputs of a language model; default input_ids,labels")
    add("--dtype", choices=["f32", "bf16", "f16"],
        help="default: that of hf:DIR's checkpoint, or else f32")
    add("--optimizer", metavar="SPEC",
        help="adamw:lr=1e-3,beta1=0.9,beta2=0.999,eps=1e-8,weight_decay=0.01 "
        "or sgd:lr=1e-3,momentum=0,weight_decay=0, of which those that are "
        "not given have these values, torch.optim's, or none, for others of "
        "fsdp-compile; default: the optimizer that the function returned, else "
        "adamw")
    add("--with-params", action="store_true",
        help="also write params.safetensors")
    add("--reference", type=_positive, default=0, metavar="N",
        help="also train N steps in PyTorch and write params.safetensors, "
        "batches.safetensors, gradients.safetensors and expect.json")
    add("--skew", action="store_true",
        help="integers of the reference's batches: few are frequent, as words "
        "are")
    add("--shift", action="append", default=[], metavar="INPUT=N,..",
        help="where token data cannot know it: how many tokens later an input "
        "starts, targets=1 for the next token")
    add("--eval", action="store_true",
        help="also export the forward pass in eval mode, as a program that "
        "evaluates: the loss, and what the module returns as outputs")
    add("--eval-batch", type=_positive, metavar="N",
        help="per rank, in an evaluation (needs --eval); default: --batch")
    add("--loss", choices=["mean", "sum/count"], default="mean",
        help="sum/count: the loss is a sum over what counts, of all ranks and "
        "micro-batches, by the number of it; of a step that returns (sum, "
        "count), or a cross entropy that is a mean; default mean")
    add("--dropout", action=argparse.BooleanOptionalAction, default=True,
        help="keep dropout: its masks are drawn anew in each step, by "
        "--random-seed of the run; --no-dropout sets it to 0, and runs say so; "
        "default on")
    add("--loss-scale", action="store_true",
        help="what the loss is multiplied by for backward is an argument, which "
        "fsdp-compile --loss-scale gives a value: for training in f16; "
        "default: it is 1")
    add("--seed", type=int, default=0, help="of parameters and batches")
    add("--skip-init", action="store_true",
        help="do not fill large parameters: for models larger than memory")
    add("--verify", action=argparse.BooleanOptionalAction, default=True,
        help="run the export beside PyTorch and write it only if loss, "
        "gradients and buffers agree; default on")
    add("--locations", action=argparse.BooleanOptionalAction, default=True,
        help="keep the module path of each operation: a quarter more text, "
        "and what checkpointing by class goes by; default on")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    try:
        _run(make_parser().parse_args(argv))
        return 0
    except ExportError as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    except (MemoryError, OSError) as error:
        print(f"error: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except Exception:
        traceback.print_exc()
        print("internal error: please report the command and the lines above",
              file=sys.stderr)
        return 2


def _run(args: argparse.Namespace) -> None:
    kind, _, target = args.source.partition(":")
    if kind not in ("hf", "py") or not target:
        raise ExportError("expected hf:MODEL_TYPE, hf:DIR or "
                          f"py:MODULE:FUNCTION, got {args.source}")
    given = {k: v for k, v in vars(args).items()
             if k in HF_ONLY and v is not None}
    if kind == "py" and given:
        option = min(given).replace("_", "-")
        raise ExportError(f"--{option} is for hf: models; the function decides "
                          "here")
    if args.eval_batch and not args.eval:
        raise ExportError("--eval-batch is of the evaluation of --eval, which "
                          "is not given")
    if args.eval_batch and kind == "py":
        raise ExportError("--eval-batch is for hf: models; the function decides "
                          "here")
    if args.skew and not args.reference:
        raise ExportError("--skew is of the batches of --reference, which is "
                          "not given")
    if args.skip_init and (args.with_params or args.reference):
        raise ExportError("--skip-init leaves no values for --with-params or "
                          "--reference")
    warnings.filterwarnings("ignore", module=r"torch\..*|copyreg")
    # What goes wrong is reported once, by us.
    logging.getLogger("torch").setLevel(logging.CRITICAL)
    # PyTorch takes seconds to import: not before the mistakes above.
    from . import optimizers
    from .exporter import Options, export

    optimizer = optimizers.parse(args.optimizer or "adamw")
    if args.reference and optimizer is None:
        raise ExportError("--reference needs an optimizer, got none")
    step, evaluation = build_step(args)
    if step.optimizer:
        for option, given in (("--optimizer", args.optimizer is not None),
                              ("--reference", args.reference)):
            if given:
                raise ExportError(
                    f"{option}: expected a function that returns no optimizer, "
                    f"got {step.optimizer.spec}")
        optimizer = None
    lines = export(step, args.output, Options(
        optimizer, args.locations, args.with_params, args.reference,
        args.skew, args.seed, args.verify, evaluation, args.dropout,
        args.loss_scale))
    print(f"{args.output}: " + "\n  ".join(lines))


def build_step(args: argparse.Namespace) -> tuple:
    """The step that the command line names, and the inputs of its evaluation,
    if there is one."""
    import torch

    from . import huggingface, losssums, userfunction
    from .recorder import InitRecorder
    from .shifts import parse_shifts

    kind, _, target = args.source.partition(":")
    given = {k: v for k, v in vars(args).items()
             if k in HF_ONLY and v is not None}
    shifts = parse_shifts(args.shift)
    torch.manual_seed(args.seed)
    recorder = InitRecorder(skip=args.skip_init)
    if kind == "hf":
        settings = HF_ONLY | given
        settings["config"] = huggingface.parse_config(settings["config"])
        if settings["inputs"] is not None:
            settings["inputs"] = tuple(settings["inputs"].split(","))
        step = huggingface.build(target, huggingface.HFOptions(**settings),
                                 recorder)
    else:
        step = userfunction.build(target, recorder)
    step.shifts = step.shifts | shifts
    if args.loss == "sum/count":
        losssums.make_sum(step)
    evaluation = step.inputs if args.eval else None
    if args.eval_batch:
        settings["batch"] = args.eval_batch
        evaluation = huggingface.make_inputs(
            step.module.config, huggingface.HFOptions(**settings))
    return step, evaluation


def _positive(text: str) -> int:
    value = int(text) if text.isdecimal() else 0
    if value < 1:
        raise argparse.ArgumentTypeError(
            f"expected a positive number, got {text}")
    return value
