"""Optimizers by name, beside torch.optim's: optimizers.json has what those made of recorded gradients (make_optimizers.py)."""
import array
import json
import pathlib
import unittest
from concurrent.futures import ThreadPoolExecutor

from steps import BIN, StepTest, read_tensors, write_tensors

RECORDED = json.loads(pathlib.Path(__file__).with_name("optimizers.json").read_text())
RATIOS, START, GRADS = RECORDED["ratios"], RECORDED["start"], RECORDED["grads"]
# Units in the last place of f32 that a parameter may be off by, those of the larger of its value and its greatest change.
UNITS = 4

# The gradient is the input.
MODEL = """
func.func @forward_backward(%w: tensor<SIZExf32> {fsdp.param = {fqn = "w"}}, %g: tensor<SIZExf32> {fsdp.input = {name = "g"}})
    -> (tensor<f32> {fsdp.loss}, tensor<SIZExf32> {fsdp.grad = {fqn = "w"}}) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<f32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<f32>) -> tensor<f32>
  %loss = linalg.dot ins(%w, %g : tensor<SIZExf32>, tensor<SIZExf32>) outs(%init : tensor<f32>) -> tensor<f32>
  return %loss, %g : tensor<f32>, tensor<SIZExf32>
}
""".replace("SIZE", str(len(START)))


def floats(values):
    return array.array("f", values).tobytes()


class OptimizersByName(StepTest):
    @classmethod
    def setUpClass(cls):
        cls.model, cls.params, cls.batches = map(cls.place, ("model.mlir", "start.safetensors", "grads.safetensors"))
        cls.model.write_text(MODEL)
        size = len(START)
        write_tensors(cls.params, {"w": ("F32", [size], floats(START))})
        write_tensors(cls.batches, {"g": ("F32", [len(GRADS), 2, size], b"".join(2 * floats(grad) for grad in GRADS))})
        cls.schedule = "table:" + ",".join(f"{step}={ratio}" for step, ratio in enumerate(RATIOS, 1))

    def built(self, spec, *options, mesh="shard=1"):
        program = self.place("train")
        outcome = self.execute([BIN / "fsdp-compile", self.model, "--optimizer", spec, "--mesh", mesh, *options, "-o", program])
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        return program

    def trace(self, program, *options):
        """The bytes of the parameter after each step."""
        saved = self.place("saved")
        outcome = self.execute([program, "--params", self.params, "--data", self.batches, "--steps", len(RATIOS), "--threads", 1,
                                "--lr-schedule", self.schedule, "--save", saved, "--save-every", 1, "--quiet", *options])
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        return [read_tensors(saved / f"step-{step:08}" / "params.safetensors")["w"][2] for step in range(1, len(RATIOS) + 1)]

    def check(self, spec, traced, expected):
        scale = [max(abs(value) for step in expected for value in (step[i], step[i] - START[i])) for i in range(len(START))]
        for step, (data, wanted) in enumerate(zip(traced, expected), 1):
            for i, (value, want) in enumerate(zip(array.array("f", data), wanted)):
                self.assertLessEqual(abs(value - want), UNITS * 2.0 ** -23 * scale[i], f"{spec}: element {i} after step {step}")

    def test_torch(self):
        def run(item):
            spec, expected = item
            return spec, self.trace(self.built(spec)), expected

        with ThreadPoolExecutor(2) as pool:
            for spec, traced, expected in pool.map(run, RECORDED["cases"].items()):
                with self.subTest(spec=spec):
                    self.check(spec, traced, expected)
                    # The first rate is 0.
                    self.assertEqual(traced[0], floats(START))

    def test_numbers_given_at_run_time(self):
        for spec, numbers in (
                ("adamw:lr=0.01,beta1=0.8,beta2=0.95,eps=1e-6,weight_decay=0.1,amsgrad=true", ["beta1", "beta2", "eps", "weight_decay"]),
                ("sgd:lr=0.1,momentum=0.9,weight_decay=0.01,dampening=0.5,maximize=true", ["momentum", "weight_decay", "dampening"])):
            name, _, rest = spec.partition(":")
            parts = rest.split(",")
            given = [part for part in parts if part.partition("=")[0] in numbers]
            compiled = ",".join(part for part in parts if part not in given)
            program = self.built(f"{name}:{compiled}", "--optimizer-scalars", ",".join(numbers))
            scalars = [word for part in given for word in ("--scalar", part)]
            with self.subTest(spec=spec):
                self.check(spec, self.trace(program, *scalars), RECORDED["cases"][spec])

    def test_shards(self):
        """A rank's piece is computed as the whole."""
        spec = "radam:lr=0.1"
        self.assertEqual(self.trace(self.built(spec, mesh="shard=2")), self.trace(self.built(spec)))


if __name__ == "__main__":
    unittest.main()
