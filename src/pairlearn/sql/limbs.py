# SPDX-License-Identifier: BSD-3-Clause
r"""How whole numbers are cut so that a database sums their products exactly.

A number k is cut into limbs, k = sum_p k_p 2^(L p), each at most 2^(L - 1) in size. Then

    sum w k k' = sum_{r, s} 2^(M r + L s) sum_rows w_r sum_{p + q = s} k_p k'_q,

and every sum over rows on the right stays below the largest number of the database.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limbs:
    """The number and the bits of limbs of values and of weights.

    Parameters
    ----------
    n, bits : int
        Limbs of a value, and bits of each; one limb is the number itself.
    n_weight, weight_bits : int
        The same of a weight.

    Examples
    --------
    >>> Limbs.planned(1000, 1 << 44, 1, largest=1 << 63)
    Limbs(n=2, bits=23, n_weight=1, weight_bits=0)
    >>> Limbs.planned(1000, 1 << 44, 1, largest=1 << 127)
    Limbs(n=1, bits=0, n_weight=1, weight_bits=0)
    """

    n: int = 1
    bits: int = 0
    n_weight: int = 1
    weight_bits: int = 0

    @classmethod
    def planned(cls, n_rows: int, size: int, weight: int, largest: int | None) -> Limbs | None:
        """Return the fewest limbs whose sums stay below `largest`; None if there are none.

        `size` and `weight` are the largest value and weight, in quanta.
        """
        if largest is None:
            return cls()
        best: tuple[int, Limbs] | None = None
        for n_weight, weight_bits, heavy in _cuts(weight):
            for n, bits, long in _cuts(size):
                if n_rows * heavy * long * long * n < largest:
                    cost = n_weight * (2 * n - 1)
                    if best is None or cost < best[0]:
                        best = cost, cls(n, bits, n_weight, weight_bits)
                    # Shorter limbs are more limbs.
                    break
        return None if best is None else best[1]


def _cuts(size: int) -> list[tuple[int, int, int]]:
    """Return ways to cut numbers up to a size: limbs, their bits, and the size of the largest."""
    found = [(1, 0, size)]
    for n in range(2, 12):
        # The fewest bits at which n limbs hold the number: the last one takes what is left.
        bits = next((b for b in range(2, 60) if (size >> (b * (n - 1))) + 1 <= 1 << (b - 1)), None)
        if bits is not None:
            found.append((n, bits, 1 << (bits - 1)))
    return found
