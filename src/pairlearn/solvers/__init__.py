# SPDX-License-Identifier: BSD-3-Clause
"""Solvers: the loops that run a problem with a pairing, a schedule, a domain and an average."""
