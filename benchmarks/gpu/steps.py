"""Writes steps of test/Kernels for gpu.sh, each to a folder with its parameters and data (standard library only).

  steps.py ROOT FOLDER kernels [NAME..]    the cases of test/Kernels, all or these, for one rank
  steps.py ROOT FOLDER sums                `sums`: gradients that are a parameter times a factor of the rank's, for four ranks
"""
import pathlib
import random
import sys

SGD = "--lr\n1\n--steps\n1"


def draw(argument, rng):
    """Numbers of all bits, so that a sum shows its order; Argument.make_data's are multiples of 1/64."""
    from step import count
    if not argument.value.is_float:
        return argument.make_data(rng)
    return [rng.uniform(-1, 1) for _ in range(count(argument.value.shape))]


def write(folder, name, step, ranks):
    from toolchain import write_safetensors
    output = pathlib.Path(folder) / name
    output.mkdir(parents=True)
    (output / "model.mlir").write_text(step.module())
    rng = random.Random(1)
    state = {argument.name: draw(argument, rng) for argument in step.args if argument.role != "input"}
    inputs = {argument.name: [draw(argument, rng) for _ in range(ranks)] for argument in step.args if argument.role == "input"}
    kinds = {argument.name: argument.value for argument in step.args}
    write_safetensors(output / "params.safetensors",
                      {name: (kinds[name].shape, kinds[name].dtype, values) for name, values in state.items()})
    write_safetensors(output / "data.safetensors",
                      {name: ((1, ranks) + kinds[name].shape, kinds[name].dtype, sum(values, []))
                       for name, values in inputs.items()})
    (output / "options").write_text("--optimizer\nsgd:lr=1")
    (output / "run").write_text(SGD)


def main(root, folder, what, *names):
    sys.path.insert(0, str(pathlib.Path(root) / "test" / "Kernels"))
    from cases import get_cases
    from step import Step
    if what == "kernels":
        cases = get_cases()
        for name in names or cases:
            make = cases[name.replace("-", "_")]
            write(folder, "case-" + name.replace("_", "-"), make(), 1)
        return
    step = Step()
    # An all_reduce of more than 32 KiB takes another way than a shorter one.
    for shape in ([3], [1000], [257, 129]):
        step.param(shape)
    step.finish()
    write(folder, "sums", step, 4)


if __name__ == "__main__":
    main(*sys.argv[1:])
