# SPDX-License-Identifier: BSD-3-Clause
"""Small faults planted in the library, one at a time: ``python -m mutants --help``.

A constant, a sign or a comparison is changed, and the tests that reach it run. A mutant that no
test notices is a line that nothing holds in its place. Each survivor is killed by a new test, or
explained in ``explained.toml``: the change makes no difference, or only one of speed or of words.

Tools for this exist (mutmut, cosmic-ray). They run the tests in a new process for each mutant,
which costs this package seconds of imports, and they write the mutant to a file, where numba's
cache of machine code does not see a changed constant. Here one process imports all and collects
the tests once; each mutant is a fork of it, in which the functions get the changed code, and
kernels that contain it are compiled anew.
"""
