# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""HolisticTraceAnalysis on what fsdp-plan and an executable write. FSDP_BIN holds the tools, FSDP_FIXTURES the models;
FSDP_PYTHON is a python with HolisticTraceAnalysis."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PYTHON = os.environ.get("FSDP_PYTHON") or sys.executable
BIN = pathlib.Path(os.environ["FSDP_BIN"])
MODEL = pathlib.Path(os.environ["FSDP_FIXTURES"]) / "gpt2"
ANALYSIS = """
import json, sys
from hta.trace_analysis import TraceAnalysis
trace = TraceAnalysis(trace_dir=sys.argv[1])
kinds, kernels = trace.get_gpu_kernel_breakdown(visualize=False)
overlap = trace.get_comm_comp_overlap(visualize=False)
busy = trace.get_temporal_breakdown(visualize=False)
print(json.dumps({"kinds": dict(zip(kinds["kernel_type"], kinds["sum"].astype(float))),
                  "kernels": sorted(set(kernels["name"])),
                  "overlap": overlap["comp_comm_overlap_pctg"].tolist(),
                  "ranks": busy["rank"].tolist(), "idle": busy["idle_time_pctg"].tolist()}))
"""


def setUpModule():
    if subprocess.run([PYTHON, "-c", "import hta.trace_analysis"], capture_output=True).returncode:
        raise unittest.SkipTest(f"SKIPPED: {PYTHON} has no HolisticTraceAnalysis; FSDP_PYTHON names another python")


def run(*command):
    return subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True).stdout


def analyze(folder):
    return json.loads(run(PYTHON, "-W", "ignore", "-c", ANALYSIS, folder).splitlines()[-1])


class HtaTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_simulation(self):
        traces = self.folder / "traces"
        traces.mkdir()
        plan = json.loads(run(BIN / "fsdp-plan", MODEL / "model.mlir", "--mesh", "shard=64", "--cluster",
                              "a100-40g-sxm-efa",
                              "--timeline", traces / "rank-0.json", "--json"))
        found = analyze(traces)
        order = plan["orders"][-1]
        # The time during which at least one runs.
        busy = end = 0
        for c in sorted(order["collectives"], key=lambda c: c["begin_ms"]):
            busy += max(0, c["end_ms"] - max(c["begin_ms"], end))
            end = max(end, c["end_ms"])
        exposed = sum(c["exposed_ms"] for c in order["collectives"])
        # HTA counts in whole microseconds.
        rounding = len(order["collectives"])
        communication = sum(us for kind, us in found["kinds"].items() if "COMMUNICATION" in kind)
        self.assertAlmostEqual(communication, 1e3 * busy, delta=rounding)
        alone = found["kinds"]["COMMUNICATION"]
        self.assertAlmostEqual(alone, 1e3 * exposed, delta=rounding)
        self.assertAlmostEqual(found["overlap"][0], 100 * (1 - alone / communication), delta=1)
        self.assertIn("ncclDevKernel_AllGather", found["kernels"])

    def test_run(self):
        program, traces = self.folder / "program", self.folder / "traces"
        run(BIN / "fsdp-compile", MODEL / "model.mlir", "--optimizer-file", MODEL / "optimizer.mlir", "--mesh", "shard=2",
            "--cluster", "cpu-2core", "-o", program)
        run(program, "-n", 2, "--params", MODEL / "params.safetensors", "--data", MODEL / "batches.safetensors", "--steps",
            3, "--trace", traces)
        found = analyze(traces)
        self.assertEqual(found["ranks"], [0, 1])
        self.assertGreater(found["kinds"]["COMMUNICATION"], 0)
        self.assertGreater(found["kinds"]["COMPUTATION"], 0)
        self.assertLess(max(found["idle"]), 100)
        self.assertIn("ncclDevKernel_ReduceScatter_Sum", found["kernels"])


if __name__ == "__main__":
    unittest.main()
