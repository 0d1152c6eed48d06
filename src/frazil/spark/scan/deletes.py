"""The deletes of the files of a plan, as Spark's tasks apply them: blobs of positions, and sets of equality keys."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.errors import MalformedMetadata
from frazil.iceberg import manifest_schema as ids
from frazil.iceberg.data_file import Content, DataFile
from frazil.iceberg.delete_reader import DeleteReader
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.planning import PlannedFiles, ScanPlan
from frazil.io.deletion_vector import DeletionVector
from frazil.io.store import Store
from frazil.model.types import Type
from frazil.recent import Recent
from frazil.spark.scan.columns import pack, to_spark

_READERS = 8
_Key = tuple[Store, str, tuple[tuple[str, int | None], ...]]
_known: Recent[_Key, bytes] = Recent(64 << 20, len)
"""Blobs made of position delete files, by data file and delete files: none of them ever changes."""


def forget() -> None:
    """Forget what is remembered, as if no delete had been read."""
    _known.clear()


@dataclass(frozen=True)
class KeyColumn:
    """A column that equality deletes compare: its place among the relation's key columns, its type there."""

    place: int
    type: Type


def pack_deletes(
    metadata: TableMetadata,
    store: Store,
    plan: ScanPlan,
    parts: Sequence[PlannedFiles],
    keys: Mapping[int, KeyColumn],
    gone: Mapping[str, DeletionVector],
) -> bytes:
    """For each file its deleted positions, its sequence number and the numbers of its key sets; then the sets.

    `gone` are positions to leave out besides.
    """
    sets = _KeySets(metadata, store, plan, keys)
    numbers = [found for part in parts for found in sets.of_files(part)]
    sequences = [part.entries.numpy(ids.SEQUENCE_NUMBER) for part in parts]
    positions = deleted_rows(metadata, store, plan, parts, gone)
    return pack_applied(positions, np.concatenate([np.zeros(0, np.int64), *sequences]), numbers, sets.packed())


def pack_applied(
    positions: Iterable[bytes | None],
    sequences: npt.NDArray[np.int64],
    numbers: Iterable[bytes | None],
    sets: Iterable[bytes],
) -> bytes:
    """What is applied to each file: positions as a blob, a sequence number, numbers of key sets; then the sets.

    Each goes with a digest, by which the JVM knows the one it has already.
    """
    packed = list(sets)
    return b"".join(
        [
            pack(pa.array(list(positions), pa.binary())),
            pack(pa.array(sequences, pa.int64())),
            pack(pa.array(list(numbers), pa.binary())),
            len(packed).to_bytes(4, "little"),
            *(part for one in packed for part in (_digest(one), len(one).to_bytes(4, "little"), one)),
        ]
    )


def _digest(packed: bytes) -> bytes:
    return hashlib.sha256(packed).digest()[:16]


def pack_keys(columns: Sequence[tuple[KeyColumn, Sequence[pa.Array]]], sequences: npt.NDArray[np.int64]) -> bytes:
    """A set of keys: of each column its place and its values, in chunks; and the sequence number that each goes by."""
    chunks = [len(sequences).to_bytes(4, "little"), len(columns).to_bytes(4, "little")]
    for column, parts in columns:
        arrays = [to_spark(part, column.type) for part in parts if len(part)]
        joined = pa.concat_arrays(arrays) if arrays else pa.array([], pa.int64())
        chunks += [column.place.to_bytes(4, "little"), pack(joined)]
    return b"".join([*chunks, pack(pa.array(sequences, pa.int64()))])


def set_numbers(numbers: Iterable[int]) -> bytes | None:
    """The numbers of the sets that a file must be checked against."""
    found = np.array(sorted(numbers), "<i4")
    return found.tobytes() if len(found) else None


