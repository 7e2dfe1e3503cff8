"""Parameters in the host's memory, and optimizer states with them: the bits of those on the device, and how much less of the
device's memory."""
import json
import pathlib
import unittest

from offloaded import MESHES, Offloaded
from steps import StepTest, fixture


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
