"""Which of some ten million hashes of 64 bits are not as often on both sides: found by sorting (differences.py)."""

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

_FILTER_BITS = range(16, 27)
_FILTER_SPARSENESS_BITS = 6


def unbalanced(left: Words, right: Words) -> Words:
    """The values that are not as often on the one side as on the other, each once. All three are sorted."""
    both = np.concatenate((left, right))
    both.sort(kind="stable")  # two runs that are sorted are merged
    starts = np.flatnonzero(np.concatenate(([True], both[1:] != both[:-1]))) if both.size else np.empty(0, np.int64)
    often = np.diff(starts, append=both.size)
    # A value that is there twice in all is once on each side, unless a side alone has it twice.
    repeated = [side[1:][side[1:] == side[:-1]] for side in (left, right)]
    suspects = np.unique(np.concatenate((both[starts[often != 2]], *repeated)))
    found: Words = suspects[_counts(left, suspects) != _counts(right, suspects)]
    return found


def places_of(values: Words, wanted: Words) -> NDArray[np.int64]:
    """The indices of those values that are among `wanted`, which is sorted.

    A table of bits says no for most of them: looking up each one would take as long as sorting them.
    """
    if not wanted.size:
        return np.empty(0, np.int64)
    bits = min(max(int(wanted.size).bit_length() + _FILTER_SPARSENESS_BITS, _FILTER_BITS[0]), _FILTER_BITS[-1])
    low = np.uint64((1 << bits) - 1)
    is_wanted = np.zeros(1 << bits, np.bool_)
    is_wanted[wanted & low] = True
    maybe = np.flatnonzero(is_wanted[values & low])
    found = np.minimum(np.searchsorted(wanted, values[maybe]), wanted.size - 1)
    places: NDArray[np.int64] = maybe[wanted[found] == values[maybe]]
    return places


def _counts(ordered: Words, values: Words) -> NDArray[np.int64]:
    return np.searchsorted(ordered, values, "right") - np.searchsorted(ordered, values, "left")
