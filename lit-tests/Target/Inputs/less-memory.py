"""Compares the bytes without states of rows of a table with those of its first row: each argument is a row's rule and
the relation, = or <."""
import sys

rows = {}
for line in open(sys.argv[1]).read().splitlines()[1:]:
    *rule, _, rest, _ = line.split()
    rows[" ".join(rule)] = int(rest)
plain = rows["(nothing)"]
for argument in sys.argv[2:]:
    rule, relation = argument[:-1], argument[-1]
    if not (rows[rule] == plain if relation == "=" else rows[rule] < plain):
        sys.exit(f"expected {rule} {relation} {plain} bytes, got {rows[rule]}")
