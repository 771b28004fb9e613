# SPDX-License-Identifier: BSD-3-Clause
"""Many models on many sample paths at once, on a graphics processor (the extra `torch`).

As `pairlearn.kernels`: functions of arrays, here of tensors, that know no parts. Nothing imports
this package before a device is asked for.
"""
