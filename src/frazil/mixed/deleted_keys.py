"""Keys that change files delete, each with the latest moment it was deleted at.

A moment is a pair of a transaction and an offset in it. A row is gone if its key was deleted at a later moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.iceberg.delete_index import comparable

Ints = npt.NDArray[np.int64]
_BITS = range(10, 23)
"""How large a table of the hashes of keys may be; so large that of other keys one in sixteen is in it."""
_SPREAD = np.uint64(0x9E37_79B9_7F4A_7C15)
_NEVER = -1


class DeletedKeys:
    """Deleted keys, to look rows up in. Null equals null, and floats are compared as Java's keys are: by their bits."""

    def __init__(self, columns: Sequence[pa.Array], transactions: Ints, offsets: Ints) -> None:
        self._lookup: _Lookup = _Numbers() if len(columns) == 1 and _is_number(columns[0].type) else _Values()
        # what is in the order of its moments, as files mostly are, costs almost nothing to sort
        by_moment = np.lexsort((offsets, transactions))
        codes, count = self._lookup.build([comparable(column) for column in columns])
        latest = np.zeros(count, dtype=np.int64)
        latest[codes[by_moment]] = by_moment  # the last one that is assigned stays
        self._transactions = transactions[latest]
        self._offsets = offsets[latest]

    @property
    def is_cheap(self) -> bool:
        """Whether a lookup costs no more than its rows; else many rows should be looked up together."""
        return isinstance(self._lookup, _Numbers)

    def __len__(self) -> int:
        return len(self._transactions)

    def kept(self, columns: Sequence[pa.Array], transaction: int, offsets: Ints | int) -> npt.NDArray[np.bool_]:
        """True where a row is not deleted after the moment it was written at."""
        rows, codes = self._lookup.find([comparable(column) for column in columns])
        deleted_in, deleted_at = self._transactions[codes], self._offsets[codes]
        written_at = offsets if isinstance(offsets, int) else offsets[rows]
        gone = (deleted_in > transaction) | ((deleted_in == transaction) & (deleted_at > written_at))
        kept = np.ones(len(columns[0]), dtype=bool)
        kept[rows[gone]] = False
        return kept


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_temporal(kind) or pa.types.is_floating(kind))


class _Lookup(Protocol):
    """Numbers keys from 0, and finds the rows that have one of them."""

    def build(self, columns: Sequence[pa.Array]) -> tuple[Ints, int]:
        """The number of each key, and how many there are."""

    def find(self, columns: Sequence[pa.Array]) -> tuple[Ints, Ints]:
        """The rows that have one of the keys, and which."""


class _Numbers:
    """Keys of one number: found by a table of hashes first, which most rows do not pass."""

    def build(self, columns: Sequence[pa.Array]) -> tuple[Ints, int]:
        values, nulls = _longs(columns[0])
        order = np.argsort(values, kind="stable")
        ordered = values[order]
        is_new = np.ones(len(ordered), dtype=bool)
        is_new[1:] = ordered[1:] != ordered[:-1]
        codes = np.zeros(len(ordered), dtype=np.int64)
        codes[order] = np.cumsum(is_new) - 1
        self._keys = ordered[is_new]
        bits = min(max(len(self._keys).bit_length() + 4, _BITS[0]), _BITS[-1])
        self._shift = np.uint64(64 - bits)
        self._table = np.zeros(1 << bits, dtype=bool)
        self._table[self._hashes(self._keys)] = True
        self._null = len(self._keys) if nulls.any() else _NEVER
        codes[nulls] = self._null
        return codes, len(self._keys) + (1 if nulls.any() else 0)

    def _hashes(self, values: Ints) -> npt.NDArray[np.uint64]:
        """Keys of one node have bits in common: they are spread before some are taken."""
        return (values.view(np.uint64) * _SPREAD) >> self._shift

    def find(self, columns: Sequence[pa.Array]) -> tuple[Ints, Ints]:
        values, nulls = _longs(columns[0])
        rows = np.flatnonzero(self._table[self._hashes(values)])
        if len(self._keys):
            found = np.minimum(np.searchsorted(self._keys, values[rows]), len(self._keys) - 1)
            hit = (self._keys[found] == values[rows]) & ~nulls[rows]
            rows, codes = rows[hit], found[hit]
        else:
            rows = codes = np.zeros(0, dtype=np.int64)
        if self._null != _NEVER and nulls.any():
            more = np.flatnonzero(nulls)
            rows, codes = np.concatenate([rows, more]), np.concatenate([codes, np.full(len(more), self._null)])
        return rows, codes


def _longs(column: pa.Array) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Values as 64 bit numbers, and where they are null."""
    width = {32: pa.int32(), 64: pa.int64()}.get(column.type.bit_width)
    plain = column if width is None or pa.types.is_integer(column.type) else column.view(width)
    if not plain.null_count:
        return plain.to_numpy().astype(np.int64, copy=False), np.zeros(len(plain), dtype=bool)
    nulls: npt.NDArray[np.bool_] = plain.is_null().to_numpy(zero_copy_only=False)
    filled = pc.fill_null(plain, 0)
    return filled.to_numpy(zero_copy_only=False).astype(np.int64, copy=False), nulls


class _Values:
    """Keys of any types and number: each column's values are numbered, then the pairs of numbers."""

    def build(self, columns: Sequence[pa.Array]) -> tuple[Ints, int]:
        self._distinct = [pc.unique(column) for column in columns]
        self._pairs: list[Ints] = []
        codes = np.zeros(len(columns[0]), dtype=np.int64)
        for column, distinct in zip(columns, self._distinct, strict=True):
            inner = pc.index_in(column, value_set=distinct).to_numpy(zero_copy_only=False)
            combined = codes * len(distinct) + inner
            # renumber: products of cardinalities must not overflow
            pairs, codes = np.unique(combined, return_inverse=True)
            self._pairs.append(pairs)
        return codes.astype(np.int64), len(self._pairs[-1])

    def find(self, columns: Sequence[pa.Array]) -> tuple[Ints, Ints]:
        rows = np.arange(len(columns[0]))
        codes = np.zeros(len(rows), dtype=np.int64)
        for column, distinct, pairs in zip(columns, self._distinct, self._pairs, strict=True):
            chosen = column if len(rows) == len(column) else column.take(pa.array(rows))
            chosen = chosen.cast(distinct.type) if chosen.type != distinct.type else chosen
            inner = pc.index_in(chosen, value_set=distinct)
            present = inner.is_valid().to_numpy(zero_copy_only=False)
            numbers = pc.fill_null(inner, 0).to_numpy(zero_copy_only=False)
            combined = codes * len(distinct) + numbers
            found = np.minimum(np.searchsorted(pairs, combined), len(pairs) - 1)
            present &= pairs[found] == combined
            rows, codes = rows[present], found[present]
        return rows, codes
