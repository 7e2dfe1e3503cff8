#===- test_command.py - The command as users type it ---------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Exit status, messages, files."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from fsdp_export.cli import main
from safetensors.torch import load_file

TINY = ["hf:gpt2", "--config", "n_layer=1,n_embd=16,n_head=2,vocab_size=20,"
        "n_positions=8", "--batch", "2", "--seq", "8"]


def run(capsys, *args) -> tuple[int, str]:
    status = main([str(a) for a in args])
    return status, capsys.readouterr().err


@pytest.mark.parametrize("args, message", [
    ([], "the following arguments are required: source, -o/--output"),
    (["gpt2"], "expected hf:MODEL_TYPE, hf:DIR or py:MODULE:FUNCTION, got gpt2"),
    (["hf:"], "expected hf:MODEL_TYPE"),
    (["hf:gptt2"], "got gptt2; did you mean gpt2"),
    ([*TINY, "--config", "n_layr=1"], "gpt2 has no n_layr; did you mean n_"),
    ([*TINY, "--config", "n_layer"], "expected key=value, got n_layer"),
    ([*TINY, "--config", "a=[1"], "expected balanced brackets"),
    ([*TINY, "--config", "n_head=5"], "the configuration was refused"),
    ([*TINY, "--task", "seq2seq-lm"], "gpt2 offers causal-lm"),
    ([*TINY, "--image-size", "8"], "causal-lm has no images"),
    ([*TINY, "--inputs", "input_ids,pixels"], "got pixels"),
    ([*TINY, "--inputs", "input_ids"], "expected labels among them"),
    ([*TINY, "--batch", "0"], "expected a positive number, got 0"),
    ([*TINY, "--dtype", "f8"], "invalid choice: 'f8'"),
    ([*TINY, "--optimizer", "adam"], "expected adamw, sgd or none"),
    ([*TINY, "--reference", "2", "--optimizer", "none"], "needs an optimizer"),
    ([*TINY, "--skip-init", "--with-params"], "leaves no values"),
    ([*TINY, "--no-such"], "unrecognized arguments: --no-such"),
    (["hf:vit", "--image-size", "32"], "takes it from --config image_size="),
    (["hf:whatever:x"], "got whatever:x"),
    (["py:models"], "expected py:module:function, got py:models"),
    (["py:no_such_module:f"], "expected a Python module no_such_module"),
    (["py:models:mixd"], "expected a function mixd in"),
    (["py:models:mixed", "--batch", "2"], "--batch is for hf: models"),
    (["py:models:raises"], "ValueError: the user's own mistake ("),
    (["py:models:leaves"], "py:models:leaves: SystemExit: 3 ("),
    (["py:models:not_a_tuple"], "expected (module, inputs)"),
    (["py:models:not_a_tensor"], "expected example input n to be a tensor"),
    (["py:models:not_scalar"], "scalar loss, got a tensor of shape [2, 4]"),
    (["py:models:number"], "expected the step to return a scalar loss"),
    (["py:models:branch"], "control flow that does not depend on the values"),
    (["py:models:dynamic"], "got aten.index.Tensor in the root module"),
    (["py:models:no_derivative"], "cannot be differentiated: derivative for "),
    (["py:models:complex_numbers"], "got complex ones from aten._fft_r2c"),
    (["py:models:random"], "got randperm in the root module ("),
    (["py:models:poisson"], "got poisson in the root"),
    (["py:models:mixed_types"], "in one type, got f32 and bf16 in head ("),
    (["py:models:float_ids"], "ids, labels and indices of i64 (torch.long), "
     "got float32 in embedding ("),
    (["py:models:labels_of_another_shape"], "the example inputs are ids of "
     "i64 [2, 5], labels of i64 [2, 4]"),
    (["py:models:more_positions_than_rows"], "the rows of the table that "
     "places ("),
    (["py:models:flex"], "got flex_attention"),
    (["py:models:none_input"], "got NoneType; leave it out"),
    (["py:models:index_of_rank_0"], "index of rank 0"),
    (["py:models:input_of_another_name"],
     "named as the function's parameters, got index"),
    (["py:models:cuda_autocast"], "got torch.autocast('cuda')"),
    (["py:models:cuda_autocast_decorator"], "got torch.autocast('cuda')"),
    ([*TINY, "--seq", "16"], "the rows of the table that transformer.wpe ("),
    (["py:models:text_targets", "--shift", "target=1"],
     "--shift: expected one of the inputs idx, targets, got target; did you"),
    (["py:models:text_targets", "--shift", "targets"],
     "--shift: expected INPUT=N, got targets"),
    (["py:models:mixed", "--shift", "labels=1"],
     "expected inputs that token data can fill"),
    (["py:models:no_parameter"], "depends on a parameter"),
    (["py:models:writes_input"], "got a write to x"),
    (["py:models:wrong_shape"], "the step cannot be traced: RuntimeError"),
    (["py:models:shares_storage"], "got parameter b, a view of parameter a"),
    (["py:models:two_types"], "of one element type, got f32, f64"),
])
def test_mistake_is_explained_and_nothing_written(args, message, capsys,
                                                  tmp_path):
    target = tmp_path / "out"
    output = ["-o", target] if args else []
    status, err = run(capsys, *args, *output)
    assert status == 1
    assert err.startswith("error: ") and message in err, err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_a_place_in_the_users_file_is_named(capsys, tmp_path):
    _, err = run(capsys, "py:models:branch", "-o", tmp_path / "out")
    assert "models.py:" in err


