"""Groups of parameters, against programs in which all parameters read what a group reads."""
import unittest

from steps import BIN, StepTest, fixture, in_turn, ranks_of

# SGD with momentum, whose weight decay is a scalar as the rate is.
OPTIMIZER = """
#all = affine_map<(i) -> (i)>
#one = affine_map<(i) -> ()>
#none = affine_map<() -> ()>
func.func @optimizer(
    %p: tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}},
    %g: tensor<?xf32> {fsdp.optimizer = {role = "grad", name = "grad"}},
    %b: tensor<?xf32> {fsdp.optimizer = {role = "state", name = "momentum_buffer"}},
    %step: tensor<f32> {fsdp.optimizer = {role = "state", name = "step"}},
    %lr: tensor<f32> {fsdp.optimizer = {role = "scalar", name = "lr", default = 0.5}},
    %decay: tensor<f32> {fsdp.optimizer = {role = "scalar", name = "weight_decay", default = 0.1}})
    -> (tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}},
        tensor<?xf32> {fsdp.optimizer = {role = "state", name = "momentum_buffer"}},
        tensor<f32> {fsdp.optimizer = {role = "state", name = "step"}}) {
  %c1 = arith.constant 1.0 : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %p, %c0 : tensor<?xf32>
  %e = tensor.empty(%n) : tensor<?xf32>
  %e0 = tensor.empty() : tensor<f32>
  %scalars:2 = linalg.generic {indexing_maps = [#none, #none, #none, #none], iterator_types = []}
      ins(%step, %lr : tensor<f32>, tensor<f32>) outs(%e0, %e0 : tensor<f32>, tensor<f32>) {
  ^bb0(%s: f32, %r: f32, %o0: f32, %o1: f32):
    %next = arith.addf %s, %c1 : f32
    %half = arith.divf %r, %next : f32
    linalg.yield %next, %half : f32, f32
  } -> (tensor<f32>, tensor<f32>)
  %rate = tensor.extract %scalars#1[] : tensor<f32>
  %rates = tensor.splat %rate[%n] : tensor<?xf32>
  %r:2 = linalg.generic {indexing_maps = [#all, #all, #all, #all, #one, #all, #all], iterator_types = ["parallel"]}
      ins(%p, %g, %b, %rates, %decay : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<f32>)
      outs(%e, %e : tensor<?xf32>, tensor<?xf32>) {
  ^bb0(%x: f32, %dx: f32, %old: f32, %rate1: f32, %wd: f32, %o0: f32, %o1: f32):
    %pull = arith.mulf %x, %wd : f32
    %sum = arith.addf %dx, %pull : f32
    %buffer = arith.addf %old, %sum : f32
    %change = arith.mulf %buffer, %rate1 : f32
    %new = arith.subf %x, %change : f32
    linalg.yield %new, %buffer : f32, f32
  } -> (tensor<?xf32>, tensor<?xf32>)
  return %r#0, %r#1, %scalars#0 : tensor<?xf32>, tensor<?xf32>, tensor<f32>
}
"""
MESHES = "shard=2", "shard=3", "shard=4", "shard=2,replicate=2"
OPTIONS = [], ["--wrap", "none"], ["--strategy", "no_shard"], ["--clip-norm", "--skip-nonfinite"], \
    ["--param-dtype", "bf16"], ["--offload-optimizer"]


