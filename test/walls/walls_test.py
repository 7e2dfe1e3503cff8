#!/usr/bin/env python3
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""That walls.py finds what it is there to find: each breach, put into a tree
that keeps every rule, is reported once, with its place."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from walls import check

PASS = "#define GEN_PASS_DEF_{}\n"
CLEAN = {
    "lib/Dialect/FSDP/IR/FSDPDialect.cpp":
        '#include "fsdp/Dialect/FSDP/IR/FSDP.h"\n#include "Verification.h"\n',
    "lib/ABI/Descriptors.cpp":
        '#include "fsdp/ABI/Descriptors.h"\n#include "fsdp-rt/abi.def"\n',
    "include/fsdp/ABI/Transfers.h": '#include "fsdp-rt/transfers.def"\n',
    "lib/Cost/CostModel.cpp": '#include "fsdp/Cost/CostModel.h"\n',
    "lib/Schedule/Timeline.cpp": '#include "fsdp/Cost/CostModel.h"\n',
    "lib/Arena/StepArena.cpp":
        '#include "fsdp/Schedule/Timeline.h"\n#include "MoveValues.h"\n',
    "lib/Planning/StepFit.cpp":
        '#include "fsdp/Arena/StepArena.h"\n#include "llvm/ADT/ArrayRef.h"\n',
    "include/fsdp/Planning/StepFit.h": '#include "fsdp/Schedule/Timeline.h"\n',
    "lib/Analysis/Contract/InputContract.cpp": '#include "Initialiser.h"\n',
    "lib/Analysis/Step/StepExtraction.cpp":
        '#include "fsdp/Schedule/StepProgram.h"\n',
    "lib/Analysis/Attention/Attention.cpp":
        '#include "fsdp/Analysis/Kernels/StepGraph.h"\n',
    "lib/Analysis/Kernels/StepGraph.cpp":
        '#include "fsdp/Analysis/Kernels/StepGraph.h"\n',
    "passes/Partition/AssignUnits.cpp":
        PASS.format("ASSIGNUNITS") + '#include "mlir/Dialect/Tensor/X.h"\n',
    "passes/Kernels/Common/FormKernels.cpp": PASS.format("FORMKERNELS"),
    "passes/Lower/PlanArena.cpp":
        PASS.format("PLANARENA") + '#include "fsdp-rt/abi.h"\n',
    "passes/Verify/VerifyInput.cpp": PASS.format("VERIFYINPUT"),
    "passes/Pipelines.cpp": '#include "mlir/Conversion/Passes.h"\n',
    "tools/lib/Tool/OutputFile.cpp": '#include "fsdp/Tool/OutputFile.h"\n',
    "tools/lib/Target/Linker.cpp":
        '#include "fsdp/Target/Linker.h"\n#include "fsdp/Tool/OutputFile.h"\n',
    "tools/lib/Plan/Report/PlanText.cpp": '#include "fsdp/Planning/StepFit.h"\n',
    "tools/lib/Driver/Compiler.cpp": '#include "fsdp/Plan/Report/PlanReport.h"\n',
    "tools/lib/Plan/Planner.cpp":
        '#include "fsdp/Driver/Frontend.h"\n#include "StepSource.h"\n',
    "runtime/core/Arena.cpp": '#include "core/Arena.h"\n#include <vector>\n',
    "runtime/channels/mpi/MpiBackend.cpp": "#include <mpi.h>\n",
    "runtime/devices/cpu/CpuDevice.cpp": '#include "hal/Device.h"\n',
    "runtime/program/Executor.cpp": '#include "hal/Device.h"\n',
    "runtime/hal/Recording.cpp": '#include "hal/CallRules.h"\n',
    "runtime/data/Initialize.cpp": '#include "hal/Memory.h"\n',
    "runtime/main/Rank.cpp": '#include "registry/Registry.h"\n',
    "runtime/channels/local/LocalBackend.cpp": '#include "control/Backend.h"\n',
    "include/fsdp-rt/abi.h": "#include <stdint.h>\n",
    "tools/fsdp-opt/fsdp-opt.cpp": '#include "fsdp/Passes/Pipelines.h"\n',
    "tools/fsdp-run/FsdpRun.cpp": '#include "fsdp-rt/fsdp-rt.h"\n',
    "tools/fsdp-emulator/ptx/Lexer.cpp": '#include "ptx/Lexer.h"\n',
    "tools/fsdp-emulator/driver/Device.cpp":
        '#include "execution/DeviceMemory.h"\n',
    "tools/fsdp-emulator/libraries/nccl/Mesh.cpp": '#include "Mesh.h"\n',
    "tools/fsdp-emulator/tests/HeaderTest.cpp": "#include <cuda.h>\n",
    "test/Passes/AnyTest.cpp": '#include "core/Arena.h"\n',
}

