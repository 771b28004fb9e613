# SPDX-License-Identifier: BSD-3-Clause
"""What a stream needs besides a solver: running scales, and a watch on the order."""
