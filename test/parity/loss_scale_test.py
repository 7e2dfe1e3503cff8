"""--loss-scale beside torch.amp.GradScaler: loss_scale.json has what that did (make_loss_scale.py).

One parameter whose gradient passes through f16 shows each step; gpt2 and llama show f16 training.
"""
import array
import json
import math
import pathlib
import unittest

from steps import BIN, DEVICE, FIXTURES, Fixture, StepTest, ranks_of, read_tensors, write_tensors

RECORDED = json.loads(pathlib.Path(__file__).with_name("loss_scale.json").read_text())
GRADIENTS = RECORDED["gradients"]  # by step and rank
SIZE = len(GRADIENTS[0][0])
START = [i / 4 - 0.5 for i in range(SIZE)]
# As optimizers_test.py has it.
UNITS = 4
KEYS = {"init_scale": "init", "growth_factor": "growth", "backoff_factor": "backoff", "growth_interval": "interval"}

# The gradient is the input times the scale, in f16.
MODEL = """
func.func @forward_backward(%w: tensor<SIZExf32> {fsdp.param = {fqn = "w"}}, %g: tensor<SIZExf32> {fsdp.input = {name = "g"}},
                            %s: tensor<f32> {fsdp.loss_scale})
    -> (tensor<f32> {fsdp.loss}, tensor<SIZExf32> {fsdp.grad = {fqn = "w"}}) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<f32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<f32>) -> tensor<f32>
  %loss = linalg.dot ins(%w, %g : tensor<SIZExf32>, tensor<SIZExf32>) outs(%init : tensor<f32>) -> tensor<f32>
  %place = tensor.empty() : tensor<SIZExf32>
  %grad = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>, affine_map<(i) -> (i)>],
                          iterator_types = ["parallel"]} ins(%g, %s : tensor<SIZExf32>, tensor<f32>) outs(%place : tensor<SIZExf32>) {
  ^bb0(%x: f32, %k: f32, %old: f32):
    %scaled = arith.mulf %x, %k : f32
    %half = arith.truncf %scaled : f32 to f16
    %wide = arith.extf %half : f16 to f32
    linalg.yield %wide : f32
  } -> tensor<SIZExf32>
  return %loss, %grad : tensor<f32>, tensor<SIZExf32>
}
""".replace("SIZE", str(SIZE))


def floats(values):
    return array.array("f", values).tobytes()


def option(scaler):
    """--loss-scale for GradScaler's arguments."""
    entries = ",".join(f"{KEYS[key]}={value}" for key, value in scaler.items())
    return "dynamic" + (f":{entries}" if entries else "")


