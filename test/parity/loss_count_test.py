"""Losses that are sums: gradients, losses and norms are those of the sum over all ranks and micro-batches, divided by
the sum of their counts, however these differ. Beside a reference in Python's floats.

The model is (w . x + v . z - y) ^ 2 over the rows that count.
"""
import array
import ctypes
import json
import math
import unittest

from session import Session
from steps import BIN, DEVICE, StepTest, ranks_of, read_tensors, write_tensors

ROWS, WIDTH, STEPS, RANKS = 12, 4, 4, 4
LR = 0.05
# Rows that count, of each rank in each step: few, none, all.
COUNTS = ((3, 0, 12, 1), (1, 7, 2, 5), (0, 0, 0, 4), (12, 1, 0, 9))
W, V = [0.5, -1.0, 2.0, 0.25], [1.5, 0.75, -0.5, 1.0]


def reduction(result, maps, inputs, types, body, kinds, shape, zero, element):
    """A sum over the last of the dimensions that `maps` name."""
    dims = ", ".join(sorted({name for each in maps for name in each}))
    affine = ", ".join(f"affine_map<({dims}) -> ({', '.join(each)})>" for each in maps)
    arguments = ", ".join(f"%a{i}: {kind}" for i, kind in enumerate(kinds))
    tensor = f"tensor<{shape}{element}>"
    iterators = ", ".join('"parallel"' if name in maps[-1] else '"reduction"'
                          for name in sorted({name for each in maps for name in each}))
    return f"""
  %{result}_empty = tensor.empty() : {tensor}
  %{result}_zero = linalg.fill ins({zero} : {element}) outs(%{result}_empty : {tensor}) -> {tensor}
  %{result} = linalg.generic {{indexing_maps = [{affine}], iterator_types = [{iterators}]}}
      ins({", ".join(inputs)} : {", ".join(types)}) outs(%{result}_zero : {tensor}) {{
  ^bb0({arguments}, %o: {element}):{body}
    linalg.yield %s : {element}
  }} -> {tensor}"""


MATRIX, VECTOR, WEIGHTS, LABELS = f"tensor<{ROWS}x{WIDTH}xf32>", f"tensor<{ROWS}xf32>", f"tensor<{WIDTH}xf32>", \
    f"tensor<{ROWS}xi64>"
FORWARD = f"""
  %zero = arith.constant 0.0 : f32
  %none = arith.constant 0 : i64""" + reduction(
    "p", ["ij", "j", "ij", "j", "i"], ["%x", "%w", "%z", "%v"], [MATRIX, WEIGHTS, MATRIX, WEIGHTS], """
    %r = arith.mulf %a0, %a1 : f32
    %t = arith.mulf %a2, %a3 : f32
    %q = arith.addf %r, %t : f32
    %s = arith.addf %o, %q : f32""", ["f32"] * 4, f"{ROWS}x", "%zero", "f32") + reduction(
    "d", ["i", "i", "i", "i"], ["%p", "%y", "%m"], [VECTOR, VECTOR, LABELS], """
    %q = arith.subf %a0, %a1 : f32
    %f = arith.sitofp %a2 : i64 to f32
    %s = arith.mulf %q, %f : f32""", ["f32", "f32", "i64"], f"{ROWS}x", "%zero", "f32") + reduction(
    "loss", ["i", ""], ["%d"], [VECTOR], """
    %q = arith.mulf %a0, %a0 : f32
    %s = arith.addf %o, %q : f32""", ["f32"], "", "%zero", "f32") + reduction(
    "count", ["i", ""], ["%m"], [LABELS], """
    %s = arith.addi %o, %a0 : i64""", ["i64"], "", "%none", "i64")


def gradient(name, factor):
    return reduction(name, ["ij", "i", "j"], [factor, "%d"], [MATRIX, VECTOR], """
    %q = arith.mulf %a0, %a1 : f32
    %r = arith.addf %q, %q : f32
    %s = arith.addf %o, %r : f32""", ["f32", "f32"], f"{WIDTH}x", "%zero", "f32")


