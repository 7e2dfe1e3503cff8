"""Checks a plan's JSON and a trace of the same step against each other."""
import json
import sys

plan, trace = (json.load(open(name)) for name in sys.argv[1:3])
assert plan["format"] == "fsdp-plan/1" and plan["fits"], plan
orders = {order["order"]: order for order in plan["orders"]}
assert list(orders) == ["in_order", "fsdp", "scheduled", "planned"], list(orders)
steps = [order["step_ms"] for order in plan["orders"]]
assert plan["bound_ms"] <= steps[3] <= steps[2] <= steps[1] <= steps[0], (plan["bound_ms"], steps)
for order in plan["orders"]:
    assert abs(order["compute_ms"] + order["exposed_ms"] - order["step_ms"]) < 1e-6, order
    parts = sum(c["exposed_ms"] for c in order["collectives"])
    assert abs(parts - order["exposed_ms"]) < 1e-6, (parts, order["exposed_ms"])
    assert all(c["cause"] for c in order["collectives"])
    assert sum(order["peak"]["by_purpose"].values()) == order["peak"]["bytes"]

for order in plan["orders"][1:]:
    # No timing takes less than the one that was simulated.
    assert order["peak"]["bytes"] <= order["peak_at_any_timing_bytes"], order
assert orders["planned"]["peak_at_any_timing_bytes"] <= plan["budget_bytes"], orders

compute = sum(kernel["ms"] for kernel in plan["kernels"])
assert abs(compute - plan["orders"][0]["compute_ms"]) < 1e-6, compute
times = [kernel["ms"] for kernel in plan["kernels"]]
assert times == sorted(times, reverse=True)

events = trace["traceEvents"]
kernels = [e for e in events if e.get("cat") == "kernel"]
names = {e["args"]["name"]: e["tid"] for e in events if e["name"] == "thread_name"}
assert {"compute", "all_gather", "reduce"} <= set(names), names
for event in kernels:
    collective = event["tid"] != names["compute"]
    assert event["name"].startswith("nccl") == collective, event
    assert event["args"]["stream"] == event["tid"]
# Each stream does one thing at a time.
for tid in names.values():
    spans = sorted((e["ts"], e["dur"]) for e in kernels if e["tid"] == tid)
    for (begin, length), (following, _) in zip(spans, spans[1:]):
        assert begin + length <= following + 1e-6, (tid, begin, length, following)
memory = [e for e in events if e["ph"] == "C"]
assert memory and all(sum(e["args"].values()) >= 0 for e in memory)
step, = (e for e in events if e.get("cat") == "user_annotation")
assert max(e["ts"] + e["dur"] for e in kernels) <= step["dur"] + 1e-6
