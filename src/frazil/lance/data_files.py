"""Data files, through pylance's file reader and writer: the only place where Frazil uses that library."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from frazil.errors import FileMissing, MalformedData, MalformedMetadata, MissingDependency, StoreError, Unsupported
from frazil.io import location as locations
from frazil.io.store import ForwardingStore, Store
from frazil.recent import Recent

VERSIONS = {"2.0": (2, 0), "2.1": (2, 1), "2.2": (2, 2)}
"""The versions of data files that we read and write."""

_AS_STORED = {(0, 3): (2, 0)}
_readers: Recent[tuple[Hashable, int, tuple[str, ...] | None], DataFileReader] = Recent(256)


@dataclass(frozen=True, slots=True)
class FileRef:
    """A data file of a fragment: which fields are in which of its columns."""

    location: str
    fields: tuple[int, ...]
    column_indices: tuple[int, ...]
    version: tuple[int, int]
    size: int


def checked_version(major: int, minor: int, where: str) -> tuple[int, int]:
    """A file's version, as the format names it; Unsupported if we cannot read such files."""
    version = _AS_STORED.get((major, minor), (major, minor))
    if version not in VERSIONS.values():
        old = "a legacy file of before version 2" if version < (2, 0) else f"of version {major}.{minor}"
        raise Unsupported(
            f"the Lance data file {where} is {old}, which is not supported",
            hint="rewrite the table with pylance, as data_storage_version 2.0 to 2.2",
        )
    return version


def check_columns(ref: FileRef) -> None:
    """A file of version 2 that does not say where its columns are could only be guessed at."""
    if len(ref.fields) != len(ref.column_indices):
        raise MalformedMetadata(
            f"the manifest names {len(ref.fields)} fields of {ref.location} and {len(ref.column_indices)} columns",
            hint="the manifest is damaged; open an earlier version of the table",
        )