def arguments(values):
    entries = "".join(f"""
    %{name}: {WEIGHTS} {{fsdp.param = {{fqn = "{name}.weight"{init}}}}},""" for name, init in (
        ("w", f", init = {{kind = \"values\", values = dense<{W}> : {WEIGHTS}}}" if values else ""),
        ("v", f", init = {{kind = \"values\", values = dense<{V}> : {WEIGHTS}}}" if values else "")))
    return f"""{entries}
    %x: {MATRIX} {{fsdp.input = {{name = "x"}}}}, %z: {MATRIX} {{fsdp.input = {{name = "z"}}}},
    %y: {VECTOR} {{fsdp.input = {{name = "y"}}}}, %m: {LABELS} {{fsdp.input = {{name = "m", low = 0, high = 2}}}}"""


RESULTS = "tensor<f32> {fsdp.loss}, tensor<i64> {fsdp.loss_count}"
MODEL = f"""
func.func @forward_backward({arguments(True)})
    -> ({RESULTS}, {WEIGHTS} {{fsdp.grad = {{fqn = "w.weight"}}}}, {WEIGHTS} {{fsdp.grad = {{fqn = "v.weight"}}}}) {{\
{FORWARD}{gradient("dw", "%x")}{gradient("dv", "%z")}
  return %loss, %count, %dw, %dv : tensor<f32>, tensor<i64>, {WEIGHTS}, {WEIGHTS}
}}
func.func @evaluate({arguments(False)}) -> ({RESULTS}) attributes {{fsdp.program = "eval"}} {{{FORWARD}
  return %loss, %count : tensor<f32>, tensor<i64>
}}
"""


def make_batches(counts, scale=1.0):
    """[step][rank] -> x, z, y, m."""
    steps = []
    for step, of_ranks in enumerate(counts):
        steps.append([])
        for rank, count in enumerate(of_ranks):
            seed = 7 * step + 3 * rank
            x, z = ([[scale * ((seed + at + k * i + j * j) % (7 + k) - 3) / 4 for j in range(WIDTH)]
                     for i in range(ROWS)] for at, k in ((0, 2), (5, 3)))
            y = [scale * ((seed + 5 * i) % 11 - 5) / 2 for i in range(ROWS)]
            steps[-1].append((x, z, y, [int((i * 5 + seed) % ROWS < count) for i in range(ROWS)]))
    return steps


def train(batches, clip=math.inf, lr=LR):
    """[(loss, norm)] and the parameters, where each step is one sum over all of its ranks' rows."""
    w, v = list(W), list(V)
    lines = []
    for ranks in batches:
        loss, count, dw, dv = 0.0, 0, [0.0] * WIDTH, [0.0] * WIDTH
        for x, z, y, m in ranks:
            for i in range(ROWS):
                d = m[i] * (sum(a * b for a, b in zip(w + v, x[i] + z[i])) - y[i])
                loss, count = loss + d * d, count + m[i]
                dw = [g + 2 * d * a for g, a in zip(dw, x[i])]
                dv = [g + 2 * d * a for g, a in zip(dv, z[i])]
        dw, dv = ([g / count for g in each] for each in (dw, dv))
        norm = math.sqrt(sum(g * g for g in dw + dv))
        factor = lr * min(1.0, clip / (norm + 1e-6))
        w, v = ([p - factor * g for p, g in zip(*pair)] for pair in ((w, dw), (v, dv)))
        lines.append((loss / count, norm))
    return lines, {"w.weight": w, "v.weight": v}