class Groups(StepTest):
    def build(self, fixture, mesh, *options):
        path, program = self.place("optimizer.mlir"), self.place("train")
        path.write_text(OPTIMIZER)
        choice = [] if "--optimizer" in options else ["--optimizer-file", path]
        outcome = self.execute([BIN / "fsdp-compile", fixture.model, *choice, "--mesh", mesh, *options, "-o", program])
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        StepTest.programs[program] = program
        return program

    def step(self, program, fixture, mesh, **scalars):
        """One step: all tensors of the checkpoint."""
        folder = self.place("saves")
        words = [program, "-n", ranks_of(mesh), "--params", fixture.params, "--data", fixture.batches, "--steps", 1,
                 "--threads", 1, "--quiet", "--save", folder]
        for name, value in scalars.items():
            words += ["--scalar", f"{name}={value}"]
        outcome = self.execute(words)
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        return {name: tensor for (_, name), tensor in self.saved(folder, 1).items()}

    def test_step(self):
        """Each parameter and its momentum are bit for bit those of a program whose scalars are the group's."""
        for mesh, options in in_turn(MESHES, OPTIONS):
            with self.subTest(mesh=mesh, options=options):
                ungrouped = self.build(fixture, mesh, *options)
                members = [(member["fqn"], len(member["shape"])) for flat in self.described(ungrouped)[0]["flat_params"]
                           for member in flat["members"] if flat["trainable"]]
                chosen = members[len(members) // 2][0]
                grouped = self.build(fixture, mesh, *options, "--group", f"one={chosen}:weight_decay=0.25",
                                     "--group", "small=dims<2:weight_decay=0,lr=0.125")
                wanted = {scalars: self.step(ungrouped, fixture, mesh, lr=scalars[0], weight_decay=scalars[1])
                          for scalars in ((0.5, 0.1), (0.5, 0.25), (0.125, 0))}
                got = self.step(grouped, fixture, mesh, lr=0.5, weight_decay=0.1)
                for member, dims in members:
                    scalars = (0.5, 0.25) if member == chosen else (0.125, 0) if dims < 2 else (0.5, 0.1)
                    for suffix in "", ".momentum_buffer":
                        self.assertEqual(got[member + suffix], wanted[scalars][member + suffix], member + suffix)

    def test_built_in(self):
        """The same of optimizers that are known by name, and of all states."""
        mesh = "shard=3"
        for optimizer in "adamw:weight_decay=0.1", "sgd:momentum=0.9,weight_decay=0.1", "lion:weight_decay=0.1":
            with self.subTest(optimizer=optimizer):
                ungrouped = self.build(fixture, mesh, "--optimizer", optimizer, "--optimizer-scalars", "weight_decay")
                grouped = self.build(fixture, mesh, "--optimizer", optimizer, "--wrap", "none",
                                     "--group", "small=dims<2:weight_decay=0,lr=0.125")
                dims = {member["fqn"]: len(member["shape"]) for flat in self.described(ungrouped)[0]["flat_params"]
                        for member in flat["members"] if flat["trainable"]}
                usual, small = (self.step(ungrouped, fixture, mesh, lr=lr, weight_decay=decay)
                                for lr, decay in ((0.5, 0.1), (0.125, 0)))
                got = self.step(grouped, fixture, mesh, lr=0.5)
                for member in dims:
                    wanted = small if dims[member] < 2 else usual
                    names = [name for name in wanted if name == member or name.rpartition(".")[0] == member and
                             name not in dims]
                    self.assertGreater(len(names), 1)
                    for name in names:
                        self.assertEqual(got[name], wanted[name], name)

    def test_schedule(self):
        """A schedule makes the same part of each group's rate: two steps are those of which each is given its rates."""
        mesh = "shard=2"
        program = self.build(fixture, mesh, "--group", "small=dims<2:lr=0.125")

        def run(folder, steps, *options):
            outcome = self.execute([program, "-n", 2, "--data", fixture.batches, "--steps", steps, "--threads", 1,
                                    "--quiet", "--save", folder, *options])
            self.assertEqual(outcome.returncode, 0, outcome.stderr)
            return self.saved(folder, steps)

        start = "--params", fixture.params
        scheduled = run(self.place("saves"), 2, *start, "--lr", 0.5, "--lr-schedule", "table:1=0.5,2=0.25")
        folder = self.place("saves")
        run(folder, 1, *start, "--lr", 0.25, "--scalar", "small.lr=0.0625")
        self.assertEqual(run(folder, 2, "--resume", folder, "--lr", 0.125, "--scalar", "small.lr=0.03125"), scheduled)


if __name__ == "__main__":
    unittest.main()
