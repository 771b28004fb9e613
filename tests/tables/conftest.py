# SPDX-License-Identifier: BSD-3-Clause
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
