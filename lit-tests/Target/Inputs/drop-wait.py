"""Drops the first fsdp.wait of an fsdp.start of all_reduces alone: who reads its results reads what was sent."""
import re
import sys

text = sys.stdin.read()
for start in re.finditer(r"(%\w+) = fsdp\.start\((.*?)\) on all_reduce event \d+ \{\n", text):
    token, sources = start[1], start[2].split(", ")
    wait = re.search(rf"^ *(%\w+)(:\d+)? = fsdp\.wait {token} .*\n", text, re.MULTILINE)
    if not wait or not sources[0]:
        continue
    # Names begin anew in the next program.
    end = text.index("\n", text.index("fsdp.return", wait.end()))
    behind = text[wait.end():end]
    for i, source in enumerate(sources):
        name = f"{wait[1]}#{i}" if wait[2] else wait[1]
        behind = re.sub(re.escape(name) + r"\b", source, behind)
    sys.stdout.write(text[:wait.start()] + behind + text[end:])
    sys.exit()
sys.exit("expected all_reduces with a wait, got none")
