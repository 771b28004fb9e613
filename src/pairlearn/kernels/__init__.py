# SPDX-License-Identifier: BSD-3-Clause
"""Machine code and nothing else: deterministic functions of arrays, compiled by numba.

A kernel draws no random numbers, allocates nothing inside its step loop, raises nothing and prints
nothing; it returns a status that Python turns into a message.
"""
