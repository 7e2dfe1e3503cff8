"""Moves the first fsdp.reshard up, to right behind the first fsdp.member of what it reshards."""
import re
import sys

text = sys.stdin.read()
reshard = re.search(r"^ *fsdp\.reshard (%\w+).*\n", text, re.MULTILINE)
text = text[:reshard.start()] + text[reshard.end():]
member = re.search(rf"^.* = fsdp\.member {reshard[1]}\[.*\n", text, re.MULTILINE)
sys.stdout.write(text[:member.end()] + reshard[0] + text[member.end():])
