"""Checks a sweep's JSON, and its fourth point against a plan of that alone."""
import json
import sys

sweep, plan = (json.load(open(name)) for name in sys.argv[1:3])
assert sweep["format"] == "fsdp-sweep/1" and sweep["item"] == "tokens", sweep
points = sweep["points"]
assert [p["ranks"] for p in points] == [8, 8, 16, 16, 32768, 32768], points
assert [p["status"] for p in points] == ["fits"] * 4 + ["refused"] * 2, points
for p in points[4:]:
    assert p["reason"].startswith("expected a mesh of at most 16384 ranks"), p
for p in points[:4]:
    # 2 x 32 tokens of each rank.
    assert abs(p["items_per_s"] * p["step_ms"] / 1e3 - 64 * p["ranks"]) < 1e-6 * p["ranks"], p
    assert p["bound_ms"] <= p["step_ms"] <= p["fsdp_step_ms"], p
same = points[3]
assert same["options"] == {"mesh": "shard=8,replicate=2", "param-dtype": "bf16"}, same
for name in ("step_ms", "bound_ms", "strategy", "items_per_s", "planned_arena_bytes"):
    assert same[name] == plan[name], (name, same[name], plan[name])
best = plan["orders"][-1]
assert (same["exposed_ms"], same["peak_bytes"]) == (best["exposed_ms"], best["peak"]["bytes"])

# Marks: a point has one exactly where no other is better.
fitting = [p for p in points if p["status"] == "fits"]
for p in fitting:
    def beaten(key):
        return any(key(q) != key(p) and all(a <= b for a, b in zip(key(q), key(p))) for q in fitting)
    assert p["best_for_memory"] != beaten(lambda q: (q["step_ms"], q["peak_bytes"])), p
    assert p["best_for_ranks"] != beaten(lambda q: (q["ranks"], -q["items_per_s"])), p
