"""Optimizers, against what they must equal."""
import unittest

from steps import BIN, Fixture, StepTest

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
        self.assertEqual((outcome.returncode, outcome.stderr), (0, ""))
        self.assertEqual(self.result(own, fixture, MESH), self.result(built_in, fixture, MESH))


if __name__ == "__main__":
    unittest.main()
