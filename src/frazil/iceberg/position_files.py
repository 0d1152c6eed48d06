"""Position delete files of format version 2: pairs of a data file's path and a position, in this order.

Bounds of the path are whole, never cut: readers tell by them which data files are meant.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

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
_ARROW = schema_to_arrow(POSITION_SCHEMA)


class PositionFiles:
    """Writes a file for each data file at once, or one for each partition when all positions are known.

    Until then those of a partition wait as compressed bitmaps.
    """

    def __init__(self, store: Store, places: NewDeleteFiles, settings: DeleteSettings) -> None:
        self._store = store
        self._places = places
        self._settings = settings
        self._waiting: dict[tuple[Any, ...], list[tuple[DataFile, int, bytes]]] = {}
        self._files: list[DataFile] = []

    def add(self, file: DataFile, positions: DeletionVector) -> None:
        """Deleted positions of a data file."""
        if self._settings.by_file:
            self._files.append(self._write(file, [(file.file_path, positions)], file.file_path))
            return
        key = (file.spec_id, partition_key(file.partition))
        self._waiting.setdefault(key, []).append((file, positions.cardinality, positions.to_blob()))

    def close(self) -> list[DataFile]:
        """Write what waits, and return all files."""
        while self._waiting:
            _, members = self._waiting.popitem()
            for group in self._rolled(sorted(members, key=lambda member: member[0].file_path)):
                pairs = ((file.file_path, DeletionVector.from_blob(blob)) for file, _, blob in group)
                only = group[0][0].file_path if len(group) == 1 else None
                self._files.append(self._write(group[0][0], pairs, only))
        return self._files

    def _rolled(self, members: list[tuple[DataFile, int, bytes]]) -> Iterator[list[tuple[DataFile, int, bytes]]]:
        group, size = [], 0
        for member in members:
            group.append(member)
            size += 8 * member[1] + len(member[0].file_path)  # before compression
            if size >= self._settings.target_bytes:
                yield group
                group, size = [], 0
        if group:
            yield group

    def _write(self, file: DataFile, pairs: Iterable[tuple[str, DeletionVector]], only: str | None) -> DataFile:
        """One file, of the partition of a data file."""
        kind = self._settings.file_format
        location = self._places.next(kind, file.spec_id, file.partition)
        batches = (batch for path, positions in pairs for batch in _batches(path, positions))
        properties = self._settings.properties
        written = write_data_file(self._store, location, kind, POSITION_SCHEMA, batches, properties, modes=_MODES)
        made = as_data_file(written, file.spec_id, file.partition)
        return replace(made, content=Content.POSITION_DELETES, referenced_data_file=only)


def _batches(path: str, deleted: DeletionVector) -> Iterator[pa.RecordBatch]:
    for start in range(0, deleted.cardinality, BATCH_ROWS):
        positions = deleted.positions[start : start + BATCH_ROWS]
        yield pa.RecordBatch.from_arrays([pa.repeat(path, len(positions)), pa.array(positions)], schema=_ARROW)