def test_files_that_were_asked_for(capsys, tmp_path):
    target = tmp_path / "new" / "out"
    assert run(capsys, *TINY, "-o", target)[0] == 0
    assert {f.name for f in target.iterdir()} == {"model.mlir",
                                                  "optimizer.mlir"}
    assert (target / "model.mlir").stat().st_mode & 0o044 == 0o044
    assert 'loc("transformer.h.0' in (target / "model.mlir").read_text()


@pytest.mark.parametrize("spec, words", [
    ("adamw:lr=0.01", "\n  optimizer adamw: lr 0.01, beta1 0.9, beta2 0.999, "
     "eps 1e-08, weight_decay 0.01\n"),
    ("sgd:momentum=0.9",
     "\n  optimizer sgd: lr 0.001, momentum 0.9, weight_decay 0\n")])
def test_constants_of_the_optimizer_are_named(spec, words, capsys, tmp_path):
    assert main([*TINY, "--no-verify", "--optimizer", spec, "-o",
                 str(tmp_path)]) == 0
    assert words in capsys.readouterr().out


def test_second_export_replaces_the_first_and_spares_the_rest(capsys, tmp_path):
    assert run(capsys, *TINY, "--with-params", "-o", tmp_path)[0] == 0
    (tmp_path / "notes.txt").write_text("mine")
    assert run(capsys, *TINY, "--optimizer", "none", "--no-locations",
               "-o", tmp_path)[0] == 0
    assert {f.name for f in tmp_path.iterdir()} == {"model.mlir", "notes.txt"}
    assert "loc(" not in (tmp_path / "model.mlir").read_text()


def test_failed_export_leaves_the_first_alone(capsys, tmp_path):
    assert run(capsys, *TINY, "-o", tmp_path)[0] == 0
    before = (tmp_path / "model.mlir").read_bytes()
    assert run(capsys, "py:models:random", "-o", tmp_path)[0] == 1
    assert (tmp_path / "model.mlir").read_bytes() == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folder_that_cannot_be_written(capsys, tmp_path):
    tmp_path.chmod(0o500)
    status, err = run(capsys, *TINY, "-o", tmp_path / "out")
    assert status == 1 and "cannot write in" in err


def test_output_that_is_a_file(capsys, tmp_path):
    (tmp_path / "out").write_text("mine")
    status, err = run(capsys, *TINY, "-o", tmp_path / "out")
    assert status == 1 and "expected a directory, got the file" in err
    status, err = run(capsys, *TINY, "-o", tmp_path / "out" / "deeper")
    assert status == 1 and "cannot write in" in err
    assert (tmp_path / "out").read_text() == "mine"


def test_disk_that_is_full(tmp_path):
    import resource
    source = Path(__file__).parent.parent / "src"
    limit = 1 << 17
    done = subprocess.run(
        [sys.executable, "-m", "fsdp_export", *TINY[:2],
         "n_layer=1,n_embd=64,n_head=2,vocab_size=900,n_positions=8",
         "--seq", "8", "--with-params", "-o", str(tmp_path / "out")],
        capture_output=True, text=True, timeout=120,
        env=os.environ | {"PYTHONPATH": str(source)},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE,
                                              (limit, limit)))
    assert done.returncode == 1, done.stderr
    assert "cannot write" in done.stderr and "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_reference_that_diverges(capsys, tmp_path):
    status, err = run(capsys, *TINY, "--reference", "4", "--optimizer",
                      "sgd:lr=1e30", "-o", tmp_path / "out")
    assert status == 1 and "lower the learning rate" in err
    assert list(tmp_path.iterdir()) == []


