#===- __main__.py - python -m fsdp_export --------------------------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""The command, for where no script is installed."""

import sys

from .cli import main

sys.exit(main())
