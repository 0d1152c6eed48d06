"""Rows to data files: the fragments of a commit, written here or on a worker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import pyarrow as pa

from frazil.errors import CommitStateUnknown, FrazilError, Unsupported
from frazil.io import location as locations
from frazil.io.store import Store
from frazil.lance.data_files import VERSIONS, DataFileWriter
from frazil.lance.layout import DATA, new_data_name
from frazil.lance.logical_types import JSON
from frazil.lance.plan import schema_bytes
from frazil.lance.proto.messages import DataFile, DataFragment, Manifest
from frazil.lance.schema import BLOB_V2, EXTENSION_NAME, Node, arrow_schema, column_entries, tree
from frazil.lance.version import LanceVersion

ROWS_PER_FILE = 1 << 20
BYTES_PER_FILE = 90 << 30


@dataclass(frozen=True, slots=True)
class FileTarget:
    """Where and how new data files are written. It can be sent to workers."""

    folder: str
    fields: bytes
    """The fields that the files hold, as bytes of a manifest with nothing else."""
    file_version: str
    rows_per_file: int = ROWS_PER_FILE

    @staticmethod
    def of(version: LanceVersion, rows_per_file: int = ROWS_PER_FILE) -> FileTarget:
        """New files of a version's branch, with all of its columns."""
        return FileTarget(version.folder, schema_bytes(version.manifest), version.file_version, rows_per_file)

    @property
    def nodes(self) -> tuple[Node, ...]:
        return tree(Manifest.FromString(self.fields).fields)

    @property
    def arrow_schema(self) -> pa.Schema:
        return arrow_schema(self.nodes)


def write_fragments(store: Store, target: FileTarget, batches: Iterable[pa.RecordBatch]) -> list[DataFragment]:
    """Write rows, all of the target's schema; each file is a fragment. Nothing is left if it fails."""
    made: list[DataFragment] = []
    try:
        for file, rows in _written(store, target, batches):
            made.append(DataFragment(files=[file], physical_rows=rows))
    except BaseException:
        remove_files(store, target.folder, made)
        raise
    return made


def write_column_files(
    store: Store, target: FileTarget, batches: Iterable[pa.RecordBatch]
) -> tuple[DataFile | None, int]:
    """Write all rows to one file: further columns of a fragment. None if there are no rows."""
    whole = FileTarget(target.folder, target.fields, target.file_version, 1 << 62)
    found = list(_written(store, whole, batches))
    return found[0] if found else (None, 0)


def _written(store: Store, target: FileTarget, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[DataFile, int]]:
    nodes, schema = target.nodes, target.arrow_schema
    _check_writable(nodes)
    fields = column_entries(nodes, VERSIONS[target.file_version])
    writer: DataFileWriter | None = None
    written = 0
    for batch in batches:
        start = 0
        while start < batch.num_rows:
            if writer is None:
                place = locations.join(target.folder, DATA, new_data_name())
                writer, written = DataFileWriter(store, target.folder, place, schema, target.file_version), 0
            piece = batch.slice(start, target.rows_per_file - written)
            writer.write(piece)
            start += piece.num_rows
            written += piece.num_rows
            if written >= target.rows_per_file:
                yield _closed(writer, fields, target.file_version), written
                writer = None
    if writer is not None:
        yield _closed(writer, fields, target.file_version), written


def _closed(writer: DataFileWriter, fields: Sequence[int], file_version: str) -> DataFile:
    writer.close()
    major, minor = VERSIONS[file_version]
    return DataFile(
        path=locations.name(writer.location),
        fields=fields,
        column_indices=range(len(fields)),
        file_major_version=major,
        file_minor_version=minor,
        file_size_bytes=writer.size,
    )


def _check_writable(nodes: Iterable[Node]) -> None:
    for top in nodes:
        for node in top.walk():
            extension = node.field.metadata.get(EXTENSION_NAME, b"")
            if extension == BLOB_V2.encode() or node.field.logical_type == JSON:
                raise Unsupported(
                    f"column {node.name!r} is of type {extension.decode()}, which is not written yet",
                    hint="write to this table with pylance",
                )


@contextmanager
def removing(store: Store, folder: str, fragments: Iterable[DataFragment]) -> Iterator[None]:
    """Remove the fragments' files if the commit in the block was refused; whatever else happens, they may be in use."""
    try:
        yield
    except CommitStateUnknown:
        raise
    except FrazilError:
        remove_files(store, folder, fragments)
        raise


def remove_files(store: Store, folder: str, fragments: Iterable[DataFragment]) -> None:
    """Remove data files that are part of no version."""
    with suppress(FrazilError):
        store.delete_many(locations.join(folder, DATA, file.path) for one in fragments for file in one.files)
