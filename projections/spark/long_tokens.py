"""The tokens of keys that are one long, made from the keys where they are already at hand.

A value brought from the JVM costs as much as a value read, hashed and all; a token made again from its key here, a
tenth of that. It is the token of `row_hashes.py` to the bit: the upper half of xxhash64 over 'T', the mask that says
which parts of the key are NULL (none), and the key, each hashed with the hash before it for its seed, as Spark does.
"""

import numpy as np
from numpy.typing import NDArray

from topolog.events.token_range import RING_BITS

Words = NDArray[np.uint64]

_SEED = 42
_PRIME_1, _PRIME_2, _PRIME_3, _PRIME_4, _PRIME_5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
_BELOW = np.uint64(64 - RING_BITS)

_CHUNK_ROWS = 1 << 16
"""What is worked on then stays in the processor's cache."""


def tokens(keys: NDArray[np.int64], is_null: NDArray[np.bool_]) -> NDArray[np.uint32]:
    """Of each key; where it is NULL, its number is not looked at."""
    made = np.empty(len(keys), np.uint32)
    seed = _of_byte(ord("T"), _SEED)
    not_null, null = _of_long(np.zeros(1, np.uint64), seed), _of_long(np.ones(1, np.uint64), seed)
    for start in range(0, len(keys), _CHUNK_ROWS):
        words = keys[start : start + _CHUNK_ROWS].view(np.uint64)
        made[start : start + _CHUNK_ROWS] = _of_long(words, not_null) >> _BELOW
    made[is_null] = null >> _BELOW
    return made


def _of_byte(byte: int, seed: int) -> Words:
    hashed = np.array([seed + 1], np.uint64) + _PRIME_5
    return _mixed(_rotated(hashed ^ (np.array([byte], np.uint64) * _PRIME_5), 11) * _PRIME_1)


def _of_long(words: Words, seed: Words) -> Words:
    hashed = (seed + _PRIME_5 + np.uint64(8)) ^ (_rotated(words * _PRIME_2, 31) * _PRIME_1)
    return _mixed(_rotated(hashed, 27) * _PRIME_1 + _PRIME_4)


def _mixed(words: Words) -> Words:
    words = (words ^ (words >> np.uint64(33))) * _PRIME_2
    words = (words ^ (words >> np.uint64(29))) * _PRIME_3
    mixed: Words = words ^ (words >> np.uint64(32))
    return mixed


def _rotated(words: Words, by: int) -> Words:
    rotated: Words = (words << np.uint64(by)) | (words >> np.uint64(64 - by))
    return rotated
