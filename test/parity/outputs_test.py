"""Outputs of an evaluation that are one tensor, inputs, parameters, buffers and constants: each has its values, with
one rank, where nothing is gathered, and with two. With FSDP_DEVICE=cuda on that device."""
import array
import unittest

from steps import BIN, DEVICE, StepTest, read_tensors, write_tensors

ROWS, WIDTH = 2, 4
# An odd number of elements before the bias: what it is gathered in begins at no multiple of anything.
MODEL = """
func.func @forward_backward(
    %w: tensor<3xf32> {fsdp.param = {fqn = "a.w", init = {kind = "values", values = dense<[1.0, 2.0, 3.0]> : tensor<3xf32>}}},
    %b: tensor<4xf32> {fsdp.param = {fqn = "a.b", init = {kind = "values", values = dense<[4.0, 5.0, 6.0, 7.0]> : tensor<4xf32>}}},
    %last: tensor<f32> {fsdp.buffer = {fqn = "last", init = {kind = "constant", value = 0.0}}},
    %x: tensor<2x4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss}, tensor<3xf32> {fsdp.grad = {fqn = "a.w"}}, tensor<4xf32> {fsdp.grad = {fqn = "a.b"}},
        tensor<f32> {fsdp.buffer_update = {fqn = "last"}}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %p = tensor.extract %w[%c0] : tensor<3xf32>
  %q = tensor.extract %b[%c1] : tensor<4xf32>
  %r = tensor.extract %x[%c0, %c1] : tensor<2x4xf32>
  %s = arith.addf %p, %q : f32
  %t = arith.mulf %s, %r : f32
  %loss = tensor.from_elements %t : tensor<f32>
  return %loss, %w, %b, %loss : tensor<f32>, tensor<3xf32>, tensor<4xf32>, tensor<f32>
}
func.func @evaluate(
    %w: tensor<3xf32> {fsdp.param = {fqn = "a.w"}}, %b: tensor<4xf32> {fsdp.param = {fqn = "a.b"}},
    %last: tensor<f32> {fsdp.buffer = {fqn = "last"}}, %table: tensor<3xi64> {fsdp.buffer = {fqn = "table",
        init = {kind = "values", values = dense<[7, 8, 9]> : tensor<3xi64>}}},
    %x: tensor<2x4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<2x4xf32> {fsdp.output = {name = "h"}}, tensor<2x4xf32> {fsdp.output = {name = "same"}},
        tensor<8xf32> {fsdp.output = {name = "flat"}}, tensor<2x4xf32> {fsdp.output = {name = "equal"}},
        tensor<2x4xf32> {fsdp.output = {name = "x"}}, tensor<8xf32> {fsdp.output = {name = "x_flat"}},
        tensor<3xf32> {fsdp.output = {name = "w"}}, tensor<4xf32> {fsdp.output = {name = "b"}},
        tensor<2x2xf32> {fsdp.output = {name = "b_square"}}, tensor<3xi64> {fsdp.output = {name = "table"}},
        tensor<3xi64> {fsdp.output = {name = "table_again"}}, tensor<f32> {fsdp.output = {name = "last"}},
        tensor<2xf32> {fsdp.output = {name = "ones"}}, tensor<2xf32> {fsdp.output = {name = "ones_again"}})
    attributes {fsdp.program = "eval"} {
  %e = tensor.empty() : tensor<2x4xf32>
  %h = linalg.add ins(%x, %x : tensor<2x4xf32>, tensor<2x4xf32>) outs(%e : tensor<2x4xf32>) -> tensor<2x4xf32>
  %g = linalg.add ins(%x, %x : tensor<2x4xf32>, tensor<2x4xf32>) outs(%e : tensor<2x4xf32>) -> tensor<2x4xf32>
  %flat = tensor.collapse_shape %h [[0, 1]] : tensor<2x4xf32> into tensor<8xf32>
  %x_flat = tensor.collapse_shape %x [[0, 1]] : tensor<2x4xf32> into tensor<8xf32>
  %square = tensor.expand_shape %b [[0, 1]] output_shape [2, 2] : tensor<4xf32> into tensor<2x2xf32>
  %ones = arith.constant dense<1.0> : tensor<2xf32>
  return %h, %h, %flat, %g, %x, %x_flat, %w, %b, %square, %table, %table, %last, %ones, %ones
      : tensor<2x4xf32>, tensor<2x4xf32>, tensor<8xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<8xf32>, tensor<3xf32>,
        tensor<4xf32>, tensor<2x2xf32>, tensor<3xi64>, tensor<3xi64>, tensor<f32>, tensor<2xf32>, tensor<2xf32>
}
"""


class Outputs(StepTest):

    def evaluate(self, ranks, *options):
        """name -> its values, of all ranks of the last batch."""
        model, program = self.place("model.mlir"), self.place("train")
        batches, saved = self.place("batches.safetensors"), self.place("out.safetensors")
        model.write_text(MODEL)
        target = ["--target", f"cpu,{DEVICE}"] if DEVICE != "cpu" else []
        device = ["--device", DEVICE] if DEVICE != "cpu" else []
        done = self.execute([BIN / "fsdp-compile", model, "--optimizer", "sgd", "--mesh", f"shard={ranks}",
                             *target, *options, "-o", program])
        self.assertEqual(done.returncode, 0, done.stderr)
        values = array.array("f", range(1, ranks * ROWS * WIDTH + 1))
        write_tensors(batches, {"x": ("F32", [1, ranks, ROWS, WIDTH], values.tobytes())})
        done = self.execute([program, "-n", ranks, "--init", "seed=0", "--threads", 1, "--data", batches, "--lr", "0",
                             "--steps", 1, "--eval-data", batches, "--save-outputs", saved, *device])
        self.assertEqual(done.returncode, 0, done.stderr)
        kinds = {"F32": "f", "I64": "q"}
        found = {}
        for name, (dtype, _, data) in read_tensors(saved).items():
            found[name] = array.array(kinds[dtype])
            found[name].frombytes(data)
        return values, {name: list(each) for name, each in found.items()}

    def check(self, ranks, *options):
        x, got = self.evaluate(ranks, *options)
        x = list(x)
        twice = [2 * value for value in x]
        # The buffer took the loss of each rank's own batch: (1 + 5) times x[0, 1].
        losses = [6 * x[rank * ROWS * WIDTH + 1] for rank in range(ranks)]
        mean = sum(losses) / ranks
        self.assertIn(got.pop("last"), (losses, [mean] * ranks))
        self.assertEqual(got, {
            "h": twice, "same": twice, "flat": twice, "equal": twice, "x": x, "x_flat": x, "w": [1, 2, 3] * ranks,
            "b": [4, 5, 6, 7] * ranks, "b_square": [4, 5, 6, 7] * ranks, "table": [7, 8, 9] * ranks,
            "table_again": [7, 8, 9] * ranks, "ones": [1, 1] * ranks, "ones_again": [1, 1] * ranks})

    def test_one_rank(self):
        self.check(1)

    def test_two_ranks(self):
        self.check(2)

    def test_planned(self):
        self.check(2, "--cluster", "h100-sxm", "--wrap", "size:1")

    def test_replicated(self):
        self.check(2, "--replicate", "a.b")


if __name__ == "__main__":
    unittest.main()
