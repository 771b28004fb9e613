# SPDX-License-Identifier: BSD-3-Clause
"""Machine code and nothing else: deterministic functions of arrays, compiled by numba.

A kernel draws no random numbers, allocates nothing (it could not), raises nothing and prints
nothing; it returns a status that Python turns into a message. Kernels share pieces freely: an edit
of any file here makes the machine code of all of them anew.

- `_native`: how code is compiled and kept on disk, losses by address; `pieces` and `arguments`:
  what kernels have in common.
- `plan`, `reservoirs` with `splitmix`: who meets whom.
- `dense` and `short_rows`, `sparse`: one pair a step; `buffers`, `sparse_buffers`,
  `passive_aggressive`: a buffer a step; `sweep`: many models; `anchored`, `accelerated`: other
  steps; `saddle`, `moments`: the square loss by its moments.
- `mahalanobis` with `eigenpair`, `neighbors`: metric learning; `risk`: all pairs at once.
- `scales`, `running_scales`: units of features; `order`: how labels follow each other.
- `progressive_auc`: the AUC of a window; `parsing`: text and columns to numbers.
"""
