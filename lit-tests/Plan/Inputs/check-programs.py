"""Checks the programs in a plan's JSON against each other and its text."""
import json
import sys

plan = json.load(open(sys.argv[1]))
text = open(sys.argv[2]).read()
programs = plan["programs"]
assert [(p["name"], p["kind"]) for p in programs] == [
    ("evaluate", "eval"), ("accumulate", "accumulate"), ("train_accumulated", "train_accumulated")], programs
for program in programs:
    assert 0 < program["bound_ms"] <= program["step_ms"], program
    assert abs(program["compute_ms"] + program["exposed_ms"] - program["step_ms"]) < 1e-6, program
    assert abs((program["step_ms"] - program["bound_ms"]) / program["bound_ms"] - program["gap"]) < 1e-6, program
    assert program["title"].startswith("planned: "), program
    peak = program["peak"]
    assert sum(peak["by_purpose"].values()) == peak["bytes"] > 0, peak
    # Either key says which of the two holds.
    needs = program["planned_arena_bytes" if program["fits"] else "least_budget_bytes"]
    assert (needs <= plan["budget_bytes"]) == program["fits"], program
    line = next(l for l in text.splitlines() if l.startswith("  " + program["name"]))
    assert f": {program['step_ms']:.3f} ms (" in line, line
    assert line.endswith("(over the budget)") != program["fits"], line
    assert (program["name"] + " does not fit" in text) != program["fits"], program

# Evaluation has no backward; the last micro-batch updates.
evaluate, accumulate, last = (p["step_ms"] for p in programs)
assert evaluate < accumulate < last, programs
assert plan["fits"], plan
