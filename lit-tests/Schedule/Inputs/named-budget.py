"""Orders a step with the budget that fsdp-schedule-step names where it refuses one: its arena keeps to it."""
import re
import subprocess
import sys


def schedule(budget):
    pipeline = (f"builtin.module(fsdp.program(fsdp-plan-arena,fsdp-schedule-step{{cluster={sys.argv[2]} budget={budget}}},"
                f"fsdp-plan-arena,fsdp-verify-schedule{{budget={budget}}}))")
    return subprocess.run([sys.argv[3], sys.argv[1], f"--pass-pipeline={pipeline}", "-o", "/dev/null"],
                          capture_output=True, text=True)


refused = schedule(1)
named = re.search(r"expected a budget of at least (\d+) bytes, got 1$", refused.stderr, re.MULTILINE)
assert named, refused.stderr
done = schedule(named[1])
assert done.returncode == 0, done.stderr
