"""Deleted positions of the files of a plan, as the blobs that Spark's tasks apply."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from frazil.errors import MalformedMetadata
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.delete_reader import DeleteReader
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.planning import PlannedFiles, ScanPlan
from frazil.io.store import Store

_READERS = 8


def deleted_rows(
    metadata: TableMetadata, store: Store, plan: ScanPlan, parts: Sequence[PlannedFiles]
) -> Iterator[bytes | None]:
    """For each planned file a deletion-vector-v1 blob of its deleted positions, None if it has all its rows.

    A deletion vector goes as it is stored; the positions of delete files become one.
    """
    reader = DeleteReader(store, metadata)

    def blob(work: tuple[DataFile, list[DataFile]]) -> bytes | None:
        file, deletes = work
        if len(deletes) == 1 and deletes[0].is_deletion_vector:
            return _stored(store, deletes[0])
        vector = reader.positions(file, deletes)
        return None if vector is None or not vector.cardinality else vector.to_blob()

    with ThreadPoolExecutor(_READERS, thread_name_prefix="frazil-deletes") as pool:
        for part in parts:
            numbers = [part.deletes.of(row) for row in range(len(part.entries))]
            if not any(len(found) for found in numbers):
                yield from [None] * len(numbers)
                continue
            work = [
                (file, [plan.delete_files[number] for number in found])
                for file, found in zip(part.entries.iter_files(), numbers, strict=True)
            ]
            yield from pool.map(lambda item: blob(item) if item[1] else None, work)


def _stored(store: Store, vector: DataFile) -> bytes:
    if vector.content_offset is None or vector.content_size_in_bytes is None:
        raise MalformedMetadata(
            f"deletion vector in {vector.file_path} has no offset and size", hint="the manifest entry is damaged"
        )
    return store.read_range(vector.file_path, vector.content_offset, vector.content_size_in_bytes)
