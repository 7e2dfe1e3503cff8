"""Writes plain.json and slow.json: a cluster file with the table of DIR, and with one whose attention takes a minute."""
import json
import pathlib
import sys

if sys.argv[1] == "--check":
    plain, slow = (json.loads(pathlib.Path(path).read_text()) for path in sys.argv[2:])
    steps = [plan["step_ms"] for plan in (plain, slow)]
    assert 0 < steps[0] < 1000 < 6e4 < steps[1], steps
    sys.exit()

cluster, folder = json.loads(pathlib.Path(sys.argv[1]).read_text()), pathlib.Path(sys.argv[2])
table = json.loads((folder / "table.json").read_text())
assert {row["dtype"] for row in table["matmul"]} == {row["dtype"] for row in table["attention"]} == {"f32", "bf16"}, table
points = table["memory"]["us_by_bytes"]
assert points == sorted(points) and all(us > 0 for _, us in points), points
for row in table["attention"]:
    assert 0 < row["forward_us"] and 0 < row["backward_us"], row
cluster["device"]["table"] = "table.json"
(folder / "plain.json").write_text(json.dumps(cluster))
for row in table["attention"]:
    row["forward_us"] = 6e7
(folder / "slow-table.json").write_text(json.dumps(table))
cluster["device"]["table"] = "slow-table.json"
(folder / "slow.json").write_text(json.dumps(cluster))
