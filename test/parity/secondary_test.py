"""Units with a secondary shard (reshard-after-forward=RANKS) against those that are resharded whole.

Sums follow one tree over ranks, which two stages of neighbours follow, too: in f32 parameters have the bits of the plain
step. The norm adds up squares of other pieces, and what it scales stays within the fixture's tolerance.
"""
import json
import unittest

import steps
from steps import StepTest, fixture, in_turn
from pytorch_test import F32, difference, total

STEPS = min(steps.STEPS, 8)
SGD = "sgd:lr=0.01,momentum=0.9"
BLOCKS = {"gpt2": "transformer.h.*", "llama": "model.layers.*"}[fixture.name]
LINE, GRID = "shard=4", "replicate=2,shard=2"
# By name a mesh of four ranks, options, and the settings of units beside them. On the grid the shard axis itself is one of
# the two axes that units are sharded over.
SETTINGS = {
    "blocks": (LINE, (), ("--unit", f"{BLOCKS}:reshard-after-forward=2")),
    "all": (LINE, (), ("--unit", "*:reshard-after-forward=2")),
    "grid": (GRID, ("--strategy", "full_shard"), ("--unit", f"{BLOCKS}:reshard-after-forward=2")),
}
# What a step does besides, and options of its run.
BESIDE = {
    "clipped": (("--clip-norm",), ("--clip-norm", 0.5)),
    "skipping": (("--skip-nonfinite",), ()),
    "micro-batches in pieces": (("--accumulate-in", "shard"), ("--accumulate", 2)),
    "micro-batches, whole": (("--accumulate-in", "whole"), ("--accumulate", 2)),
    "planned": (("--cluster", "h100-sxm"), ()),
    "planned, resharded": (("--cluster", "h100-sxm", "--reshard-after-forward", "true"), ()),
    "ordered": (("--cluster", "h100-sxm", "--order", "fsdp"), ()),
    "recomputed": (("--recompute", "full"), ()),
    "offloaded": (("--offload-optimizer",), ()),
    "parameters offloaded": (("--offload-parameters",), ()),
    "updated in backward": (("--optimizer-in-backward",), ()),
    "guarded": (("--guard",), ()),
    "groups": (("--group", "small=dims<2:lr=0.005"), ()),
    "narrow": (("--param-dtype", "bf16", "--reduce-dtype", "f32"), ()),
}


class Secondary(StepTest):
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
        return self.references[key]

    def expect_same(self, one, other):
        self.assertEqual([loss for loss, _ in one[0]], [loss for loss, _ in other[0]])
        self.assertEqual(one[1].keys(), other[1].keys())
        self.assertEqual([name for name in one[1] if one[1][name] != other[1][name]], [])

    def expect_near(self, one, other):
        for i, value in enumerate(("loss", "grad_norm")):
            self.assertLessEqual(difference([line[i] for line in one[0]], [line[i] for line in other[0]]),
                                 2 * fixture.expect["rtol"]["4"][value], value)

    def test_bits(self):
        for name, (mesh, options, settings) in SETTINGS.items():
            with self.subTest(settings=name):
                program = self.compile(fixture, mesh, *options, *settings, optimizer=SGD)
                self.expect_same(self.reference(mesh, options), self.result(program, mesh))

    def test_beside(self):
        """With whatever else a step does."""
        for name, beside in in_turn(list(SETTINGS), list(BESIDE)):
            mesh, common, settings = SETTINGS[name]
            options, run = BESIDE[beside]
            with self.subTest(settings=name, beside=beside):
                few = 3 if "--accumulate" in run else STEPS
                program = self.compile(fixture, mesh, *common, *options, *settings, optimizer=SGD)
                want = self.reference(mesh, common + options, run, few)
                got = self.result(program, mesh, *run, steps=few)
                if beside == "clipped":
                    self.expect_near(want, got)
                else:
                    self.expect_same(want, got)

    def test_resumed(self):
        """A checkpoint is of whole tensors: it goes on with secondary shards and without, the optimizer's states, too."""
        mesh, options, settings = SETTINGS["all"]
        whole, half = self.reference(mesh, options), STEPS // 2
        for one, other in (((), settings), (settings, ()), (settings, SETTINGS["blocks"][2])):
            with self.subTest(one=one, other=other):
                folder = self.place("half")
                lines = self.train(self.compile(fixture, mesh, *one, optimizer=SGD), fixture, mesh, "--save", folder, steps=half)
                rest = self.result(self.compile(fixture, mesh, *other, optimizer=SGD), mesh, "--resume", folder)
                self.expect_same(whole, ([(line["loss"], 0) for line in lines] + rest[0], rest[1]))

    def test_traffic(self):
        """docs/traffic.md by group of ranks, and that the runtime counts the same."""
        program, path = self.compile(fixture, LINE, *SETTINGS["all"][2], optimizer=SGD), self.place("profile.json")
        plain = self.compile(fixture, LINE, "--unit", "root:reshard-after-forward=true", optimizer=SGD)
        self.train(program, fixture, LINE, "--profile", path, steps=2)
        manifest, step = self.described(program)
        self.assertEqual(manifest["mesh"], [{"axis": "shard_0", "size": 2}, {"axis": "shard_1", "size": 2}])
        self.assertEqual({tuple(flat["shard_axes"]) for flat in manifest["flat_params"]}, {("shard_1", "shard_0")})
        counted = {(entry["group"], entry["kind"]): entry["bytes"] for entry in json.loads(path.read_text())["traffic"]}
        self.assertEqual(counted, {(entry["group"], entry["kind"]): 2 * entry["bytes"] for entry in step["traffic"]})
        axes = [tuple(group["axes"]) for group in manifest["groups"]]
        got = {(axes[entry["group"]], entry["kind"]): entry["bytes"] for entry in step["traffic"]}
        numel = sum(flat["numel"] for flat in manifest["flat_params"])
        ranks, within = 4, 2
        across = (ranks // within - 1) * numel // ranks * F32
        inside = (within - 1) * numel // within * F32
        want = {(("shard_0",), "all_gather"): across, (("shard_0",), "reduce_scatter"): across,
                (("shard_1",), "all_gather"): 2 * inside, (("shard_1",), "reduce_scatter"): inside}
        self.assertEqual({key: bytes for key, bytes in got.items() if key[1] != "all_reduce"}, want)
        # One gather of two is within.
        whole = total(self.described(plain)[1]["traffic"])
        self.assertEqual(whole["all_gather"] - total(step["traffic"])["all_gather"], across)
        self.assertEqual(whole["reduce_scatter"], total(step["traffic"])["reduce_scatter"])

    def test_memory(self):
        """From forward to backward a rank has a piece of each unit, and less than all of it."""
        def gathered(*options):
            manifest, step = self.described(self.compile(fixture, LINE, *options, optimizer=SGD))
            return {flat["unit"]: flat["numel"] * F32 for flat in manifest["flat_params"]}, step["plan"]["gathered"]

        units, sharded = gathered()
        blocks = sum(bytes for unit, bytes in units.items() if unit)
        secondary, kept = (gathered("--unit", f"{BLOCKS}:reshard-after-forward={value}")[1] for value in ("2", "false"))
        self.assertLess(sharded, secondary)
        self.assertLess(secondary, kept)
        self.assertLessEqual(secondary, sharded + blocks // 2)


if __name__ == "__main__":
    unittest.main()
