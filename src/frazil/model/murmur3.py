"""32-bit Murmur3 (x86, seed 0), one value or a whole column at a time (Appendix B of the specification).

>>> hash_bytes(b"iceberg")
1210000089
>>> [int(number) for number in hash_longs(np.array([34]))]
[2017239379]
"""

from __future__ import annotations

from typing import Any

import mmh3
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_C1, _C2 = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)
_LONG = 512
"""Byte strings longer than this are hashed one by one: numpy gains nothing from a few long ones."""


def hash_bytes(data: bytes) -> int:
    """The signed hash of one byte string."""
    return int(mmh3.hash(data, 0, signed=True))


def hash_longs(values: Array) -> Array:
    """The hashes (int32) of 64-bit integers, each as 8 bytes, little-endian."""
    words = values.astype("<i8").view("<u4").reshape(-1, 2)
    state = np.zeros(len(words), np.uint32)
    for column in (0, 1):
        state = _mix(state, words[:, column])
    return _finish(state, np.uint32(8))


def hash_slices(data: Array, starts: Array, lengths: Array) -> Array:
    """The hashes (int32) of byte strings that lie in `data` from `starts` on, each with its length."""
    result = np.zeros(len(starts), np.int32)
    lengths = lengths.astype(np.int64)
    for row in np.flatnonzero(lengths > _LONG):
        result[row] = hash_bytes(data[starts[row] : starts[row] + lengths[row]].tobytes())
    short = np.flatnonzero(lengths <= _LONG)
    # longest first, so that the rows that still have a block are always the first ones
    if len(short) and lengths[short].min() != lengths[short].max():
        short = short[np.argsort((_LONG - lengths[short]).astype(np.uint16), kind="stable")]  # 16 bits: a radix sort
    result[short] = _hash_descending(data, starts[short], lengths[short])
    return result


def _hash_descending(data: Array, starts: Array, lengths: Array) -> Array:
    if len(starts) == 0:
        return np.zeros(0, np.int32)
    padded = np.concatenate([data, np.zeros(4, np.uint8)])
    # every 4 bytes that begin at any byte, without copying them
    words = np.lib.stride_tricks.as_strided(padded[:4].view("<u4"), shape=(len(data) + 1,), strides=(1,))
    state = np.zeros(len(starts), np.uint32)
    blocks = lengths // 4
    fewer_first = blocks[::-1]
    for block in range(int(blocks[0])):
        active = len(blocks) - int(np.searchsorted(fewer_first, block, side="right"))  # rows that have this block
        state[:active] = _mix(state[:active], words[starts[:active] + 4 * block])
    rest = (lengths % 4).astype(np.uint32)
    has_tail = np.flatnonzero(rest)
    tail = words[(starts + 4 * blocks)[has_tail]]
    tail &= (np.uint32(1) << (rest[has_tail] * np.uint32(8))) - np.uint32(1)
    state[has_tail] ^= _scramble(tail)
    return _finish(state, lengths.astype(np.uint32))


def _scramble(word: Array) -> Array:
    word = word * _C1
    word = (word << np.uint32(15)) | (word >> np.uint32(17))
    return word * _C2


def _mix(state: Array, word: Array) -> Array:
    state = state ^ _scramble(word)
    state = (state << np.uint32(13)) | (state >> np.uint32(19))
    return state * np.uint32(5) + np.uint32(0xE6546B64)


def _finish(state: Array, length: Any) -> Array:
    state = state ^ length
    state ^= state >> np.uint32(16)
    state *= np.uint32(0x85EBCA6B)
    state ^= state >> np.uint32(13)
    state *= np.uint32(0xC2B2AE35)
    state ^= state >> np.uint32(16)
    return state.view(np.int32)