# File, text that is added to it, what the report says.
BREACHES = [
    ("lib/Dialect/FSDP/IR/FSDPDialect.cpp",
     '#include "fsdp/Analysis/Kernels/StepGraph.h"\n',
     "got fsdp/Analysis/Kernels/StepGraph.h"),
    ("lib/Dialect/FSDP/IR/FSDPDialect.cpp", '#include "mlir/Pass/Pass.h"\n',
     "no mlir/Pass/Pass.h"),
    ("lib/ABI/Descriptors.cpp", '#include "fsdp/Dialect/FSDP/IR/FSDP.h"\n',
     "got fsdp/Dialect/FSDP/IR/FSDP.h"),
    ("lib/ABI/Descriptors.cpp",
     '#include "mlir/Dialect/LLVMIR/LLVMDialect.h"\n', "no mlir/Dialect/LLVMIR"),
    ("include/fsdp/ABI/Transfers.h", '#include "mlir/IR/Types.h"\n',
     "no mlir/IR/Types.h"),
    ("include/fsdp/ABI/Transfers.h", '#include "fsdp/ABI/Dtype.h"\n',
     "got fsdp/ABI/Dtype.h"),
    ("lib/Cost/CostModel.cpp", '#include "fsdp/ABI/Dtype.h"\n',
     "got fsdp/ABI/Dtype.h"),
    ("lib/Cost/CostModel.cpp", '#include "fsdp/Schedule/Timeline.h"\n',
     "got fsdp/Schedule/Timeline.h"),
    ("lib/Cost/CostModel.cpp", '#include "mlir/IR/Operation.h"\n',
     "no mlir/IR/Operation.h"),
    ("lib/Schedule/Timeline.cpp", '#include "fsdp/Arena/StepArena.h"\n',
     "got fsdp/Arena/StepArena.h"),
    ("lib/Schedule/Timeline.cpp", '#include "fsdp/Dialect/FSDP/IR/FSDP.h"\n',
     "got fsdp/Dialect/FSDP/IR/FSDP.h"),
    ("lib/Arena/StepArena.cpp", '#include "fsdp/Planning/StepFit.h"\n',
     "got fsdp/Planning/StepFit.h"),
    ("lib/Arena/StepArena.cpp", '#include "mlir/Support/LLVM.h"\n',
     "no mlir/Support/LLVM.h"),
    ("lib/Planning/StepFit.cpp",
     '#include "fsdp/Analysis/Kernels/StepGraph.h"\n',
     "got fsdp/Analysis/Kernels/StepGraph.h"),
    ("lib/Planning/StepFit.cpp", '#include "llvm/IR/Module.h"\n',
     "no llvm/IR/Module.h"),
    ("include/fsdp/Planning/StepFit.h",
     '#include "mlir/Dialect/Func/IR/FuncOps.h"\n',
     "no mlir/Dialect/Func/IR/FuncOps.h"),
    ("lib/Analysis/Contract/InputContract.cpp",
     '#include "fsdp/Analysis/Step/StepStructure.h"\n',
     "got fsdp/Analysis/Step/StepStructure.h"),
    ("lib/Analysis/Contract/InputContract.cpp",
     '#include "fsdp/Schedule/StepProgram.h"\n',
     "got fsdp/Schedule/StepProgram.h"),
    ("lib/Analysis/Step/StepExtraction.cpp",
     '#include "fsdp/Analysis/Kernels/StepGraph.h"\n',
     "got fsdp/Analysis/Kernels/StepGraph.h"),
    ("lib/Analysis/Step/StepExtraction.cpp",
     '#include "fsdp/Planning/StepFit.h"\n', "got fsdp/Planning/StepFit.h"),
    ("lib/Analysis/Kernels/StepGraph.cpp",
     '#include "fsdp/Analysis/Attention/Attention.h"\n',
     "got fsdp/Analysis/Attention/Attention.h"),
    ("lib/Analysis/Kernels/StepGraph.cpp",
     '#include "fsdp/Analysis/Step/KernelCosts.h"\n',
     "no fsdp/Analysis/Step/KernelCosts.h"),
    ("lib/Analysis/Attention/Attention.cpp",
     '#include "fsdp/Cost/CostModel.h"\n', "no fsdp/Cost/CostModel.h"),
    ("lib/Analysis/Attention/Attention.cpp",
     '#include "mlir/Pass/Pass.h"\n', "no mlir/Pass/Pass.h"),
    ("lib/Analysis/Kernels/StepGraph.cpp", '#include "fsdp/Passes/Passes.h"\n',
     "got fsdp/Passes/Passes.h"),
    ("lib/Analysis/Kernels/StepGraph.cpp",
     "void f(Operation *op) { op->erase(); }\n",
     "got '->erase()'"),
    ("lib/Analysis/Kernels/StepGraph.cpp", "OpBuilder builder(op);\n",
     "got 'OpBuilder'"),
    ("lib/Analysis/Kernels/StepGraph.cpp", "op->replaceUsesOfWith(from, to);\n",
     "got '->replaceUsesOfWith('"),
    ("lib/Analysis/Kernels/StepGraph.cpp",
     '#include "llvm/Support/CommandLine.h"\n',
     "no llvm/Support/CommandLine.h"),
    ("passes/Partition/AssignUnits.cpp",
     '#include "mlir/Dialect/LLVMIR/LLVMDialect.h"\n', "no mlir/Dialect/LLVMIR"),
    ("passes/Partition/AssignUnits.cpp", "auto call = LLVM::CallOp();\n",
     "got 'LLVM::'"),
    ("passes/Partition/AssignUnits.cpp",
     '#include "fsdp/Analysis/Kernels/StepGraph.h"\n',
     "got fsdp/Analysis/Kernels/StepGraph.h"),
    ("passes/Partition/AssignUnits.cpp", '#include "core/Arena.h"\n',
     "got core/Arena.h"),
    ("passes/Kernels/Common/FormKernels.cpp", '#include "fsdp/Cost/CostModel.h"\n',
     "no fsdp/Cost/CostModel.h"),
    ("passes/Kernels/Common/FormKernels.cpp",
     '#include "fsdp/Analysis/Step/KernelCosts.h"\n',
     "no fsdp/Analysis/Step/KernelCosts.h"),
    ("passes/Kernels/Common/FormKernels.cpp", '#include "fsdp/Arena/StepArena.h"\n',
     "got fsdp/Arena/StepArena.h"),
    ("passes/Kernels/Common/FormKernels.cpp", "isa<AllGatherOp>(op);\n",
     "got 'AllGatherOp'"),
    ("passes/Kernels/Common/FormKernels.cpp", "isa<AllToAllOp>(op);\n",
     "got 'AllToAllOp'"),
    ("passes/Lower/PlanArena.cpp", '#include "fsdp/Cost/CostModel.h"\n',
     "no fsdp/Cost/CostModel.h"),
    ("passes/Lower/PlanArena.cpp", '#include "fsdp-rt/fsdp-rt.h"\n',
     "got fsdp-rt/fsdp-rt.h"),
    ("passes/Lower/PlanArena.cpp", '#include "fsdp-rt/abi.def"\n',
     "got fsdp-rt/abi.def"),
    ("passes/Lower/PlanArena.cpp", '#include "fsdp/Target/Manifest.h"\n',
     "got fsdp/Target/Manifest.h"),
    ("passes/Verify/VerifyInput.cpp", "IRRewriter rewriter(context);\n",
     "got 'IRRewriter'"),
    ("passes/Verify/VerifyInput.cpp", 'op->setAttr("x", y);\n',
     "got '->setAttr('"),
    ("passes/Verify/VerifyInput.cpp", PASS.format("VERIFYOTHER"),
     "expected one pass in a file, got 2"),
    ("tools/lib/Tool/OutputFile.cpp", '#include "fsdp/Driver/Frontend.h"\n',
     "got fsdp/Driver/Frontend.h"),
    ("tools/lib/Target/Linker.cpp", '#include "fsdp/Driver/Frontend.h"\n',
     "got fsdp/Driver/Frontend.h"),
    ("tools/lib/Target/Linker.cpp", '#include "fsdp/Planning/StepFit.h"\n',
     "got fsdp/Planning/StepFit.h"),
    ("tools/lib/Target/Linker.cpp", '#include "fsdp/Cost/CostModel.h"\n',
     "no fsdp/Cost/CostModel.h"),
    ("tools/lib/Plan/Report/PlanText.cpp", '#include "fsdp/Driver/Frontend.h"\n',
     "got fsdp/Driver/Frontend.h"),
    ("tools/lib/Plan/Report/PlanText.cpp", '#include "mlir/IR/BuiltinOps.h"\n',
     "no mlir/IR/BuiltinOps.h"),
    ("tools/lib/Driver/Compiler.cpp", '#include "fsdp/Plan/Planner.h"\n',
     "got fsdp/Plan/Planner.h"),
    ("tools/lib/Plan/Planner.cpp", '#include "fsdp/Target/CodeGen.h"\n',
     "got fsdp/Target/CodeGen.h"),
    ("tools/lib/Plan/Planner.cpp", '#include "mlir/Target/LLVMIR/Export.h"\n',
     "no mlir/Target/LLVMIR/Export.h"),
    ("runtime/core/Arena.cpp", '#include "llvm/ADT/StringRef.h"\n',
     "no llvm/ADT/StringRef.h"),
    ("runtime/core/Arena.cpp", "#include <mpi.h>\n", "no mpi.h"),
    ("runtime/core/Arena.cpp", "#include <cuda_runtime.h>\n",
     "no cuda_runtime.h"),
    ("runtime/core/Arena.cpp", '#include "channels/local/LocalBackend.h"\n',
     "got channels/local/LocalBackend.h"),
    ("runtime/core/Arena.cpp", 'void f() { throw 1; }\n', "got 'throw'"),
    ("runtime/data/Initialize.cpp",
     '#include "devices/cpu/CpuDevice.h"\n', "got devices/cpu/CpuDevice.h"),
    ("runtime/program/Executor.cpp",
     '#include "devices/cpu/CpuDevice.h"\n', "got devices/cpu/CpuDevice.h"),
    ("runtime/hal/Recording.cpp", '#include "program/Executor.h"\n',
     "got program/Executor.h"),
    ("runtime/main/Rank.cpp", '#include "channels/mpi/MpiBackend.h"\n',
     "got channels/mpi/MpiBackend.h"),
    ("runtime/devices/cpu/CpuDevice.cpp",
     '#include "channels/local/LocalBackend.h"\n',
     "got channels/local/LocalBackend.h"),
    ("runtime/channels/mpi/MpiBackend.cpp", "#include <nccl.h>\n",
     "no nccl.h"),
    ("runtime/channels/mpi/MpiBackend.cpp",
     '#include "channels/local/LocalBackend.h"\n',
     "got channels/local/LocalBackend.h"),
    ("runtime/channels/local/LocalBackend.cpp", "#include <mpi.h>\n",
     "no mpi.h"),
    ("include/fsdp-rt/abi.h", '#include "mlir-c/IR.h"\n', "no mlir-c/IR.h"),
    ("tools/fsdp-opt/fsdp-opt.cpp", '#include "core/Arena.h"\n',
     "no core/Arena.h"),
    ("tools/fsdp-emulator/ptx/Lexer.cpp", '#include "execution/Kernel.h"\n',
     "got execution/Kernel.h"),
    ("tools/fsdp-emulator/driver/Device.cpp", "#include <cuda.h>\n",
     "no cuda.h"),
    ("tools/fsdp-emulator/libraries/nccl/Mesh.cpp",
     '#include "core/NarrowFloat.h"\n', "got core/NarrowFloat.h"),
    ("tools/fsdp-run/FsdpRun.cpp", '#include "fsdp/Passes/Passes.h"\n',
     "no fsdp/Passes/Passes.h"),
    ("tools/fsdp-opt/fsdp-opt.cpp", "\n" * 801, "at most 800 lines, got 802"),
    ("test/Passes/AnyTest.cpp", "\n" * 800, "at most 800 lines, got 801"),
]


