# SPDX-License-Identifier: BSD-3-Clause
"""Print the lowest version of each dependency that pyproject.toml allows, as pip's constraints."""

import re
import tomllib
from itertools import chain
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
for entry in sorted({*project["dependencies"], *chain(*project["optional-dependencies"].values())}):
    if entry.startswith("pairlearn["):
        continue
    found = re.fullmatch(r"([\w-]+)>=([\d.]+)(,<[\d.]+)?", entry)
    if found is None:
        raise SystemExit(
            f"{entry!r} in pyproject.toml has no lowest version; write it as name>=version"
        )
    print(f"{found[1]}=={found[2]}")
