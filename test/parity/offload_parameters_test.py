"""Parameters in the host's memory, and optimizer states with them: the bits of those on the device, and how much less of the
device's memory."""
import json
import pathlib
import unittest

from offloaded import MESHES, Offloaded
from steps import BIN, StepTest, fixture


class OffloadParameters(Offloaded, StepTest):
    option = ("--offload-parameters",)

    def test_memory(self):
        """A shard is on the device while something reads it."""
        for mesh in MESHES:
            with self.subTest(mesh=mesh):
                usual, _ = self.described(self.compile(fixture, mesh))
                manifest, step = self.described(self.compile(fixture, mesh, *self.option, "--offload-optimizer"))
                shards, states = 0, 0
                for flat in manifest["flat_params"]:
                    self.assertEqual(flat["memory"], "host")
                    shards += 4 * flat["shard_numel"]
                    states += sum(4 * flat["shard_numel"] for state in flat["states"] if not state["scalar"])
                host = manifest["arena"]["host_state_bytes"]
                self.assertGreaterEqual(host, shards + states)
                self.assertEqual(step["certificate"]["host_bytes"], host)
                self.assertEqual(usual["arena"]["state_bytes"] - manifest["arena"]["state_bytes"], host)
                self.assertLess(manifest["arena"]["bytes"], usual["arena"]["bytes"])

    def test_plans(self):
        """What is kept and computed again is what it is of parameters on the device."""
        for options in (("--reshard-after-forward", "false"), ("--recompute", "full"), ("--checkpoint", "every=1"),
                        ("--strategy", "no_shard", "--recompute", "full"),
                        ("--recompute", "full", "--cluster", "h100-sxm"),
                        ("--reshard-after-forward", "false", "--cluster", "h100-sxm", "--param-dtype", "bf16")):
            with self.subTest(options=options):
                counts = []
                for option in ((), self.option):
                    level = self.place("step.mlir")
                    done = self.execute([BIN / "fsdp-compile", fixture.model, "--mesh", "shard=2", *options, *option,
                                         "--emit", "ir:L3", "-o", level])
                    self.assertEqual(done.returncode, 0, done.stderr)
                    text = level.read_text()
                    counts.append([text.count(op) for op in ("fsdp.all_gather", "fsdp.launch")])
                self.assertEqual(*counts)
                results = [self.result(self.compile(fixture, "shard=2", *options, *option), "shard=2", steps=2)
                           for option in ((), self.option)]
                self.expect_same(*results)

    def test_copies(self):
        """Of each shard two to the device, for forward and for backward with the update, and one back."""
        for mesh, options in (("shard=2", ()), ("shard=1", ()), ("shard=2", ("--strategy", "shard_grad_op"))):
            with self.subTest(mesh=mesh, options=options):
                program = self.compile(fixture, mesh, *options, *self.option)
                manifest, _ = self.described(program)
                profile = self.place("profile.json")
                self.train(program, fixture, mesh, "--profile", profile, steps=1)
                copies = json.loads(pathlib.Path(profile).read_text())["host_copies"]
                bytes_of = {flat["name"]: 4 * flat["shard_numel"] for flat in manifest["flat_params"]}
                trained = sum(bytes_of[flat["name"]] for flat in manifest["flat_params"] if flat["trainable"])
                self.assertEqual(copies["offload"]["bytes"], trained)
                # What is frozen is read by forward, and by backward where a gradient goes through it.
                least, most = 2 * trained, 2 * sum(bytes_of.values())
                self.assertTrue(least <= copies["reload"]["bytes"] <= most, copies)


if __name__ == "__main__":
    unittest.main()
