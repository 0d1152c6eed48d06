"""Which deletes apply to which data files: the scope rules of the specification, over columns.

- A deletion vector applies to the file it names, if that file is not newer (data sequence <= the vector's).
- A position delete file applies to the file it names, or to all files of its partition, if they are not newer, and
  only where no vector applies: a vector holds all earlier positions of its file.
- An equality delete file applies to older files (data sequence < its own) of its partition, or of all partitions when
  its spec is unpartitioned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import MalformedMetadata
from frazil.iceberg import manifest_schema as ids
from frazil.iceberg.data_file import PUFFIN, Content
from frazil.iceberg.entries import Entries, Mask
from frazil.iceberg.equality_overlap import FieldLookup, may_hit
from frazil.model.schema import DELETE_FILE_PATH

Ints = npt.NDArray[np.int64]
Pairs = tuple[Ints, Ints]
"""Rows of data files and of delete files, side by side."""


@dataclass(frozen=True)
class Applied:
    """For each data file, the numbers of the delete files that apply: `numbers[offsets[i]:offsets[i + 1]]`."""

    offsets: Ints
    numbers: Ints

    def of(self, row: int) -> Ints:
        found: Ints = self.numbers[self.offsets[row] : self.offsets[row + 1]]
        return found

    def take(self, rows: Ints) -> Applied:
        """Those of some of the data files."""
        counts = np.diff(self.offsets)[rows]
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        numbers = [self.of(int(row)) for row in rows[counts > 0]]
        return Applied(offsets, np.concatenate(numbers) if numbers else np.zeros(0, dtype=np.int64))


class DeleteIndex:
    """All live delete files of a snapshot. `numbers` count through `parts`, one after the other."""

    def __init__(self, parts: Sequence[Entries], fields: FieldLookup = lambda _: None) -> None:
        self._fields = fields
        self.parts = [part for part in parts if len(part)]
        self.starts = np.concatenate([[0], np.cumsum([len(part) for part in self.parts])]).astype(np.int64)
        self._targets = [target_paths(part) for part in self.parts]

    def __len__(self) -> int:
        return int(self.starts[-1])

    @property
    def has_equality_deletes(self) -> bool:
        return any((part.numpy(ids.CONTENT) == Content.EQUALITY_DELETES).any() for part in self.parts)

    def apply_to(self, data: Entries) -> Applied:
        """The deletes of every file of `data`."""
        if not self.parts or not len(data):
            return Applied(np.zeros(len(data) + 1, dtype=np.int64), np.zeros(0, dtype=np.int64))
        vectors: list[Pairs] = []
        positions: list[Pairs] = []
        others: list[Pairs] = []
        for part, start, targets in zip(self.parts, self.starts, self._targets, strict=False):
            content = part.numpy(ids.CONTENT)
            vector = is_vector(part)
            named = targets.is_valid().to_numpy(zero_copy_only=False)
            rows, deletes = self._by_path(data, part, targets, named)
            for found, mask in ((vectors, vector[deletes]), (positions, ~vector[deletes])):
                found.append((rows[mask], deletes[mask] + start))
            scoped = (content == Content.POSITION_DELETES) & ~named
            positions.extend((r, d + start) for r, d in _by_partition(data, part, scoped, strictly_older=False))
            equality = content == Content.EQUALITY_DELETES
            if part.spec.is_unpartitioned:
                chosen = np.flatnonzero(equality)
                pairs = [_by_sequence(data, part, np.arange(len(data)), chosen, strictly_older=True)]
            else:
                pairs = list(_by_partition(data, part, equality, strictly_older=True))
            for files, deletes in pairs:
                hit = may_hit(data, files, part, deletes, self._fields)
                others.append((files[hit], deletes[hit] + start))
        rows, numbers = _joined(vectors)
        _check_one_vector(data, rows)
        has_vector = np.zeros(len(data), dtype=bool)
        has_vector[rows] = True
        position_rows, position_numbers = _joined(positions)
        uncovered = ~has_vector[position_rows]
        other_rows, other_numbers = _joined(others)
        all_rows = np.concatenate([rows, position_rows[uncovered], other_rows])
        all_numbers = np.concatenate([numbers, position_numbers[uncovered], other_numbers])
        order = np.lexsort((all_numbers, all_rows))
        counts = np.bincount(all_rows, minlength=len(data))
        return Applied(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), all_numbers[order])

    def _by_path(self, data: Entries, part: Entries, targets: pa.Array, named: Mask) -> Pairs:
        deletes = np.flatnonzero(named)
        if not len(deletes):
            return deletes, deletes
        found = pc.index_in(targets.take(pa.array(deletes)), value_set=data.column(ids.FILE_PATH))
        hit = found.is_valid().to_numpy(zero_copy_only=False)
        deletes, rows = deletes[hit], pc.fill_null(found, 0).to_numpy()[hit].astype(np.int64)
        in_time = data.numpy(ids.SEQUENCE_NUMBER)[rows] <= part.numpy(ids.SEQUENCE_NUMBER)[deletes]
        deletes, rows = deletes[in_time], rows[in_time]
        _check_partitions(data, part, rows, deletes)
        return rows, deletes


def is_vector(part: Entries) -> Mask:
    """True where an entry is a deletion vector."""
    lowered = pc.utf8_lower(part.column(ids.FILE_FORMAT))
    puffin: Mask = pc.equal(lowered, PUFFIN).to_numpy(zero_copy_only=False)
    result: Mask = puffin & (part.numpy(ids.CONTENT) == Content.POSITION_DELETES)
    return result


def target_paths(part: Entries) -> pa.Array:
    """The one data file that position deletes name, null where they may name several.

    Before `referenced_data_file` existed, equal bounds of the path column said the same.
    """
    lower = part.map_values(ids.LOWER_BOUNDS, DELETE_FILE_PATH.id)
    upper = part.map_values(ids.UPPER_BOUNDS, DELETE_FILE_PATH.id)
    same = pc.fill_null(pc.equal(lower, upper), False)
    try:
        by_bounds = pc.if_else(same, lower, pa.scalar(None, lower.type)).cast(pa.string())
    except pa.ArrowInvalid as error:
        raise MalformedMetadata(
            f"bounds of the paths in a position delete file are no text: {error}", hint="the manifest is damaged"
        ) from error
    named = pc.coalesce(part.column(ids.REFERENCED_DATA_FILE), by_bounds)
    is_position = pa.array(part.numpy(ids.CONTENT) == Content.POSITION_DELETES)
    return pc.if_else(is_position, named, pa.scalar(None, pa.string()))


def may_name(part: Entries, paths: Iterable[str]) -> Mask:
    """Where deletes may be about one of these data files: equality deletes, and positions whose range of paths has one.

    A path is in a range by the order of bounds, that of UTF-8.
    """
    wanted = np.array(sorted(path.encode() for path in paths), dtype=object)
    named = part.column(ids.REFERENCED_DATA_FILE).cast(pa.binary())
    lower = pc.coalesce(named, part.map_values(ids.LOWER_BOUNDS, DELETE_FILE_PATH.id))
    upper = pc.coalesce(named, part.map_values(ids.UPPER_BOUNDS, DELETE_FILE_PATH.id))
    known = pc.and_(lower.is_valid(), upper.is_valid()).to_numpy(zero_copy_only=False)
    first = np.searchsorted(wanted, pc.fill_null(lower, b"").to_numpy(zero_copy_only=False), "left")
    last = np.searchsorted(wanted, pc.fill_null(upper, b"").to_numpy(zero_copy_only=False), "right")
    mask: Mask = (first < last) | ~known | (part.numpy(ids.CONTENT) == Content.EQUALITY_DELETES)
    return mask


def _check_partitions(data: Entries, part: Entries, rows: Ints, deletes: Ints) -> None:
    """A delete that names a file of another partition would be silently lost by other readers: refuse it."""
    if not len(rows):
        return
    wrong = np.zeros(len(rows), dtype=bool)
    if data.spec.spec_id != part.spec.spec_id:
        wrong[:] = True
    for left, right in zip(data.partition_columns(), part.partition_columns(), strict=False):
        mine, theirs = comparable(left.take(pa.array(rows))), comparable(right.take(pa.array(deletes)))
        both_null = pc.and_(mine.is_null(), theirs.is_null())
        equal = pc.or_(pc.fill_null(pc.equal(mine, theirs), False), both_null)
        wrong |= ~equal.to_numpy(zero_copy_only=False)
    if wrong.any():
        path = data.column(ids.FILE_PATH)[int(rows[np.flatnonzero(wrong)[0]])].as_py()
        raise MalformedMetadata(
            f"a delete of {path} is stored under another partition than the file itself",
            hint="the writer of the delete file is at fault; rewrite the deletes of this table",
        )


def _check_one_vector(data: Entries, rows: Ints) -> None:
    if len(np.unique(rows)) != len(rows):
        values, counts = np.unique(rows, return_counts=True)
        path = data.column(ids.FILE_PATH)[int(values[counts > 1][0])].as_py()
        raise MalformedMetadata(
            f"data file {path} has two live deletion vectors",
            hint="a writer added a vector without removing the earlier one; roll back to the snapshot before",
        )


def _by_partition(data: Entries, part: Entries, chosen: Mask, *, strictly_older: bool) -> Iterator[Pairs]:
    deletes = np.flatnonzero(chosen)
    if not len(deletes) or data.spec.spec_id != part.spec.spec_id:
        return
    mine, theirs = partition_codes(data, part)
    order = np.argsort(mine, kind="stable")
    grouped = mine[order]
    for code in np.unique(theirs[deletes]):
        first, last = np.searchsorted(grouped, code, "left"), np.searchsorted(grouped, code, "right")
        if first < last:
            members = deletes[theirs[deletes] == code]
            yield _by_sequence(data, part, order[first:last], members, strictly_older=strictly_older)


def _by_sequence(data: Entries, part: Entries, rows: Ints, deletes: Ints, *, strictly_older: bool) -> Pairs:
    """All pairs of a file and a delete that is new enough for it."""
    sequences = part.numpy(ids.SEQUENCE_NUMBER)[deletes]
    order = np.argsort(sequences, kind="stable")
    deletes, sequences = deletes[order], sequences[order]
    mine = data.numpy(ids.SEQUENCE_NUMBER)[rows]
    starts = np.searchsorted(sequences, mine, side="right" if strictly_older else "left")
    counts = len(deletes) - starts
    total = int(counts.sum())
    within = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(rows, counts), deletes[np.repeat(starts, counts) + within]


def _joined(pairs: Sequence[Pairs]) -> Pairs:
    if not pairs:
        nothing = np.zeros(0, dtype=np.int64)
        return nothing, nothing
    return np.concatenate([rows for rows, _ in pairs]), np.concatenate([numbers for _, numbers in pairs])


def partition_codes(left: Entries, right: Entries) -> Pairs:
    """A number per entry, equal where the partitions of two sets of entries of one spec are equal."""
    codes = np.zeros(len(left) + len(right), dtype=np.int64)
    for mine, theirs in zip(left.partition_columns(), right.partition_columns(), strict=True):
        values = pa.concat_arrays([comparable(mine), comparable(theirs)])
        if pa.types.is_null(values.type):
            continue
        encoded = values.dictionary_encode(null_encoding="encode")
        part = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        # renumber after each field, so that the product of cardinalities never overflows
        _, codes = np.unique(codes * (int(part.max(initial=0)) + 1) + part, return_inverse=True)
    return codes[: len(left)], codes[len(left) :]


def comparable(values: pa.Array) -> pa.Array:
    """Values whose equality is the specification's: floats by their bits, all NaNs alike; uuids by their bytes."""
    if isinstance(values, pa.ExtensionArray):
        return values.storage
    if not pa.types.is_floating(values.type):
        return values
    width: type[np.floating] = np.float32 if pa.types.is_float32(values.type) else np.float64
    numbers = np.array(pc.fill_null(values, 0.0).to_numpy(zero_copy_only=False), dtype=width)
    numbers[np.isnan(numbers)] = np.nan
    bits = numbers.view(np.int32 if width is np.float32 else np.int64)
    return pa.array(bits, mask=values.is_null().to_numpy(zero_copy_only=False))