def test_same_command_gives_the_same_bytes(capsys, tmp_path):
    for name in ("a", "b"):
        assert run(capsys, *TINY, "--with-params", "--seed", "3",
                   "-o", tmp_path / name)[0] == 0
    for file in ("model.mlir", "optimizer.mlir", "params.safetensors"):
        assert ((tmp_path / "a" / file).read_bytes()
                == (tmp_path / "b" / file).read_bytes())


def test_reference_run_is_a_mean_over_ranks(capsys, tmp_path):
    assert run(capsys, *TINY, "--no-dropout", "--reference", "3", "-o",
               tmp_path)[0] == 0
    expect = json.loads((tmp_path / "expect.json").read_text())
    assert expect["hyper"] == {"lr": 1e-3, "betas": [0.9, 0.999], "eps": 1e-8,
                               "weight_decay": 0.01}
    for key in ("loss", "grad_norm"):
        assert set(expect[key]) == {"1", "2", "4"}
        assert all(len(v) == 3 for v in expect[key].values())
        assert all(expect["rtol"][w][key] > 0 for w in "124")
    assert expect["loss"]["1"][2] < expect["loss"]["1"][0]
    batches = load_file(tmp_path / "batches.safetensors")
    assert batches["input_ids"].shape == (3, 4, 2, 8)
    assert torch.equal(batches["input_ids"], batches["labels"])
    # One rank's loss at the first step, computed here.
    from transformers import GPT2Config, GPT2LMHeadModel
    model = GPT2LMHeadModel(GPT2Config(
        n_layer=1, n_embd=16, n_head=2, vocab_size=20, n_positions=8,
        attn_pdrop=0, embd_pdrop=0, resid_pdrop=0))
    params = load_file(tmp_path / "params.safetensors")
    model.load_state_dict(params, strict=False)
    losses = [model(input_ids=batches["input_ids"][0, r],
                    labels=batches["labels"][0, r]).loss.item()
              for r in range(4)]
    for world in (1, 2, 4):
        assert expect["loss"][str(world)][0] == pytest.approx(
            sum(losses[:world]) / world, rel=1e-6)


def test_reference_keeps_buffers_per_rank(capsys, tmp_path):
    assert run(capsys, "py:models:mixed", "--reference", "2", "--optimizer",
               "sgd:lr=0.1,momentum=0.5", "-o", tmp_path)[0] == 0
    expect = json.loads((tmp_path / "expect.json").read_text())
    assert expect["hyper"] == {"lr": 0.1, "momentum": 0.5, "weight_decay": 0}
    params = load_file(tmp_path / "params.safetensors")
    assert "head.weight" not in params and params["count"] == 0


def test_values_only_in_the_file_are_written(capsys, tmp_path):
    config = ("hidden_size=16,num_hidden_layers=1,num_attention_heads=2,"
              "intermediate_size=8,vocab_size=5000,max_position_embeddings=8")
    assert run(capsys, "hf:bert", "--config", config, "--seq", "8",
               "-o", tmp_path)[0] == 0
    assert '{kind = "file"}' in (tmp_path / "model.mlir").read_text()
    assert (tmp_path / "params.safetensors").exists()


def test_skipped_initialisation_keeps_the_distributions(capsys, tmp_path):
    config = "n_layer=1,n_embd=16,n_head=2,vocab_size=8192,n_positions=8"
    for name, flags in (("full", []), ("skipped", ["--skip-init"])):
        assert run(capsys, "hf:gpt2", "--config", config, "--seq", "8", *flags,
                   "-o", tmp_path / name)[0] == 0
    full, skipped = ((tmp_path / n / "model.mlir").read_text()
                     for n in ("full", "skipped"))
    said = "unverified: --skip-init leaves no values"
    assert f'fsdp.verified = "{said}"' in skipped
    assert full == skipped.replace(said, "verified: graph and MLIR, 2 batches")


def test_export_without_verification_says_so(capsys, tmp_path):
    assert run(capsys, *TINY, "--no-verify", "-o", tmp_path)[0] == 0
    assert ('fsdp.verified = "unverified: --no-verify"'
            in (tmp_path / "model.mlir").read_text())
    assert run(capsys, *TINY, "-o", tmp_path)[0] == 0
    assert ('fsdp.verified = "verified: graph and MLIR, 2 batches"'
            in (tmp_path / "model.mlir").read_text())


