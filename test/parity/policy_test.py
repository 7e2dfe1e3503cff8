"""--param-dtype bf16 against FSDP's MixedPrecisionPolicy(param_dtype=bf16), parameter by parameter.

policy.json of the fixture (python -m fsdp_export.policy) holds how far the gradients of PyTorch's FSDP are
from the exact ones under that policy. Those of a compiled step may be 4 times as far. FSDP computes norms,
softmax and losses in bf16, too: that costs more than products alone, but where a rounding changes the sign
of a ReLU's input, either may be the lucky one.
"""
import array
import json
import statistics
import unittest

from gradients import LR, ZERO, decode, measure
from steps import StepTest, fixture, read_tensors, write_tensors

FACTOR = 4
# Of the median over the parameters, which does not hang on a few signs.
MEDIAN_FACTOR = 2
# One rounding to bf16 is 2^-8 off at most and 1.6e-3 in the mean; one to f32 is 2^-24.
COMPUTED_IN_BF16 = 1e-3
COMPUTED_IN_F32 = 1e-5
BF16 = ("--param-dtype", "bf16")
F32_SUMS = ("--reduce-dtype", "f32")
# Gradients of exactly zero aside, which the policy says nothing about.
LIMITS = {name: FACTOR * distance
          for name, distance in json.loads((fixture.dir / "policy.json").read_text())["distance"].items() if distance}


class Policy(StepTest):
    def distances(self, mesh, *options):
        """Of each parameter's gradient, relative to its norm; gradients of zero are zero."""
        measured = measure(*self.differentiate(fixture, mesh, *options))
        self.assertEqual(set(LIMITS), {name for name, (_, size) in measured.items() if size})
        largest = max(size for _, size in measured.values())
        for name, (distance, size) in measured.items():
            if size == 0:
                self.assertLessEqual(distance, ZERO * largest, name)
        return {name: measured[name][0] / measured[name][1] for name in LIMITS}

    def check(self, mesh, *options):
        with self.subTest(mesh=mesh, options=options):
            distances = self.distances(mesh, *BF16, *options)
            self.assertEqual([], [f"{name}: {distances[name]:.3g} off, at most {limit:.3g} expected"
                                  for name, limit in LIMITS.items() if not distances[name] <= limit])
            median = statistics.median(distances.values())
            self.assertGreaterEqual(median, COMPUTED_IN_BF16)
            self.assertLessEqual(median, MEDIAN_FACTOR / FACTOR * statistics.median(LIMITS.values()))

    def test_products(self):
        # Gathers lose nothing of parameters that bf16 holds: what differs then is computed in it.
        rounded, params = {}, self.place("rounded.safetensors")
        for name, (dtype, shape, data) in read_tensors(fixture.params).items():
            if dtype == "F32":
                data = array.array("I", (bits & 0xFFFF0000 for bits in array.array("I", data))).tobytes()
            rounded[name] = dtype, shape, data
        write_tensors(params, rounded)
        before, after, exact = self.differentiate(fixture, "shard=2", params=params)
        wide = {}
        for name, (_, shape, _) in exact.items():
            values = zip(decode(*before[name][::2]), decode(*after[name][::2]))
            wide[name] = "F64", shape, array.array("d", ((a - b) / LR for a, b in values)).tobytes()
        before, after, _ = self.differentiate(fixture, "shard=2", *BF16, *F32_SUMS, params=params)
        measured = measure(before, after, wide)
        self.assertGreaterEqual(statistics.median(measured[name][0] / measured[name][1] for name in LIMITS),
                                COMPUTED_IN_BF16)

    def test_sharded(self):
        self.check("shard=2")
        self.check("shard=2", *F32_SUMS)

    def test_four_ranks(self):
        self.check("shard=4", *F32_SUMS)
        self.check("shard=2,replicate=2")
        self.check("shard=2,replicate=2", *F32_SUMS)

    def test_scheduled(self):
        self.check("shard=2", *F32_SUMS, "--cluster", "cpu-2core")

    def test_not_without(self):
        for options in ((), ("--param-dtype", "f32")):
            with self.subTest(options=options):
                self.assertLessEqual(statistics.median(self.distances("shard=2", *options).values()), COMPUTED_IN_F32)


if __name__ == "__main__":
    unittest.main()
