# SPDX-License-Identifier: BSD-3-Clause
"""Machine code and nothing else: deterministic functions of arrays, compiled by numba.

A kernel draws no random numbers, allocates nothing, raises nothing and prints nothing. It returns a
status that Python turns into a message. Kernels share pieces freely, so editing any file here
recompiles all kernels.

- `_native`: compilation, the cache on disk, and calling losses by address.
- `steps`: begin with `dense`, in which Algorithm 1 can be read. `sparse`: the same on CSR rows;
  `every_step`: steps that move every coordinate (Algorithm 4, boxes, elastic nets); `buffers`: a
  buffer a step; `mahalanobis` with `eigenpair`: metric learning; `saddle`, `moments`: the square
  loss by its moments; `pieces`: what they share.
- `plan`, `reservoirs` with `splitmix`: which examples are paired.
- `risk`: all pairs at once; `concordance`: pairs in time.
- `scales`, `entropy`, `trees`, `clipped_sums`: loops over rows.
"""

from pairlearn.lazy import without_collections

with without_collections():
    import numba  # noqa: F401