def test_export_that_differs_from_pytorch_is_not_written(capsys, tmp_path):
    status, err = run(capsys, "py:models:compiled_differently", "-o",
                      tmp_path / "out")
    assert status == 1 and "error: the export is not what PyTorch" in err
    assert list(tmp_path.iterdir()) == []
    assert run(capsys, "py:models:compiled_differently", "--no-verify", "-o",
               tmp_path / "out")[0] == 0


def test_module_can_be_run_from_the_shell(tmp_path):
    source = Path(__file__).parent.parent / "src"
    done = subprocess.run(
        [sys.executable, "-m", "fsdp_export", "--help"], capture_output=True,
        text=True, env=os.environ | {"PYTHONPATH": str(source)}, timeout=60)
    assert done.returncode == 0 and "hf:MODEL_TYPE" in done.stdout


def test_checkpoint_of_tied_weights_goes_back_into_the_module(capsys,
                                                              tmp_path):
    from safetensors.torch import load_model, save_file
    from transformers import GPT2Config, GPT2LMHeadModel
    assert run(capsys, *TINY, "--with-params", "-o", tmp_path)[0] == 0
    file = tmp_path / "params.safetensors"
    params = {k: v + 1 for k, v in load_file(file).items()}
    save_file(params, file)
    config = GPT2Config(n_layer=1, n_embd=16, n_head=2, vocab_size=20,
                        n_positions=8)
    for load in (lambda m: load_model(m, file),
                 lambda m: m.load_state_dict(params, strict=False)):
        model = GPT2LMHeadModel(config)
        load(model)
        for name in ("transformer.wte.weight", "lm_head.weight"):
            assert torch.equal(model.state_dict()[name],
                               params["transformer.wte.weight"])
    with pytest.raises(RuntimeError, match="lm_head.weight"):
        GPT2LMHeadModel(config).load_state_dict(params)


def test_targets_start_one_token_later(capsys, tmp_path):
    target = tmp_path / "out"
    status = main(["py:models:text_targets", "-o", str(target)])
    assert status == 0
    assert "token data: targets starts 1 token later" in capsys.readouterr().out
    assert 'name = "targets", shift = 1' in (target / "model.mlir").read_text()
    assert run(capsys, "py:models:text_targets", "--shift", "targets=0,idx=2",
               "-o", target)[0] == 0
    text = (target / "model.mlir").read_text()
    assert 'name = "targets"}' in text and 'name = "idx", shift = 2' in text


def test_dropout_of_functions_is_counted(capsys, tmp_path):
    words = ["py:models:functional_dropout", "-o", str(tmp_path)]
    assert main([*words, "--no-dropout"]) == 0
    assert "dropout set to 0 in 3 places (--no-dropout)" in (
        capsys.readouterr().out)
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "random numbers drawn in 3 places" in said and "set to 0" not in said


def test_evaluation_is_exported_beside_the_step(capsys, tmp_path):
    out = tmp_path / "model"
    status, err = run(capsys, *TINY, "--eval", "--eval-batch", "3",
                      "--reference", "1", "-o", out)
    assert status == 0, err
    text = (out / "model.mlir").read_text()
    assert text.count('fsdp.program = "eval"') == 1
    kept = load_file(out / "evaluation.safetensors")
    assert kept["input.input_ids"].shape == (2, 4, 3, 8)
    assert kept["output.logits"].shape[:-1] == (2, 4, 3, 8)
    # No dropout: the loss is that of the logits.
    targets = kept["input.labels"][0, 0][:, 1:]
    loss = torch.nn.functional.cross_entropy(
        kept["output.logits"][0, 0][:, :-1].flatten(0, 1), targets.flatten())
    torch.testing.assert_close(kept["output.loss"][0, 0], loss)


EVAL_MODULE = """
import torch

class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 1)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return self.linear(x)

def counts():
    return (Counter(), (torch.randn(2, 4),),
            lambda module, x: module(x).sum())
"""


def test_evaluation_that_writes_state_is_refused(capsys, tmp_path,
                                                 monkeypatch):
    (tmp_path / "counting.py").write_text(EVAL_MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    out = tmp_path / "model"
    status, err = run(capsys, "py:counting:counts", "--eval", "-o", out)
    assert status == 1
    assert "eval mode, got one that writes to calls" in err
    assert not out.exists()
    status, err = run(capsys, *TINY, "--eval-batch", "3", "-o", out)
    assert status == 1
    assert "--eval" in err
