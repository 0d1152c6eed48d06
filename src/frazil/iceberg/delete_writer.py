"""Deleted positions of data files, written as the format version of the table asks: vectors, or position delete files.

A vector holds all that is deleted of its data file: earlier vectors and position deletes are read and taken in. What is
only of this data file then goes, what is of others too stays. In version 2 the same is done by one delete file for each
data file, unless `write.delete.granularity` is `partition`: then earlier deletes stay beside new ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from frazil.errors import InvalidArgument
from frazil.iceberg.ahead import ahead
from frazil.iceberg.data_file import Content, DataFile, partition_key
from frazil.iceberg.delete_reader import DeleteReader
from frazil.iceberg.delete_settings import DeleteSettings, NewDeleteFiles
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.planning import FileScanTask
from frazil.iceberg.position_files import PositionFiles
from frazil.iceberg.vector_files import VectorFiles
from frazil.io.deletion_vector import DeletionVector
from frazil.io.store import Store

_NONE = DeletionVector.from_positions([])
Work = tuple[FileScanTask, DeletionVector]
"""A data file, and positions in it that are to be deleted."""


def new_delete_files(
    metadata: TableMetadata, store: Store, places: NewDeleteFiles, settings: DeleteSettings
) -> VectorFiles | PositionFiles:
    """What writes deleted positions, of the kind that the format version takes."""
    if metadata.format_version >= 3:
        return VectorFiles(store, places, settings.target_bytes)
    return PositionFiles(store, places, settings)


@dataclass(frozen=True)
class WrittenDeletes:
    """What a row delta needs."""

    added: list[DataFile] = field(default_factory=list)
    """Delete files and vectors."""
    removed: list[DataFile] = field(default_factory=list)
    """Delete files and vectors that are not needed any more."""
    emptied: list[DataFile] = field(default_factory=list)
    """Data files without a row left, which go as a whole."""
    deleted_rows: int = 0
    """Rows that were not deleted before."""
    referenced: list[str] = field(default_factory=list)
    """Paths of the data files that `added` is about: they must still be there at the commit."""


class DeleteWriter:
    """Writes the deletes of one job. `properties` come before those of the table.

    In memory are the positions of a few data files, and what position delete files of a partition hold: these are read
    once if work comes by partition.
    """

    def __init__(self, metadata: TableMetadata, store: Store, *, properties: Mapping[str, str] | None = None) -> None:
        settings = DeleteSettings.of(metadata, properties)
        self._metadata = metadata
        self._store = store
        self._places = NewDeleteFiles(metadata, store)
        self._with_vectors = metadata.format_version >= 3
        self._absorbs = self._with_vectors or settings.by_file
        self._files = new_delete_files(metadata, store, self._places, settings)
        self._shared: tuple[tuple[Any, ...], DeleteReader] | None = None
        self._removed: list[DataFile] = []
        self._emptied: list[DataFile] = []
        self._seen: set[str] = set()
        self._referenced: list[str] = []
        self._deleted_rows = 0

    def write(self, work: Iterable[Work]) -> WrittenDeletes:
        """Delete positions of data files, each of them given once; if anything fails, no file is left behind."""
        try:
            with closing(ahead(self._read_own, self._checked(work))) as read:
                added = self._files.write(self._to_write(read))
        except BaseException:
            self._places.remove()
            raise
        return WrittenDeletes(added, self._removed, self._emptied, self._deleted_rows, self._referenced)

    def _checked(self, work: Iterable[Work]) -> Iterator[Work]:
        for task, positions in work:
            self._check(task.file, positions)
            yield task, positions

    def _read_own(self, work: Work) -> tuple[FileScanTask, DeletionVector, list[DataFile], DeletionVector]:
        """With the deletes that are only of the same data file, and what they delete."""
        task, positions = work
        own = [delete for delete in task.deletes if delete.target_path == task.file.file_path]
        return task, positions, own, DeleteReader(self._store, self._metadata).positions(task.file, own) or _NONE

    def _to_write(
        self, read: Iterable[tuple[FileScanTask, DeletionVector, list[DataFile], DeletionVector]]
    ) -> Iterator[tuple[DataFile, DeletionVector]]:
        """What is to be written for each data file that has deletes after this."""
        for task, positions, own, by_own in read:
            file = task.file
            before = by_own.union(self._by_partition(file, task.deletes))
            after = before.union(positions)
            if after.cardinality == before.cardinality:
                continue
            self._deleted_rows += after.cardinality - before.cardinality
            if np.searchsorted(after.positions, file.record_count) == file.record_count:
                self._emptied.append(file)
                self._removed += own
                continue
            self._referenced.append(file.file_path)
            if self._absorbs:
                self._removed += own
                yield file, after if self._with_vectors else by_own.union(positions)
            else:
                new = np.setdiff1d(positions.positions, before.positions, assume_unique=True)
                yield file, DeletionVector(new)

    def _check(self, file: DataFile, positions: DeletionVector) -> None:
        if file.file_path in self._seen:
            raise InvalidArgument(
                f"deletes of {file.file_path} are given twice", hint="join the positions of a file in one vector"
            )
        self._seen.add(file.file_path)
        if positions.cardinality and positions.positions[-1] >= file.record_count:
            raise InvalidArgument(
                f"position {positions.positions[-1]} is not in {file.file_path} of {file.record_count} rows",
                hint="positions are counted from 0, within the file",
            )

    def _by_partition(self, file: DataFile, deletes: Sequence[DataFile]) -> DeletionVector:
        """What position delete files of the whole partition delete of a file."""
        shared = [one for one in deletes if one.content == Content.POSITION_DELETES and one.target_path is None]
        if not shared:
            return _NONE
        key = (file.spec_id, partition_key(file.partition))
        if self._shared is None or self._shared[0] != key:
            self._shared = (key, DeleteReader(self._store, self._metadata))
        return self._shared[1].positions(file, shared) or _NONE