class DataFileReader:
    """Some columns of a data file; may be shared by threads, which pylance's own reader may not.

    Rows that were asked for come by themselves: only to ask is for one at a time.
    """

    def __init__(self, location: str, uri: str, options: dict[str, str] | None, columns: Sequence[str] | None) -> None:
        self.location = location
        self._lock = threading.Lock()
        with _errors(location):
            self._reader = _pylance().LanceFileReader(uri, options, None if columns is None else list(columns))

    @property
    def schema(self) -> pa.Schema:
        """Of the whole file."""
        with _errors(self.location), self._lock:
            return self._reader.metadata().schema

    @property
    def num_rows(self) -> int:
        """Of the whole file, deleted rows too."""
        with _errors(self.location), self._lock:
            return int(self._reader.num_rows())

    def read(self, span: tuple[int, int] | None, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """All rows, or those from one offset up to another."""
        with _errors(self.location):
            with self._lock:
                if span is None:
                    found = self._reader.read_all(batch_size=batch_rows)
                else:
                    start, stop = span
                    found = self._reader.read_range(start, stop - start, batch_size=batch_rows)
            yield from found.to_batches()

    def take(self, offsets: Sequence[int]) -> pa.Table:
        """Some rows, by strictly ascending offsets."""
        with _errors(self.location):
            with self._lock:
                found = self._reader.take_rows(offsets, batch_size=max(1, len(offsets)))
            return found.to_table()


def open_reader(store: Store, ref: FileRef, columns: Sequence[str] | None) -> DataFileReader:
    """A reader of some columns, by their names in the file. Readers that were used lately are kept open."""
    key = (known_as(store, ref.location), ref.size, None if columns is None else tuple(columns))
    reader = _readers.get(key)
    if reader is None:
        reader = DataFileReader(ref.location, *_target(store, ref.location), columns)
        _readers.put(key, reader)
    return reader


def known_as(store: Store, location: str) -> Hashable:
    """What a file may be remembered by: who may not read it does not find what another has read."""
    uri, options = _target(store, location)
    return uri, None if options is None else tuple(sorted(options.items()))


class DataFileWriter:
    """Writes one data file; `close` makes it durable and says how many rows and bytes it has."""

    def __init__(self, store: Store, root: str, location: str, schema: pa.Schema, version: str) -> None:
        if version not in VERSIONS:
            raise Unsupported(
                f"data files of version {version!r} cannot be written", hint=f"use one of {', '.join(VERSIONS)}"
            )
        self.location = location
        self.rows = self.size = 0
        self._store, self._root = store, root
        with _errors(location):
            uri, options = _target(store, location)
            self._writer = _pylance().LanceFileWriter(uri, schema, version=version, storage_options=options)

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        with _errors(self.location):
            self._writer.write_batch(_from_the_start(batch))

    def close(self) -> None:
        """Finish the file."""
        with _errors(self.location):
            self.rows = self._writer.close()
        # older releases of pylance do not tell it
        self.size = getattr(self._writer, "size_bytes", None) or self._store.size(self.location)
        self._store.sync(self.location, self._root)


def _from_the_start(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows. pylance dies of structs in structs that begin inside of their buffers: they are copied."""
    if not any(_has_inner_struct(field.type) for field in batch.schema):
        return batch
    everything = pa.array(np.arange(batch.num_rows))
    arrays = [
        array.take(everything) if _has_inner_struct(array.type) and _begins_inside(array) else array
        for array in batch.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


def _has_inner_struct(kind: pa.DataType, inside: bool = False) -> bool:
    if pa.types.is_struct(kind):
        return inside or any(_has_inner_struct(field.type, True) for field in kind)
    return any(_has_inner_struct(kind.field(number).type, inside) for number in range(kind.num_fields))


def _begins_inside(array: pa.Array) -> bool:
    if array.offset:
        return True
    if pa.types.is_struct(array.type):
        return any(_begins_inside(array.field(number)) for number in range(array.type.num_fields))
    if pa.types.is_map(array.type):
        return _begins_inside(array.keys) or _begins_inside(array.items)
    return pa.types.is_nested(array.type) and _begins_inside(array.values)


def _target(store: Store, location: str) -> tuple[str, dict[str, str] | None]:
    """What pylance calls a location of a store, and how it gets there."""
    from pyarrow.fs import LocalFileSystem

    from frazil.io.object_store import ObjectStore

    while isinstance(store, ForwardingStore):
        store, location = store.route(location)
    if isinstance(store, ObjectStore):
        place = locations.parse(location)
        return f"s3://{place.authority}{place.path}", _s3_options(store)
    system, path = store.filesystem(location)
    if isinstance(system, LocalFileSystem):
        return path, None
    raise Unsupported(f"Lance data files cannot be at {location}", hint="use a folder of the local disk, or S3")


def _s3_options(store: Any) -> dict[str, str]:
    options = store.options
    told = {
        "aws_endpoint": options.endpoint,
        "aws_region": options.region,
        "aws_access_key_id": options.access_key_id,
        "aws_secret_access_key": options.secret_access_key,
        "aws_session_token": options.session_token,
        "aws_virtual_hosted_style_request": None if options.path_style else "true",
        "allow_http": "true" if (options.endpoint or "").startswith("http:") else None,
    }
    return {key: value for key, value in told.items() if value is not None}


def _pylance() -> Any:
    try:
        import lance.file
    except ImportError as error:
        raise MissingDependency(
            "Lance data files need pylance, which is not installed", hint="pip install 'frazil[lance]'"
        ) from error
    return lance.file


@contextlib.contextmanager
def _errors(location: str) -> Iterator[None]:
    """pylance's errors as ours."""
    try:
        yield
    except (ValueError, OSError, RuntimeError, pa.ArrowException) as error:
        raise _translated(error, location) from error
    except BaseException as error:
        if type(error).__name__ == "PanicException":  # how a fault inside pylance arrives
            raise _translated(error, location) from error
        raise


def _translated(error: BaseException, location: str) -> Exception:
    told = str(error)
    lower = told.lower()
    if "not found" in lower or "no such file" in lower:
        return FileMissing(f"the Lance data file {location} is missing", hint="restore the file, or an earlier version")
    if any(text in lower for text in ("not supported", "v1 metadata", "unknown lance storage version")):
        return Unsupported(f"the Lance data file {location}: {told}", hint="see the versions of data files")
    if "permission" in lower or "access denied" in lower or "no space" in lower:
        return StoreError(f"{location}: {told}", hint="check the disk or the bucket, and its permissions")
    return MalformedData(f"the Lance data file {location} cannot be used: {told}", hint="the file may be damaged")
