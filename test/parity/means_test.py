"""Losses that are means, or what else a rank's loss is: what divides the sum of the ranks' gradients, and the note where
ranks leave out different numbers of labels. Beside a reference in Python's floats.

The model is that of loss_count_test; its loss is the sum over the rows that count, and no count is returned.
"""
import math
import unittest

import loss_count_test
from loss_count_test import COUNTS, LR, RANKS, ROWS, V, W, WIDTH, Losses, make_batches
from steps import BIN, ranks_of

COUNTED = loss_count_test.MODEL
# Rows that count have a label that is legal beside the bounds.
MODEL = COUNTED.replace(loss_count_test.RESULTS, "tensor<f32> {fsdp.loss}") \
    .replace("return %loss, %count", "return %loss").replace(": tensor<f32>, tensor<i64>", ": tensor<f32>") \
    .replace("low = 0, high = 2", "low = 0, high = 1, allowed = array<i64: 1>")


def train(batches, divisor):
    """[(loss, norm)] and the parameters: the sum of a step's gradients is divided by `divisor`."""
    w, v = list(W), list(V)
    lines = []
    for ranks in batches:
        loss, dw, dv = 0.0, [0.0] * WIDTH, [0.0] * WIDTH
        for x, z, y, m in ranks:
            for i in range(ROWS):
                d = m[i] * (sum(a * b for a, b in zip(w + v, x[i] + z[i])) - y[i])
                loss += d * d
                dw = [g + 2 * d * a for g, a in zip(dw, x[i])]
                dv = [g + 2 * d * a for g, a in zip(dv, z[i])]
        dw, dv = ([g / divisor for g in each] for each in (dw, dv))
        norm = math.sqrt(sum(g * g for g in dw + dv))
        w, v = ([p - LR / 16 * g for p, g in zip(*pair)] for pair in ((w, dw), (v, dv)))
        lines.append((loss / len(ranks), norm))
    return lines, {"w.weight": w, "v.weight": v}


