# SPDX-License-Identifier: BSD-3-Clause
"""More than two classes, ordered classes, several labels at once."""
