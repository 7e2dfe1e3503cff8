"""The part of the bound that a step reached: what a run prints is what fsdp-plan says of the same options. With
FSDP_DEVICE=cuda programs are compiled for the device, planned for it, and run on it."""
import json
import re
import unittest

from steps import BIN, DEVICE, StepTest, fixture, ranks_of

MESH = "shard=2"
CLUSTER = "h100-sxm"
TARGET = ["--target", f"cpu,{DEVICE}" if DEVICE != "cpu" else "cpu"]
# Nothing is repeated, and everything that can be.
PLANS = (), ("--recompute", "full"), ("--accumulate-in", "whole"), ("--order", "fsdp")


class Bound(StepTest):
    def plan(self, *options):
        outcome = self.execute([BIN / "fsdp-plan", fixture.model, "--optimizer-file", fixture.dir / "optimizer.mlir",
                                "--mesh", MESH, "--cluster", CLUSTER, *TARGET, *options, "--json"])
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        return json.loads(outcome.stdout)

    def assertBound(self, program, planned):
        """Nanoseconds, and milliseconds made of picoseconds."""
        self.assertLess(abs(program["bound"]["ns"] - planned["bound_ms"] * 1e6), 1)
        self.assertEqual(program["bound"]["machine"], CLUSTER)

    def test_is_that_of_the_plan(self):
        flops = set()
        for options in PLANS[:3]:
            with self.subTest(options=options):
                manifest, step = self.described(self.compile(fixture, MESH, "--cluster", CLUSTER, *options))
                plan = self.plan(*options)
                self.assertBound(step, plan)
                self.assertEqual(step["bound"]["limit"], plan["limit"])
                seconds = plan["step_ms"] / 1e3
                self.assertAlmostEqual(step["flops"] / seconds / 1e12 / plan["tflops_per_rank"], 1, delta=1e-9)
                self.assertAlmostEqual(step["flops"] / step["bound"]["peak_flops"] / seconds / plan["mfu"], 1, delta=1e-9)
                flops.add(step["flops"])
                programs = {program["name"]: program for program in manifest["programs"]}
                for planned in plan.get("programs", []):
                    self.assertBound(programs[planned["name"]], planned)
        # What is repeated does not count.
        self.assertEqual(len(flops), 1)

    def check(self, program, flops, bound, *options):
        """One run of two steps, and the lines that it printed."""
        metrics = self.place("metrics.jsonl")
        outcome = self.execute([program, "-n", ranks_of(MESH), "--params", fixture.params, "--data", fixture.batches,
                                "--steps", 2, "--lr", fixture.lr, "--metrics", metrics, "--threads", 1, *options])
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        lines = [json.loads(line) for line in metrics.read_text().splitlines()]
        self.assertEqual(len(lines), 2)
        for line in lines:
            self.assertAlmostEqual(line["tflops"] * line["step_ms"] * 1e9 / flops, 1, delta=1e-6)
            self.assertEqual("of_bound" in line, bound is not None)
            if bound is not None:
                self.assertAlmostEqual(line["of_bound"] * line["step_ms"] * 1e6 / bound, 1, delta=1e-6)
                self.assertGreater(line["mfu"], 0)
        return outcome.stdout

    def test_is_printed_beside_every_step(self):
        for options in PLANS:
            with self.subTest(options=options):
                program = self.compile(fixture, MESH, "--cluster", CLUSTER, *options)
                step = self.described(program)[1]
                said = self.check(program, step["flops"], step["bound"]["ns"])
                milliseconds = f"{step['bound']['ns'] / 1e6:.3f}"
                self.assertIn(f"note: bound: {milliseconds} ms on {CLUSTER}, limited by {step['bound']['limit']}\n", said)
                self.assertEqual(len(re.findall(r"^step: .* tps: [\d,]+ mfu: [\d.]+ % of bound: [\d.]+$", said, re.M)), 2)

    def test_of_several_micro_batches_is_their_sum(self):
        program = self.compile(fixture, MESH, "--cluster", CLUSTER, "--accumulate-in", "whole")
        of = {entry["kind"]: entry for entry in self.described(program)[0]["programs"]}
        first, last = of["accumulate"], of["train_accumulated"]
        said = self.check(program, 2 * first["flops"] + last["flops"], 2 * first["bound"]["ns"] + last["bound"]["ns"],
                          "--accumulate", 3)
        self.assertIn("note: bound: ", said)

    def test_without_a_cluster_nobody_knows_it(self):
        program = self.compile(fixture, MESH)
        step = self.described(program)[1]
        self.assertNotIn("bound", step)
        said = self.check(program, step["flops"], None)
        self.assertNotIn("bound: ", said)
        self.assertNotIn("mfu: ", said)


if __name__ == "__main__":
    unittest.main()
