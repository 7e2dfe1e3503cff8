"""What a step did is what its plan says, and an executable is what its manifest says."""
import json
import unittest

from steps import BIN, DEVICE, StepTest, fixture, needs_mpi

MESH = "shard=2"
CLUSTER = "h100-sxm"
LINK = ["--link", "1e8,2e-4"]


class Compare(StepTest):
    def trace(self, program, *options, steps=4):
        folder = self.place("trace")
        self.train(program, fixture, MESH, "--trace", folder, *options, steps=steps)
        return folder

    def plan(self, *options):
        return self.execute([BIN / "fsdp-plan", fixture.model, "--optimizer-file", fixture.dir / "optimizer.mlir",
                             "--mesh", MESH, "--cluster", CLUSTER, *options])

    def test_runs_of_every_order(self):
        for order in ("in_order", "fsdp", "scheduled"):
            program = self.compile(fixture, MESH, "--cluster", CLUSTER, "--order", order)
            for options in (LINK, ["--queue-threads", "off"]):
                with self.subTest(order=order, options=options):
                    folder = self.trace(program, *options)
                    page = self.place("plan.html")
                    outcome = self.plan("--compare", folder, "--json", "--html", page)
                    self.assertEqual(outcome.returncode, 0, outcome.stderr)
                    simulated, run = json.loads(outcome.stdout)["compared"]
                    name = lambda c: (c["queue"], c["unit"], c["name"], c["backward"])
                    names = {name(c) for c in run["collectives"]}
                    self.assertEqual({name(c) for c in simulated["collectives"]}, names)
                    self.assertIn(("all_gather", "root", "all_gather", False), names)
                    self.assertGreater(run["step_ms"], run["exposed_ms"])
                    self.assertGreater(run["exposed_ms"], 0)
                    self.assertIn("as rank 0 ran it", page.read_text())

    def test_runs_of_fsdp_as_it_was_set_up(self):
        program = self.compile(fixture, MESH, "--cluster", CLUSTER, "--order", "fsdp", "--backward-prefetch", "none")
        folder = self.trace(program)
        outcome = self.plan("--compare", folder, "--fsdp", "backward_prefetch=none")
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        outcome = self.plan("--compare", folder)
        self.assertIn("expected a trace of the program that these options give", outcome.stderr)

    def test_a_run_on_the_device(self):
        """Of whatever device: calls are timed one by one, kernels have their units, and a run is compared with the program
        that was compiled for the device."""
        program = self.compile(fixture, MESH, "--cluster", CLUSTER, "--bucket", "none")
        folder = self.trace(program, *self.queues("off"), steps=2)
        trace = json.loads((folder / "rank-1.json").read_text())
        self.assertEqual(trace["distributedInfo"], {"backend": "nccl", "rank": 1, "world_size": 2})
        for event in trace["traceEvents"]:
            if event["ph"] == "X":
                self.assertGreaterEqual(event["dur"], 0, event)
                self.assertGreaterEqual(event["ts"], 0, event)
        kernels = [e for e in trace["traceEvents"] if e.get("cat") == "kernel" and not e["name"].startswith("nccl")]
        self.assertIn("k", {e["name"][0] for e in kernels})
        units = {e["args"].get("unit") for e in kernels}
        self.assertLessEqual({"root", "transformer.h.0", "transformer.h.1"}, units)
        target = ["--target", f"cpu,{DEVICE}"] if DEVICE != "cpu" else []
        outcome = self.plan("--compare", folder, "--bucket", "none", *target, "--json")
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        simulated, run = json.loads(outcome.stdout)["compared"]
        name = lambda c: (c["queue"], c["unit"], c["name"], c["backward"])
        self.assertEqual({name(c) for c in simulated["collectives"]}, {name(c) for c in run["collectives"]})
        self.assertGreater(run["step_ms"], run["exposed_ms"])

    def test_links_take_what_they_should(self):
        # 2 ms for every transfer, whatever the machine does.
        program = self.compile(fixture, MESH, "--cluster", CLUSTER, "--order", "in_order")
        folder = self.trace(program, "--link", "1e12,2e-3")
        for rank in range(2):
            events = json.loads((folder / f"rank-{rank}.json").read_text())["traceEvents"]
            transfers = [e for e in events if e["name"].startswith("nccl")]
            self.assertTrue(transfers)
            for event in transfers:
                self.assertGreaterEqual(event["dur"], 2000)

    def test_a_program_without_queues(self):
        folder = self.trace(self.compile(fixture, MESH))
        outcome = self.plan("--compare", folder)
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        self.assertIn("simulated", outcome.stdout)

    def test_what_there_was_to_compare_is_said(self):
        program = self.compile(fixture, MESH, "--cluster", CLUSTER)
        for steps, missing, notes in ((4, False, []), (1, False, ["only step 1 is in the trace: its first-time costs"]),
                                      (4, True, ["of 2 ranks, these have no trace in the folder: 1"])):
            with self.subTest(steps=steps, missing=missing):
                folder = self.trace(program, steps=steps)
                if missing:
                    (folder / "rank-1.json").unlink()
                page = self.place("plan.html")
                text = self.plan("--compare", folder, "--html", page)
                data = self.plan("--compare", folder, "--json")
                for outcome in (text, data):
                    self.assertEqual(outcome.returncode, 0, outcome.stderr)
                said = json.loads(data.stdout)["notes"]
                self.assertEqual(len(said), len(notes))
                for note, begin in zip(said, notes):
                    self.assertTrue(note.startswith(begin), note)
                    self.assertIn(f"note: {note}\n", text.stdout)
                    self.assertIn(note, page.read_text())
                self.assertNotIn("kernels are slower" if steps == 1 else "sets things up", text.stdout)

    def test_another_program_is_refused(self):
        folder = self.trace(self.compile(fixture, MESH, "--cluster", CLUSTER, "--order", "in_order"))
        for options, why in ((["--compare", folder, "--wrap", "none"], "expected a trace of the program that these options give"),
                             (["--compare", folder / "no"], "expected a folder that --trace wrote"),
                             (["--compare", folder, "--sweep", "mesh=shard=2"], "expected no --sweep beside --compare")):
            with self.subTest(why=why):
                outcome = self.plan(*options)
                self.assertEqual(outcome.returncode, 1)
                self.assertIn(why, outcome.stderr)


