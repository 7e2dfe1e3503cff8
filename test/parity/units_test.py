"""Units with a strategy, types and reshard-after-forward of their own (--unit), against the plain step.

Where two ranks add up, there is one sum of two gradients in whatever place: bits must be those of the plain step. With
more ranks, or a norm that scales gradients, sums are made in other orders: losses stay within the fixture's tolerance.
"""
import json
import math
import statistics
import unittest

import steps
from gradients import measure
from steps import StepTest, fixture, in_turn, ranks_of
from pytorch_test import F32, difference, total

STEPS = min(steps.STEPS, 8)
SGD = "sgd:lr=0.01,momentum=0.9"
ADAMW = "adamw:lr=0.001"
HYBRID = "shard=2,replicate=2"
# A block that every fixture with blocks has twice, the other one, and what all blocks are called.
FIRST, SECOND, BLOCKS = {"gpt2": ("transformer.h.0", "transformer.h.1", "transformer.h.*"),
                         "llama": ("model.layers.0", "model.layers.1", "model.layers.*")}[fixture.name]
# By name the settings of units, and what of them needs a mesh of two axes.
SETTINGS = {
    "whole block": ("--unit", f"{FIRST}:strategy=no_shard"),
    "whole root": ("--unit", "root:strategy=no_shard"),
    "kept block": ("--unit", f"{FIRST}:reshard-after-forward=false"),
    "resharded root": ("--unit", "root:reshard-after-forward=true"),
    "all different": ("--unit", f"{FIRST}:strategy=shard_grad_op", "--unit", f"{SECOND}:strategy=no_shard",
                      "--unit", "root:reshard-after-forward=true"),
    "resharded block of kept ones": ("--strategy", "shard_grad_op", "--unit", f"{SECOND}:reshard-after-forward=true"),
    "block on the host": ("--unit", f"{FIRST}:offload=all"),
    "block on the device": ("--offload-parameters", "--unit", f"{SECOND}:offload=none"),
    "sharded block of whole ones": ("--strategy", "no_shard", "--unit", f"{FIRST}:strategy=full_shard"),
}
ON_TWO_AXES = {
    "all axes": ("--unit", f"{FIRST}:strategy=full_shard"),
    "hybrid, kept": ("--unit", f"{BLOCKS}:strategy=hybrid_shard_zero2"),
    "hybrid of all": ("--strategy", "full_shard", "--unit", f"{SECOND}:strategy=hybrid_shard",
                      "--unit", f"{FIRST}:strategy=no_shard"),
}
# What a step does besides, and options of its run. The norm of all gradients is a sum by units.
BESIDE = {
    "plain": ((), ()),
    "clipped": (("--clip-norm",), ("--clip-norm", 0.5)),
    "skipping": (("--skip-nonfinite",), ()),
    "micro-batches in pieces": (("--accumulate-in", "shard"), ("--accumulate", 2)),
    "micro-batches, whole": (("--accumulate-in", "whole"), ("--accumulate", 2)),
    "planned": (("--cluster", "h100-sxm"), ()),
    "ordered": (("--cluster", "h100-sxm", "--order", "fsdp"), ()),
    "recomputed": (("--recompute", "full"), ()),
    "offloaded": (("--offload-optimizer",), ()),
    "guarded": (("--guard",), ()),
    "groups": (("--group", "small=dims<2:lr=0.005"), ()),
    "replicated": (("--replicate", "*.bias" if fixture.name == "gpt2" else "*norm.weight"), ()),
    "narrow": (("--param-dtype", "bf16", "--reduce-dtype", "f32"), ()),
    "pieces": (("--wrap", "pieces"), ()),
}
SCALED = "clipped", "micro-batches in pieces", "micro-batches, whole"


