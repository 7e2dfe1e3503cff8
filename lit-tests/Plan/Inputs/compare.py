"""Checks that a run uses the memory of its simulation, and why it says that it waits.

usage: compare.py COMPARED.json
"""

import json
import sys

with open(sys.argv[1]) as file:
    plan = json.load(file)
simulated, run = plan["compared"]
most = plan["planned_arena_bytes"]
assert run["peak"]["bytes"] <= most, f"expected a run in its arena of {most} bytes, got {run['peak']}"
assert run["memory"][0][1] <= simulated["memory"][0][1], f"expected no more at its begin, got {run['memory'][0]}"
for transfer in run["collectives"]:
    cause = transfer["cause"]
    assert cause == "hidden behind compute" or cause == "it waited for other ranks" or cause.startswith("its link"), cause