class Losses(StepTest):
    """Steps of a model whose parameters and batches are known."""
    built = {}
    model = MODEL

    def build(self, mesh, *options):
        if (mesh, options) not in self.built:
            model, program = self.place("model.mlir"), self.place("train")
            model.write_text(self.model)
            target = ["--target", f"cpu,{DEVICE}"] if DEVICE != "cpu" else []
            done = self.execute([BIN / "fsdp-compile", model, "--optimizer", "sgd", "--mesh", mesh, *target, *options,
                                 "-o", program])
            self.assertEqual(done.returncode, 0, done.stderr)
            self.built[mesh, options] = program
        return self.built[mesh, options]

    def write(self, batches, micro_batches=1):
        """What each rank's micro-batches are is a step's ranks, cut into so many parts."""
        path = self.place("batches.safetensors")
        rows = [step[at::micro_batches] for step in batches for at in range(micro_batches)]
        tensors = {}
        for place, (name, dtype, shape) in enumerate((("x", "F32", [ROWS, WIDTH]), ("z", "F32", [ROWS, WIDTH]),
                                                      ("y", "F32", [ROWS]), ("m", "I64", [ROWS]))):
            values = array.array("f" if dtype == "F32" else "q")
            for ranks in rows:
                for rank in ranks:
                    for row in rank[place]:
                        values.extend(row if isinstance(row, list) else [row])
            tensors[name] = dtype, [len(rows), len(rows[0]), *shape], values.tobytes()
        write_tensors(path, tensors)
        return path

    def run_steps(self, program, ranks, batches, *options, micro_batches=1, steps=STEPS, lr=LR):
        """The outcome, the lines and the parameters of the last step."""
        metrics, saves = self.place("metrics.jsonl"), self.place("saves")
        device = ["--device", DEVICE] if DEVICE != "cpu" else []
        start = [] if "--resume" in options else ["--init", "seed=0"]
        outcome = self.execute([program, "-n", ranks, *start, "--threads", 1, "--data",
                                self.write(batches, micro_batches), "--lr", lr, "--steps", steps, "--metrics", metrics,
                                "--save", saves, *device, *(["--accumulate", micro_batches] * (micro_batches > 1)),
                                *options])
        lines = [json.loads(line) for line in metrics.read_text().splitlines()] if metrics.exists() else []
        saved = saves / f"step-{steps:08}" / "params.safetensors"
        parameters = {name: list(array.array("f", data)) for name, (_, _, data) in read_tensors(saved).items()} \
            if saved.exists() else {}
        return outcome, lines, parameters, saves

    def expect(self, wanted, got, tolerance=2e-6):
        outcome, lines, parameters, _ = got
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        steps, states = wanted
        self.assertEqual(len(steps), len(lines))
        for (loss, norm), line in zip(steps, lines):
            self.assertLessEqual(abs(line["loss"] - loss), tolerance * abs(loss), lines)
            self.assertLessEqual(abs(line["grad_norm"] - norm), tolerance * norm, lines)
        self.assertEqual(states.keys(), parameters.keys())
        for name, values in states.items():
            for want, value in zip(values, parameters[name]):
                self.assertLessEqual(abs(want - value), tolerance * 4, (states, parameters))


