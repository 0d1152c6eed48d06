"""Snapshot summaries: what a commit added and removed, and the totals after it, under Iceberg's keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow.compute as pc

from frazil.iceberg import manifest_schema as ids
from frazil.iceberg.data_file import PUFFIN, Content
from frazil.iceberg.entries import Entries

Partitions = dict[tuple[int, tuple[Any, ...]], tuple[Entries, dict[str, int]]]
"""By a spec's id and a tuple of values: entries of that spec, and counts."""

_TOTALS = (
    ("total-data-files", "added-data-files", "deleted-data-files"),
    ("total-delete-files", "added-delete-files", "removed-delete-files"),
    ("total-records", "added-records", "deleted-records"),
    ("total-files-size", "added-files-size", "removed-files-size"),
    ("total-position-deletes", "added-position-deletes", "removed-position-deletes"),
    ("total-equality-deletes", "added-equality-deletes", "removed-equality-deletes"),
)


def change_summary(added: Iterable[Entries], removed: Iterable[Entries], limit: int = 0) -> dict[str, str]:
    """Counts of what a commit adds and removes; keys whose count is zero are left out, as other writers do.

    With `limit`, a commit that touches at most so many partitions also tells what it did in each.
    """
    counts: dict[str, int] = {}
    partitions: Partitions = {}
    for entries in added:
        _count(entries, counts, partitions, limit, adding=True)
    for entries in removed:
        _count(entries, counts, partitions, limit, adding=False)
    result = {key: str(value) for key, value in counts.items() if value}
    if counts:
        result["changed-partition-count"] = str(len(partitions))
    if 0 < len(partitions) <= limit:
        result["partition-summaries-included"] = "true"
        for (_, values), (entries, inner) in partitions.items():
            path = entries.spec.path_of([column.type for column in entries.partition_type.fields], values)
            told = ",".join(f"{key}={value}" for key, value in sorted(inner.items()) if value)
            result[f"partitions.{path}"] = told
    return result


def _count(entries: Entries, counts: dict[str, int], partitions: Partitions, limit: int, *, adding: bool) -> None:
    if not len(entries):
        return
    _count_kinds(entries, counts, adding=adding)
    tuples = entries.partition_tuples()
    numbers = {values: number for number, values in enumerate(dict.fromkeys(tuples))}
    spec_id = entries.spec.spec_id
    for values in numbers:
        partitions.setdefault((spec_id, values), (entries, {}))
    if len(partitions) > limit:  # none is told then: that they are there is enough
        return
    owners = np.fromiter((numbers[values] for values in tuples), np.int64, len(tuples))
    for values, number in numbers.items():
        _, inner = partitions[spec_id, values]
        _count_kinds(entries.filter(owners == number), inner, adding=adding)


def _count_kinds(entries: Entries, counts: dict[str, int], *, adding: bool) -> None:
    content = entries.numpy(ids.CONTENT)
    records = entries.numpy(ids.RECORD_COUNT)
    sizes = entries.numpy(ids.FILE_SIZE)
    offsets = entries.column(ids.CONTENT_SIZE)
    lowered = pc.utf8_lower(entries.column(ids.FILE_FORMAT))
    vector = pc.equal(lowered, PUFFIN).to_numpy(zero_copy_only=False) & (content == Content.POSITION_DELETES)
    # vectors of one Puffin file each count with their own bytes
    own = pc.fill_null(offsets, 0).to_numpy(zero_copy_only=False)
    sizes = np.where(vector, own, sizes)
    data, position, equality = (content == kind for kind in Content)

    def tally(key: str, amount: int) -> None:
        counts[key] = counts.get(key, 0) + int(amount)

    verb, past = ("added", "added") if adding else ("removed", "deleted")
    tally(f"{past}-data-files", data.sum())
    tally(f"{past}-records", records[data].sum())
    tally(f"{verb}-files-size", sizes.sum())
    tally(f"{verb}-delete-files", (~data).sum())
    tally(f"{verb}-position-delete-files", (position & ~vector).sum())
    tally(f"{verb}-dvs", vector.sum())
    tally(f"{verb}-equality-delete-files", equality.sum())
    tally(f"{verb}-position-deletes", records[position].sum())
    tally(f"{verb}-equality-deletes", records[equality].sum())


def with_totals(summary: Mapping[str, str], previous: Mapping[str, str] | None) -> dict[str, str]:
    """Add the totals: those of the snapshot before, plus and minus. Unknown there is unknown here."""
    result = dict(summary)
    for total, added, removed in _TOTALS:
        before = "0" if previous is None else previous.get(total)
        if before is None or not before.isdigit():
            continue
        value = int(before) + int(summary.get(added, "0")) - int(summary.get(removed, "0"))
        if value >= 0:
            result[total] = str(value)
    return result
