"""Every ordered pair of an artifact's programs, run after one another in one process: states and losses are those of
fresh processes, bit for bit.

A process is fresh where a checkpoint can be between two programs. Between the micro-batches of a step there can be
none (it is refused): what runs there is compared with the same micro-batches alone.
"""
import pathlib
import shutil
import sys
import unittest

from steps import BIN, HAS_MPI, StepTest, fixture, in_turn, ranks_of

HERE = pathlib.Path(__file__).resolve().parent
TRAIN, EVAL, PART, LAST = "train", "evaluate", "accumulate", "train_accumulated"


class Programs(StepTest):
    libraries = {}

    def library(self, mesh, *options):
        key = (mesh, options)
        if key not in self.libraries:
            path = self.folder / f"libpairs{len(self.libraries)}.so"
            outcome = self.execute([BIN / "fsdp-compile", fixture.model, "--optimizer-file",
                                    fixture.dir / "optimizer.mlir", "--mesh", mesh, *options, "--emit", "so",
                                    "-o", path])
            self.assertEqual(outcome.returncode, 0, outcome.stderr)
            self.libraries[key] = path
        return self.libraries[key]

    def run_words(self, library, mesh, backend, words, start=fixture.params, first=0):
        """The lines that it prints; of the first process."""
        command = [sys.executable, "-B", HERE / "session.py", library, backend, start, fixture.batches, fixture.lr,
                   first, *words]
        if backend == "mpi":
            command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", ranks_of(mesh), *command]
        outcome = self.execute(command)
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        return outcome.stdout.splitlines()

    def after(self, library, mesh, backend, words, start=fixture.params, first=0, step=1):
        """What is printed, and the state of `step`, at which the words end."""
        folder = self.place("saves")
        lines = self.run_words(library, mesh, backend, [*words, f"save={folder}"], start, first)
        return lines, self.saved(folder, step), folder

    def test_schedule(self):
        """A schedule that the caller gives makes parts of the rate that the caller sets, before and after a resume."""
        library = self.library("shard=2", "--accumulate-in", "shard")
        table = "--lr-schedule=table:1=0.5,2=0.25,3=1"
        rates = [fixture.lr * ratio for ratio in (0.5, 0.25, 1)]
        words = [word for rate in rates for word in (f"lr:={rate}", TRAIN)]
        _, want, _ = self.after(library, "shard=2", "local", words, step=3)
        _, got, _ = self.after(library, "shard=2", "local", [table, TRAIN, f"lr:={fixture.lr}", TRAIN, TRAIN], step=3)
        self.assertEqual(got, want)
        _, _, folder = self.after(library, "shard=2", "local", [table, TRAIN])
        _, resumed, _ = self.after(library, "shard=2", "local", [table, TRAIN, TRAIN], folder, 1, step=3)
        self.assertEqual(resumed, want)
        for option, message in (("--lr-schedule=linear:warmup-tokens=5,steps=9", "got warmup-tokens"),
                                ("--lr-schedule=sine", "lr-schedule: expected")):
            (line,) = self.run_words(library, "shard=2", "local", [option])
            self.assertIn(message, line)

    def check_pairs(self, library, mesh, backend):
        # Of whole steps. An evaluation of its own is not saved apart: nothing was trained.
        for one in ([TRAIN], [PART, LAST], [LAST]):
            half, _, folder = self.after(library, mesh, backend, one)
            resumed = {}
            for other in ([TRAIN], [PART, LAST], [LAST]):
                with self.subTest(one=one, other=other, backend=backend):
                    rest, want, _ = self.after(library, mesh, backend, other, folder, len(one), step=2)
                    resumed[tuple(other)] = rest, want
                    lines, state, _ = self.after(library, mesh, backend, one + other, step=2)
                    if backend == "local":  # the order of lines of several processes is nobody's
                        self.assertEqual(half + rest, lines)
                    self.assertEqual(want, state)
            # Evaluations before, between and after.
            for other, (rest, want) in resumed.items():
                with self.subTest(one=one, other=other, backend=backend, among=EVAL):
                    words = [EVAL, *one, EVAL, EVAL, *other, EVAL]
                    lines, state, _ = self.after(library, mesh, backend, words, step=2)
                    if backend == "local":
                        self.assertEqual(half + rest, [line for line in lines if not line.startswith(EVAL)])
                        # An evaluation in a fresh process finds the same.
                        (fresh,) = self.run_words(library, mesh, backend, [EVAL], folder)
                        self.assertEqual([line for line in lines if line.startswith(EVAL)][1:3], [fresh, fresh])
                    self.assertEqual(want, state)
        # Within a step.
        lines, want, _ = self.after(library, mesh, backend, [PART, PART, LAST])
        for words in ([PART, EVAL, PART, LAST], [PART, PART, EVAL, LAST], [EVAL, PART, EVAL, PART, EVAL, LAST]):
            with self.subTest(words=words, backend=backend):
                got, state, _ = self.after(library, mesh, backend, words)
                if backend == "local":
                    self.assertEqual(lines, [line for line in got if not line.startswith(EVAL)])
                self.assertEqual(want, state)

    def test_pairs(self):
        for (mesh, options), backend in in_turn((("shard=2", ("--accumulate-in", "shard", "--cluster", "cpu-2core")),
                                                 ("shard=2", ("--accumulate-in", "whole", "--guard"))),
                                                ("local", "mpi") if HAS_MPI else ("local",)):
            self.check_pairs(self.library(mesh, *options), mesh, backend)

    def test_refused_within_a_step(self):
        # Gradients that were accumulated are neither left behind nor saved without the rest of their step.
        library = self.library("shard=2", "--accumulate-in", "shard", "--cluster", "cpu-2core")
        folder = self.place("saves")
        lines = self.run_words(library, "shard=2", "local",
                               [PART, f"?save={folder}", f"?{TRAIN}", PART, f"?save={folder}", LAST,
                                f"save={folder}"])
        said = [line for line in lines if "expected" in line]
        self.assertEqual(len(said), 3, lines)
        for line in said:
            self.assertIn("expected program 'train_accumulated' before", line)
        self.assertIn("got 1 micro-batch accumulated", said[0])
        self.assertIn("got 2 micro-batches accumulated", said[2])
        shutil.rmtree(folder)

    def test_gathered_once(self):
        """The first micro-batch of a step gathers for the others: in no other place, and by no other program."""
        first, options = "accumulate_first", ("--accumulate-in", "whole")
        _, want, _ = self.after(self.library("shard=2", *options), "shard=2", "local", [PART, PART, LAST, PART, LAST], step=2)
        library = self.library("shard=2", *options, "--reshard-after-backward=false")
        lines, got, _ = self.after(library, "shard=2", "local",
                                   [f"?{PART}", f"?{LAST}", first, f"?{first}", EVAL, PART, LAST, f"?{LAST}", first, LAST],
                                   step=2)
        self.assertEqual(want, got)
        said = [line for line in lines if "expected" in line]
        self.assertEqual([line.split("alone, got ")[1] for line in said],
                         ["'accumulate' behind 0", "'train_accumulated' behind 0", "'accumulate_first' behind 1",
                          "'train_accumulated' behind 0"])

    def test_weight(self):
        # The number of micro-batches, unless it is set for the step; what cannot be one changes nothing.
        weight = "accumulation_weight"
        for accumulate_in in ("shard", "whole"):
            library = self.library("shard=2", "--accumulate-in", accumulate_in, "--cluster", "cpu-2core")

            def run(*words, library=library):
                lines, state, _ = self.after(library, "shard=2", "local", words, step=words.count(LAST))
                return [line for line in lines if ":=" not in line], state

            usual = run(PART, LAST)
            self.assertEqual(usual, run(PART, f"{weight}:=2", LAST))
            self.assertNotEqual(usual[1], run(PART, f"{weight}:=4", LAST)[1])
            refused = [f"?{weight}:={value}" for value in ("0", "-1", "nan", "inf")]
            self.assertEqual(usual, run(PART, *refused, "?accumulated:=0", LAST))
            # A weight is one step's.
            self.assertEqual(run(PART, LAST, LAST), run(PART, f"{weight}:=2", LAST, LAST))
        lines = self.run_words(library, "shard=2", "local", [*refused, "?accumulated:=0"])
        self.assertEqual([line for line in lines if "expected" not in line], [])
        self.assertEqual(len(lines), 5)


if __name__ == "__main__":
    unittest.main()
