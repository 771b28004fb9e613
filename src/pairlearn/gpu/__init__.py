# SPDX-License-Identifier: BSD-3-Clause
"""Train many models on many sample paths at once, on a GPU (the extra `torch`).

Like `pairlearn.kernels`, it has functions of arrays (here tensors) that know nothing of losses,
pairings or schedules. It is imported only when a device is requested.
"""