class _KeySets:
    """Equality deletes of one scope and the same columns are one set: a row goes by the newest that has its key."""

    def __init__(self, metadata: TableMetadata, store: Store, plan: ScanPlan, keys: Mapping[int, KeyColumn]) -> None:
        self._metadata, self._store, self._keys = metadata, store, keys
        self._deletes = plan.delete_files if keys else []
        self._numbers: dict[Any, int] = {}
        self._members: list[dict[int, DataFile]] = []

    def of_files(self, part: PlannedFiles) -> Iterator[bytes | None]:
        """The numbers of the sets that each file must be checked against, as little-endian integers."""
        equality = np.array([delete.content == Content.EQUALITY_DELETES for delete in self._deletes], dtype=bool)
        for row in range(len(part.entries)):
            found = part.deletes.of(row)
            mine = {self._set_of(int(number)) for number in (found[equality[found]] if len(equality) else ())}
            yield set_numbers(mine)

    def _set_of(self, number: int) -> int:
        delete = self._deletes[number]
        spec = self._metadata.spec(delete.spec_id)
        scope = None if spec.is_unpartitioned else (delete.spec_id, repr(delete.partition))
        key = (tuple(sorted(delete.equality_ids or ())), scope)
        place = self._numbers.setdefault(key, len(self._members))
        if place == len(self._members):
            self._members.append({})
        self._members[place][number] = delete
        return place

    def packed(self) -> Iterator[bytes]:
        """The sets."""
        reader = DeleteReader(self._store, self._metadata)
        return (self._pack(reader, list(members.values())) for members in self._members)

    def _pack(self, reader: DeleteReader, deletes: Sequence[DataFile]) -> bytes:
        loaded = [reader.keys([delete])[0] for delete in deletes]
        columns = [self._keys[number] for number in loaded[0].field_ids]
        counts = [len(keys.columns[0]) for keys in loaded]
        sequences = np.repeat([delete.data_sequence_number or 0 for delete in deletes], counts)
        parts = [[keys.columns[index] for keys in loaded] for index in range(len(columns))]
        return pack_keys(list(zip(columns, parts, strict=True)), sequences.astype(np.int64))


def deleted_rows(
    metadata: TableMetadata,
    store: Store,
    plan: ScanPlan,
    parts: Sequence[PlannedFiles],
    gone: Mapping[str, DeletionVector],
) -> Iterator[bytes | None]:
    """For each planned file a deletion-vector-v1 blob of its deleted positions, None if it has all its rows.

    A deletion vector goes as it is stored; the positions of delete files become one.
    """
    reader = DeleteReader(store, metadata)

    def blob(work: tuple[DataFile, list[DataFile]]) -> bytes | None:
        file, deletes = work
        deletes = [delete for delete in deletes if delete.content == Content.POSITION_DELETES]
        more = gone.get(file.file_path)
        if more is None and len(deletes) == 1 and deletes[0].is_deletion_vector:
            return _stored(store, deletes[0])
        key = (store, file.file_path, tuple(delete.key for delete in deletes))
        known = None if more is not None else _known.get(key)
        if known is not None:
            return known
        vector = reader.positions(file, deletes)
        if more is not None:
            vector = more if vector is None else vector.union(more)
        if vector is None or not vector.cardinality:
            return None
        made = vector.to_blob()
        if more is None:
            _known.put(key, made)
        return made

    with ThreadPoolExecutor(_READERS, thread_name_prefix="frazil-deletes") as pool:
        for part in parts:
            numbers = [part.deletes.of(row) for row in range(len(part.entries))]
            if not gone and not any(len(found) for found in numbers):
                yield from [None] * len(numbers)
                continue
            work = [
                (file, [plan.delete_files[number] for number in found])
                for file, found in zip(part.entries.iter_files(), numbers, strict=True)
            ]
            yield from pool.map(lambda item: blob(item) if item[1] or gone else None, work)


def _stored(store: Store, vector: DataFile) -> bytes:
    if vector.content_offset is None or vector.content_size_in_bytes is None:
        raise MalformedMetadata(
            f"deletion vector in {vector.file_path} has no offset and size", hint="the manifest entry is damaged"
        )
    return store.read_range(vector.file_path, vector.content_offset, vector.content_size_in_bytes)
