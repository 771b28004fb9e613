# SPDX-License-Identifier: BSD-3-Clause
"""Machine code and nothing else: deterministic functions of arrays, compiled by numba.

A kernel draws no random numbers, allocates nothing, raises nothing and prints nothing. It returns a
status that Python turns into a message. Kernels share pieces freely, so editing any file here
recompiles all kernels.

- `_native`: compilation, the cache on disk, and calling losses by address; `arguments`:
  argument tuples that several kernels take.
- `plan`, `reservoirs` with `splitmix`: which examples are paired.
- `steps`: the steps of solvers; `pieces` holds what they share. `dense`, `short_rows`, `sparse`:
  one pair a step; `buffers`, `sparse_buffers`: a buffer a step; `sweep`:
  many models; `anchored`: other steps; `saddle`, `moments`: the square loss by its
  moments; `mahalanobis` with `eigenpair`: metric learning.
- `neighbors`: nearest examples by label; `risk`: all pairs at once; `concordance`: pairs in time.
- `scales`, `running_scales`: units of features; `hashes`: what rows hold; `order`: the order of
  labels in a stream.
- `closed_form`: sums and covariances for the closed form.
- `progressive_auc`: the AUC of a window; `parsing`: text and columns to numbers.
"""

from pairlearn.lazy import without_collections

with without_collections():
    import numba  # noqa: F401
