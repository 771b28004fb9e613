# SPDX-License-Identifier: BSD-3-Clause
"""Names for the types of arrays."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Numbers in double precision, of any shape.
Vector = NDArray[np.float64]
#: One truth value for each example.
Mask = NDArray[np.bool_]
#: Indices into an array.
Places = NDArray[np.intp]
#: Labels as the user gave them, of any type.
Labels = NDArray[Any]
