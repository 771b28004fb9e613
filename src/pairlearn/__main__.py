# SPDX-License-Identifier: BSD-3-Clause
"""``python -m pairlearn``, where the script is not on the path."""

from pairlearn.cli import main

if __name__ == "__main__":
    main()
