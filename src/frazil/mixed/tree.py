"""The data tree: every file of a keyed table lies at a node, by the hash of its rows' keys.

A node is a pair of a mask (2^k - 1) and an index, `hash & mask`. Its id is mask + 1 + index, so the root is 1, its two
sons are 2 and 3, and so on. A row of a node can only have its key in nodes above and below it.

>>> node_id(3, 2), node_of(6)
(6, (3, 2))
>>> related(2, 6), related(6, 2), related(3, 6)
(True, True, False)
>>> ancestor(6, 2), ancestor(6, 4), ancestor(6, 8)
(2, 6, 6)
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from frazil.errors import InvalidArgument

ROOT = 1
MAX_BUCKETS = 1 << 20
"""More would be more files than any table needs."""


def node_id(mask: int, index: int) -> int:
    """The id of a node."""
    return mask + 1 + index


def node_of(number: int) -> tuple[int, int]:
    """The mask and the index of a node."""
    mask = (1 << (number.bit_length() - 1)) - 1
    return mask, number - mask - 1


def related(left: int, right: int) -> bool:
    """Whether two nodes may hold rows of the same key: they are the same, or one is above the other."""
    (mask, index), (other_mask, other_index) = node_of(left), node_of(right)
    shared = min(mask, other_mask)
    return index & shared == other_index & shared


def ancestor(number: int, buckets: int) -> int:
    """The node at the depth of so many buckets that a node is below; a node that is not so deep is its own."""
    mask, index = node_of(number)
    most = buckets - 1
    return number if mask <= most else node_id(most, index & most)


def check_buckets(name: str, count: int) -> int:
    """A number of buckets, if it is one: nodes are found by a bit mask, which takes a power of two."""
    if not 1 <= count <= MAX_BUCKETS or count & (count - 1):
        raise InvalidArgument(
            f"{name} is {count}, not a power of two from 1 to {MAX_BUCKETS}", hint="use 1, 2, 4, 8 and so on"
        )
    return count


def nodes(hashes: npt.NDArray[np.int64], buckets: int) -> npt.NDArray[np.int64]:
    """The nodes of rows at the depth of so many buckets."""
    found: npt.NDArray[np.int64] = (hashes & (buckets - 1)) + buckets
    return found
