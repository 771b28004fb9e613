# SPDX-License-Identifier: BSD-3-Clause
"""Train many models on many sample paths at once, on a GPU (the extra `torch`).

As `pairlearn.kernels`: functions of arrays, here of tensors, that know no parts. The modules are
imported when a device is asked for.
"""

from __future__ import annotations

from pairlearn.lazy import door

__getattr__, __dir__, __all__ = door(
    __name__, {"device": "DEVICES DeviceError DeviceWarning find_device"}
)