class Means(Losses):
    built = {}
    model = MODEL

    def expect_of(self, mesh, options, divisor, micro_batches=1, tolerance=2e-6):
        batches = make_batches(COUNTS)
        got = self.run_steps(self.build(mesh, *options), ranks_of(mesh), batches, micro_batches=micro_batches,
                             lr=LR / 16)
        self.expect(train(batches, divisor), got, tolerance)

    def test_divide_factor(self):
        factor = "--gradient-divide-factor"
        for mesh, options, divisor in (
                ("shard=4", (), 4), ("shard=4", (factor, "4"), 4), ("shard=4", (factor, "1"), 1),
                ("shard=4", (factor, "post=3"), 3), ("shard=4", (factor, "pre=8"), 4),
                ("shard=4", (factor, "pre=2,post=3.5"), 7), ("shard=2,replicate=2", (factor, "6"), 6),
                ("shard=4", (factor, "2", "--strategy", "no_shard"), 2),
                ("shard=4", (factor, "2", "--guard", "--cluster", "h100-sxm"), 2)):
            with self.subTest(mesh=mesh, options=options):
                self.expect_of(mesh, options, divisor)

    def test_divide_factor_of_micro_batches(self):
        # Those are averaged, as ever.
        for accumulate_in in ("shard", "whole"):
            for mesh, factor, divisor in (("shard=2", "2", 4), ("shard=2", "1", 2), ("shard=2", "pre=2,post=3", 12),
                                          ("shard=1", "3", 12), ("shard=1,replicate=2", "0.5", 1)):
                with self.subTest(accumulate_in=accumulate_in, mesh=mesh, factor=factor):
                    self.expect_of(mesh, ("--gradient-divide-factor", factor, "--accumulate-in", accumulate_in), divisor,
                                   RANKS // ranks_of(mesh))

    def test_divide_factor_of_narrow_sums(self):
        for dtype, tolerance in (("bf16", 2e-2), ("f16", 4e-3)):
            for options in ((), ("--accumulate-in", "shard"), ("--accumulate-in", "whole")):
                with self.subTest(dtype=dtype, options=options):
                    self.expect_of("shard=2" if options else "shard=4",
                                   ("--reduce-dtype", dtype, "--gradient-divide-factor", "pre=4,post=2", *options),
                                   16 if options else 8, 2 if options else 1, tolerance)

    def test_clipping(self):
        # What is clipped is what was divided.
        batches = make_batches(COUNTS)
        (_, norm), *_ = train(batches, 2)[0]
        clipped = self.build("shard=4", "--gradient-divide-factor", "2", "--clip-norm")
        _, lines, parameters, _ = self.run_steps(clipped, RANKS, batches, "--clip-norm", norm / 2, steps=1, lr=LR / 16)
        self.assertAlmostEqual(lines[0]["grad_norm"] / norm, 1, delta=2e-6)
        want = train(batches[:1], 4)[1]
        for name, values in want.items():
            for value, got in zip(values, parameters[name]):
                self.assertAlmostEqual(value, got, delta=1e-5)

    def test_divide_factor_of_ignored(self):
        # Not reduced, not divided.
        batches = make_batches(COUNTS[:1])
        program = self.build("shard=4", "--ignore", "v.*", "--gradient-divide-factor", "2")
        _, _, parameters, _ = self.run_steps(program, RANKS, batches, steps=1, lr=LR / 16)
        for name, want in (("w.weight", train(batches, 2)[1]), ("v.weight", train([batches[0][:1]], 1)[1])):
            for value, got in zip(want[name], parameters[name]):
                self.assertAlmostEqual(value, got, delta=1e-5)

    def test_refused(self):
        model = self.place("model.mlir")
        for text, options, said in (
                (MODEL, "0", "expected a positive number in f32's range, got '0'"), (MODEL, "-1", "expected a positive number"),
                (MODEL, "nan", "expected a positive number"), (MODEL, "pre=inf", "expected a positive number in f32's range, got 'inf'"),
                (MODEL, "1e300", "expected a positive number"), (MODEL, "2,3", "expected a number, or pre=P,post=Q, got '2,3'"),
                (MODEL, "pre=2,pre=3", "expected pre once"), (MODEL, "pre=2,3", "expected a number, or pre=P,post=Q"),
                (COUNTED, "2", "expected a loss that is a mean beside gradient-divide-factor 2, got a sum")):
            model.write_text(text)
            done = self.execute([BIN / "fsdp-compile", model, "--mesh", "shard=2", "--gradient-divide-factor", options,
                                 "-o", self.place("train")])
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(said, done.stderr)

    def note(self, mesh, counts, micro_batches=1, options=()):
        outcome, lines, *_ = self.run_steps(self.build(mesh, *options), ranks_of(mesh), make_batches(counts),
                                            micro_batches=micro_batches, lr=LR / 16, steps=len(counts))
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        self.assertEqual(len(lines), len(counts))
        return [line for line in outcome.stderr.splitlines() if "different numbers" in line]

    def test_unequal_counts(self):
        even, uneven = [(3, 3, 3, 3)] * 3, [(3, 3, 3, 3), (3, 3, 4, 3), (1, 2, 3, 4)]
        accumulate = "--accumulate-in", "shard"
        for mesh, micro_batches, options in (("shard=4", 1, ()), ("shard=2", 2, accumulate), ("shard=1", 4, accumulate)):
            with self.subTest(mesh=mesh):
                self.assertEqual(self.note(mesh, even, micro_batches, options), [])
                (said,) = self.note(mesh, uneven, micro_batches, options)
                self.assertRegex(said, "step 2: ranks or micro-batches have different numbers of '1 in m': ")
        # What one rank reads in one batch is compared with nothing.
        self.assertEqual(self.note("shard=1", [(3,), (4,)]), [])


if __name__ == "__main__":
    unittest.main()
