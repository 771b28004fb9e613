# SPDX-License-Identifier: BSD-3-Clause
"""The code in the pages is run as tests; what the build writes, and its settings, is not."""

import importlib.util

collect_ignore = ["conf.py", *([] if importlib.util.find_spec("torch") else ["guide/torch.md"])]
collect_ignore_glob = [
    *("_build/*", "_extensions/*", "_templates/*", "api/*", "auto_examples/*"),
    # To collect a program is to run it; `tests/docs/test_site.py` draws the figures.
    "figures/*",
]
