# SPDX-License-Identifier: BSD-3-Clause
"""The mutants live beside the package, not in it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
