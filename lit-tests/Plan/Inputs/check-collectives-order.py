"""check-collectives-order.py PLAN.json EXPECTED: whether in all orders of a plan no collective begins before the one before it is
over; EXPECTED: apart, or beside where some must. And whether the scheduled order is as fast as FSDP's."""
import json
import sys

plan, expected = json.load(open(sys.argv[1])), sys.argv[2]
beside = 0
for order in plan["orders"]:
    collectives = sorted((c["begin_ms"], c["end_ms"]) for c in order["collectives"] if c["kind"] not in ("offload", "reload"))
    if len(collectives) < 5:
        sys.exit(f"expected collectives, got {len(collectives)}")
    beside += sum(second < end - 1e-9 for (_, end), (second, _) in zip(collectives, collectives[1:]))
if (beside == 0) != (expected == "apart"):
    sys.exit(f"expected collectives {expected}, got {beside} that begin before the one before is over")
steps = {order["title"].split(",")[0]: order["step_ms"] for order in reversed(plan["orders"])}
if steps["scheduled"] > steps["FSDP"]:
    sys.exit(f"expected the scheduled order to take at most FSDP's {steps['FSDP']} ms, got {steps['scheduled']}")
