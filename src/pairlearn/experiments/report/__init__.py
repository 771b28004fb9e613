# SPDX-License-Identifier: BSD-3-Clause
"""One self-contained page: tables, figures, environment, commands."""
