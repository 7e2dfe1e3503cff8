"""What must give the same bits, does.

Compared are the losses of every step and all saved parameters, buffers and optimizer states.
"""
import itertools
import re
import unittest

import steps
from steps import BIN, DEVICE, HAS_MPI, StepTest, fixture, in_turn, needs_mpi

# fsdp-offload-all compiles for processors alone, and they alone may have links of any speed.
cpu_only = unittest.skipUnless(DEVICE == "cpu", "for processors")
# The states of the optimizer differ from step to step by then; PyTorch's losses are of more steps.
STEPS = min(steps.STEPS, 8)
SGD = "sgd:lr=0.01,momentum=0.9"
BACKENDS = ("local", "mpi") if HAS_MPI else ("local",)


class Bits(StepTest):
    def result(self, program, mesh, *options, steps=STEPS):
        folder = self.place("saves")
        lines = self.train(program, fixture, mesh, "--save", folder, *options, steps=steps)
        return [line["loss"] for line in lines], self.saved(folder, steps)

    references = {}

    def reference(self, mesh):
        """What the plain program of this mesh gives: run once, as test_the_same_run_twice allows."""
        if mesh not in self.references:
            self.references[mesh] = self.result(self.compile(fixture, mesh), mesh)
        return self.references[mesh]

    def expect_same(self, one, other):
        self.assertEqual(one[0], other[0])
        self.assertEqual(one[1].keys(), other[1].keys())
        self.assertEqual([name for name in one[1] if one[1][name] != other[1][name]], [])

    def test_the_same_run_twice(self):
        for mesh in ("shard=1", "shard=2"):
            with self.subTest(mesh=mesh):
                one = self.reference(mesh)
                self.assertEqual(len(set(one[0])), STEPS)  # it does train
                self.expect_same(one, self.result(self.compile(fixture, mesh), mesh))

    def test_compiled_twice(self):
        name = self.compile(fixture, "shard=2")
        again = self.compile(fixture, "shard=2", again=True)
        self.assertNotEqual(name, again)
        with open(name, "rb") as one, open(again, "rb") as other:
            self.assertTrue(one.read() == other.read(), "the two executables differ")

    @needs_mpi
    def test_local_and_mpi(self):
        for mesh in ("shard=2", "shard=4", "shard=2,replicate=2"):
            with self.subTest(mesh=mesh):
                program = self.compile(fixture, mesh)
                self.expect_same(self.reference(mesh),
                                 self.result(program, mesh, "--backend", "mpi"))

    def test_schedules(self):
        # Order and overlap change no value.
        for ((mesh, order),) in in_turn((("shard=2", "in_order"), ("shard=2", "fsdp"),
                                         ("shard=2,replicate=2", "scheduled"), ("shard=2", "scheduled"))):
            program = self.compile(fixture, mesh, "--cluster", "h100-sxm", "--order", order)
            for backend, threads in itertools.product(BACKENDS, ("off", "on")):
                with self.subTest(mesh=mesh, order=order, backend=backend, threads=threads):
                    self.expect_same(self.reference(mesh), self.result(program, mesh, "--backend", backend,
                                                                       *self.queues(threads)))

    @cpu_only
    def test_prefetch(self):
        # Nor does how far ahead FSDP's orders gather, over links that finish at other times.
        want = self.reference("shard=2")
        for ((*options, link),) in in_turn((("--forward-prefetch=false", "1e9,1e-4"),
                                            ("--backward-prefetch", "post", "1e7,1e-5"),
                                            ("--backward-prefetch", "none", "1e10,1e-3"),
                                            ("--limit-all-gathers=false", "1e8,0"))):
            with self.subTest(options=options):
                program = self.compile(fixture, "shard=2", "--cluster", "h100-sxm", "--order", "fsdp", *options)
                self.expect_same(want, self.result(program, "shard=2", "--queue-threads", "on", "--link", link))

    def test_guarded(self):
        # Poisoned outside of their lives, and with borders, buffers hold the same bits: nothing
        # reads or writes what is dead, in whatever order, and nothing needs to be cleared before
        # a reduction writes it (pytorch/pytorch#88769).
        for mesh, options, threads in (("shard=2", (), "auto"),
                                       ("shard=2", ("--cluster", "h100-sxm"), "on"),
                                       ("shard=2,replicate=2",
                                        ("--cluster", "h100-sxm", "--order", "fsdp"), "off")):
            with self.subTest(mesh=mesh, options=options):
                want = self.reference(mesh)
                program = self.compile(fixture, mesh, "--guard", *options)
                self.expect_same(want, self.result(program, mesh, *self.queues(threads)))

    def offload_all(self, mesh, *options):
        """A program that offloads every value that it can."""
        program = self.place("train")
        outcome = self.execute([BIN / "fsdp-offload-all", fixture.model, "--optimizer-file",
                                fixture.dir / "optimizer.mlir", "--mesh", mesh, *options,
                                "-o", program])
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        said = re.fullmatch(r"(\d+) values, (\d+) bytes of the device, (\d+) of the host\n",
                            outcome.stdout)
        self.assertTrue(said, outcome.stdout)
        self.assertGreater(int(said[1]), 0)
        self.assertGreater(int(said[3]), 0)
        return program

    @cpu_only
    def test_offloaded(self):
        # What waits on the host comes back as it was, whoever copies it and whenever.
        scheduled = ("--cluster", "h100-sxm")
        for ((mesh, options, threads),) in in_turn((("shard=2", (), "auto"),
                                                    ("shard=2", (*scheduled, "--order", "in_order"), "off"),
                                                    ("shard=2", (*scheduled, "--order", "fsdp"), "on"),
                                                    ("shard=2,replicate=2", scheduled, "on"),
                                                    ("shard=2", ("--guard", *scheduled), "on"),
                                                    ("shard=2", ("--guard",), "auto"))):
            program = self.offload_all(mesh, *options)
            for backend in BACKENDS:
                with self.subTest(mesh=mesh, options=options, backend=backend):
                    self.expect_same(self.reference(mesh), self.result(program, mesh, "--backend", backend,
                                                                       *self.queues(threads)))

    @cpu_only
    def test_exchanged(self):
        # A reduce_scatter, or an all_to_all and a kernel that adds the parts up in the same tree.
        scheduled = ("--cluster", "h100-sxm")
        for ((mesh, options, threads),) in in_turn((("shard=2", (), "auto"),
                                                    ("shard=4", (*scheduled, "--order", "fsdp"), "on"),
                                                    ("shard=2,replicate=2", scheduled, "off"),
                                                    ("shard=2", ("--guard", *scheduled), "on"))):
            program = self.place("train")
            outcome = self.execute([BIN / "fsdp-offload-all", fixture.model, "--optimizer-file",
                                    fixture.dir / "optimizer.mlir", "--mesh", mesh, "--exchange", *options,
                                    "-o", program])
            self.assertEqual(outcome.returncode, 0, outcome.stderr)
            said = re.match(r"(\d+) exchanges, ", outcome.stdout)
            self.assertTrue(said and int(said[1]) > 0, outcome.stdout)
            kinds = {row["kind"] for row in self.described(program)[1]["traffic"]}
            self.assertTrue("all_to_all" in kinds and "reduce_scatter" not in kinds, kinds)
            for backend in BACKENDS:
                with self.subTest(mesh=mesh, options=options, backend=backend):
                    self.expect_same(self.reference(mesh), self.result(program, mesh, "--backend", backend,
                                                                       *self.queues(threads)))

    def test_budgets(self):
        # From as little memory as there can be to all that the step uses.
        want, mesh = self.reference("shard=2"), "shard=2"
        least = int(self.least_budget(mesh))
        program = self.compile(fixture, mesh, "--cluster", "cpu-2core")
        most = least + self.arena(program) - self.arena(self.compile(fixture, mesh, "--cluster", "cpu-2core",
                                                                     "--memory-budget", least))
        for (eighths,) in in_turn((0, 1, 2, 4, 6)):
            budget = least + (most - least) * eighths // 8
            with self.subTest(budget=budget):
                program = self.compile(fixture, mesh, "--cluster", "cpu-2core", "--memory-budget", budget)
                self.expect_same(want, self.result(program, mesh))

    def arena(self, program):
        return self.described(program)[0]["arena"]["bytes"]

    def test_optimizer_in_backward(self):
        """Updates that do not wait for other units' gradients change no value, and of the arena next to none."""
        for mesh, options, run in (("shard=2", (), ()), ("shard=2,replicate=2", ("--strategy", "no_shard"), ()),
                                   ("shard=1", ("--accumulate-in", "shard"), ("--accumulate", 2)),
                                   ("shard=2", ("--cluster", "h100-sxm", "--order", "fsdp"), ())):
            with self.subTest(mesh=mesh, options=options):
                behind = self.compile(fixture, mesh, *options)
                beside = self.compile(fixture, mesh, *options, "--optimizer-in-backward")
                self.assertLessEqual(self.arena(beside), 1.01 * self.arena(behind))
                self.expect_same(self.result(behind, mesh, *run), self.result(beside, mesh, *run))

    def test_plans(self):
        # What is kept, computed again and issued together changes no value.
        want = self.reference("shard=2")
        # Nor what is on the host meanwhile, whether or not the rest is computed again.
        for (options,) in in_turn((("cpu-2core", "--reshard-after-forward", "false"),
                                   ("cpu-2core", "--recompute", "full", "--reshard-after-forward", "true"),
                                   ("cpu-2core", "--recompute", "full", "--bucket", "none", "--order", "scheduled"),
                                   ("h100-sxm", "--offload", "full"),
                                   ("h100-sxm", "--offload", "full", "--recompute", "full", "--guard"),
                                   ("h100-sxm", "--offload", "full", "--recompute", "none",
                                    "--reshard-after-forward", "false"))):
            with self.subTest(options=options):
                program = self.compile(fixture, "shard=2", "--cluster", *options)
                self.expect_same(want, self.result(program, "shard=2"))

    def test_checkpointed(self):
        # What a module does not keep is the same when it is computed again, without a cluster and with one.
        blocks = fixture.name in ("bert", "gpt2", "llama", "t5", "transformer")
        want, plain = self.reference("shard=2"), self.arena(self.compile(fixture, "shard=2"))
        for (options,) in in_turn((("--recompute", "full", "--reshard-after-forward", "false"),
                                   ("--checkpoint", "selective") if blocks else ("--recompute", "full"),
                                   ("--checkpoint", "every=1") if blocks else ("--reshard-after-forward", "false"),
                                   ("--checkpoint", "every=2", "--cluster", "cpu-2core") if blocks else
                                   ("--recompute", "full", "--cluster", "cpu-2core", "--order", "fsdp"))):
            with self.subTest(options=options):
                program = self.compile(fixture, "shard=2", *options)
                self.expect_same(want, self.result(program, "shard=2"))
                if options == ("--checkpoint", "every=1") and fixture.name == "gpt2":
                    arena = self.arena(program)
                    self.assertLess(arena, plain, f"{options} takes {arena} bytes, the step without it {plain}")

    def least_budget(self, mesh):
        refused = self.refuse(fixture, mesh, "--cluster", "cpu-2core", "--memory-budget", "1KiB")
        found = re.search(r"expected a memory budget of at least (\d+) bytes", refused)
        self.assertTrue(found, refused)
        return found.group(1)

    def test_wrap_policies(self):
        # Two gradients have one sum, in whatever order; the norm of all of them has not.
        results = {}
        for wrap, options in (("none", ("--wrap", "none")), ("blocks", ()),
                              ("pieces", ("--wrap", "pieces")), ("size:2000", ("--wrap", "size:2000"))):
            program = self.compile(fixture, "shard=2", *options, optimizer=SGD)
            results[wrap] = self.result(program, "shard=2")
        program = self.compile(fixture, "shard=2", "--wrap", "auto", "--cluster", "h100-sxm",
                               optimizer=SGD)
        results["auto"] = self.result(program, "shard=2")
        for wrap in ("blocks", "pieces", "size:2000", "auto"):
            with self.subTest(wrap=wrap):
                self.expect_same(results["none"], results[wrap])

    def test_strategies(self):
        results = {}
        for strategy, options in (("full_shard", ()),
                                  ("shard_grad_op", ("--strategy", "shard_grad_op")),
                                  ("no_shard", ("--strategy", "no_shard"))):
            program = self.compile(fixture, "shard=2", *options, optimizer=SGD)
            results[strategy] = self.result(program, "shard=2")
        for strategy in ("shard_grad_op", "no_shard"):
            with self.subTest(strategy=strategy):
                self.expect_same(results["full_shard"], results[strategy])

    def test_resumed_in_the_middle(self):
        # With what each rank has for itself, such as a BatchNorm's buffers.
        for mesh in ("shard=1", "shard=2"):
            with self.subTest(mesh=mesh):
                program = self.compile(fixture, mesh)
                whole = self.reference(mesh)
                folder, half = self.place("half"), STEPS // 2
                first = self.train(program, fixture, mesh, "--save", folder, steps=half)
                second = self.result(program, mesh, "--resume", folder)
                self.expect_same(whole,
                                 ([line["loss"] for line in first] + second[0], second[1]))
