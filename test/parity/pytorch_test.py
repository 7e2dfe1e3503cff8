"""Losses and gradient norms of a fixture against PyTorch's.

Every mesh, strategy and wrap policy, on both backends, must stay within the fixture's own
tolerance, 20 times what rounding does to PyTorch itself, and move the bytes that the compiler said
it would; where every unit is trained and used in both directions, also those of docs/traffic.md's
formulas.
"""
import json
import math

from steps import STEPS, StepTest, fixture, needs_mpi, ranks_of

# What a user would wrap.
CLASSES = {
    "bert": "BertLayer",
    "dropout": "TransformerEncoderLayer,TransformerDecoderLayer",
    "gpt2": "GPT2Block",
    "llama": "LlamaDecoderLayer",
    "mixed": "Linear",
    "resnet": "ResNetStage",
    "t5": "T5Block",
    "transformer": "TransformerEncoderLayer,TransformerDecoderLayer",
}
HYBRID = "shard=2,replicate=2"
# Models in which every parameter is trained and every unit but the root is a block of layers: all
# of each is gathered forward and backward.
PLAIN = ("gpt2", "llama")
F32 = 4  # bytes


def difference(got, want):
    return max(abs(g - w) / max(abs(w), 1e-12) for g, w in zip(got, want))


def total(traffic, kinds=("all_gather", "reduce_scatter", "all_reduce")):
    """Bytes per kind of collective; scalars (the loss, the squares of the norm) left out."""
    sums = dict.fromkeys(kinds, 0)
    for entry in traffic:
        sums[entry["kind"]] += entry["bytes"]
    return sums


def formulas(manifest):
    """docs/traffic.md: bytes per kind that parameters and gradients need, per rank and step."""
    sizes = {axis["axis"]: axis["size"] for axis in manifest["mesh"]}
    world = math.prod(sizes.values())
    sums = {"all_gather": 0, "reduce_scatter": 0, "all_reduce": 0}
    for flat in manifest["flat_params"]:
        shards = math.prod(sizes[axis] for axis in flat["shard_axes"])
        replicas = world // shards
        again = manifest["strategy"] in ("full_shard", "hybrid_shard") and flat["unit"] != ""
        moved = (shards - 1) * flat["numel"] // shards * F32
        sums["all_gather"] += moved * (2 if again else 1)
        sums["reduce_scatter"] += moved
        sums["all_reduce"] += 2 * (replicas - 1) * -(-flat["numel"] // world) * F32
    return sums


class PyTorch(StepTest):
    def check_traffic(self, program, profile, mesh, wrap):
        manifest, step = self.described(program)
        counted = {(entry["group"], entry["kind"]): (entry["calls"], entry["bytes"])
                   for entry in profile["traffic"]}
        self.assertEqual(counted, {(entry["group"], entry["kind"]):
                                   (STEPS * entry["calls"], STEPS * entry["bytes"])
                                   for entry in step["traffic"]})
        if fixture.name in PLAIN and wrap is None:
            got, want = total(step["traffic"]), formulas(manifest)
            # The loss, and the squares of the norm: a few numbers of 4 or 8 bytes.
            scalars = 4 * 8 * 2 * ranks_of(mesh)
            self.assertLessEqual(want["all_reduce"], got["all_reduce"])
            self.assertLess(got.pop("all_reduce") - want.pop("all_reduce"), scalars)
            self.assertEqual(got, want)

    def check(self, mesh, *options, backend="local", run=()):
        with self.subTest(mesh=mesh, options=options, backend=backend):
            program = self.compile(fixture, mesh, *options)
            path = self.place("profile.json")
            lines = self.train(program, fixture, mesh, "--backend", backend, "--profile", path, *run)
            wrap = options[options.index("--wrap") + 1] if "--wrap" in options else None
            self.check_traffic(program, json.loads(path.read_text()), mesh, wrap)
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
        """Norms, too: under no_shard FSDP's once counted every gradient once a rank (pytorch/pytorch#88955)."""
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
