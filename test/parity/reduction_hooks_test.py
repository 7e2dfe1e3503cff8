"""--reduction-hook: PowerSGD beside DistributedDataParallel's powerSGD_hook, of which powersgd.json has what it did
(make_powersgd.py), and what a hook keeps between steps.

Gradients are the batch (powersgd.py), so what each rank sends is known.
"""
import array
import json
import math
import pathlib
import random
import unittest

from powersgd import LR, MATRICES, MODEL, SHAPES, SIZES, STEPS, gradients, start
from steps import BIN, DEVICE, StepTest, ranks_of, read_tensors, write_tensors

RECORDED = pathlib.Path(__file__).with_name("powersgd.json")
ERRORS = [f"residuals/{name}.powersgd_error" for name in MATRICES]
FACTORS = [f"residuals/{name}.powersgd_q" for name in MATRICES]
WHOLE = ("--strategy", "no_shard")
RANK_2 = "powersgd:rank=2,min-compression-rate=1"
# Bits of a run are those of the plain one with these.
BESIDE = ((), ("--cluster", "h100-sxm"), ("--cluster", "h100-sxm", "--order", "fsdp"), ("--cluster", "h100-sxm", "--bucket", "none"),
          ("--guard",), ("--recompute", "full"), ("--offload-optimizer",), ("--offload-parameters",), ("--optimizer-in-backward",), ("--skip-nonfinite",), ("--wrap", "pieces"))


def describe(case):
    """--reduction-hook of a case that was recorded."""
    words = [f"rank={case['rank']}", "min-compression-rate=1"]
    words += [f"epsilon={case['epsilon']}"] if "epsilon" in case else []
    words += ["error-feedback=false"] if not case.get("error-feedback", True) else []
    return "powersgd:" + ",".join(words)


def floats(values):
    return array.array("f", values).tobytes()


def numbers(tensor):
    return array.array("f", tensor[2])


def multiply(a, b):
    return [[math.fsum(x * y for x, y in zip(row, column)) for column in zip(*b)] for row in a]


def orthonormal(rows):
    result = []
    for row in rows:
        for other in result:
            along = math.fsum(x * y for x, y in zip(row, other))
            row = [x - along * y for x, y in zip(row, other)]
        size = math.sqrt(math.fsum(x * x for x in row))
        result.append([x / size for x in row])
    return result


def approximate(matrices, q):
    """arXiv:1905.13727, algorithm 1, in double precision: the mean of the ranks' matrices, and the new columns of Q, in
    rows as `q` has them."""
    def mean(items):
        return [[math.fsum(column) / len(items) for column in zip(*rows)] for rows in zip(*items)]
    q = orthonormal(q)
    p = orthonormal(mean([multiply(q, list(zip(*matrix))) for matrix in matrices]))
    q = mean([multiply(p, matrix) for matrix in matrices])
    return multiply(list(zip(*p)), q), q


def to_rows(values, columns):
    return [list(values[i:i + columns]) for i in range(0, len(values), columns)]


