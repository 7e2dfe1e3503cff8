"""What states in the host's memory have in common: the bits of those on the device, whatever a checkpoint was written by."""
import itertools

from steps import HAS_MPI, fixture

MESHES = ("shard=2", "shard=2,replicate=2", "shard=1")
STEPS = 4


class Offloaded:
    """Beside StepTest; `option` moves states."""

    option = ()

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
                program = self.compile(fixture, mesh, *options, *planned, *self.option)
                for backend in ("local", "mpi") if HAS_MPI else ("local",):
                    with self.subTest(mesh=mesh, options=options, planned=planned, backend=backend):
                        self.expect_same(want, self.result(program, mesh, *run, *threads, "--backend", backend, steps=2))

    def test_resumed(self):
        # A checkpoint does not say in which memory states were; from one to the other, on another mesh.
        programs = {mesh: (self.compile(fixture, mesh), self.compile(fixture, mesh, *self.option))
                    for mesh in ("shard=1", "shard=2")}
        for before, after in ((0, 1), (1, 0), (1, 1)):
            with self.subTest(before=before, after=after):
                folder = self.place("saves")
                self.train(programs["shard=2"][before], fixture, "shard=2", "--save", folder, steps=2)
                for mesh in ("shard=2", "shard=1"):
                    want = self.result(programs[mesh][0], mesh, "--resume", folder)
                    self.expect_same(want, self.result(programs[mesh][after], mesh, "--resume", folder))
