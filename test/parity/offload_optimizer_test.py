"""Optimizer states in the host's memory: the bits of those on the device, less of the device's memory."""
import unittest

from offloaded import MESHES, Offloaded
from steps import BIN, StepTest, fixture

OPTION = "--offload-optimizer"


class OffloadOptimizer(Offloaded, StepTest):
    option = (OPTION,)

    def test_momentum(self):
        sgd = "sgd:lr=0.05,momentum=0.9"
        want = self.result(self.compile(fixture, "shard=2", optimizer=sgd), "shard=2")
        self.expect_same(want, self.result(self.compile(fixture, "shard=2", OPTION, optimizer=sgd), "shard=2"))

    def test_memory(self):
        for mesh in MESHES:
            with self.subTest(mesh=mesh):
                usual, _ = self.described(self.compile(fixture, mesh))
                manifest, step = self.described(self.compile(fixture, mesh, OPTION))
                self.assertEqual(usual["arena"]["host_state_bytes"], 0)
                states = 0
                for flat in manifest["flat_params"]:
                    for state in flat["states"]:
                        self.assertEqual(state["memory"], "device" if state["scalar"] else "host")
                        states += 0 if state["scalar"] else 4 * flat["shard_numel"]
                self.assertGreater(states, 0)
                host = manifest["arena"]["host_state_bytes"]
                self.assertGreaterEqual(host, states)
                # Nothing else is on the host, and states have left the device.
                self.assertEqual(manifest["arena"]["host_bytes"], host)
                self.assertEqual(step["certificate"]["host_bytes"], host)
                self.assertEqual(usual["arena"]["state_bytes"] - manifest["arena"]["state_bytes"], host)

    def test_refused(self):
        self.assertRegex(self.refuse(fixture, "shard=2", OPTION, "--cluster", "cpu-2core"),
                         "expected links.host in the description of cluster .*, got none")
        outcome = self.execute([BIN / "fsdp-compile", fixture.model, OPTION, "--optimizer", "sgd:lr=0.1",
                                "-o", self.place("refused")])
        self.assertEqual(outcome.returncode, 1)
        self.assertIn("expected an optimizer with a state for each element of a parameter, to be in the host's "
                      "memory, got none", outcome.stderr)


if __name__ == "__main__":
    unittest.main()
