"""Lower and upper bounds as manifests store them, as arrays that are safe to prune with."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.model.types import Type, UuidType
from frazil.model.values import bounds_to_array


def stored_bounds(type_: Type, lower: pa.Array, upper: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Typed bounds from their bytes; null where nothing is known."""
    if isinstance(type_, UuidType):
        return _uuid_bounds(lower, upper)
    return bounds_to_array(type_, lower), bounds_to_array(type_, upper)


def _uuid_bounds(lower: pa.Array, upper: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Java orders uuids as two signed halves, others as bytes: keep only what holds in both orders.

    The first halves alone decide, and where they come in the wrong order the writer's order was the signed one, so
    that the bounds enclose nothing in the order of bytes.
    """
    low, low_known = _halves(lower)
    high, high_known = _halves(upper)
    known = low_known & high_known & (low <= high)
    return _uuids(low, 0, known), _uuids(high, 0xFFFF_FFFF_FFFF_FFFF, known)


def _halves(values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    known = pc.fill_null(pc.equal(pc.binary_length(values), 16), False).to_numpy(zero_copy_only=False)
    fixed = pc.if_else(pa.array(known), values, pa.scalar(bytes(16))).cast(pa.binary()).cast(pa.binary(16))
    raw = np.frombuffer(fixed.buffers()[1], dtype=">u8", count=2 * len(fixed), offset=fixed.offset * 16)
    return raw[::2].astype(np.uint64), known


def _uuids(first: np.ndarray, second: int, known: np.ndarray) -> pa.Array:
    words = np.empty((len(first), 2), dtype=">u8")
    words[:, 0], words[:, 1] = first, second
    fixed = pa.Array.from_buffers(pa.binary(16), len(first), [None, pa.py_buffer(words.tobytes())])
    return pc.if_else(pa.array(known), fixed, pa.scalar(None, pa.binary(16)))
