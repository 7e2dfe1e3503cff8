"""least-budget.py COMPILE PLAN OPTION...: fails unless fsdp-plan and fsdp-compile name the same budget as the least one for
a step with these options, whatever they were given, both take it, with the same arena, and both refuse less."""
import json, os, re, subprocess, sys, tempfile

MIB = 1 << 20
compile_tool, plan_tool, *options = sys.argv[1:]


def compile_with(budget):
    """(least budget that is named, bytes of the arena), one of them None."""
    with tempfile.TemporaryDirectory() as folder:
        output = os.path.join(folder, "step.mlir")
        done = subprocess.run([compile_tool, *options, "--emit", "ir:L3", "-o", output, "--memory-budget", str(budget)],
                              capture_output=True, text=True)
        if done.returncode:
            return int(re.search(r"budget of at least (\d+) bytes", done.stderr)[1]), None
        with open(output) as file:
            return None, int(re.search(r"#fsdp\.arena<bytes = (\d+)", file.read())[1])


def plan_with(budget):
    text = subprocess.run([plan_tool, *options, "--json", "--memory-budget", str(budget)],
                          capture_output=True, text=True, check=True).stdout
    plan = json.loads(text)
    if plan["fits"]:
        return None, plan["planned_arena_bytes"]
    return plan["least_budget_bytes"] + plan["reserved_bytes"], None


def expect(what, expected, got):
    if expected != got:
        sys.exit(f"{' '.join(options)}: expected {what} of {expected}, got {got}")


least, _ = compile_with(1024)
for tool, budget in [(plan_with, least - MIB), (compile_with, least - 256), (plan_with, least - 256)]:
    expect(f"{tool.__name__}({budget})", (least, None), tool(budget))
for budget in [least, least + MIB // 8]:
    found = compile_with(budget)
    expect(f"the least with {budget}", None, found[0])
    expect(f"plan_with({budget})", found, plan_with(budget))
