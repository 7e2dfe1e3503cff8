# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random options together: a step is planned, placed and verified, and takes no less than its bound, or it is refused
for what was asked, never for what the compiler made of it. And where memory is short, what is planned is about as good as
under any rule for it. A sweep says the same. FSDP_PLAN_SEEDS: how many random steps."""
import itertools
import json
import os
import random
import re
import unittest

from versus_test import FIRST, MODELS, SECOND, THIRD, Step, get_reserved, run

SEEDS = range(int(os.environ.get("FSDP_PLAN_SEEDS", 20)))
MESHES = ["shard=1", "shard=2", "shard=3", "shard=8", "shard=64", "shard=2,replicate=2", "shard=8,replicate=8",
          "shard=1,replicate=4", "replicate=4"]
# By option: how often it is given, and with what.
OPTIONS = {
    "--clip-norm": (0.3, [None]),
    "--wrap": (0.3, ["none", "pieces", "size:100", "size:5000", "size:20000"]),
    "--ignore": (0.3, ["*bias", "*weight", "*0*", "*1*", "*embed*"]),
    "--replicate": (0.3, ["*bias", "*weight", "*0*", "*1*", "*norm*"]),
    "--strategy": (0.25, ["full_shard", "shard_grad_op", "no_shard", "hybrid_shard", "hybrid_shard_zero2"]),
    "--unit": (0.3, ["root:strategy=no_shard", "*0:strategy=shard_grad_op", "*1*:strategy=no_shard", "root:param-dtype=bf16",
                     "*0*:reshard-after-forward=false,reduce-dtype=f32", "root:reshard-after-forward=true"]),
    "--param-dtype": (0.3, ["bf16", "f32"]),
    "--reduce-dtype": (0.3, ["bf16", "f32"]),
    "--buffer-dtype": (0.15, ["bf16", "f32"]),
    "--optimizer": (0.2, ["sgd:lr=0.1", "sgd:lr=0.1,momentum=0.9", "adamw:lr=0.001", "rmsprop:momentum=0.9,centered=true"]),
    "--optimizer-scalars": (0.1, ["weight_decay"]),
    "--attention": (0.2, ["decomposed"]),
    "--offload-optimizer": (0.1, [None]),
    "--offload-parameters": (0.1, [None]),
    "--optimizer-in-backward": (0.1, [None]),
}
PLANS = {
    "--bucket": (0.2, ["auto", "none"]),
    "--recompute": (0.3, ["auto", "none", "full"]),
    "--offload": (0.3, ["auto", "none", "full"]),
    "--reshard-after-forward": (0.2, ["auto", "true", "false"]),
    "--wrap": (0.1, ["auto"]),
}
FSDP = {
    "--backward-prefetch": (0.5, ["pre", "post", "none"]),
    "--forward-prefetch": (0.3, [None]),
    "--limit-all-gathers": (0.3, [None]),
}
REFUSALS = re.compile(r"^exit 1: .*(that matches a parameter|that is not ignored|or a type of fewer bits, as param-dtype|"
                      r"an optimizer with a state for each element of a parameter|"
                      r"a mesh with a replicate axis for hybrid_shard|"
                      r"expected .* beside --optimizer-in-backward|"
                      r"expected a pattern of units|that changes a unit|"
                      r"expected (no --wrap auto|--reshard-after-forward true) beside --unit|"
                      r"expected --strategy auto, full_shard or hybrid_shard beside --reshard-after-forward)", re.DOTALL)


def pick(generator):
    words = ["--mesh", generator.choice(MESHES), "--cluster",
             generator.choice(["h100-sxm", "a100-80g-pcie", "a100-40g-sxm-efa"])]
    order = generator.choice([None, None, "scheduled", "fsdp", "in_order"])
    if order:
        words += ["--order", order]
    tables = [OPTIONS] + ([FSDP] if order == "fsdp" else []) + ([PLANS] if order in (None, "scheduled") else [])
    given = {}
    for table in tables:
        for option, (chance, values) in table.items():
            if generator.random() < chance:
                value = generator.choice(values)
                given[option] = option if value is None else f"{option}={value}"
    return words + list(given.values())


RULES = (["--reshard-after-forward", "true"], ["--reshard-after-forward", "false"], ["--recompute", "none"],
         ["--recompute", "full"], ["--offload", "none"])


class LittleMemory(unittest.TestCase):
    def ask(self, model, mesh, cluster, parts):
        """Under one of @parts of what lies between the least that works and all that a step uses."""
        asked = [model, "--mesh", mesh, "--cluster", cluster]
        least, used = self.find(*asked, "--memory-budget", 1), Step(*asked).bytes + get_reserved(cluster)
        return asked + ["--memory-budget", least + max(used - least, 0) // parts]

    def find(self, model, *words):
        try:
            return Step(model, *words)
        except AssertionError as refusal:
            self.assertRegex(str(refusal), "expected a memory budget of at least")
            return int(re.search(r"at least (\d+)", str(refusal))[1])

    def test_rules(self):
        """Whatever a rule asks is among what is chosen from."""
        ratios = []
        for model in FIRST:
            asked = self.ask(model, "shard=4", "h100-pcie", 8)
            ours = Step(*asked)
            for rule in RULES:
                with self.subTest(model=model.parent.name, rule=rule):
                    ruled = self.find(*asked, *rule)
                    if isinstance(ruled, Step):
                        ratios.append(ours.time / ruled.time)
                        self.assertLess(ratios[-1], 1.1)
        print(f"{len(ratios)} plans beside those of rules: {sum(ratio > 1.01 for ratio in ratios)} slower by over 1 %, "
              f"{max(ratios) - 1:.1%} at worst")
        self.assertGreater(len(ratios), 4)

    def test_offloads_go_with_repeats(self):
        """Small kernels take as long as they take to launch: what repeats pays at one price, all or nothing. In the mean
        over all models, of which many have nothing to gain.
        """
        ratios = []
        for model in MODELS:
            asked = self.ask(model, "shard=8", "a100-80g-pcie", 6)
            offloading = self.find(*asked, "--recompute", "none")
            if isinstance(offloading, Step):
                ratios.append(Step(*asked).time / offloading.time)
        print(f"{len(ratios)} plans beside those that only offload:", *(f"{ratio:.2f}" for ratio in sorted(ratios)))
        self.assertLess(sum(ratios) / len(ratios), 0.95)


class Sweeps(unittest.TestCase):
    def test_points(self):
        """What a sweep says of a budget is what is compiled for it."""
        fitting, cluster = 0, "a100-40g-sxm-efa"
        for model in THIRD:
            asked = [model, "--mesh", "shard=16,replicate=2", "--wrap", "pieces", "--cluster", cluster]
            used = Step(*asked).bytes
            budgets = [used * percent // 100 + get_reserved(cluster) for percent in (70, 85)]
            swept = run("fsdp-plan", *asked, "--json", "--sweep", "budget=" + ";".join(map(str, budgets)))
            for budget, point in zip(budgets, json.loads(swept)["points"]):
                if point["status"] == "fits":
                    fitting += 1
                    with self.subTest(model=model.parent.name, budget=budget):
                        self.assertEqual(round(point["step_ms"] * 1e9), Step(*asked, "--memory-budget", budget).time)
        self.assertGreaterEqual(fitting, len(THIRD))


class WhatIfs(unittest.TestCase):
    def test_misfit(self):
        """A step that does not fit is shown, and compared with others, within as much memory as is printed."""
        compared, models = 0, SECOND[::2]
        for model in models:
            asked = {"--mesh": "shard=8", "--cluster": "h100-sxm"}
            report = json.loads(run("fsdp-plan", model, *itertools.chain(*asked.items()), "--memory-budget", 1, "--what-if",
                                    "--json"))
            budget = report["planned_budget_bytes"] + report["reserved_bytes"]
            for it in [report] + [it for it in report["what_ifs"] if it["is_option"] and not it["has_all_memory"]]:
                title = it.get("title", "").split()
                # An option and its value, or a flag alone.
                flags = title if len(title) % 2 else []
                words = asked | dict(zip(title[::2], title[1::2])) | {"--memory-budget": budget}
                with self.subTest(model=model.parent.name, option=title):
                    try:
                        step = Step(model, *itertools.chain(*words.items()), *flags)
                    except AssertionError:
                        self.assertGreater(it["least_budget_bytes"], report["planned_budget_bytes"])
                        continue
                    compared += 1
                    self.assertEqual(round(it["step_ms"] * 1e9), step.time)
                    self.assertLessEqual(it["least_budget_bytes"], report["planned_budget_bytes"])
        self.assertGreater(compared, 3 * len(models))


class RandomOptions(unittest.TestCase):
    def test_all(self):
        self.assertTrue(MODELS)
        planned = 0
        for seed in SEEDS:
            generator = random.Random(seed)
            model, words = generator.choice(MODELS), pick(generator)
            with self.subTest(seed=seed, model=model.parent.name, options=words):
                try:
                    step = Step(model, *words)
                except AssertionError as refusal:
                    self.assertRegex(str(refusal), REFUSALS)
                    continue
                planned += 1
                self.assertLessEqual(step.bound, step.time)
        self.assertGreater(planned, len(SEEDS) / 2)


if __name__ == "__main__":
    unittest.main()
