"""check-roof.py PLAN.json CPU-PLAN.json PLAIN.json GRAPH.json: of a plan for CUDA devices, that of the same step for
processors, and the first on clusters without multiprocessors, of which the last has another graph_launch_us."""
import json
import sys

gpu, cpu, plain, graph = (json.load(open(path)) for path in sys.argv[1:])


def expect(what, message):
    if not what:
        sys.exit(f"expected {message}")


for kernel in gpu["kernels"]:
    if "roof_ms" in kernel:
        expect(kernel["lost_ms"] >= 0 and kernel["roof_ms"] <= kernel["ms"] * (1 + 1e-9), f"no kernel above the roof: {kernel}")
        expect(kernel["limit"] or kernel["lost_ms"] < 1e-3 * kernel["ms"], f"a reason of what is lost: {kernel}")
launched = [kernel for kernel in gpu["kernels"] if "launches" in kernel]
expect(len(launched) > 20, "launches of kernels with code for CUDA devices")
expect(any(len(kernel["launches"]) > 1 for kernel in launched), "a kernel of several functions")
expect({"launch"} < {kernel["limit"] for kernel in launched}, "several reasons")
expect(any(kernel["limit"] == "2 launches" for kernel in launched), "a kernel whose launches take longest")
expect(not any("matmul" in kernel["name"] for kernel in launched), "no launches of products")
expect(not any("launches" in kernel for kernel in cpu["kernels"]), "no launches of a plan without a target")


# Products are the same kernels whatever the target: they take what they took, in a graph.
def product(plan):
    return next(k["ms"] / k["calls"] for k in plan["kernels"] if "64 x 256 x 64" in k["kind"])


expect(abs(product(cpu) - product(gpu) - (0.002 - 0.0011)) < 1e-9, "graph_launch_us instead of launch_us")
# Without multiprocessors a call is one launch whatever it launches; 10 us each more.
calls = sum(kernel["calls"] for kernel in graph["kernels"])
more = sum(kernel["ms"] for kernel in graph["kernels"]) - sum(kernel["ms"] for kernel in plain["kernels"])
expect(abs(more - 0.010 * calls) < 1e-6, f"10 us more in each of {calls} calls, got {more}")
