"""Optimizer states in the host's memory: the bits of those on the device, less of the device's memory."""
import itertools
import unittest

from steps import BIN, HAS_MPI, StepTest, fixture

OPTION = "--offload-optimizer"
MESHES = ("shard=2", "shard=2,replicate=2", "shard=1")
STEPS = 4


class OffloadOptimizer(StepTest):
    def result(self, program, mesh, *options, steps=STEPS):
        folder = self.place("saves")
        lines = self.train(program, fixture, mesh, "--save", folder, *options, steps=steps)
        return [line["loss"] for line in lines], self.saved(folder, steps)

    def expect_same(self, one, other):
        self.assertEqual(one[0], other[0])
        self.assertEqual(one[1].keys(), other[1].keys())
        self.assertEqual([name for name in one[1] if one[1][name] != other[1][name]], [])

    def test_bits(self):
        cases = (((), ()), (("--guard",), ()), (("--clip-norm",), ("--clip-norm", 0.5)),
                 (("--accumulate-in", "shard"), ("--accumulate", 2)), (("--param-dtype", "bf16"), ()),
                 (("--accumulate-in", "whole", "--skip-nonfinite"), ("--accumulate", 2)))
        for mesh, (options, run) in zip(itertools.cycle(MESHES), cases):
            want = self.result(self.compile(fixture, mesh, *options), mesh, *run, steps=2)
            for planned, threads in (((), ()), (("--cluster", "h100-sxm"), self.queues("on")),
                                     (("--cluster", "h100-sxm", "--order", "fsdp"), self.queues("on"))):
                program = self.compile(fixture, mesh, *options, *planned, OPTION)
                for backend in ("local", "mpi") if HAS_MPI else ("local",):
                    with self.subTest(mesh=mesh, options=options, planned=planned, backend=backend):
                        self.expect_same(want, self.result(program, mesh, *run, *threads, "--backend", backend, steps=2))

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

    def test_resumed(self):
        # A checkpoint does not say in which memory states were; from one to the other, on another mesh.
        programs = {mesh: (self.compile(fixture, mesh), self.compile(fixture, mesh, OPTION)) for mesh in ("shard=1", "shard=2")}
        for before, after in ((0, 1), (1, 0), (1, 1)):
            with self.subTest(before=before, after=after):
                folder = self.place("saves")
                self.train(programs["shard=2"][before], fixture, "shard=2", "--save", folder, steps=2)
                want = self.result(programs["shard=2"][0], "shard=2", "--resume", folder)
                self.expect_same(want, self.result(programs["shard=2"][after], "shard=2", "--resume", folder))
                want = self.result(programs["shard=1"][0], "shard=1", "--resume", folder)
                self.expect_same(want, self.result(programs["shard=1"][after], "shard=1", "--resume", folder))

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
