# SPDX-License-Identifier: BSD-3-Clause
"""The paper's tables and figures, computed again; by name in `targets`."""
