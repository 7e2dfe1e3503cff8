"""Steps of several micro-batches.

Gradients are means over ranks and over micro-batches alike: a rank that accumulates those of four makes the step
of four ranks, whose losses and norms PyTorch gave. Not so where forward changes buffers that the loss
depends on (mixed, resnet): there a rank sees the buffers that its micro-batches have left.
"""
import json
import unittest

from pytorch_test import difference
from steps import BIN, HAS_MPI, STEPS, StepTest, fixture, in_turn, needs_mpi, ranks_of, read_tensors, write_tensors

CHANGES_BUFFERS = fixture.name in ("mixed", "resnet", "resnet-eval")
COMPARABLE = not CHANGES_BUFFERS
IN = ("shard", "whole")
HYBRID = "shard=2,replicate=2"
RANKS = 4  # of the fixture's batches


class Accumulate(StepTest):
    def data(self, ranks):
        """The batches of four ranks as micro-batches of fewer: [step * 4 / ranks, ranks, ..]."""
        path = self.place("micro-batches.safetensors")
        tensors = read_tensors(fixture.batches)
        write_tensors(path, {name: (dtype, [shape[0] * RANKS // ranks, ranks, *shape[2:]], data)
                             for name, (dtype, shape, data) in tensors.items()})
        return path

    def repeated(self, ranks, count):
        """Each batch of so many ranks `count` times."""
        path = self.place("repeated.safetensors")
        tensors = {}
        for name, (dtype, shape, data) in read_tensors(fixture.batches).items():
            step = len(data) // shape[0]
            batches = [data[at:at + step * ranks // RANKS] for at in range(0, len(data), step)]
            tensors[name] = dtype, [shape[0] * count, ranks, *shape[2:]], b"".join(each * count for each in batches)
        write_tensors(path, tensors)
        return path

    def broken(self, batch, least=1):
        """Batches of one rank, at least so many, of which one cannot be read; the input that is wrong in it."""
        path = self.place("broken.safetensors")
        tensors = read_tensors(self.data(1))
        name = next(name for name, (dtype, _, _) in sorted(tensors.items()) if dtype == "I64")
        for key, (dtype, shape, values) in tensors.items():
            times = -(-least // shape[0])
            size = len(values) // shape[0]
            values *= times
            if key == name:
                at = (batch - 1) * size
                values = values[:at] + (2**40).to_bytes(8, "little") + values[at + 8:]
            tensors[key] = dtype, [shape[0] * times, *shape[1:]], values
        write_tensors(path, tensors)
        return path, name

    def result(self, program, mesh, count, *options, steps=4, data=None):
        """The lines of the metrics, and what is saved."""
        folder, metrics = self.place("saves"), self.place("metrics.jsonl")
        start = [] if "--resume" in options else ["--params", fixture.params]
        outcome = self.execute([program, "-n", ranks_of(mesh), *start, "--data", data or self.data(ranks_of(mesh)),
                                "--steps", steps, "--accumulate", count, "--lr", fixture.lr, "--threads", 1,
                                "--metrics", metrics, "--save", folder, *options])
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        lines = [json.loads(line) for line in metrics.read_text().splitlines()]
        return [(line["loss"], line["grad_norm"]) for line in lines if "loss" in line], self.saved(folder, steps)

    def expect_same(self, one, other):
        self.assertEqual(one[0], other[0])
        self.assertEqual(one[1].keys(), other[1].keys())
        self.assertEqual([name for name in one[1] if one[1][name] != other[1][name]], [])

    @unittest.skipUnless(COMPARABLE, "forward changes buffers")
    def test_pytorch(self):
        for accumulate_in in IN:
            for mesh, options in (("shard=1", ()), ("shard=2", ()), ("shard=1,replicate=2", ()),
                                  ("shard=2", ("--strategy", "shard_grad_op"))):
                with self.subTest(accumulate_in=accumulate_in, mesh=mesh, options=options):
                    program = self.compile(fixture, mesh, "--accumulate-in", accumulate_in, *options)
                    lines, _ = self.result(program, mesh, RANKS // ranks_of(mesh), steps=STEPS)
                    for i, value in enumerate(("loss", "grad_norm")):
                        want = fixture.expect[value][str(RANKS)][:STEPS]
                        self.assertEqual(len(lines), len(want))
                        self.assertLessEqual(difference([line[i] for line in lines], want),
                                             fixture.expect["rtol"][str(RANKS)][value], value)

    @unittest.skipUnless(COMPARABLE, "forward changes buffers")
    def test_clipping(self):
        # The norm of the mean is what is clipped.
        clip = ("--clip-norm",)
        norm = ("--clip-norm", 0.5)
        ranks = self.compile(fixture, "shard=4", *clip)
        want = self.train(ranks, fixture, "shard=4", *norm)
        for accumulate_in in IN:
            with self.subTest(accumulate_in=accumulate_in):
                program = self.compile(fixture, "shard=2", "--accumulate-in", accumulate_in, *clip)
                got, _ = self.result(program, "shard=2", 2, *norm, steps=STEPS)
                for i, value in enumerate(("loss", "grad_norm")):
                    self.assertLessEqual(difference([line[i] for line in got], [line[value] for line in want]),
                                         2 * fixture.expect["rtol"][str(RANKS)][value], value)

    def test_learning_rates(self):
        """A schedule gives each step the rate that --lr gives one step alone."""
        program, data = self.compile(fixture, "shard=2", "--accumulate-in", "shard"), self.data(2)
        _, scheduled = self.result(program, "shard=2", 2, "--lr-schedule", "linear:warmup=2,steps=8", steps=4, data=data)
        saves = self.place("saves")
        for step, ratio in enumerate((0, 0.5, 1, 5 / 6), 1):
            start = ["--params", fixture.params] if step == 1 else ["--resume", saves]
            outcome = self.execute([program, "-n", 2, *start, "--data", data, "--steps", step, "--accumulate", 2,
                                    "--lr", fixture.lr * ratio, "--threads", 1, "--save", saves])
            self.assertEqual(outcome.returncode, 0, outcome.stderr)
        self.assertEqual(self.saved(saves, 4), scheduled)

    def test_bits(self):
        # Orders, overlap, backends and guards change no value.
        references = {}
        for accumulate_in, mesh, (options, run) in in_turn(
                IN, ("shard=2", HYBRID), ((("--guard",), ()), (("--cluster", "h100-sxm"), self.queues("on")),
                                          (("--cluster", "h100-sxm", "--order", "fsdp"), self.queues("off")))):
            if (accumulate_in, mesh) not in references:
                plain = self.result(self.compile(fixture, mesh, "--accumulate-in", accumulate_in), mesh, 2)
                self.assertEqual(len(set(plain[0])), 4)
                references[accumulate_in, mesh] = plain
            program = self.compile(fixture, mesh, "--accumulate-in", accumulate_in, *options)
            for backend in ("local", "mpi") if HAS_MPI else ("local",):
                with self.subTest(accumulate_in=accumulate_in, mesh=mesh, options=options, backend=backend):
                    self.expect_same(references[accumulate_in, mesh],
                                     self.result(program, mesh, 2, "--backend", backend, *run))

    @unittest.skipUnless(COMPARABLE, "forward changes buffers")
    def test_equal_micro_batches(self):
        # The mean of equal gradients is one of them, of two of them bit for bit: whatever ranks send each other, sums
        # over micro-batches are divided before they are rounded. SGD, unlike AdamW, sees a gradient that is too large.
        sgd = "sgd:lr=0.05,momentum=0.9"
        for mesh, narrow in (("shard=2", ()), ("shard=2", ("--reduce-dtype", "bf16")),
                             (HYBRID, ("--reduce-dtype", "bf16")),
                             # Each rank adds up its own gradients of these, and the norm counts them.
                             ("shard=2", ("--ignore", "*.0.*", "--clip-norm"))):
            ranks = ranks_of(mesh)
            plain = self.compile(fixture, mesh, *narrow, optimizer=sgd)
            want = self.result(plain, mesh, 1, data=self.repeated(ranks, 1))
            for accumulate_in in IN:
                program = self.compile(fixture, mesh, *narrow, "--accumulate-in", accumulate_in, optimizer=sgd)
                for count in (1, 2, 3, 8):
                    with self.subTest(mesh=mesh, narrow=narrow, accumulate_in=accumulate_in, count=count):
                        got = self.result(program, mesh, count, data=self.repeated(ranks, count))
                        if count <= 2:
                            self.expect_same(want, got)
                        for value in zip(zip(*got[0]), zip(*want[0])):
                            self.assertLess(difference(*value), 1e-3 if narrow else 1e-5)

    def test_one_micro_batch(self):
        # One executable, any number: one micro-batch is the step of a program that accumulates nothing.
        plain = self.result(self.compile(fixture, "shard=2"), "shard=2", 1)
        for accumulate_in in IN:
            program = self.compile(fixture, "shard=2", "--accumulate-in", accumulate_in)
            self.expect_same(plain, self.result(program, "shard=2", 1))

    def test_resumed(self):
        for accumulate_in in IN:
            program = self.compile(fixture, "shard=2", "--accumulate-in", accumulate_in)
            want = self.result(program, "shard=2", 2, steps=4)
            folder = self.place("saves")
            outcome = self.execute([program, "-n", 2, "--params", fixture.params, "--data", self.data(2),
                                    "--steps", 2, "--accumulate", 2, "--lr", fixture.lr, "--threads", 1,
                                    "--save", folder])
            self.assertEqual(outcome.returncode, 0, outcome.stderr)
            got = self.result(program, "shard=2", 2, "--resume", folder, steps=4)
            self.assertEqual(want[0][2:], got[0])
            self.assertEqual(want[1], got[1])

    def test_resumed_with_another_number(self):
        # Step 3 takes more of the data then, or less: that is said, and nothing else.
        program = self.compile(fixture, "shard=1", "--accumulate-in", "shard")
        data = self.data(1)
        rows = next(iter(read_tensors(data).values()))[1][2]
        for was, now in ((2, 3), (1, 4), (4, 1), (2, 2)):
            with self.subTest(was=was, now=now):
                folder = self.place("saves")
                words = [program, "-n", 1, "--data", data, "--lr", fixture.lr, "--threads", 1]
                outcome = self.execute([*words, "--params", fixture.params, "--steps", 2, "--accumulate", was,
                                        "--save", folder])
                self.assertEqual(outcome.returncode, 0, outcome.stderr)
                outcome = self.execute([*words, "--resume", folder, "--steps", 3, "--accumulate", now])
                self.assertEqual(outcome.returncode, 0, outcome.stderr)
                said = f": the batch of a step: expected {was * rows} samples of all ranks and micro-batches, as when " \
                    f"the state was saved, got {now * rows}\n"
                self.assertEqual(outcome.stderr.count("warning: --resume: "), was != now, outcome.stderr)
                self.assertEqual(said in outcome.stderr, was != now, outcome.stderr)

    def test_trace(self):
        # Its steps are not those of the program that fsdp-plan simulates.
        cluster = ("--cluster", "cpu-2core")
        program = self.compile(fixture, "shard=2", "--accumulate-in", "shard", *cluster)
        for count, programs in ((1, ["train"]), (3, ["accumulate", "train_accumulated"])):
            folder = self.place("trace")
            self.result(program, "shard=2", count, "--trace", folder, steps=2)
            said = json.loads((folder / "rank-1.json").read_text())["fsdp"]
            self.assertEqual((said["accumulate"], said["programs"]), (count, programs))
            self.assertEqual("issue" in said, count == 1)
            outcome = self.execute([BIN / "fsdp-plan", fixture.model, "--optimizer-file",
                                    fixture.dir / "optimizer.mlir", "--mesh", "shard=2", *cluster, "--compare", folder])
            if count > 1:
                self.assertEqual(outcome.returncode, 1)
                self.assertIn("expected a trace of steps of one batch, got one of --accumulate 3", outcome.stderr)

    def test_memory_and_traffic(self):
        for accumulate_in in IN:
            with self.subTest(accumulate_in=accumulate_in):
                program = self.compile(fixture, "shard=2", "--accumulate-in", accumulate_in, "--cluster", "cpu-2core")
                manifest, _ = self.described(program)
                sizes = {flat["name"]: flat for flat in manifest["flat_params"]}
                self.assertEqual({entry["flat_param"] for entry in manifest["accumulators"]},
                                 {name for name, flat in sizes.items() if flat["trainable"]})
                for entry in manifest["accumulators"]:
                    self.assertEqual(entry["numel"], sizes[entry["flat_param"]][
                        "numel" if accumulate_in == "whole" else "shard_numel"])
                programs = {entry["kind"]: entry for entry in manifest["programs"]}
                self.assertEqual(manifest["arena"]["bytes"],
                                 max(entry["arena"]["bytes"] for entry in manifest["programs"]))
                reduced = [sum(row["bytes"] for row in programs[kind]["traffic"] if row["kind"] == "reduce_scatter")
                           for kind in ("accumulate", "train_accumulated", "train")]
                self.assertEqual(reduced[1], reduced[2])
                self.assertEqual(reduced[0], 0 if accumulate_in == "whole" else reduced[2])

    def test_gathered_once(self):
        """What the first micro-batch gathers stays for the others (FSDP2's set_reshard_after_backward(False)): the bits of
        programs that gather in each, and one gather of each unit a step."""
        stays = ("--reshard-after-backward=false",)
        for (accumulate_in, mesh, options, run), in in_turn((
                ("whole", "shard=2", ("--strategy", "shard_grad_op"), ()),
                ("shard", "shard=2", ("--param-dtype", "bf16"), ()),
                ("whole", HYBRID, ("--param-dtype", "bf16", "--cluster", "h100-sxm"), ()),
                ("shard", "shard=4", ("--cluster", "h100-sxm", "--order", "fsdp"), ()),
                ("shard", "shard=2", ("--offload-parameters", "--guard"), ()),
                ("whole", "shard=2", ("--clip-norm", "--skip-nonfinite"), ("--clip-norm", 0.5)))):
            with self.subTest(accumulate_in=accumulate_in, mesh=mesh, options=options):
                profile = self.place("profile.json")
                gathered, results = [], []
                for more in ((), stays):
                    program = self.compile(fixture, mesh, "--accumulate-in", accumulate_in, *options, *more)
                    results.append(self.result(program, mesh, 3, "--profile", profile, *run, steps=2,
                                               data=self.repeated(ranks_of(mesh), 3)))
                    rows = json.loads(profile.read_text())["traffic"]
                    gathered.append(sum(row["bytes"] for row in rows if row["kind"] == "all_gather"))
                self.expect_same(*results)
                manifest, _ = self.described(program)
                shards = 2 if mesh == HYBRID else ranks_of(mesh)
                width = {"F32": 4, "BF16": 2}
                once = sum((shards - 1) * flat["shard_numel"] * width[state["dtype"]] for state in manifest["gathered"]
                           for flat in manifest["flat_params"] if flat["name"] == state["flat_param"])
                # Of two steps.
                self.assertEqual(gathered[1], 2 * once)
                self.assertGreaterEqual(gathered[0], 3 * gathered[1])

    def test_gathered_once_resumed(self):
        program = self.compile(fixture, "shard=2", "--accumulate-in", "whole", "--reshard-after-backward=false")
        want = self.result(program, "shard=2", 2, steps=4)
        folder = self.place("saves")
        outcome = self.execute([program, "-n", 2, "--params", fixture.params, "--data", self.data(2), "--steps", 2,
                                "--accumulate", 2, "--lr", fixture.lr, "--threads", 1, "--save", folder])
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        # What was gathered is in no checkpoint.
        self.assertEqual(want[0][2:], self.result(program, "shard=2", 2, "--resume", folder, steps=4)[0])

    def test_refused(self):
        plain = self.compile(fixture, "shard=1")
        able = self.compile(fixture, "shard=1", "--accumulate-in", "whole")
        for program, count, said in ((plain, 2, "--accumulate-in shard or whole"), (able, 0, "--accumulate"),
                                     (able, -1, "--accumulate"), (able, "x", "--accumulate")):
            with self.subTest(count=count):
                outcome = self.execute([program, "-n", 1, "--params", fixture.params, "--data", fixture.batches,
                                        "--steps", 1, "--lr", fixture.lr, "--accumulate", count])
                self.assertNotEqual(outcome.returncode, 0)
                self.assertIn(said, outcome.stderr)
        # What follows from the number is not set beside it.
        for name in ("accumulated", "accumulation_weight"):
            with self.subTest(name=name):
                outcome = self.execute([able, "-n", 1, "--params", fixture.params, "--data", fixture.batches,
                                        "--steps", 1, "--lr", fixture.lr, "--scalar", f"{name}=2"])
                self.assertEqual(outcome.returncode, 1)
                self.assertIn(f"--scalar {name}: expected a scalar that users set, got one that follows from "
                              "--accumulate", outcome.stderr)

    def test_batch_that_cannot_be_read(self):
        # Data is looked at when it is opened: no step takes place, however late the batch's turn would be.
        program = self.compile(fixture, "shard=1", "--accumulate-in", "shard")
        for number, least, count in ((11, 20, 4), (3, 1, 1), (3, 1, 4)):
            with self.subTest(number=number, count=count):
                broken, name = self.broken(number, least)
                folder = self.place("saves")
                outcome = self.execute([program, "-n", 1, "--params", fixture.params, "--data", broken, "--steps", 5,
                                        "--lr", fixture.lr, "--threads", 1, "--accumulate", count, "--save", folder])
                self.assertEqual(outcome.returncode, 1)
                # One line, which says once where.
                self.assertRegex(outcome.stderr, rf"\Aerror: [^\n]*broken.safetensors: (value|token id) {2**40} of "
                                                 rf"{name} in batch {number}, rank 0, element 0: expected [^\n]*\n\Z")
                self.assertEqual(list(folder.glob("step-*")), [])

    @needs_mpi
    def test_two_processes_that_disagree(self):
        program = self.compile(fixture, "shard=2", "--accumulate-in", "shard")
        words = [program, "--params", fixture.params, "--data", self.data(2), "--steps", 1, "--lr", fixture.lr]
        outcome = self.execute(["mpirun", "--allow-run-as-root", "--oversubscribe",
                                "-n", 1, *words, "--accumulate", 2, ":", "-n", 1, *words, "--accumulate", 3])
        self.assertNotEqual(outcome.returncode, 0)
        self.assertIn("--accumulate", outcome.stderr)


if __name__ == "__main__":
    unittest.main()