class Units(StepTest):
    references = {}

    def result(self, program, mesh, *options, steps=STEPS):
        folder = self.place("saves")
        lines = self.train(program, fixture, mesh, "--save", folder, *options, steps=steps)
        return [(line["loss"], line["grad_norm"]) for line in lines], self.saved(folder, steps)

    def reference(self, mesh, options=(), run=(), steps=STEPS):
        key = mesh, options, run, steps
        if key not in self.references:
            program = self.compile(fixture, mesh, *options, optimizer=SGD)
            self.references[key] = self.result(program, mesh, *run, steps=steps)
            self.assertEqual(len(set(self.references[key][0])), steps)
        return self.references[key]

    def expect_same(self, one, other):
        self.assertEqual([loss for loss, _ in one[0]], [loss for loss, _ in other[0]])
        self.assertEqual(one[1].keys(), other[1].keys())
        self.assertEqual([name for name in one[1] if one[1][name] != other[1][name]], [])

    def expect_near(self, one, other, ranks):
        for i, value in enumerate(("loss", "grad_norm")):
            self.assertLessEqual(difference([line[i] for line in one[0]], [line[i] for line in other[0]]),
                                 2 * fixture.expect["rtol"][str(ranks)][value], value)
        self.assertEqual(one[1].keys(), other[1].keys())

    def test_bits(self):
        for name, options in SETTINGS.items():
            with self.subTest(settings=name):
                program = self.compile(fixture, "shard=2", *options, optimizer=SGD)
                self.expect_same(self.reference("shard=2"), self.result(program, "shard=2"))

    def test_four_ranks(self):
        for mesh, settings in (("shard=4", SETTINGS), (HYBRID, SETTINGS), (HYBRID, ON_TWO_AXES)):
            for name, options in settings.items():
                with self.subTest(mesh=mesh, settings=name):
                    program = self.compile(fixture, mesh, *options, optimizer=SGD)
                    self.expect_near(self.reference(mesh), self.result(program, mesh), 4)

    def test_beside(self):
        """Each setting with whatever else a step does."""
        for name, beside in in_turn(list(SETTINGS), list(BESIDE)):
            options, run = BESIDE[beside]
            with self.subTest(settings=name, beside=beside):
                # Pieces of a block have names that begin with its own.
                settings = tuple(word.replace(f"{FIRST}:", f"{FIRST}*:").replace(f"{SECOND}:", f"{SECOND}*:")
                                 for word in SETTINGS[name])
                few = 3 if "--accumulate" in run else STEPS
                # Else the planner would keep them gathered.
                resharded = beside == "planned" and any(word.endswith("reshard-after-forward=true") for word in settings)
                never = ("--reshard-after-forward", "true") if resharded else ()
                program = self.compile(fixture, "shard=2", *options, *never, *settings, optimizer=SGD)
                got, want = self.result(program, "shard=2", *run, steps=few), self.reference("shard=2", options, run, few)
                if beside in SCALED:
                    self.expect_near(got, want, 2)
                else:
                    self.expect_same(want, got)

    def test_types_beside(self):
        """What changes no value changes none of a step whose units are in other types, either."""
        types = ("--param-dtype", "bf16", "--unit", f"{FIRST}:param-dtype=f32,strategy=no_shard",
                 "--unit", "root:reduce-dtype=f32")
        for beside in "planned", "ordered", "recomputed", "offloaded", "guarded", "skipping":
            with self.subTest(beside=beside):
                program = self.compile(fixture, "shard=2", *BESIDE[beside][0], *types, optimizer=SGD)
                self.expect_same(self.reference("shard=2", types), self.result(program, "shard=2"))

    def test_types_resumed(self):
        """States are kept in f32 whatever units are gathered in: a step goes on in other types."""
        narrow = "--unit", "*:param-dtype=bf16"
        folder, half = self.place("half"), STEPS // 2
        program = self.compile(fixture, "shard=2", *narrow, optimizer=SGD)
        self.train(program, fixture, "shard=2", "--save", folder, steps=half)
        lines, saved = self.result(self.compile(fixture, "shard=2", optimizer=SGD), "shard=2", "--resume", folder)
        want = self.reference("shard=2")
        self.assertLessEqual(difference([loss for loss, _ in lines], [loss for loss, _ in want[0][half:]]), 0.02)
        self.assertEqual({name: tensor[:2] for name, tensor in saved.items()},
                         {name: tensor[:2] for name, tensor in want[1].items()})

    def test_resumed_with_other_settings(self):
        """A checkpoint is of whole tensors: any settings go on from it."""
        whole, half = self.reference("shard=2"), STEPS // 2
        for one, other in in_turn(list(SETTINGS), list(SETTINGS)):
            with self.subTest(one=one, other=other):
                folder = self.place("half")
                first = self.compile(fixture, "shard=2", *SETTINGS[one], optimizer=SGD)
                lines = self.train(first, fixture, "shard=2", "--save", folder, steps=half)
                second = self.result(self.compile(fixture, "shard=2", *SETTINGS[other], optimizer=SGD), "shard=2",
                                     "--resume", folder)
                self.expect_same(whole, ([(line["loss"], 0) for line in lines] + second[0], second[1]))

    def wanted_bytes(self, manifest, gathers):
        """docs/traffic.md, unit by unit; `gathers`: how often each is gathered, by its name."""
        sizes = {axis["axis"]: axis["size"] for axis in manifest["mesh"]}
        world = math.prod(sizes.values())
        sums = {"all_gather": 0, "reduce_scatter": 0, "all_reduce": 0}
        for flat in manifest["flat_params"]:
            shards = math.prod(sizes[axis] for axis in flat["shard_axes"])
            moved = (shards - 1) * flat["numel"] // shards * F32
            sums["all_gather"] += moved * gathers[flat["unit"]]
            sums["reduce_scatter"] += moved
            sums["all_reduce"] += 2 * (world // shards - 1) * -(-flat["numel"] // world) * F32
        return sums

    def test_traffic(self):
        for mesh, options, gathers in (
                ("shard=2", SETTINGS["whole block"], (0, 2, 1)), ("shard=2", SETTINGS["kept block"], (1, 2, 1)),
                ("shard=2", SETTINGS["all different"], (1, 0, 2)), (HYBRID, SETTINGS["whole root"], (2, 2, 0)),
                (HYBRID, ON_TWO_AXES["all axes"], (2, 2, 1)), (HYBRID, ON_TWO_AXES["hybrid of all"], (0, 2, 1))):
            with self.subTest(mesh=mesh, options=options):
                program, path = self.compile(fixture, mesh, *options, optimizer=SGD), self.place("profile.json")
                self.train(program, fixture, mesh, "--profile", path, steps=2)
                manifest, step = self.described(program)
                counted = {(entry["group"], entry["kind"]): entry["bytes"]
                           for entry in json.loads(path.read_text())["traffic"]}
                self.assertEqual(counted, {(entry["group"], entry["kind"]): 2 * entry["bytes"]
                                           for entry in step["traffic"]})
                got = total(step["traffic"])
                want = self.wanted_bytes(manifest, dict(zip((FIRST, SECOND, ""), gathers)))
                # The loss, and the squares of the norm, by kind of unit.
                self.assertLessEqual(want["all_reduce"], got["all_reduce"])
                self.assertLess(got.pop("all_reduce") - want.pop("all_reduce"), 8 * 8 * 2 * ranks_of(mesh))
                self.assertEqual(got, want)

    def test_types_of_all_units(self):
        """Given to all units, types are those of the step."""
        for units, options in ((("--unit", "*:param-dtype=bf16"), ("--param-dtype", "bf16")),
                               (("--unit", "*:param-dtype=bf16,reduce-dtype=f32"),
                                ("--param-dtype", "bf16", "--reduce-dtype", "f32")),
                               (("--unit", "*:reduce-dtype=bf16"), ("--reduce-dtype", "bf16")),
                               (("--param-dtype", "bf16", "--unit", "*:param-dtype=f32"), ())):
            for mesh in ("shard=2", HYBRID):
                with self.subTest(units=units, mesh=mesh):
                    program = self.compile(fixture, mesh, *units, optimizer=SGD)
                    self.expect_same(self.reference(mesh, options), self.result(program, mesh))

    def test_types_beside_updates_of_several_units(self):
        """One launch updates equal units by Adam's formula; their gradients are reduced in types of their own."""
        want, _ = self.result(self.compile(fixture, "shard=2", optimizer=ADAMW), "shard=2")
        for types in ("reduce-dtype=bf16", "param-dtype=bf16", "param-dtype=bf16,reduce-dtype=f32"):
            for options in ((), ("--clip-norm",), ("--cluster", "h100-sxm")):
                with self.subTest(types=types, options=options):
                    program = self.compile(fixture, "shard=2", *options, "--unit", f"{FIRST}:{types}", optimizer=ADAMW)
                    run = ("--clip-norm", 1e9) if "--clip-norm" in options else ()
                    got, _ = self.result(program, "shard=2", *run)
                    self.assertLessEqual(difference([loss for loss, _ in got], [loss for loss, _ in want]), 0.02)

    def test_types_of_one_unit(self):
        """A unit that is computed in f32 has gradients nearer to the exact ones; others are as near as before."""
        limits = json.loads((fixture.dir / "policy.json").read_text())["distance"]
        narrow = ("--param-dtype", "bf16", "--reduce-dtype", "f32")

        def distances(*options):
            measured = measure(*self.differentiate(fixture, "shard=2", *options))
            return {name: measured[name][0] / measured[name][1] for name in limits if limits[name]}

        everywhere, root = distances(*narrow), distances(*narrow, "--unit", "root:param-dtype=f32")
        blocks = distances(*narrow, "--unit", f"{BLOCKS}:param-dtype=f32")
        alone = distances("--unit", f"{BLOCKS}:param-dtype=bf16,reduce-dtype=f32")
        # The same settings, said the other way round.
        self.assertEqual(root, alone)
        for got in (root, blocks):
            self.assertEqual([name for name in got if not got[name] <= 4 * limits[name]], [])
            self.assertLess(statistics.median(got.values()), statistics.median(everywhere.values()))
            self.assertGreater(statistics.median(got.values()), 1e-5)

    def test_refused(self):
        for mesh, options, said in (
                ("shard=2", ("--unit", "h.7:strategy=no_shard"),
                 rf"unit 'h.7': expected a pattern of units, which are root, {FIRST}, {SECOND}, got none"),
                ("shard=2", ("--unit", f"{BLOCKS}:strategy=no_shard", "--unit", f"{FIRST}:param-dtype=bf16"),
                 rf"unit '{FIRST}': expected units that no other --unit matches, got {FIRST}, which"),
                ("shard=2", ("--unit", "root:strategy=hybrid_shard"),
                 "unit 'root': expected a mesh with a replicate axis for hybrid_shard, got one with shard=2 alone"),
                ("shard=2", ("--unit", f"{FIRST}:strategy=full_shard"), "expected strategy that changes a unit"),
                ("shard=2", ("--unit", f"{FIRST}:param-dtype=f64"), "expected 'f32', or a type of fewer bits, as param-dtype"),
                ("shard=2", ("--unit", "root:reshard-after-forward=false"),
                 "expected reshard-after-forward that changes a unit"),
                ("shard=2", ("--unit", f"{FIRST}:strategy=shard_grad_op,reshard-after-forward=true"),
                 "expected reshard-after-forward=false beside strategy=shard_grad_op, got true"),
                ("shard=2", ("--unit", f"{FIRST}:strategy=no_shard", "--wrap", "auto", "--cluster", "cpu-2core"),
                 "expected no --wrap auto beside --unit, got one")):
            with self.subTest(options=options):
                self.assertRegex(self.refuse(fixture, mesh, *options).replace("\n", " "), said)


if __name__ == "__main__":
    unittest.main()
