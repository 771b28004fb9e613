# SPDX-License-Identifier: BSD-3-Clause
"""Running scales and a check of the order, for streams."""
