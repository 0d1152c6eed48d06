"""Whether manifests are as a rewrite would leave them: few, of a sensible size, each with partitions of its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.iceberg.manifest_list import ManifestFile
from frazil.model.types import StructType, Type, UuidType
from frazil.model.values import bounds_to_array

_FULL_ENOUGH = 0.75
"""Manifests that are so full on average are not too many: sizes are estimates, and must not be worked at for ever."""
_TOO_FULL = 2
_FEW = 8
_ENTRY_SHARE = 0.2
"""How much of a manifest with a few entries they take up, next to its schemas."""
Ranks = npt.NDArray[np.int64]


def is_tidy(members: Sequence[ManifestFile], type_: StructType, fields: Sequence[int], target: int) -> bool:
    """Whether manifests of one spec need no rewriting; `fields` are the positions of those to sort by."""
    if any(manifest.has_deleted_files for manifest in members):
        return False
    if any(manifest.manifest_length > _TOO_FULL * target and manifest.live_files > 1 for manifest in members):
        return False
    total = sum(manifest.manifest_length for manifest in members)
    if len(members) > max(1, -(-total // max(1, int(_FULL_ENOUGH * target)))):
        return False
    return len(members) == 1 or not fields or _apart(members, type_, fields)


def bytes_per_entry(members: Sequence[ManifestFile]) -> float:
    """About what one entry takes in a manifest, apart from what every manifest has."""
    small, large = (pick(members, key=_entries) for pick in (min, max))
    if _entries(large) > _entries(small):
        grown = large.manifest_length - small.manifest_length
        return max(1.0, grown / (_entries(large) - _entries(small)))
    share = _ENTRY_SHARE if _entries(large) <= _FEW else 1.0
    return max(1.0, share * large.manifest_length / max(1, _entries(large)))


def _entries(manifest: ManifestFile) -> int:
    return manifest.live_files + (manifest.deleted_files_count or 0)


def _apart(members: Sequence[ManifestFile], type_: StructType, fields: Sequence[int]) -> bool:
    """Whether the ranges of partitions do not overlap: one ends where the next begins, or before."""
    ranges = [_ranges(members, type_, field) for field in fields]
    order = np.lexsort([ranks for pair in reversed(ranges) for ranks in reversed(pair)])
    undecided = np.ones(len(members) - 1, dtype=bool)
    for lower, upper in ranges:
        low, high = lower[order], upper[order]
        if (undecided & (high[:-1] > low[1:])).any():
            return False
        # where both have one and the same value, the next field decides
        undecided &= (low[:-1] == high[1:]) & (low[:-1] == high[:-1]) & (low[1:] == high[1:])
    return True


def _ranges(members: Sequence[ManifestFile], type_: StructType, field: int) -> tuple[Ranks, Ranks]:
    """The least and greatest value of a partition field in each manifest, as ranks: values, then NaN, then null."""
    column = type_.fields[field]
    summaries = [None if one.partitions is None else one.partitions[field] for one in members]
    ends = [None if one is None else one.lower_bound for one in summaries]
    ends += [None if one is None else one.upper_bound for one in summaries]
    bounds = _sortable(column.type, pa.array(ends, pa.binary()))
    values = pc.unique(bounds.drop_null())
    nan, null = len(values), len(values) + 1
    places = pc.index_in(bounds, value_set=values.take(pc.sort_indices(values)))
    ranks = pc.fill_null(places, null).to_numpy().astype(np.int64)
    lower, upper = ranks[: len(members)].copy(), ranks[len(members) :].copy()
    for index, summary in enumerate(summaries):
        if summary is None:
            lower[index], upper[index] = 0, null  # anything may be in it
            continue
        if summary.contains_nan:
            lower[index], upper[index] = min(lower[index], nan), nan
        if summary.contains_null:
            upper[index] = null
    return lower, upper


def _sortable(type_: Type, bounds: pa.Array) -> pa.Array:
    """Bounds as values in the order that a rewrite sorts by."""
    if isinstance(type_, UuidType):
        return bounds
    values = bounds_to_array(type_, bounds)
    if pa.types.is_boolean(values.type):
        return values.cast(pa.int8())
    return values.cast(pa.binary()) if pa.types.is_fixed_size_binary(values.type) else values
