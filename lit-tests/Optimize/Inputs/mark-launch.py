"""Leaves fsdp.offload on the first launch that has it, as the argument says: as it is ("offload"), with
fsdp.recompute for the same results ("both"), with the number of a result that is none ("number"), or with one result
twice ("twice")."""
import re
import sys

PLAN = re.compile(r"(, )?fsdp\.(offload|recompute|keep|group)\b( = (array<i64[^>]*>|\d+ : i64))?(, )?")
found = False
for line in sys.stdin:
    mark = re.search(r"fsdp\.offload = (array<i64[^>]*>)", line)
    line = PLAN.sub(lambda m: ", " if m.group(1) and m.group(5) else "", line)
    # The order was of what the whole plan makes.
    line = re.sub(r", fsdp\.order = #fsdp\.step_order<[^>]*>", "", line)
    line = line.replace(" {}", "")
    if mark and not found:
        found = True
        plan = "fsdp.offload = " + {"number": "array<i64: 99>", "twice": "array<i64: 0, 0>"}.get(sys.argv[1], mark.group(1))
        if sys.argv[1] == "both":
            plan += ", fsdp.recompute = " + mark.group(1)
        # Into the dictionary behind the operands, or a new one.
        body, colon, types = line.partition(" : (")
        body = body[:-1] + ", " + plan + "}" if body.endswith("}") else body + " {" + plan + "}"
        line = body + colon + types
    sys.stdout.write(line)
sys.exit(not found)
