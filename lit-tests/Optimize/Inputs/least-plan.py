"""least-plan.py OPT STEP CLUSTER OPTIONS OUTPUT: plans STEP for a byte, which is refused, and then for the least budget that
the error names, with OPTIONS of fsdp-plan-step; remarks go to the standard error. Fails unless a byte less is refused."""
import re, subprocess, sys

opt, step, cluster, options, output = sys.argv[1:]


def plan(budget, *more):
    pipeline = f"builtin.module(fsdp.program(fsdp-plan-arena,fsdp-plan-step{{cluster={cluster} budget={budget} {options}}}))"
    return subprocess.run([opt, step, f"--pass-pipeline={pipeline}", "-o", output, *more], capture_output=True, text=True)


def least(budget):
    done = plan(budget)
    if not done.returncode:
        sys.exit(f"expected a budget of {budget} to be refused")
    return int(re.search(r"expected a budget of at least (\d+) bytes, got " + str(budget), done.stderr)[1])


enough = least(1)
if least(enough - 1) != enough:
    sys.exit(f"expected {enough - 1} to be refused with {enough}")
done = plan(enough, "--remarks-filter=.*")
print(done.stderr, end="", file=sys.stderr)
sys.exit(done.returncode)