class LossCount(Losses):
    def test_ranks(self):
        batches = make_batches(COUNTS)
        wanted = train(batches)
        for mesh, options in (("shard=1", ()), ("shard=2", ()), ("shard=4", ()), ("shard=4", ("--wrap", "size:1")),
                              ("shard=2,replicate=2", ()), ("shard=4", ("--strategy", "no_shard")),
                              ("shard=2,replicate=2", ("--cluster", "h100-sxm", "--wrap", "size:1")),
                              ("shard=4", ("--guard", "--cluster", "h100-sxm"))):
            ranks = ranks_of(mesh)
            of_ranks = [step[:ranks] for step in batches]
            if ranks == 2:  # A step of which no rank has a row would be refused.
                of_ranks = [step[2:] for step in batches]
            if ranks == 1:
                of_ranks = [[step[3]] for step in batches]
            with self.subTest(mesh=mesh, options=options):
                self.expect(wanted if ranks == RANKS else train(of_ranks),
                            self.run_steps(self.build(mesh, *options), ranks, of_ranks))

    def test_micro_batches(self):
        batches = make_batches(COUNTS)
        wanted = train(batches)
        for accumulate_in in ("shard", "whole"):
            for mesh, options in (("shard=1", ()), ("shard=2", ()), ("shard=2", ("--cluster", "cpu-2core")),
                                  ("shard=1,replicate=2", ())):
                ranks = ranks_of(mesh)
                with self.subTest(accumulate_in=accumulate_in, mesh=mesh, options=options):
                    program = self.build(mesh, "--accumulate-in", accumulate_in, *options)
                    self.expect(wanted, self.run_steps(program, ranks, batches, micro_batches=RANKS // ranks))

    def test_clipping(self):
        # The norm of the sum by the count is what is clipped.
        batches = make_batches(COUNTS)
        wanted = train(batches, clip=0.5)
        self.assertGreater(min(norm for _, norm in wanted[0]), 0.5)
        for mesh, options in (("shard=4", ()), ("shard=2", ("--accumulate-in", "shard")),
                              ("shard=2", ("--accumulate-in", "whole", "--skip-nonfinite"))):
            with self.subTest(mesh=mesh, options=options):
                ranks = ranks_of(mesh)
                self.expect(wanted, self.run_steps(self.build(mesh, "--clip-norm", *options), ranks, batches,
                                                   "--clip-norm", 0.5, micro_batches=RANKS // ranks))

    def test_narrow(self):
        # Gradients of the sum leave f16's range, those of a mean do not.
        batches = make_batches(((12, 10, 11, 12),) * 2, scale=60.0)
        rate = LR / 60 ** 2
        wanted = train(batches, lr=rate)
        largest = max(abs(norm) for _, norm in wanted[0])
        self.assertGreater(largest * 12, 65504)
        self.assertLess(largest, 65504)
        for dtype, tolerance in (("f16", 2e-3), ("bf16", 1e-2)):
            for mesh, options in (("shard=4", ()), ("shard=2,replicate=2", ()),
                                  ("shard=2", ("--accumulate-in", "shard")), ("shard=2", ("--accumulate-in", "whole"))):
                with self.subTest(dtype=dtype, mesh=mesh, options=options):
                    ranks = ranks_of(mesh)
                    program = self.build(mesh, "--reduce-dtype", dtype, *options)
                    self.expect(wanted, self.run_steps(program, ranks, batches, steps=2, lr=rate,
                                                       micro_batches=RANKS // ranks), tolerance)

    def test_ignored(self):
        # Each rank's own gradient is divided by the mean over ranks of the counts: their mean is the gradient.
        batches = make_batches(COUNTS[:1])
        program = self.build("shard=4", "--ignore", "v.*")
        outcome, lines, parameters, _ = self.run_steps(program, 4, batches, steps=1)
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        self.assertAlmostEqual(lines[0]["loss"], train(batches)[0][0][0], delta=1e-5)
        for want, value in zip(train(batches)[1]["w.weight"], parameters["w.weight"]):
            self.assertAlmostEqual(want, value, delta=1e-5)
        # Rank 0's, which is what is saved: as if its rows were all, and the count the mean of all.
        own, mean = batches[0][0], sum(COUNTS[0]) / 4
        alone = train([[own]])[1]["v.weight"]
        for start, want, value in zip(V, alone, parameters["v.weight"]):
            self.assertAlmostEqual(start + (want - start) * COUNTS[0][0] / mean, value, delta=1e-5)

    def test_resumed(self):
        batches = make_batches(COUNTS)
        program = self.build("shard=2", "--accumulate-in", "shard")
        *_, want, _ = self.run_steps(program, 2, batches, micro_batches=2)
        *_, saves = self.run_steps(program, 2, batches, micro_batches=2, steps=2)
        outcome, lines, got, _ = self.run_steps(program, 2, batches, "--resume", saves, micro_batches=2)
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        self.assertEqual([line["step"] for line in lines], [3, 4])
        self.assertEqual(want, got)

    def test_nothing_counts(self):
        # Refused, whatever the step was made of; the state of the step before is there.
        batches = make_batches((*COUNTS[:2], (0, 0, 0, 0)))
        for mesh, options in (("shard=4", ()), ("shard=2", ("--accumulate-in", "shard"))):
            with self.subTest(mesh=mesh):
                ranks = ranks_of(mesh)
                outcome, lines, _, saves = self.run_steps(self.build(mesh, *options), ranks, batches, "--save-every", 1,
                                                          steps=3, micro_batches=RANKS // ranks)
                self.assertNotEqual(outcome.returncode, 0)
                self.assertIn("expected a loss_count above 0 of all ranks and micro-batches of a step together",
                              outcome.stderr)
                self.assertEqual(len(lines), 2)
                self.assertEqual(sorted(path.name for path in saves.glob("step-*"))[-1], "step-00000002")

    @unittest.skipIf(DEVICE != "cpu", "a session of its own chooses no device")
    def test_session(self):
        # What the C API tells of a step is that of all its micro-batches, and what divides them is nobody's to set.
        batches = make_batches(COUNTS)
        folder, model = self.place("library"), self.place("model.mlir")
        folder.mkdir()
        model.write_text(MODEL)
        library = folder / "liblosses.so"
        done = self.execute([BIN / "fsdp-compile", model, "--optimizer", "sgd", "--mesh", "shard=2", "--accumulate-in",
                             "shard", "--emit", "so", "-o", library])
        self.assertEqual(done.returncode, 0, done.stderr)
        session = Session(str(library), "local")
        session.call("fsdp_init_from_seed", ctypes.c_uint64(0))
        session.call("fsdp_set_scalar", b"lr", ctypes.c_double(LR))
        programs = {entry["name"]: entry for entry in session.manifest()["programs"]}
        tensors = read_tensors(self.write(batches, 2))
        steps, _ = train(batches)
        for step, wanted in enumerate(steps):
            for part, name in enumerate(("accumulate", "train_accumulated")):
                session.set_inputs(programs[name], tensors, 2 * step + part)
                session.call("fsdp_run", name.encode())
            found = ctypes.c_double(), ctypes.c_double()
            session.call("fsdp_results", *map(ctypes.byref, found))
            for want, value in zip(wanted, found):
                self.assertLessEqual(abs(want - value.value), 2e-6 * want)
        for name, said in (("accumulation_weight", "expected a scalar of the program"),
                           ("accumulated_count", "expected a scalar that callers set")):
            self.assertIn(said, session.refuses("fsdp_set_scalar", name.encode(), ctypes.c_double(2.0)))
        session.api.fsdp_destroy(session.handle)

    def evaluate(self, ranks, steps):
        """The line of an evaluation, where the prediction is 0: of (sum, count) of [step][rank]."""
        batches = [[([[0.0] * WIDTH] * ROWS, [[0.0] * WIDTH] * ROWS, [math.sqrt(total / max(count, 1))] * ROWS,
                     [int(i < count) for i in range(ROWS)]) for total, count in of_ranks] for of_ranks in steps]
        metrics = self.place("metrics.jsonl")
        device = ["--device", DEVICE] if DEVICE != "cpu" else []
        outcome = self.execute([self.build(f"shard={ranks}"), "-n", ranks, "--init", "seed=0", "--threads", 1,
                                "--eval-data", self.write(batches), "--metrics", metrics, *device])
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        (line,) = map(json.loads, metrics.read_text().splitlines())
        return line, outcome

    def test_evaluation(self):
        for ranks, steps in ((1, [[(2, 1)], [(90, 9)]]), (2, [[(2, 1), (90, 9)]]),
                             (2, [[(2, 1), (0, 0)], [(60, 5), (30, 4)]])):
            with self.subTest(ranks=ranks):
                self.assertAlmostEqual(self.evaluate(ranks, steps)[0]["eval_loss"], 9.2, delta=1e-5)
        line, outcome = self.evaluate(1, [[(0, 0)]])
        self.assertIsNone(line["eval_loss"])
        self.assertIn("expected a loss_count above 0, got none", outcome.stderr + outcome.stdout)


if __name__ == "__main__":
    unittest.main()
