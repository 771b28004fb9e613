# SPDX-License-Identifier: BSD-3-Clause
"""How many steps a solver takes at once."""

#: The largest number of steps between two looks at callbacks and clocks.
BLOCK = 32768
