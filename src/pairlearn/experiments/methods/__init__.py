# SPDX-License-Identifier: BSD-3-Clause
"""What a comparison compares: methods that tune themselves and fit, by name in `table`."""
