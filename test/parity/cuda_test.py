"""Programs on the device cuda, which an emulated driver is, against PyTorch and the CPU's code.

FSDP_CUDA_LIBS names the folder of the doubles of CUDA's libraries: build/lib/fsdp-emulator. The
PTX that the compiler wrote is executed there, so losses and norms must be as near to
PyTorch's as those of the processors' code may be; tolerances are those of the fixture.

Ranks communicate by a double of NCCL there.
"""
import json
import os
import unittest

from gradients import describe_wrong
from gradients_test import TOLERANCE
from pytorch_test import HYBRID, difference
from steps import BIN, STEPS, StepTest, fixture, needs_mpi, ranks_of

CUDA = ("--target", "cuda")
BOTH = ("--target", "cpu,cuda")
ON_DEVICE = ("--device", "cuda")


class Cuda(StepTest):
    def check(self, mesh, *options, steps=STEPS, run=()):
        with self.subTest(mesh=mesh, options=options, run=run):
            target = BOTH if (mesh, options) == ("shard=1", ()) else CUDA
            program = self.compile(fixture, mesh, *target, *options)
            lines = self.train(program, fixture, mesh, *ON_DEVICE, *run, steps=steps)
            ranks = str(ranks_of(mesh))
            for value in ("loss", "grad_norm"):
                want = fixture.expect[value][ranks][:steps]
                self.assertLessEqual(difference([line[value] for line in lines], want),
                                     fixture.expect["rtol"][ranks][value], value)

    def test_one_rank(self):
        self.check("shard=1")

    def test_scheduled(self):
        self.check("shard=1", "--cluster", "cpu-2core", steps=5)

    def test_attention_as_traced(self):
        self.check("shard=1", "--attention", "decomposed", steps=5)

    def test_ranks(self):
        self.check("shard=2", steps=5)
        self.check("shard=4", steps=2)
        self.check(HYBRID, steps=2)

    def test_ranks_scheduled(self):
        """Transfers on queues of their own, in any order that the program allows."""
        self.addCleanup(os.environ.pop, "FSDP_EMULATOR_SEED", None)
        for seed in range(1, 3):
            os.environ["FSDP_EMULATOR_SEED"] = str(seed)
            self.check("shard=2", "--cluster", "cpu-2core", steps=2)
        self.check(HYBRID, "--cluster", "h100-sxm", steps=2)
        self.check("shard=4", "--cluster", "h100-sxm", "--order", "fsdp", steps=2)

    def test_ranks_guarded(self):
        self.check("shard=2", "--cluster", "cpu-2core", "--guard", steps=1)

    def test_memory_of_sums(self):
        """The manifest says what sums over ranks take beside the arena; the device maps it in pages."""
        page = 2 << 20
        for options in ((), ("--cluster", "h100-sxm")):
            program = self.compile(fixture, HYBRID, *CUDA, *options)
            profile = self.place("profile")
            self.train(program, fixture, HYBRID, *ON_DEVICE, "--profile", profile, steps=1)
            stated = self.described(program)[0]["reduction_bytes"]
            self.assertTrue(stated)
            with self.subTest(options=options, stated=stated):
                self.assertEqual(json.loads(profile.read_text())["memory"]["sums over ranks"],
                                 sum((bytes + page - 1) // page * page for bytes in stated.values()))

    def sent(self, program, *options, **environment):
        """Metrics of two steps, by kind of call what ranks sent to other nodes, and all that was said."""
        traffic, metrics = self.place("traffic"), self.place("metrics.jsonl")
        start = () if "--resume" in options else ("--params", fixture.params, "--steps", 2, "--lr", fixture.lr)
        done = self.execute([program, *start, "--data", fixture.batches, "--threads", 1, "--metrics", metrics, *ON_DEVICE,
                             "--graph", "off", *options],
                            {"FSDP_NCCL_TRAFFIC": str(traffic), **environment})
        self.assertEqual(done.returncode, 0, done.stderr)
        between = {}
        for line in traffic.read_text().splitlines():
            for kind, count in json.loads(line)["sent"].items():
                between[kind] = between.get(kind, 0) + count["between"]
        losses = [(line["loss"], line["grad_norm"]) for line in map(json.loads, metrics.read_text().splitlines())]
        return losses, between, done.stdout + done.stderr

    @unittest.skipUnless(fixture.name == "gpt2", "one model shows it")
    def test_reduction_that_was_compiled(self):
        """NCCL's sums unless a run asks for others; a run that resumes has those of the one before."""
        program = self.compile(fixture, "shard=4", *CUDA, "--reduction", "nccl")
        self.assertEqual(self.described(program)[0]["reduction"], {"by": "nccl", "ranks_per_node": 0})
        exact = self.compile(fixture, "shard=4", *CUDA)
        self.assertEqual(self.described(exact)[0]["reduction"], {"by": "exact", "ranks_per_node": 0})
        mine, between, _ = self.sent(program)
        self.assertIn("reduce_scatter", between)
        other, between, _ = self.sent(program, "--reduction", "exact")
        self.assertNotIn("reduce_scatter", between)
        self.assertNotEqual(mine, other)
        self.assertEqual(other, self.sent(exact)[0])
        saved = self.place("saved")
        self.sent(exact, "--save", saved, "--reduction", "nccl")
        for options, kept in (((), True), (("--reduction", "exact"), False)):
            _, between, said = self.sent(exact, "--resume", saved / "step-00000002", "--steps", 3, *options)
            self.assertEqual("reduce_scatter" in between, kept)
            self.assertIn("as when it was saved with --reduction nccl" if kept else
                          "--reduction: expected nccl, as when the state was saved, got exact", said)

    @unittest.skipUnless(fixture.name == "gpt2", "one model shows it")
    def test_nodes_that_were_compiled_for(self):
        """Of two nodes of two ranks: the memory that the manifest says, the bits of one node, and far fewer bytes between
        them than with one level. Other nodes are told."""
        cluster = json.loads((BIN.parent / "share/fsdp/clusters/h100-sxm.json").read_text())
        cluster["gpus_per_node"] = 2
        file = self.place("cluster.json")
        file.write_text(json.dumps(cluster))
        program = self.compile(fixture, "shard=4", *CUDA, "--cluster", file, "--reduction", "exact")
        manifest = self.described(program)[0]
        self.assertEqual(manifest["reduction"], {"by": "exact", "ranks_per_node": 2})
        page, profile = 2 << 20, self.place("profile")
        nodes = {"FSDP_NODE_RANKS": "2", "FSDP_NCCL_NODE_DEVICES": "2"}
        mine, two, said = self.sent(program, "--profile", profile, **nodes)
        self.assertNotIn("compiled for", said)
        self.assertEqual(json.loads(profile.read_text())["memory"]["sums over ranks"],
                         sum((bytes + page - 1) // page * page for bytes in manifest["reduction_bytes"].values()))
        other, one, said = self.sent(program, FSDP_NCCL_NODE_DEVICES="2")
        self.assertIn("the program was compiled for nodes of 2 ranks (--cluster), with sums of two levels", said)
        self.assertEqual(mine, other)
        self.assertLess(two["send"], 0.6 * one["send"])

    @unittest.skipUnless(fixture.name == "gpt2", "one model shows it")
    def test_memory_that_nobody_reserved(self):
        """The memory budget leaves 2 GiB beside the arena; more of a context is told."""
        program = self.compile(fixture, "shard=1", *CUDA, "--cluster", "h100-sxm")
        self.assertEqual(self.described(program)[0]["arena"]["reserved_bytes"], 2 << 30)
        for gib in (1, 3):
            done = self.execute([program, "--params", fixture.params, "--data", fixture.batches, "--steps", 1, *ON_DEVICE],
                                {"FSDP_EMULATOR_CONTEXT": str(gib << 30)})
            self.assertEqual(done.returncode, 0, done.stderr)
            said = done.stdout + done.stderr
            self.assertEqual("GiB of the device's memory beside the arena, which" in said, gib == 3, said)

    def test_sums_of_nccl(self):
        self.check(HYBRID, steps=2, run=("--reduction", "nccl"))

    @needs_mpi
    def test_ranks_that_are_processes(self):
        self.check("shard=2", "--cluster", "cpu-2core", steps=2, run=("--backend", "mpi"))

    def test_ranks_that_connect_by_tcp(self):
        self.check("shard=2", "--cluster", "cpu-2core", steps=2, run=("--backend", "tcp"))

    @unittest.skipUnless(fixture.name == "gpt2", "one model shows it")
    def test_products_in_other_types(self):
        """Of f16, which processors round alike, and in TF32, which they do not have."""
        for options in (("--param-dtype", "f16"), ("--tf32",)):
            with self.subTest(options=options):
                program = self.compile(fixture, "shard=1", *BOTH, *options)
                cpu, cuda = ([line["loss"] for line in self.train(program, fixture, "shard=1", "--device", device, steps=2)]
                             for device in ("cpu", "cuda"))
                self.assertNotEqual(cpu, cuda)
                self.assertLessEqual(difference(cuda, cpu), 1e-3)

    @unittest.skipUnless(fixture.name == "gpt2", "one model shows it")
    def test_narrow_sums_of_nccl(self):
        """Which whoever compiled the program asked for, by the type's name."""
        for options in (("--reduce-dtype", "bf16"), ("--unit", "root:reduce-dtype=bf16")):
            with self.subTest(options=options):
                program = self.compile(fixture, "shard=2", *CUDA, *options)
                lines = self.train(program, fixture, "shard=2", *ON_DEVICE, "--reduction", "nccl", steps=2)
                self.assertLessEqual(difference([line["loss"] for line in lines], fixture.expect["loss"]["2"][:2]), 1e-2)

    def test_gradients(self):
        """Of each parameter, within what PyTorch itself is off (four times that in narrow floats)."""
        tensors = self.differentiate(fixture, "shard=2", *CUDA, run=ON_DEVICE)
        self.assertEqual([], describe_wrong(*tensors, TOLERANCE))

    @unittest.skipUnless(fixture.name == "gpt2-head64-bf16", "one model in narrow floats shows it")
    def test_gradients_of_more_ranks(self):
        """The same of four ranks, eager and as graphs, with and without an order, of threads and of processes."""
        for mesh, options, run in (("shard=4", (), ("--graph", "off")),
                                   (HYBRID, ("--cluster", "h100-sxm"), ()),
                                   ("shard=4", ("--strategy", "shard_grad_op"), ("--backend", "tcp"))):
            with self.subTest(mesh=mesh, options=options, run=run):
                tensors = self.differentiate(fixture, mesh, *CUDA, *options, run=(*ON_DEVICE, *run))
                self.assertEqual([], describe_wrong(*tensors, TOLERANCE))

    def test_checkpoint_of_the_other_device(self):
        """Half of the steps on one device and the other half on the other one."""
        program = self.compile(fixture, "shard=1", *BOTH)
        for first, second in (("cpu", "cuda"), ("cuda", "cpu")):
            with self.subTest(first=first):
                saved = self.place("saved")
                self.train(program, fixture, "shard=1", "--device", first, "--save", saved, steps=2)
                lines = self.train(program, fixture, "shard=1", "--device", second, "--resume", saved, steps=4)
                got = [line["loss"] for line in lines]
                want = fixture.expect["loss"]["1"][4 - len(got):4]
                self.assertLessEqual(difference(got, want), fixture.expect["rtol"]["1"]["loss"])

    def test_checkpoint_of_another_mesh(self):
        """Two steps of two ranks and two of one, on either device: the losses of processors."""
        programs = [self.compile(fixture, mesh, *BOTH) for mesh in ("shard=2", "shard=1")]
        losses = {}
        for first, second in (("cpu", "cpu"), ("cpu", "cuda"), ("cuda", "cpu"), ("cuda", "cuda")):
            saved = self.place("saved")
            self.train(programs[0], fixture, "shard=2", "--device", first, "--save", saved, steps=2)
            lines = self.train(programs[1], fixture, "shard=1", "--device", second, "--resume", saved, steps=4)
            losses[first, second] = [line["loss"] for line in lines]
        want = losses.pop(("cpu", "cpu"))
        for devices, got in losses.items():
            with self.subTest(devices=devices):
                self.assertLessEqual(difference(got, want), fixture.expect["rtol"]["1"]["loss"])

    def test_graphs(self):
        """What is launched as one graph has the bits of what is issued call by call."""
        cases = [((), ())]
        if fixture.name == "gpt2":
            cases += [(("--guard",), ()), (("--accumulate-in", "shard"), ("--accumulate", 2)),
                      (("--cluster", "h100-sxm", "--offload-optimizer", "--offload-parameters"), ()),
                      (("--offload-parameters",), ()),
                      (("--cluster", "h100-sxm", "--offload", "full", "--guard"), ())]
        for options, run in cases:
            program = self.compile(fixture, "shard=1", *(CUDA if options else BOTH), *options)
            results = []
            for graph in ("on", "off"):
                saved = self.place("saved")
                lines = self.train(program, fixture, "shard=1", *ON_DEVICE, "--graph", graph, "--save", saved, *run,
                                   steps=2)
                results.append(([(line["loss"], line["grad_norm"]) for line in lines], self.saved(saved, 2)))
            with self.subTest(options=options):
                self.assertEqual(results[0][0], results[1][0])
                self.assertTrue(results[0][1] == results[1][1])


if __name__ == "__main__":
    unittest.main()
