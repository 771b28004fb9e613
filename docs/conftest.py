# SPDX-License-Identifier: BSD-3-Clause
"""The code in the pages is run as tests; what the build writes, and its settings, is not."""

collect_ignore = ["conf.py"]
collect_ignore_glob = ["_build/*", "_extensions/*", "_templates/*", "api/*", "auto_examples/*"]