class ReductionHooks(StepTest):
    @classmethod
    def setUpClass(cls):
        cls.model, cls.params = map(cls.place, ("model.mlir", "start.safetensors"))
        cls.model.write_text(MODEL)
        write_tensors(cls.params, {name: ("F32", SHAPES[name], floats(values)) for name, values in start().items()})

    def build(self, hook, mesh, *options, optimizer=f"sgd:lr={LR}"):
        key = (hook, mesh, options, optimizer)
        if key not in self.programs:
            program = self.programs[key] = self.place("train")
            words = ["--reduction-hook", hook] if hook else []
            outcome = self.execute([BIN / "fsdp-compile", self.model, "--optimizer", optimizer, "--mesh", mesh, *words,
                                    *options, "-o", program])
            self.assertEqual(outcome.returncode, 0, outcome.stderr)
        return self.programs[key]

    def batches(self, steps, micro_batches, ranks):
        """`steps`: of each, a function of a rank that gives its gradients."""
        path = self.place("batches.safetensors")
        write_tensors(path, {f"g{name}": ("F32", [len(steps) * micro_batches, ranks, *SHAPES[name]],
                                          b"".join(floats(step(rank)[name]) for step in steps for _ in range(micro_batches)
                                                   for rank in range(ranks)))
                             for name in SIZES})
        return path

    def run_steps(self, program, mesh, *options, batches=None, micro_batches=1, steps=None, resume=None, status=0):
        """What the run says, and the folder of its checkpoints."""
        batches = batches or [lambda rank, step=step: gradients(step, rank) for step in range(STEPS)]
        saved, ranks = self.place("saved"), ranks_of(mesh)
        begin = ["--resume", resume] if resume else ["--params", self.params]
        micro = ["--accumulate", micro_batches] if micro_batches > 1 else []
        outcome = self.execute([program, "-n", ranks, *begin, "--data", self.batches(batches, micro_batches, ranks), *micro,
                                "--steps", steps or len(batches), "--threads", 1, "--save", saved, "--save-every", 1,
                                *options])
        self.assertEqual(outcome.returncode, status, outcome.stderr)
        return outcome.stderr, saved

    def read(self, saved, step, file="params"):
        return read_tensors(saved / f"step-{step:08}" / f"{file}.safetensors")

    def initial_factors(self, hook, mesh):
        """Of gradients of zeros nothing comes: they leave the factors that there were."""
        nothing = {name: [0.0] * size for name, size in SIZES.items()}
        _, saved = self.run_steps(self.build(hook, mesh, *WHOLE), mesh, batches=[lambda rank: nothing])
        ranks = ranks_of(mesh)
        found, params = self.read(saved, 1, "ranks"), self.read(saved, 1)
        for name, values in start().items():
            self.assertEqual(params[name][2], floats(values))
        factors = {}
        for name in MATRICES:
            dtype, shape, data = found[f"residuals/{name}.powersgd_q"]
            part = len(data) // ranks
            self.assertEqual(data, data[:part] * ranks)
            factors[name] = list(array.array(dtype[:1].lower(), data[:part]))
        return factors

    def test_torch(self):
        """Parameters after some steps, of ranks, ranks of the approximation, and what else changes a formula."""
        for case in json.loads(RECORDED.read_text())["cases"]:
            with self.subTest(**{key: case[key] for key in case if key not in ("factors", "parameters")}):
                hook, mesh = describe(case), f"shard={case['ranks']}"
                self.assertEqual(self.initial_factors(hook, mesh), case["factors"])
                _, saved = self.run_steps(self.build(hook, mesh, *WHOLE), mesh)
                for step, wanted in case["parameters"].items():
                    found = self.read(saved, int(step))
                    for name, want in wanted.items():
                        off = max(abs(x - y) for x, y in zip(numbers(found[name]), want))
                        self.assertLess(off, 2e-5, f"{name} after step {step}")

    def test_formula(self):
        """Each step from what the one before left: errors and factors of all ranks."""
        mesh, ranks = "shard=2", 2
        _, saved = self.run_steps(self.build(RANK_2, mesh, *WHOLE), mesh)
        for step in range(1, STEPS):
            before, after = self.read(saved, step, "ranks"), self.read(saved, step + 1, "ranks")
            for name, (_, columns) in MATRICES.items():
                size = SIZES[name]
                errors = numbers(before[f"residuals/{name}.powersgd_error"])
                sums = [to_rows([g + e for g, e in zip(gradients(step, rank)[name], errors[rank * size:])], columns)
                        for rank in range(ranks)]
                factors = numbers(before[f"residuals/{name}.powersgd_q"])
                mean, q = approximate(sums, to_rows(factors[:2 * columns], columns))
                left = numbers(after[f"residuals/{name}.powersgd_error"])
                kept = numbers(after[f"residuals/{name}.powersgd_q"])
                for rank in range(ranks):
                    for got, want in ((to_rows(left[rank * size:(rank + 1) * size], columns),
                                       [[x - y for x, y in zip(*rows)] for rows in zip(sums[rank], mean)]),
                                      (to_rows(kept[rank * 2 * columns:(rank + 1) * 2 * columns], columns), q)):
                        off = max(abs(x - y) for rows in zip(got, want) for x, y in zip(*rows))
                        self.assertLess(off, 1e-4, f"{name} of rank {rank} after step {step + 1}")

    def test_bits(self):
        """Plans, orders, guards and what is elsewhere change no bit of parameters nor of what the hook keeps."""
        for mesh in ("shard=2", "replicate=2,shard=2"):
            saves = [self.run_steps(self.build(RANK_2, mesh, *WHOLE, *options, optimizer="adamw:lr=0.1"), mesh)[1]
                     for options in BESIDE]
            for options, saved in zip(BESIDE, saves):
                for file in ("params", "optimizer", "ranks"):
                    with self.subTest(mesh=mesh, options=options, file=file):
                        self.assertEqual(self.read(saved, STEPS, file), self.read(saves[0], STEPS, file))

    def test_accumulated(self):
        """The mean of equal micro-batches is one of them, wherever their sum is."""
        mesh = "shard=2"
        _, plain = self.run_steps(self.build(RANK_2, mesh, *WHOLE), mesh)
        for place in ("shard", "whole"):
            with self.subTest(place=place):
                program = self.build(RANK_2, mesh, *WHOLE, "--accumulate-in", place, "--clip-norm")
                _, saved = self.run_steps(program, mesh, "--clip-norm", 1e9, micro_batches=2)
                for file in ("params", "ranks"):
                    self.assertEqual(self.read(saved, STEPS, file), self.read(plain, STEPS, file))

    def test_skipped(self):
        """A step that is skipped leaves what the hook keeps; without the option, what is not finite shows."""
        mesh = "shard=2"
        bad = {name: [math.nan if i == 5 else 1.0 for i in range(size)] for name, size in SIZES.items()}

        def batches(*steps):
            return [(lambda rank, step=step: gradients(step, rank) if step is not None else
                     bad if rank else gradients(0, 0)) for step in steps]
        program = self.build(RANK_2, mesh, *WHOLE, "--skip-nonfinite")
        _, whole = self.run_steps(program, mesh, batches=batches(0, 1, 2, 3))
        said, with_bad = self.run_steps(program, mesh, batches=batches(0, 1, None, 2, 3))
        self.assertIn("its update was skipped", said)
        for file in ("params", "ranks"):
            self.assertEqual(self.read(whole, 4, file), self.read(with_bad, 5, file))
        program = self.build(RANK_2, mesh, *WHOLE)
        said, _ = self.run_steps(program, mesh, "--stop-on-nan", batches=batches(0, None), status=1)
        self.assertIn("grad", said)

    def test_resumed(self):
        """As many ranks go on bit for bit."""
        for mesh in ("shard=2", "shard=4"):
            program = self.build(RANK_2, mesh, *WHOLE)
            _, whole = self.run_steps(program, mesh)
            _, first = self.run_steps(program, mesh, steps=3)
            said, last = self.run_steps(program, mesh, resume=first)
            self.assertNotIn("residuals/", said)
            for file in ("params", "optimizer", "ranks"):
                self.assertEqual(self.read(last, STEPS, file), self.read(whole, STEPS, file))

    def test_resumed_otherwise(self):
        """Another number of ranks, another hook and none begin anew, and say so; parameters go on."""
        plain, hooked = self.build(None, "shard=2", *WHOLE), self.build(RANK_2, "shard=2", *WHOLE)
        other = self.build(RANK_2.replace("2", "1", 1), "shard=2", *WHOLE)
        more = self.build(RANK_2, "shard=4", *WHOLE)
        begin, leave = "begin anew", "are left out"
        for first, second, mesh, expected in ((plain, hooked, "shard=2", begin), (hooked, plain, "shard=2", leave),
                                              (hooked, other, "shard=2", begin), (hooked, more, "shard=4", begin)):
            with self.subTest(expected=expected, mesh=mesh):
                _, saved = self.run_steps(first, "shard=2", steps=2)
                said, last = self.run_steps(second, mesh, resume=saved, steps=3)
                self.assertIn(expected, said)
                self.assertNotIn("rank 0's", said)
                self.assertNotEqual(self.read(last, 3), self.read(saved, 2))
        # With errors of zeros, and the factors of the first step.
        _, saved = self.run_steps(plain, "shard=2", steps=2)
        _, last = self.run_steps(hooked, "shard=2", resume=saved, steps=3)
        kept = self.read(last, 3, "ranks")
        self.assertEqual(sorted(kept), sorted(ERRORS + FACTORS))
        initial = self.initial_factors(RANK_2, "shard=2")
        for name, (_, columns) in MATRICES.items():
            sums = [to_rows(gradients(2, rank)[name], columns) for rank in range(2)]
            _, q = approximate(sums, to_rows(initial[name], columns))
            off = max(abs(x - y) for x, y in zip(numbers(kept[f"residuals/{name}.powersgd_q"]), sum(q, [])))
            self.assertLess(off, 1e-4)

    def test_columns_that_others_span(self):
        """Gradients of lower rank than their approximation are sent as they are: what rounding leaves of further columns
        is no direction."""
        def outer(step):
            source = random.Random(step)
            result = {}
            for name, size in SIZES.items():
                rows, columns = MATRICES.get(name, (1, size))
                a, b = ([source.gauss(0, 1) for _ in range(length)] for length in (rows, columns))
                result[name] = [x * y for x in a for y in b]
            return result
        wanted = [outer(step) for step in range(4)]
        for rank in (1, 2, 4):
            with self.subTest(rank=rank):
                hook = f"powersgd:rank={rank},min-compression-rate=0.5"
                _, saved = self.run_steps(self.build(hook, "shard=2", *WHOLE), "shard=2",
                                          batches=[lambda _, step=step: step for step in wanted])
                before = start()
                for step, gradient in enumerate(wanted, 1):
                    after = self.read(saved, step)
                    for name in SIZES:
                        found = numbers(after[name])
                        off = max(abs((x - y) / LR - g) for x, y, g in zip(before[name], found, gradient[name]))
                        self.assertLess(off, 2e-3 * max(map(abs, gradient[name])), f"{name}, step {step}")
                        before[name] = found

    def test_traffic(self):
        """docs/traffic.md: what is sent whole and the P, then the Q, and the loss and its like."""
        for mesh in ("shard=2", "shard=4"):
            ranks = ranks_of(mesh)
            program = self.build(RANK_2, mesh, *WHOLE)
            manifest, step = self.described(program)
            first = SIZES["b"] + sum(2 * n for n, _ in MATRICES.values())
            second = sum(2 * m for _, m in MATRICES.values())
            wanted = sum(2 * (ranks - 1) * -(-count // ranks) * 4 for count in (first, second, 1))
            self.assertEqual(sum(entry["bytes"] for entry in step["traffic"]), wanted)
            path = self.place("profile.json")
            self.run_steps(program, mesh, "--profile", path)
            self.assertEqual(sum(entry["bytes"] for entry in json.loads(path.read_text())["traffic"]), STEPS * wanted)
            self.assertEqual(sorted(entry["name"] for entry in manifest["residuals"]),
                             sorted(f"{name}.powersgd_{what}" for name in MATRICES for what in ("error", "q")))

    def test_narrow(self):
        """What travels is in the reduce type; what the hook keeps, and its products, are not."""
        mesh = "shard=2"
        wide = self.run_steps(self.build(RANK_2, mesh, *WHOLE), mesh)[1]
        both = ("--param-dtype", "bf16", "--reduce-dtype", "f32")
        saved = self.run_steps(self.build(RANK_2, mesh, *WHOLE, *both), mesh)[1]
        # Gradients here come of no product of the model's.
        self.assertEqual(self.read(saved, STEPS, "ranks"), self.read(wide, STEPS, "ranks"))
        narrow = self.build(RANK_2, mesh, *WHOLE, "--reduce-dtype", "bf16")
        # The loss is in f32 in both.
        loss = 8
        bytes_of = [sum(entry["bytes"] for entry in self.described(program)[1]["traffic"]) - loss
                    for program in (narrow, self.build(RANK_2, mesh, *WHOLE))]
        self.assertEqual(2 * bytes_of[0], bytes_of[1])
        saved = self.run_steps(narrow, mesh)[1]
        for name, want in self.read(wide, STEPS).items():
            off = max(abs(x - y) for x, y in zip(numbers(self.read(saved, STEPS)[name]), numbers(want)))
            self.assertLess(off, 0.1)
            self.assertGreater(off, 0)

    def test_compression_is_the_reduce_type(self):
        """bf16 and fp16 are --reduce-dtype, bit for bit, with shards, too."""
        for hook, dtype in (("bf16", "bf16"), ("fp16", "f16")):
            for mesh, options in (("shard=2", ()), ("shard=2", WHOLE), ("replicate=2,shard=2", ())):
                with self.subTest(hook=hook, mesh=mesh, options=options):
                    saves = [self.run_steps(program, mesh)[1] for program in (
                        self.build(hook, mesh, *options), self.build(None, mesh, *options, "--reduce-dtype", dtype))]
                    self.assertEqual(*(self.read(saved, STEPS) for saved in saves))


if __name__ == "__main__":
    unittest.main()
