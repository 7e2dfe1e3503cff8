"""Optimizers and clipping, against what they must equal."""
import array
import json
import math
import unittest

from steps import BIN, Fixture, StepTest, read_tensors, write_tensors

MESH = "shard=2"

# sgd:momentum=0.9,weight_decay=0.1 as a compiler that has no linalg writes it.
WHOLE_TENSORS = """
func.func @optimizer(
    %p: tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}},
    %g: tensor<?xf32> {fsdp.optimizer = {role = "grad", name = "grad"}},
    %b: tensor<?xf32> {fsdp.optimizer = {role = "state", name = "momentum_buffer"}},
    %lr: tensor<f32> {fsdp.optimizer = {role = "scalar", name = "lr"}})
    -> (tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}},
        tensor<?xf32> {fsdp.optimizer = {role = "state", name = "momentum_buffer"}}) {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %p, %c0 : tensor<?xf32>
  %rate = tensor.extract %lr[] : tensor<f32>
  %decay = arith.constant 0.1 : f32
  %momentum = arith.constant 0.9 : f32
  %rates = tensor.splat %rate[%n] : tensor<?xf32>
  %decays = tensor.splat %decay[%n] : tensor<?xf32>
  %momenta = tensor.splat %momentum[%n] : tensor<?xf32>
  %pull = arith.mulf %p, %decays : tensor<?xf32>
  %sum = arith.addf %g, %pull : tensor<?xf32>
  %kept = arith.mulf %b, %momenta : tensor<?xf32>
  %buffer = arith.addf %kept, %sum : tensor<?xf32>
  %change = arith.mulf %buffer, %rates : tensor<?xf32>
  %new = arith.subf %p, %change : tensor<?xf32>
  return %new, %buffer : tensor<?xf32>, tensor<?xf32>
}
"""


class Optimizers(StepTest):
    def result(self, program, fixture, mesh):
        folder = self.place("saves")
        lines = self.train(program, fixture, mesh, "--save", folder, steps=5)
        return [line["loss"] for line in lines], self.saved(folder, 5)

    def test_ops_on_whole_tensors(self):
        fixture = Fixture("mixed")
        built_in = self.compile(fixture, MESH, optimizer="sgd:momentum=0.9,weight_decay=0.1")
        path = self.place("optimizer.mlir")
        path.write_text(WHOLE_TENSORS)
        own = self.place("train")
        outcome = self.execute([BIN / "fsdp-compile", fixture.model, "--optimizer-file", path,
                                "--mesh", MESH, "-o", own])
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        self.assertRegex(outcome.stderr, r"\Anot planned: .*\n\Z")
        self.assertEqual(self.result(own, fixture, MESH), self.result(built_in, fixture, MESH))

    # Clipping with parameters that FSDP leaves alone.

    IGNORED = "transformer.h.0.mlp.*"

    def step(self, fixture, mesh, batches, *options, run=()):
        """One step of SGD with rate 1: its norm, and what it took from each parameter."""
        program = self.compile(fixture, mesh, *options, optimizer="sgd:lr=1")
        folder, metrics = self.place("saves"), self.place("metrics.jsonl")
        outcome = self.execute([program, "--params", fixture.params, "--data", batches, "--steps", 1,
                                "--save", folder, "--metrics", metrics, *run])
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        before, after = (
            {name: array.array("f", data)
             for name, (dtype, _, data) in read_tensors(path).items() if dtype == "F32"}
            for path in (fixture.params, folder / "step-00000001" / "params.safetensors"))
        change = {name: [x - y for x, y in zip(before[name], after[name])]
                  for name in before if name in after}
        return json.loads(metrics.read_text())["grad_norm"], change

    def batches(self, fixture, order):
        """The fixture's batches, rank i's being those of rank order[i]."""
        tensors = read_tensors(fixture.batches)
        for name, (dtype, shape, data) in tensors.items():
            size = len(data) // (shape[0] * shape[1])
            tensors[name] = (dtype, [shape[0], len(order), *shape[2:]], b"".join(
                data[(step * shape[1] + rank) * size:][:size]
                for step in range(shape[0]) for rank in order))
        path = self.place("batches.safetensors")
        write_tensors(path, tensors)
        return path

    def squares(self, change, is_ignored):
        own = self.IGNORED.rstrip("*")
        return sum(x * x for name, values in change.items()
                   if name.startswith(own) == is_ignored for x in values)

    def test_ignored_parameters_count_where_ranks_agree(self):
        fixture = Fixture("gpt2")
        for mesh, order in (("shard=1", [0]), ("shard=2", [0, 0])):
            batches = self.batches(fixture, order)
            with self.subTest(mesh=mesh):
                norm, whole = self.step(fixture, mesh, batches, "--clip-norm",
                                        run=("--clip-norm", 0.5))
                own, ignored = self.step(fixture, mesh, batches, "--clip-norm",
                                         "--ignore", self.IGNORED, run=("--clip-norm", 0.5))
                self.assertGreater(norm, 1)
                self.assertAlmostEqual(own, norm, delta=1e-5 * norm)
                for change in (whole, ignored):
                    total = self.squares(change, True) + self.squares(change, False)
                    self.assertAlmostEqual(math.sqrt(total), 0.5, delta=1e-3)

    def test_ignored_parameters_of_ranks_that_differ(self):
        fixture = Fixture("gpt2")
        ignore = ("--ignore", self.IGNORED)
        # What a rank adds is seen where it is the first.
        norms, changes = zip(*(
            self.step(fixture, MESH, self.batches(fixture, order), *ignore)
            for order in ([0, 1], [1, 0])))
        own = [self.squares(change, True) for change in changes]
        self.assertGreater(abs(own[0] - own[1]), 1e-3 * own[0])
        expected = math.sqrt(self.squares(changes[0], False) + sum(own) / 2)
        for norm in norms:
            self.assertAlmostEqual(norm, expected, delta=1e-4 * expected)
        # One factor for all parameters of all ranks.
        norm, clipped = self.step(fixture, MESH, self.batches(fixture, [0, 1]), "--clip-norm",
                                  *ignore, run=("--clip-norm", norms[0] / 4))
        self.assertAlmostEqual(norm, norms[0], delta=1e-5 * norm)
        for is_ignored in (False, True):
            self.assertAlmostEqual(
                math.sqrt(self.squares(clipped, is_ignored)),
                math.sqrt(self.squares(changes[0], is_ignored)) / 4, delta=1e-4 * norm)

    def test_ignored_parameters_resumed(self):
        # Each rank goes on from its own, and its own momentum.
        fixture = Fixture("gpt2")
        program = self.compile(fixture, MESH, "--ignore", self.IGNORED,
                               optimizer="sgd:lr=0.01,momentum=0.9")
        whole, half = self.place("whole"), self.place("half")
        lines = self.train(program, fixture, MESH, "--save", whole, steps=4)
        first = self.train(program, fixture, MESH, "--save", half, steps=2)
        second = self.train(program, fixture, MESH, "--resume", half, "--save", half, steps=4)
        self.assertEqual([line["loss"] for line in first + second],
                         [line["loss"] for line in lines])
        saved = self.saved(whole, 4)
        self.assertEqual(self.saved(half, 4), saved)
        name = "transformer.h.0.mlp.c_fc.weight"
        for kind in ("params/" + name, f"optimizer/{name}.momentum_buffer"):
            _, shape, data = saved["ranks.safetensors", kind]
            self.assertEqual(shape[0], 2)
            self.assertNotEqual(data[:len(data) // 2], data[len(data) // 2:])


if __name__ == "__main__":
    unittest.main()
