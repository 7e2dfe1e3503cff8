"""Checks a plan's JSON and a trace of the same step against each other."""
import json
import sys

plan, trace = (json.load(open(name)) for name in sys.argv[1:3])
assert plan["format"] == "fsdp-plan/1" and plan["fits"], plan
orders = {order["order"]: order for order in plan["orders"]}
assert list(orders) == ["in_order", "fsdp", "fsdp_kept", "scheduled", "planned"], list(orders)
steps = {name: order["step_ms"] for name, order in orders.items()}
assert 0 < plan["mfu"] < 1, plan["mfu"]
assert plan["bound_ms"] <= steps["planned"] <= steps["scheduled"] <= steps["fsdp"] <= steps["in_order"], steps
# Kept, units are gathered once.
assert steps["planned"] <= steps["fsdp_kept"], steps
gathers = {name: sum(c["queue"] == "all_gather" for c in order["collectives"]) for name, order in orders.items()}
assert gathers["fsdp_kept"] < gathers["fsdp"], gathers
assert orders["fsdp_kept"]["peak"]["bytes"] >= orders["fsdp"]["peak"]["bytes"], orders
for order in plan["orders"]:
    assert abs(order["compute_ms"] + order["exposed_ms"] - order["step_ms"]) < 1e-6, order
    parts = sum(c["exposed_ms"] for c in order["collectives"])
    assert abs(parts - order["exposed_ms"]) < 1e-6, (parts, order["exposed_ms"])
    assert all(c["cause"] for c in order["collectives"])
    # Every one is listed, exposed or not, and none is faster than its link.
    assert all((c["exposed_ms"] > 0) == (c["cause"] != "hidden behind compute") for c in order["collectives"])
    for c in order["collectives"]:
        assert c["group_size"] == 8 and c["bytes"] > 0 and c["algorithm"] and c["protocol"], c
        assert abs(c["gb_per_s"] * (c["end_ms"] - c["begin_ms"]) - c["bytes"] / 1e6) < 1e-6 * c["bytes"] / 1e6, c
        assert c["gb_per_s"] <= c["link_gb_per_s"], c
        assert 0 < c["latency_ms"] <= c["alone_ms"] <= c["end_ms"] - c["begin_ms"] + 1e-9, c
    curve = order["memory"]
    assert curve[0][0] == 0 and all(a[0] < b[0] and a[1] != b[1] for a, b in zip(curve, curve[1:])), curve
    assert max(bytes for _, bytes in curve) == order["peak"]["bytes"], order["peak"]
    assert sum(order["peak"]["by_purpose"].values()) == order["peak"]["bytes"]

in_order = orders["in_order"]["collectives"]
assert len(in_order) == 10, in_order
# What is gathered again is another transfer of the same unit.
assert {unit for c in in_order for unit in c["units"]} == {unit["name"] for unit in plan["units"]}
assert all(unit["parameters"] for unit in plan["units"]), plan["units"]

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
