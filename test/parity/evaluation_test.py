"""Evaluation between steps: its results are PyTorch's, and training goes on as if it had not been.

The fixture holds evaluation.safetensors (fsdp-export --reference --eval): two batches for each of four
ranks, and what PyTorch makes of each with the initial parameters in eval mode.
"""
import array
import json
import struct
import unittest

from steps import HAS_MPI, STEPS, StepTest, fixture, in_turn, ranks_of, read_tensors, write_tensors

# Results are f32 sums of PyTorch's terms in another order.
TOLERANCE = 1e-5
BATCHES = 2
LAST = len(fixture.expect["loss"]["1"])


def floats(data):
    values = array.array("f")
    values.frombytes(data)
    return values


def distance(got, want):
    """The largest difference, relative to the largest value."""
    scale = max(abs(value) for value in want)
    return max(abs(one - other) for one, other in zip(got, want)) / scale


def rounded(value):
    """Its bf16, to the nearest, of two the even one."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    return ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).to_bytes(2, "little")


class Evaluation(StepTest):
    tensors = read_tensors(fixture.dir / "evaluation.safetensors")

    def data(self, ranks):
        """The batches of the first `ranks`, as --eval-data takes them."""
        path = self.place("eval.safetensors")
        inputs = {}
        for name, (dtype, (batches, worlds, *shape), data) in self.tensors.items():
            if not name.startswith("input."):
                continue
            size = len(data) // (batches * worlds)
            kept = b"".join(data[size * (b * worlds + r):size * (b * worlds + r + 1)]
                            for b in range(batches) for r in range(ranks))
            inputs[name.removeprefix("input.")] = (dtype, [batches, ranks, *shape], kept)
        write_tensors(path, inputs)
        return path

    def wanted(self, name, ranks):
        """PyTorch's output, as [batch][rank] flat lists."""
        _, (batches, worlds, *_), data = self.tensors["output." + name]
        values, size = floats(data), len(data) // 4 // (batches * worlds)
        return [[values[size * (b * worlds + r):size * (b * worlds + r + 1)] for r in range(ranks)]
                for b in range(batches)]

    def evaluate(self, mesh, *options, backend="local"):
        """Outputs and metrics of the initial parameters: without --data and --steps, nothing is trained."""
        ranks = ranks_of(mesh)
        program, saved = self.compile(fixture, mesh, *options), self.place("out.safetensors")
        metrics = self.place("metrics.jsonl")
        outcome = self.execute([program, "-n", ranks, "--params", fixture.params, "--threads", 1, "--backend", backend,
                                "--eval-data", self.data(ranks), "--save-outputs", saved, "--metrics", metrics])
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        (line,) = [json.loads(text) for text in metrics.read_text().splitlines()]
        return read_tensors(saved), line

    def check_outputs(self, mesh, *options, backend="local"):
        ranks = ranks_of(mesh)
        outputs, line = self.evaluate(mesh, *options, backend=backend)
        names = {name.removeprefix("output.") for name in self.tensors if name.startswith("output.")}
        self.assertEqual(set(outputs), names)
        for name in sorted(names):
            dtype, (batches, worlds, *_), data = outputs[name]
            self.assertEqual((dtype, batches, worlds), ("F32", BATCHES, ranks))
            values, size = floats(data), len(data) // 4 // (batches * worlds)
            want = self.wanted(name, ranks)
            for b in range(batches):
                wanted = want[b]
                for r in range(ranks):
                    got = values[size * (b * worlds + r):size * (b * worlds + r + 1)]
                    self.assertLessEqual(distance(got, wanted[r]), TOLERANCE, f"{name}, batch {b}, rank {r}")
        mean = sum(rank[0] for batch in self.wanted("loss", ranks) for rank in batch) / (BATCHES * ranks)
        self.assertEqual((line["step"], line["eval_batches"]), (0, BATCHES))
        self.assertLessEqual(abs(line["eval_loss"] - mean) / mean, TOLERANCE)

    def test_outputs(self):
        for mesh, options in (("shard=1", ()), ("shard=2", ()), ("shard=4", ()), ("shard=2,replicate=2", ()),
                              ("shard=2", ("--strategy", "no_shard")), ("shard=2", ("--guard",)),
                              ("shard=2", ("--offload-parameters",)), ("shard=2", ("--cluster", "cpu-2core")),
                              ("shard=4", ("--unit", "*:reshard-after-forward=2"))):
            for backend in ("local", "mpi") if HAS_MPI and not options else ("local",):
                with self.subTest(mesh=mesh, options=options, backend=backend):
                    self.check_outputs(mesh, *options, backend=backend)

    def test_output_type(self):
        # The same values, rounded; the loss stays as it is.
        wide, _ = self.evaluate("shard=2")
        narrow, _ = self.evaluate("shard=2", "--output-dtype", "bf16")
        self.assertEqual(wide.keys(), narrow.keys())
        self.assertEqual(wide["loss"], narrow["loss"])
        for name in wide.keys() - {"loss"}:
            self.assertEqual((narrow[name][0], narrow[name][1]), ("BF16", wide[name][1]))
            self.assertEqual(narrow[name][2], b"".join(map(rounded, floats(wide[name][2]))))

    def test_buffer_type(self):
        # Buffers are read in it, and kept and saved as they were traced: any program resumes from them.
        plain = self.compile(fixture, "shard=2")
        narrow = self.compile(fixture, "shard=2", "--buffer-dtype", "bf16")
        folder = self.place("saves")
        self.train(narrow, fixture, "shard=2", "--save", folder, steps=2)
        saved = read_tensors(folder / "step-00000002" / "params.safetensors")
        given = read_tensors(fixture.params)
        self.assertEqual({name: dtype for name, (dtype, _, _) in saved.items()},
                         {name: dtype for name, (dtype, _, _) in given.items()})
        means = [floats(data) for name, (_, _, data) in saved.items() if name.endswith("running_mean")]
        self.assertTrue(means)
        for values in means:
            self.assertTrue(any(struct.pack("<f", value)[:2] != b"\0\0" for value in values))
        outputs = []
        for program in (plain, narrow):
            path = self.place("out.safetensors")
            outcome = self.execute([program, "-n", 2, "--resume", folder, "--threads", 1,
                                    "--eval-data", self.data(2), "--save-outputs", path])
            self.assertEqual(outcome.returncode, 0, outcome.stderr)
            outputs.append(floats(read_tensors(path)["logits"][2]))
        self.assertTrue(1e-5 < distance(*outputs) < 0.1)

    def test_full_precision(self):
        # An evaluation of an executable whose training gathers and multiplies in bf16.
        for mesh, options in (("shard=2", ()), ("shard=2", ("--cluster", "cpu-2core")), ("shard=2,replicate=2", ()),
                              ("shard=4", ("--unit", "*:reshard-after-forward=2"))):
            with self.subTest(mesh=mesh, options=options):
                narrow = (*options, "--param-dtype", "bf16")
                want, line = self.evaluate(mesh, *options)
                full, full_line = self.evaluate(mesh, *narrow, "--eval-full-precision")
                self.assertEqual(want, full)
                self.assertEqual(line["eval_loss"], full_line["eval_loss"])
                got, _ = self.evaluate(mesh, *narrow)
                self.assertEqual(set(want), set(got))
                for name, (dtype, shape, data) in want.items():
                    self.assertEqual((dtype, shape), got[name][:2])
                    # Far more than sums in another order, and no more than bf16.
                    off = distance(floats(got[name][2]), floats(data))
                    self.assertTrue(1e-4 < off < 2 ** -5, f"{name}: {off}")

    UNITS = (("--unit", "root:strategy=no_shard,param-dtype=bf16"),
             ("--unit", "*.stages.0:param-dtype=bf16,reduce-dtype=f32", "--unit", "*.1:reshard-after-forward=false"))

    def test_units(self):
        """Units with settings of their own: evaluations gather as training does, or in full precision."""
        for mesh in ("shard=2", "shard=2,replicate=2"):
            want, line = self.evaluate(mesh)
            for units in self.UNITS:
                with self.subTest(mesh=mesh, units=units):
                    full, full_line = self.evaluate(mesh, *units, "--eval-full-precision")
                    self.assertEqual((want, line["eval_loss"]), (full, full_line["eval_loss"]))
                    got, _ = self.evaluate(mesh, *units)
                    off = max(distance(floats(got[name][2]), floats(data)) for name, (_, _, data) in want.items())
                    self.assertTrue(1e-4 < off < 2 ** -5, off)
        for units in self.UNITS:
            with self.subTest(units=units):
                self.check_goes_on("shard=2", *units)

    def check_goes_on(self, mesh, *options, run=(), steps=LAST):
        """Train, evaluate and train again, in each order: states and losses hold the same bits."""
        program = self.compile(fixture, mesh, *options)
        alone, among = self.place("saves"), self.place("saves")
        want = self.train(program, fixture, mesh, *run, "--save", alone, steps=steps)
        got = self.train(program, fixture, mesh, *run, "--save", among, "--eval-every", 1,
                         "--eval-data", self.data(ranks_of(mesh)), steps=steps)
        self.assertEqual([line["loss"] for line in want], [line["loss"] for line in got if "loss" in line])
        losses = [line["eval_loss"] for line in got if "eval_loss" in line]
        self.assertEqual((len(losses), len(set(losses))), (steps, steps))
        self.assertEqual(self.saved(alone, steps), self.saved(among, steps))

    def test_training_goes_on(self):
        for ((mesh, options),) in in_turn((("shard=1", ()), ("shard=2", ("--cluster", "cpu-2core")),
                                           ("shard=2", ("--guard",)), ("shard=2,replicate=2", ()))):
            for backend in ("local", "mpi") if HAS_MPI else ("local",):
                with self.subTest(mesh=mesh, options=options, backend=backend):
                    self.check_goes_on(mesh, *options, run=("--backend", backend))

    def test_prefetch_and_kept_parameters(self):
        """pytorch/pytorch#110139: after an evaluation, a unit that forward had prefetched and kept for a backward that
        never came counted as gathered, and the next step read its shard.
        """
        for strategy in ("shard_grad_op", "full_shard"):
            with self.subTest(strategy=strategy):
                self.check_goes_on("shard=2", "--strategy", strategy, "--cluster", "h100-sxm", "--order", "fsdp",
                                   "--forward-prefetch=true", run=self.queues("on"), steps=3)

    def test_memory(self):
        # The arena is the largest program's, whose states all share.
        program = self.compile(fixture, "shard=2", "--cluster", "cpu-2core")
        described, _ = self.described(program)
        self.assertEqual([entry["kind"] for entry in described["programs"]], ["train", "eval"])
        self.assertEqual(described["arena"]["bytes"],
                         max(entry["arena"]["bytes"] for entry in described["programs"]))
        states = [entry["arena"]["segments"][0] for entry in described["programs"]]
        self.assertEqual(states[0]["name"], "state")
        self.assertEqual(states[0], states[1])

    def test_refused(self):
        program = self.compile(fixture, "shard=1")
        data = self.data(1)
        tensors = read_tensors(data)
        wrong = self.place("wrong.safetensors")
        name = sorted(tensors)[0]
        write_tensors(wrong, {key: value for key, value in tensors.items() if key != name})
        for words, said in ((("--eval-every", 1), "--eval-data"), (("--eval-data", wrong), name),
                            (("--eval-data", data, "--eval-every", 0), "--eval-every"),
                            (("--eval-data", data, "--eval-steps", BATCHES + 1), "--eval-steps"),
                            (("--save-outputs", self.place("out")), "--eval-data")):
            with self.subTest(words=words):
                outcome = self.execute([program, "-n", 1, "--params", fixture.params, "--lr", fixture.lr,
                                        "--data", fixture.batches, "--steps", 1, *words])
                self.assertNotEqual(outcome.returncode, 0)
                self.assertIn(said, outcome.stderr)
        for words, said in ((("--save", self.place("saves")), "--data"), (("--eval-every", 1), "--data"),
                            (("--lr", fixture.lr), "'--lr'"), (("--trace", self.place("trace")), "'--trace'"),
                            (("--accumulate", 2), "'--accumulate'"), (("--steps", 1), "--data")):
            with self.subTest(words=words):
                outcome = self.execute([program, "-n", 1, "--params", fixture.params, "--eval-data", data, *words])
                self.assertNotEqual(outcome.returncode, 0)
                self.assertIn(said, outcome.stderr)


if __name__ == "__main__":
    unittest.main()