class LossScale(StepTest):
    @classmethod
    def setUpClass(cls):
        cls.model, cls.params = map(cls.place, ("model.mlir", "start.safetensors"))
        cls.model.write_text(MODEL)
        write_tensors(cls.params, {"w": ("F32", [SIZE], floats(START))})

    def build(self, scale, optimizer, mesh, *options, model=None):
        key = (scale, optimizer, mesh, options, model)
        if key not in self.programs:
            program = self.programs[key] = self.place("train")
            words = ["--loss-scale", scale] if scale else []
            outcome = self.execute([BIN / "fsdp-compile", model or self.model, "--optimizer", optimizer, "--mesh", mesh, *words,
                                    *options, "-o", program])
            self.assertEqual(outcome.returncode, 0, outcome.stderr)
        return self.programs[key]

    def batches(self, gradients, ranks, micro_batches=1):
        """Those of both ranks that were recorded, shared out to ranks or micro-batches, repeated where there are more."""
        path = self.place("batches.safetensors")
        data = b"".join(floats(step[(micro * ranks + rank) % 2])
                        for step in gradients for micro in range(micro_batches) for rank in range(ranks))
        write_tensors(path, {"g": ("F32", [len(gradients) * micro_batches, ranks, SIZE], data)})
        return path

    def run_steps(self, program, mesh, *options, gradients=GRADIENTS, steps=None, micro_batches=1, resume=None, saved=None):
        """Outcome, lines of metrics, and the folder of checkpoints."""
        metrics, saved = self.place("metrics.jsonl"), saved or self.place("saved")
        ranks = ranks_of(mesh)
        start = ["--resume", resume] if resume else ["--params", self.params]
        micro = ["--accumulate", micro_batches] if micro_batches > 1 else []
        outcome = self.execute([program, "-n", ranks, *start, "--data", self.batches(gradients, ranks, micro_batches), *micro,
                                "--steps", steps or len(gradients), "--threads", 1, "--metrics", metrics, "--save", saved,
                                *options])
        lines = [json.loads(line) for line in metrics.read_text().splitlines()] if metrics.exists() else []
        return outcome, lines, saved

    def check(self, case, lines, saved):
        self.assertEqual(array.array("f", [line["loss_scale"] for line in lines]), array.array("f", case["scales"]))
        self.assertEqual(["grad_norm" in line.get("nonfinite", []) for line in lines], case["skipped"])
        size = [max(abs(value) for step in case["parameters"] for value in (step[i], step[i] - START[i])) for i in range(SIZE)]
        before = floats(START)
        for step, (wanted, skipped) in enumerate(zip(case["parameters"], case["skipped"]), 1):
            folder = saved / f"step-{step:08}"
            if not folder.exists():
                continue
            data = read_tensors(folder / "params.safetensors")["w"][2]
            if skipped and before is not None:
                self.assertEqual(data, before, f"step {step}")
            for i, (value, want) in enumerate(zip(array.array("f", data), wanted)):
                self.assertLessEqual(abs(value - want), UNITS * 2.0 ** -23 * size[i], f"element {i} after step {step}")
            before = data
        states = read_tensors(folder / "optimizer.safetensors")
        self.assertEqual(array.array("f", states["w.loss_scale"][2])[0], case["next"])
        self.assertEqual(array.array("i", states["w.loss_scale_growth"][2])[0], case["tracker"])
        if "w.step" in states:
            self.assertEqual(array.array("f", states["w.step"][2])[0], case["skipped"].count(False))

    def test_torch(self):
        """Scales, skipped steps, and what the parameter is after each."""
        for case in RECORDED["cases"]:
            with self.subTest(optimizer=case["optimizer"], scaler=case["scaler"]):
                program = self.build(option(case["scaler"]), case["optimizer"], "shard=2")
                outcome, lines, saved = self.run_steps(program, "shard=2", "--save-every", 1)
                self.assertEqual(outcome.returncode, 0, outcome.stderr)
                self.assertIn(f"{case['skipped'].count(True)} steps had a gradient that was not finite", outcome.stderr)
                self.check(case, lines, saved)

    def test_meshes_and_micro_batches(self):
        """One scale for all micro-batches of a step, whose sum is looked at."""
        case = RECORDED["cases"][2]
        for mesh, micro_batches, options in (
                ("replicate=2,shard=1", 1, ()), ("replicate=2,shard=2", 1, ()), ("shard=4", 1, ("--strategy", "no_shard")),
                ("shard=2", 1, ("--cluster", "cpu-2core", "--guard")), ("shard=2", 1, ("--reduce-dtype", "f16")),
                ("shard=2", 1, ("--offload-optimizer",)), ("shard=1", 2, ("--accumulate-in", "shard")),
                ("shard=2", 2, ("--accumulate-in", "whole")),
                *(("shard=2", 1, ("--reduction", "nccl", "--reduce-dtype", dtype)) for dtype in ("f16", "f32") if DEVICE == "cuda")):
            with self.subTest(mesh=mesh, options=options):
                program = self.build(option(case["scaler"]), case["optimizer"], mesh, *options)
                outcome, lines, saved = self.run_steps(program, mesh, "--save-every", 1, micro_batches=micro_batches)
                self.assertEqual(outcome.returncode, 0, outcome.stderr)
                self.check(case, lines, saved)

    def test_clipping(self):
        """The norm that is clipped is that of gradients without the scale."""
        first = [[[4.0, 0, 0, 0, 0], [0, 3.0, 0, 0, 0]]] * 2
        for scale in (None, "8", "dynamic:init=16,interval=1"):
            program = self.build(scale, "sgd:lr=1", "shard=2", "--clip-norm")
            outcome, lines, saved = self.run_steps(program, "shard=2", "--clip-norm", 0.5, gradients=first)
            self.assertEqual(outcome.returncode, 0, outcome.stderr)
            self.assertEqual([line["grad_norm"] for line in lines], [2.5, 2.5])
            values = array.array("f", read_tensors(saved / "step-00000002" / "params.safetensors")["w"][2])
            for start, grad, value in zip(START, (2.0, 1.5, 0, 0, 0), values):
                self.assertAlmostEqual(start - 2 * grad * 0.2, value, delta=1e-6)

    def test_resumed(self):
        """In the middle of a row of finite steps, on another mesh: scale and count go on."""
        case = RECORDED["cases"][1]
        optimizer, scale = case["optimizer"], option(case["scaler"])
        _, whole, last = self.run_steps(self.build(scale, optimizer, "shard=2"), "shard=2")
        for at in (6, 10, 11):
            _, first, saved = self.run_steps(self.build(scale, optimizer, "shard=2"), "shard=2", steps=at)
            for mesh in ("shard=2", "replicate=2,shard=1"):
                outcome, lines, end = self.run_steps(self.build(scale, optimizer, mesh), mesh, resume=saved)
                self.assertEqual(outcome.returncode, 0, outcome.stderr)
                self.assertEqual([line["loss_scale"] for line in first + lines], case["scales"])
                for file in ("params.safetensors", "optimizer.safetensors"):
                    name = pathlib.Path(f"step-{len(GRADIENTS):08}") / file
                    self.assertEqual(read_tensors(end / name), read_tensors(last / name))

    def test_resumed_without(self):
        """From a checkpoint without a scale it begins anew, a program without one leaves it out; the rest goes on."""
        optimizer = "sgd:lr=0.25,momentum=0.5"
        programs = [self.build(scale, optimizer, "shard=2") for scale in ("dynamic:init=256,interval=2", None)]
        calm = [[[0.5] * SIZE] * 2] * 5
        whole = self.run_steps(programs[1], "shard=2", gradients=calm)[2] / "step-00000005"
        for first, second, expected in ((programs[1], programs[0], "has no loss scale: it begins anew"),
                                        (programs[0], programs[1], "the loss scale, which the program does not have, is left out")):
            _, _, saved = self.run_steps(first, "shard=2", gradients=calm, steps=2)
            outcome, lines, end = self.run_steps(second, "shard=2", gradients=calm, resume=saved)
            self.assertEqual(outcome.returncode, 0, outcome.stderr)
            self.assertIn(expected, outcome.stderr)
            self.assertEqual([line.get("loss_scale") for line in lines], [256, 256, 512] if second is programs[0] else [None] * 3)
            states = read_tensors(end / "step-00000005" / "optimizer.safetensors")
            self.assertEqual("w.loss_scale" in states, second is programs[0])
            self.assertEqual(states["w.momentum_buffer"], read_tensors(whole / "optimizer.safetensors")["w.momentum_buffer"])
            name = "params.safetensors"
            self.assertEqual(read_tensors(end / "step-00000005" / name), read_tensors(whole / name))

    def test_collapse(self):
        """Where no scale helps, the run ends with the state of the last good step."""
        bad = [[[0.5] * SIZE] * 2] * 2 + [[[math.inf] * SIZE] * 2] * 8
        for more in ((), ("--run-ahead", "off")):
            program = self.build("dynamic:init=16,min=4", "adamw:lr=0.125", "shard=2")
            outcome, lines, saved = self.run_steps(program, "shard=2", *more, gradients=bad)
            self.assertEqual(outcome.returncode, 1)
            self.assertIn("expected a loss scale of at least 4 (min of fsdp-compile --loss-scale), got 2: gradients of 3 steps in a "
                          "row were not finite", outcome.stderr)
            self.assertEqual([line["loss_scale"] for line in lines][:5], [16, 16, 16, 8, 4])
            (end,) = saved.glob("step-*")
            self.assertGreaterEqual(int(end.name[5:]), 5)
            states = read_tensors(end / "optimizer.safetensors")
            self.assertEqual(array.array("f", states["w.step"][2])[0], 2)
            calm, _, good = self.run_steps(program, "shard=2", gradients=bad[:2])
            self.assertEqual(calm.returncode, 0, calm.stderr)
            self.assertEqual(read_tensors(end / "params.safetensors"), read_tensors(good / "step-00000002" / "params.safetensors"))
        # As GradScaler, for ever.
        program = self.build("dynamic:init=16,min=0", "adamw:lr=0.125", "shard=2")
        outcome, lines, _ = self.run_steps(program, "shard=2", gradients=bad)
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        self.assertEqual(lines[-1]["loss_scale"], 16 / 2 ** 7)

    def test_stop_on_nan(self):
        """Norms that are not finite are the scale's affair, losses are not."""
        program = self.build("dynamic:init=131072", "sgd:lr=0.25", "shard=2")
        gradients = [[[1.0] * SIZE] * 2] * 3
        outcome, lines, _ = self.run_steps(program, "shard=2", "--stop-on-nan", gradients=gradients)
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        self.assertEqual(["nonfinite" in line for line in lines], [True, True, False])
        outcome, _, _ = self.run_steps(program, "shard=2", "--stop-on-nan", gradients=[*gradients, [[math.nan] * SIZE] * 2])
        self.assertEqual(outcome.returncode, 1)
        self.assertIn("loss is nan", outcome.stderr)

    def test_refusals(self):
        plain = self.place("plain.mlir")
        plain.write_text(MODEL.replace("%s: tensor<f32> {fsdp.loss_scale}", '%s: tensor<f32> {fsdp.input = {name = "s"}}'))
        for model, scale, expected in (
                (plain, "dynamic", "export the step with fsdp-export --loss-scale"),
                (self.model, "dynamics", "loss-scale: expected dynamic[:key=value,..], or a positive number in f32's range, got"),
                (self.model, "0", "a positive number in f32's range, got '0'"),
                (self.model, "nan", "a positive number in f32's range, got 'nan'"),
                (self.model, "1e60", "a positive number in f32's range, got '1e60'"),
                (self.model, "1024:interval=3", "got '1024:interval=3'"),
                (self.model, "dynamic:", "entries among init, growth, backoff, interval, min, got ''"),
                (self.model, "dynamic:inti=3", "entries among init, growth, backoff, interval, min, got 'inti=3'"),
                (self.model, "dynamic:init=1,init=2", "expected init once"),
                (self.model, "dynamic:growth=1", "growth=G above 1"),
                (self.model, "dynamic:backoff=1", "backoff=B between 0 and 1"),
                (self.model, "dynamic:interval=0", "interval=N, steps from 1 to 2147483647"),
                (self.model, "dynamic:min=-1", "min=M, 0 or a positive number"),
                (self.model, "dynamic:init=2,min=4", "min that is at most init")):
            with self.subTest(scale=scale):
                outcome = self.execute([BIN / "fsdp-compile", model, "--mesh", "shard=2", "--loss-scale", scale, "-o",
                                        self.place("refused")])
                self.assertEqual(outcome.returncode, 1)
                self.assertIn(expected, outcome.stderr)


