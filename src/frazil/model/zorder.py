"""Rows along a curve through several columns: rows that are near each other in all of them come together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import InvalidArgument
from frazil.model.transform_arrays import sortable

_BITS = 63


def curve_indices(columns: Sequence[pa.Array | pa.ChunkedArray]) -> pa.Array:
    """The positions of rows in the order of the Z-curve, by the ranks of their values; nulls come first.

    >>> curve_indices([pa.array([0, 1, 0, 1]), pa.array([1, 0, 0, 1])]).to_pylist()
    [2, 0, 1, 3]
    """
    if not columns:
        raise InvalidArgument("a curve through no columns", hint="name one or more")
    bits = _BITS // len(columns)
    keys = np.zeros(len(columns[0]), dtype=np.int64)
    ranks = [_ranks(column, bits) for column in columns]
    for bit in range(bits):
        for place, values in enumerate(ranks):
            keys |= ((values >> bit) & 1) << (bit * len(columns) + len(columns) - 1 - place)
    return pa.array(np.argsort(keys, kind="stable"))


def _ranks(column: pa.Array | pa.ChunkedArray, bits: int) -> npt.NDArray[np.int64]:
    """Which place each value has among all, spread over so many bits."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    encoded = sortable(whole).dictionary_encode()
    ranks = np.zeros(len(encoded.dictionary) + 1, dtype=np.int64)
    ranks[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(1, len(ranks))
    places = ranks[pc.fill_null(encoded.indices, len(ranks) - 1).to_numpy(zero_copy_only=False)]
    scale = (2 ** min(bits, 40) - 1) / max(len(ranks) - 1, 1)
    spread: npt.NDArray[np.int64] = (places * scale).astype(np.int64)
    return spread