class Certificate(StepTest):
    def test_a_manifest_of_another_program_is_refused(self):
        programs = {order: self.compile(fixture, MESH, "--cluster", CLUSTER, "--order", order).read_bytes()
                    for order in ("in_order", "fsdp")}

        def manifest(code):
            begin = code.index(b'{"accumulators"')
            return begin, code.index(b"\0", begin)

        code = programs["in_order"]
        begin, end = manifest(code)
        stale = slice(*manifest(programs["fsdp"]))
        text = programs["fsdp"][stale].ljust(end - begin)
        arena = json.loads(code[begin:end])["arena"]["bytes"]
        changed = "certificate: expected the manifest that the code was lowered with"
        edits = [(text, "certificate: expected a manifest of program")]
        # The second breaks a rule between keys, the third is no JSON.
        for old, new in (('"low":0', '"low":1'), (f'"bytes":{arena}', f'"bytes":{arena + 256}'), ('"arena"', '"arena,')):
            edits.append((code[begin:end].replace(old.encode(), new.encode(), 1), changed))
        for wrong, why in edits:
            self.assertEqual(len(wrong), end - begin)
            self.assertNotEqual(wrong, code[begin:end])
            program = self.place("changed")
            program.write_bytes(code[:begin] + wrong + code[end:])
            program.chmod(0o755)
            outcome = self.execute([program, "--describe"])
            self.assertEqual(outcome.returncode, 1)
            self.assertIn(why, outcome.stderr)

    @needs_mpi
    def test_ranks_with_other_orders_are_refused(self):
        # Of one step: their certificates are not the same.
        words = ["mpirun", "--oversubscribe", "--allow-run-as-root"]
        for order in ("in_order", "fsdp"):
            words += ["-n", 1, self.compile(fixture, MESH, "--cluster", CLUSTER, "--order", order), "--params",
                      fixture.params, "--data", fixture.batches, "--steps", 1, ":"]
        outcome = self.execute(words[:-1])
        self.assertEqual(outcome.returncode, 1)
        self.assertRegex(outcome.stderr, r"error: rank 1: program: expected fingerprint \w+, certificate (\w+) as on "
                                         r"rank 0, got fingerprint \w+, certificate (?!\1)\w+\n")

    def test_the_peak_is_the_arenas(self):
        program = self.compile(fixture, MESH, "--cluster", CLUSTER, "--order", "scheduled")
        manifest, step = self.described(program)
        self.assertEqual(step["certificate"]["peak_bytes"], step["arena"]["bytes"])
        transfers = step["certificate"]["transfers"]
        self.assertEqual(len(transfers), step["events"])
        # Each unit is gathered for forward, in some bucket.
        gathered = [unit for t in transfers if (t["kind"], t["phase"]) == ("all_gather", "forward") for unit in t["units"]]
        self.assertEqual(sorted(gathered), sorted(flat["name"] for flat in manifest["flat_params"]))


if __name__ == "__main__":
    unittest.main()
