"""Rows to data files: the fragments of a commit, written here or on a worker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

import pyarrow as pa

from frazil import ambient
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
_JOB_DIGITS = 12


@dataclass(frozen=True, slots=True)
class FileTarget:
    """Where and how new data files are written. It can be sent to workers."""

    folder: str
    fields: bytes
    """The fields that the files hold, as bytes of a manifest with nothing else."""
    file_version: str
    rows_per_file: int = ROWS_PER_FILE
    job: str = ""
    """What the names of the files end in, so that those of one job can be told from others."""

    @staticmethod
    def of(version: LanceVersion, rows_per_file: int = ROWS_PER_FILE) -> FileTarget:
        """New files of a version's branch, with all of its columns."""
        return FileTarget(version.folder, schema_bytes(version.manifest), version.file_version, rows_per_file)

    def of_job(self) -> FileTarget:
        """The same for one job alone, whose files can be told from others."""
        return replace(self, job=ambient.new_uuid().hex[-_JOB_DIGITS:])

    @property
    def nodes(self) -> tuple[Node, ...]:
        return tree(Manifest.FromString(self.fields).fields)

    @property
    def arrow_schema(self) -> pa.Schema:
        return arrow_schema(self.nodes)


class FragmentWriter:
    """Writes rows as they come, all of the target's schema; each file is a fragment."""

    def __init__(self, store: Store, target: FileTarget) -> None:
        self._store = store
        self._target = target
        nodes = target.nodes
        _check_writable(nodes)
        self._schema = target.arrow_schema
        self._fields = column_entries(nodes, VERSIONS[target.file_version])
        self._open: DataFileWriter | None = None
        self._written = 0
        self.fragments: list[DataFragment] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        start = 0
        while start < batch.num_rows:
            if self._open is None:
                target = self._target
                place = locations.join(target.folder, DATA, new_data_name(target.job))
                self._open = DataFileWriter(self._store, target.folder, place, self._schema, target.file_version)
                self._written = 0
            piece = batch.slice(start, self._target.rows_per_file - self._written)
            self._open.write(piece)
            start += piece.num_rows
            self._written += piece.num_rows
            if self._written >= self._target.rows_per_file:
                self._finish()

    def close(self) -> list[DataFragment]:
        """All fragments."""
        self._finish()
        return self.fragments

    def abandon(self) -> None:
        """Remove what was written."""
        remove_files(self._store, self._target.folder, self.fragments)

    def _finish(self) -> None:
        if self._open is not None:
            file = _closed(self._open, self._fields, self._target.file_version)
            self._open = None
            self.fragments.append(DataFragment(files=[file], physical_rows=self._written))


def write_fragments(store: Store, target: FileTarget, batches: Iterable[pa.RecordBatch]) -> list[DataFragment]:
    """Write rows, all of the target's schema; each file is a fragment. Nothing is left if it fails."""
    writer = FragmentWriter(store, target)
    try:
        for batch in batches:
            writer.write(batch)
        return writer.close()
    except BaseException:
        writer.abandon()
        raise


def write_column_files(
    store: Store, target: FileTarget, batches: Iterable[pa.RecordBatch]
) -> tuple[DataFile | None, int]:
    """Write all rows to one file: further columns of a fragment. None if there are no rows."""
    found = write_fragments(store, replace(target, rows_per_file=1 << 62), batches)
    return (found[0].files[0], int(found[0].physical_rows)) if found else (None, 0)


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


def remove_job(store: Store, target: FileTarget, keep: Iterable[DataFragment] = ()) -> None:
    """Remove all files of a job that are not committed, those of attempts that died as well; but what is kept."""
    stay = {file.path for fragment in keep for file in fragment.files}
    with suppress(FrazilError):
        listed = [file.location for file in store.list(locations.join(target.folder, DATA))]
        mine = (place for place in listed if target.job and place.endswith(f"{target.job}.lance"))
        store.delete_many(place for place in mine if locations.name(place) not in stay)
