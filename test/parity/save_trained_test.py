"""A compiled step with frozen parameters: from two files, saved without what is frozen, and resumed."""
import json
import unittest

from steps import Fixture, StepTest, fixture, read_tensors, write_tensors

MESH, OTHER = "shard=2", "shard=2,replicate=2"


class SaveTrained(StepTest):
    def start(self, program):
        """The fixture's parameters in two files, by whether steps change them, and the names in the first."""
        manifest, _ = self.described(program)
        frozen = {member["fqn"] for flat in manifest["flat_params"] if not flat["trainable"]
                  for member in flat["members"]}
        frozen |= {buffer["fqn"] for buffer in manifest["buffers"] if not buffer["per_rank"]}
        tensors = read_tensors(fixture.params)
        base, adapters = self.place("base.safetensors"), self.place("adapters.safetensors")
        write_tensors(base, {name: tensor for name, tensor in tensors.items() if name in frozen})
        write_tensors(adapters, {name: tensor for name, tensor in tensors.items() if name not in frozen})
        self.assertTrue(read_tensors(base))
        self.assertTrue(read_tensors(adapters))
        return base, adapters, frozen

    def go(self, program, steps, saves, *options, lr=fixture.lr):
        """Losses and the norms of gradients, and the checkpoint after the last step."""
        metrics = self.place("metrics.jsonl")
        outcome = self.execute([program, "--data", fixture.batches, "--steps", steps, "--lr", lr,
                                "--threads", 1, "--metrics", metrics, "--save", saves, *options])
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        lines = [json.loads(line) for line in metrics.read_text().splitlines()]
        return [(line["loss"], line["grad_norm"]) for line in lines], self.saved(saves, steps)

    def test_goes_on_as_a_run_that_never_ended(self):
        program, other = (self.compile(Fixture(fixture.name), mesh) for mesh in (MESH, OTHER))
        base, adapters, frozen = self.start(program)
        anew = "--params", base, "--params", adapters
        place = self.place
        whole, _ = self.go(program, 6, place("whole"), *anew)
        once, unbroken = self.go(program, 6, place("once"), "--save-trained", *anew)
        self.assertEqual(once, whole)
        # Nothing of the base is saved, under any name or in any file.
        held = {name for _, name in unbroken}
        self.assertEqual({name for name in held for other_name in frozen if other_name in name}, set())
        half = place("half")
        first, _ = self.go(program, 3, half, "--save-trained", *anew)
        second, state = self.go(program, 6, place("resumed"), "--save-trained", "--resume", half, "--params", base)
        self.assertEqual(first + second, whole)
        self.assertEqual(state, unbroken)
        # Of other ranks, as from a checkpoint that holds all.
        plain = place("plain")
        self.go(program, 3, plain, *anew)
        expected = self.go(other, 6, place("plain-4"), "--resume", plain)
        got = self.go(other, 6, place("trained-4"), "--resume", half, "--params", base)
        self.assertEqual(got, expected)
        small, large = ((folder / "step-00000003" / "params.safetensors").stat().st_size for folder in (half, plain))
        self.assertLess(small, large)

    def test_drawn_beside_a_file(self):
        # What the file lacks is what --init alone draws. Buffers that the step changes follow from all parameters.
        program = self.compile(Fixture(fixture.name), MESH)
        base, adapters, _ = self.start(program)
        _, drawn = self.go(program, 1, self.place("drawn"), "--init", "seed=5", lr=0)
        _, beside = self.go(program, 1, self.place("beside"), "--params", base, "--init", "seed=5", lr=0)
        given, names = read_tensors(base), read_tensors(adapters)
        manifest, _ = self.described(program)
        changed = {buffer["fqn"] for buffer in manifest["buffers"] if buffer["per_rank"]}
        self.assertTrue(set(names) - changed)
        for name in given:
            self.assertEqual(beside["params.safetensors", name], given[name], name)
        for name in set(names) - changed:
            self.assertEqual(beside["params.safetensors", name], drawn["params.safetensors", name], name)


if __name__ == "__main__":
    unittest.main()