class Models(StepTest):
    """Two layers of GPT-2 and Llama, whose exports have the scale as an argument."""

    def train_scaled(self, name, mesh, *options, steps, words=()):
        fixture = Fixture(name)
        fixture.model = fixture.dir / "scaled.mlir"
        fixture.name += "-scaled"
        tensors = {}
        for key, (dtype, shape, data) in read_tensors(fixture.batches).items():
            repeats = -(-steps // shape[0])
            tensors[key] = (dtype, [shape[0] * repeats, *shape[1:]], data * repeats)
        fixture.batches = self.place("batches.safetensors")
        write_tensors(fixture.batches, tensors)
        return self.train(self.compile(fixture, mesh, *options), fixture, mesh, *words, steps=steps)

    def test_powers_of_two_change_no_bit(self):
        """In f32, whose range no gradient leaves."""
        steps = 20 if DEVICE == "cpu" else 2
        for name in RECORDED["models"]:
            plain = self.train_scaled(name, "shard=2", steps=steps)
            for scale in ("1024", "dynamic:interval=3"):
                lines = self.train_scaled(name, "shard=2", "--loss-scale", scale, steps=steps)
                for a, b in zip(plain, lines):
                    self.assertEqual((a["loss"], a["grad_norm"]), (b["loss"], b["grad_norm"]), f"{name} {scale}")

    def test_float16(self):
        """50 steps are at most 4 times as far from f32 as PyTorch's with autocast and GradScaler."""
        for name, recorded in RECORDED["models"].items():
            exact, torch = recorded["f32"]["losses"], recorded["default"]
            steps = len(exact) if DEVICE == "cpu" else 4

            def distance(losses):
                return math.sqrt(sum((a - b) ** 2 for a, b in zip(losses, exact)) / steps)

            theirs = distance(torch["losses"][:steps])
            for options in (("--reduce-dtype", "f32"), ("--reduce-dtype", "f16", "--cluster", "cpu-2core")):
                lines = self.train_scaled(name, "shard=2", "--param-dtype", "f16", *options, "--loss-scale", "dynamic",
                                          steps=steps)
                ours = distance([line["loss"] for line in lines])
                print(f"{name} {' '.join(options)}: {ours:.2e} from f32, PyTorch's {theirs:.2e}, ratio {ours / theirs:.2f}")
                self.assertEqual([line["loss_scale"] for line in lines], torch["scales"][:steps])
                self.assertLessEqual(ours, 4 * theirs)

    def test_overflows(self):
        """Real ones, of a scale that begins too large and grows soon: it does what GradScaler does of the same skipped steps.
        Autocast has biases and their gradients in f16, too, so PyTorch's stays lower.
        """
        for name, recorded in RECORDED["models"].items():
            torch = recorded["restless"]
            steps = len(torch["losses"]) if DEVICE == "cpu" else 4
            lines = self.train_scaled(name, "shard=2", "--param-dtype", "f16", "--reduce-dtype", "f32", "--loss-scale",
                                      option(torch["scaler"]), steps=steps)
            scale, finite = torch["scaler"]["init_scale"], 0
            for line in lines:
                self.assertEqual(line["loss_scale"], scale)
                skipped = "nonfinite" in line
                finite = 0 if skipped else finite + 1
                if skipped or finite == torch["scaler"]["growth_interval"]:
                    scale, finite = scale * (0.5 if skipped else 2), 0
            self.assertEqual(["nonfinite" in line for line in lines[:8]], torch["skipped"][:min(steps, 8)])
            self.assertLessEqual(sum("nonfinite" in line for line in lines), sum(torch["skipped"]))
            if steps > 40:
                self.assertGreaterEqual(lines[-1]["loss_scale"], torch["scales"][-1])
                self.assertLess(lines[-1]["loss"], lines[0]["loss"] - 0.5)


if __name__ == "__main__":
    unittest.main()
