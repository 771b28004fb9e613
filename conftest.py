# SPDX-License-Identifier: BSD-3-Clause
"""What is collected: code and pages that need the extra torch only where it is installed."""

import importlib.util

collect_ignore_glob = (
    [] if importlib.util.find_spec("torch") else ["src/pairlearn/torch/*", "docs/guide/torch.md"]
)