class Walls(unittest.TestCase):

    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.root = Path(self.temporary.name)
        for name, text in CLEAN.items():
            self.write(name, text)

    def tearDown(self):
        self.temporary.cleanup()

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def test_clean(self):
        self.assertEqual(check(self.root), [])

    def test_every_breach(self):
        for name, text, expected in BREACHES:
            with self.subTest(f"{name}: {text[:60]!r}"):
                self.write(name, CLEAN[name] + text)
                found = [b for b in check(self.root) if expected in b]
                self.assertEqual(len(found), 1, check(self.root))
                self.assertTrue(found[0].startswith(name + ":"), found)
                self.write(name, CLEAN[name])

    def test_comments_and_texts_are_no_code(self):
        self.write("lib/Analysis/Kernels/StepGraph.cpp",
                   '// An OpBuilder.\n/* op->erase()\n */ f("OpBuilder");\n')
        self.assertEqual(check(self.root), [])

    def test_pass_in_a_file_of_another_name(self):
        self.write("passes/Partition/Other.cpp", PASS.format("SOMETHING"))
        self.assertEqual(
            check(self.root),
            ["passes/Partition/Other.cpp:1: expected the file to be called "
             "like its pass, got Other and SOMETHING"])

    def test_long_passes(self):
        for name in ("A", "B", "C", "D", "E"):
            self.write(f"passes/Partition/{name}.cpp",
                       PASS.format(name) + "\n" * 250)
        self.assertEqual(check(self.root),
                         ["passes:1: expected a median of under 200 lines for "
                          "a pass, got 251"])

    def test_file_in_no_room(self):
        for name in ("lib/Utils/Utils.cpp", "lib/Analysis/Loose.cpp"):
            with self.subTest(name):
                self.write(name, "")
                self.assertEqual(check(self.root),
                                 [f"{name}:1: expected a file in one of the "
                                  "rooms, got one in none"])
                (self.root / name).unlink()

    def test_header_in_another_room_than_its_code(self):
        self.write("include/fsdp/Analysis/Step/StepFit.h", "")
        self.assertEqual(check(self.root),
                         ["include/fsdp/Analysis/Step/StepFit.h:1: expected "
                          "the file to lie as its implementation does, got "
                          "lib/Planning/StepFit.cpp"])

    def test_build_trees_and_fixtures_do_not_count(self):
        self.write("out/CMakeCache.txt", "")
        self.write("out/Any.cpp", "\n" * 900)
        self.write("test/fixtures/x.mlir", "\n" * 900)
        self.assertEqual(check(self.root), [])

    def test_command_line(self):
        script = Path(__file__).with_name("walls.py")
        command = [sys.executable, script, self.root]
        self.assertEqual(subprocess.run(command).returncode, 0)
        self.write("runtime/core/Arena.cpp", "#include <mpi.h>\n")
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("runtime/core/Arena.cpp:1: expected no mpi.h", done.stdout)
        with tempfile.TemporaryDirectory() as empty:
            done = subprocess.run([sys.executable, script, empty],
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 1)


if __name__ == "__main__":
    unittest.main()
