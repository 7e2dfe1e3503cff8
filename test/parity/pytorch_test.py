"""Losses and gradient norms of a fixture against PyTorch's: pytorch_test.py FIXTURE

Every mesh, strategy and wrap policy, on both backends, must stay within the fixture's own
tolerance, 20 times what rounding does to PyTorch itself.
"""
import sys
import unittest

from steps import Fixture, StepTest, needs_mpi, ranks_of

fixture = None
# What a user would wrap.
CLASSES = {
    "bert": "BertLayer",
    "gpt2": "GPT2Block",
    "llama": "LlamaDecoderLayer",
    "mixed": "Linear",
    "resnet": "ResNetStage",
    "t5": "T5Block",
    "transformer": "TransformerEncoderLayer,TransformerDecoderLayer",
}
HYBRID = "shard=2,replicate=2"


def difference(got, want):
    return max(abs(g - w) / max(abs(w), 1e-12) for g, w in zip(got, want))


class PyTorch(StepTest):
    def check(self, mesh, *options, backend="local", run=()):
        with self.subTest(mesh=mesh, options=options, backend=backend):
            program = self.compile(fixture, mesh, *options)
            lines = self.train(program, fixture, mesh, "--backend", backend, *run)
            ranks = str(ranks_of(mesh))
            for value in ("loss", "grad_norm"):
                want = fixture.expect[value][ranks]
                self.assertEqual(len(lines), len(want))
                self.assertLessEqual(difference([line[value] for line in lines], want),
                                     fixture.expect["rtol"][ranks][value], value)

    def test_meshes(self):
        for mesh in ("shard=1", "shard=2", "shard=4", HYBRID):
            self.check(mesh)

    def test_strategies(self):
        for strategy in ("shard_grad_op", "no_shard"):
            self.check("shard=2", "--strategy", strategy)
        for strategy in ("full_shard", "hybrid_shard_zero2"):
            self.check(HYBRID, "--strategy", strategy)

    def test_wrap_policies(self):
        for wrap in ("none", "size:2000", "module:" + CLASSES[fixture.name]):
            self.check("shard=2", "--wrap", wrap)

    def test_threads(self):
        self.check("shard=2", run=("--threads", "2"))

    @needs_mpi
    def test_mpi(self):
        for mesh in ("shard=2", HYBRID):
            self.check(mesh, backend="mpi")


if __name__ == "__main__":
    fixture = Fixture(sys.argv.pop(1))
    unittest.main()
