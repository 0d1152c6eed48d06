"""Deletion vectors written to Puffin files: one vector for each data file, many of them in one file."""

from __future__ import annotations

from collections.abc import Iterable

from frazil.iceberg.data_file import PUFFIN, Content, DataFile
from frazil.iceberg.delete_settings import NewDeleteFiles
from frazil.io.deletion_vector import DeletionVector, add_deletion_vector
from frazil.io.puffin import BlobMetadata, PuffinWriter
from frazil.io.store import Store


class VectorFiles:
    """Gathers vectors and writes a file whenever it is large enough."""

    def __init__(self, store: Store, places: NewDeleteFiles, target_bytes: int) -> None:
        self._store = store
        self._places = places
        self._target = target_bytes
        self._puffin = PuffinWriter()
        self._waiting: list[tuple[DataFile, int, BlobMetadata]] = []
        self._files: list[DataFile] = []

    def write(self, deletes: Iterable[tuple[DataFile, DeletionVector]]) -> list[DataFile]:
        """Write the vectors of data files, with all their deleted positions; they return as manifests track them."""
        for file, vector in deletes:
            blob = add_deletion_vector(self._puffin, vector, file.file_path)
            self._waiting.append((file, vector.cardinality, blob))
            if self._puffin.estimated_bytes >= self._target:
                self._flush()
        if self._waiting:
            self._flush()
        return self._files

    def _flush(self) -> None:
        location = self._places.next(PUFFIN)
        data = self._puffin.finish({"created-by": "Frazil"}).data
        self._store.write(location, data)
        self._files += [
            DataFile(
                location,
                PUFFIN,
                cardinality,
                len(data),
                file.spec_id,
                file.partition,
                Content.POSITION_DELETES,
                referenced_data_file=file.file_path,
                content_offset=blob.offset,
                content_size_in_bytes=blob.length,
            )
            for file, cardinality, blob in self._waiting
        ]
        self._puffin, self._waiting = PuffinWriter(), []
