"""Position delete files of format version 2: pairs of a data file's path and a position, in this order.

Bounds of the path are whole, never cut: readers tell by them which data files are meant.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from frazil.iceberg.ahead import ahead
from frazil.iceberg.data_file import Content, DataFile, partition_key
from frazil.iceberg.delete_settings import DeleteSettings, NewDeleteFiles
from frazil.iceberg.write import as_data_file
from frazil.io.data_files import BATCH_ROWS, write_data_file
from frazil.io.deletion_vector import DeletionVector
from frazil.io.metrics import MetricsMode, MetricsModes
from frazil.io.store import Store
from frazil.model.arrow import schema_to_arrow
from frazil.model.schema import DELETE_FILE_PATH, DELETE_POS, Schema

POSITION_SCHEMA = Schema((DELETE_FILE_PATH, DELETE_POS))
_MODES = MetricsModes(dict.fromkeys(POSITION_SCHEMA.field_ids, MetricsMode(counts=True, bounds=True)))
_ROW_GROUPS = {"write.parquet.row-group-size-bytes": str(16 << 20)}
"""Unless told: many files are written at a time, and rows wait with their paths spelled out."""
_ARROW = schema_to_arrow(POSITION_SCHEMA)


Waiting = tuple[DataFile, int, bytes]
"""A data file, how many of its rows are deleted, and which."""


class PositionFiles:
    """Writes a file for each data file, or one for each partition when all positions are known.

    Until then those of a partition wait as compressed bitmaps.
    """

    def __init__(self, store: Store, places: NewDeleteFiles, settings: DeleteSettings) -> None:
        self._store = store
        self._places = places
        self._settings = settings

    def write(self, deletes: Iterable[tuple[DataFile, DeletionVector]]) -> list[DataFile]:
        """Write deleted positions of data files."""
        if self._settings.by_file:
            return list(ahead(lambda pair: self._write([pair[0]], [pair[1]]), deletes))
        partitions: dict[tuple[Any, ...], list[Waiting]] = {}
        for file, positions in deletes:
            key = (file.spec_id, partition_key(file.partition))
            partitions.setdefault(key, []).append((file, positions.cardinality, positions.to_blob()))
        groups = (group for members in partitions.values() for group in self._rolled(members))
        return list(ahead(self._write_waiting, groups))

    def _write_waiting(self, group: list[Waiting]) -> DataFile:
        vectors = (DeletionVector.from_blob(blob) for _, _, blob in group)
        return self._write([file for file, _, _ in group], vectors)

    def _rolled(self, members: list[Waiting]) -> Iterator[list[Waiting]]:
        """Deletes of a partition in the order of the paths, as many together as make a file."""
        group: list[Waiting] = []
        size = 0
        for member in sorted(members, key=lambda member: member[0].file_path):
            group.append(member)
            size += 8 * member[1] + len(member[0].file_path)  # before compression
            if size >= self._settings.target_bytes:
                yield group
                group, size = [], 0
        if group:
            yield group

    def _write(self, files: Sequence[DataFile], vectors: Iterable[DeletionVector]) -> DataFile:
        """One file, for data files of one partition."""
        kind, first = self._settings.file_format, files[0]
        location = self._places.next(kind, first.spec_id, first.partition)
        batches = (
            batch
            for file, positions in zip(files, vectors, strict=True)
            for batch in _batches(file.file_path, positions)
        )
        properties = {**_ROW_GROUPS, **self._settings.properties}
        written = write_data_file(self._store, location, kind, POSITION_SCHEMA, batches, properties, modes=_MODES)
        made = as_data_file(written, first.spec_id, first.partition)
        only = first.file_path if len(files) == 1 else None
        return replace(made, content=Content.POSITION_DELETES, referenced_data_file=only)


def _batches(path: str, deleted: DeletionVector) -> Iterator[pa.RecordBatch]:
    for start in range(0, deleted.cardinality, BATCH_ROWS):
        positions = deleted.positions[start : start + BATCH_ROWS]
        yield pa.RecordBatch.from_arrays([pa.repeat(path, len(positions)), pa.array(positions)], schema=_ARROW)
