import os
import sys

import lit.formats
from lit.llvm import llvm_config

config.name = "fsdp-mlir"
config.test_format = lit.formats.ShTest(not llvm_config.use_lit_shell)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = config.fsdp_obj_root

config.substitutions.append(("%fixtures", os.path.join(config.fsdp_source_dir, "test", "fixtures")))
config.substitutions.append(("%hook_plugin", os.path.join(config.fsdp_lib_dir, "HookPlugin.so")))
config.substitutions.append(("%plugin", os.path.join(config.fsdp_lib_dir, "FSDPPlugin.so")))

config.substitutions.append(("%clusters", os.path.join(config.fsdp_source_dir, "lib", "Cost", "clusters")))
config.substitutions.append(("%benchmarks", os.path.join(config.fsdp_source_dir, "benchmarks")))
config.substitutions.append(("%bin", config.fsdp_bin_dir))
config.substitutions.append(("%python", sys.executable))

llvm_config.with_environment("PATH", config.llvm_tools_dir, append_path=True)
llvm_config.add_tool_substitutions(
    ["fsdp-opt", "fsdp-compile", "fsdp-lsp-server", "fsdp-plan", "fsdp-reduce",
     "mlir-opt", "mlir-translate", "FileCheck", "not", "split-file"],
    [config.fsdp_bin_dir, config.llvm_tools_dir],
)
