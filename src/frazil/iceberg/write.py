"""Rows to data files, in-process with Arrow: split by partition, sorted by the table's order, rolled by size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from frazil import ambient
from frazil.errors import MAY_BE_COMMITTED, FrazilError, InvalidSchema
from frazil.iceberg import properties as props
from frazil.iceberg.data_file import Content, DataFile, partition_key
from frazil.iceberg.data_locations import data_location
from frazil.iceberg.delete_index import comparable
from frazil.iceberg.entries import canonical_list
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.partition_types import partition_type
from frazil.iceberg.scan_columns import leaf
from frazil.io.data_files import BATCH_ROWS, DataFileWriter, WrittenFile, open_data_file
from frazil.io.store import Store
from frazil.model.partition import PartitionSpec
from frazil.model.schema import Schema
from frazil.model.sorting import SortOrder, sort_indices

CHUNK_BYTES = 256 << 20
"""Rows taken together to be sorted, or split by partition. Where the table has a sort order, each chunk makes files of
its own, each one sorted."""
OPEN_FILES = 100
"""Files being written at a time: those of the partitions that rows came for last."""
WAITING_BYTES = 512 << 20
"""What of them may wait in memory."""


class RowWriter:
    """Writes rows of one job. With `arranged`, they come by partition and in the table's order: they are left as they
    are, and a file is finished when the next partition begins. Schema, spec, order and properties are those of the
    table unless told; `suffix` ends the names of the files. `arrange` gives the places of rows in another order than
    the one that files are said to have.
    """

    def __init__(
        self,
        metadata: TableMetadata,
        store: Store,
        *,
        schema: Schema | None = None,
        spec: PartitionSpec | None = None,
        order: SortOrder | None = None,
        properties: Mapping[str, str] | None = None,
        suffix: str = "",
        target_bytes: int | None = None,
        arranged: bool = False,
        arrange: Callable[[pa.Table], pa.Array] | None = None,
    ) -> None:
        self._properties = metadata.properties if properties is None else properties
        settings = props.PropertyReader(self._properties)
        self._metadata = metadata
        self._store = store
        self._schema = metadata.current_schema if schema is None else schema
        self._spec = metadata.default_spec if spec is None else spec
        if self._spec.has_unknown_transform:
            raise InvalidSchema(
                "the partition spec has a transform this library does not know", hint="replace that partition field"
            )
        self._types = [column.type for column in partition_type(metadata, self._spec).fields]
        self._format = settings.get(props.DEFAULT_FILE_FORMAT)
        self._target = target_bytes or settings.get(props.WRITE_TARGET_FILE_SIZE_BYTES)
        self._order = metadata.default_sort_order if order is None else order
        self._suffix = suffix
        self._arrange = arrange
        self._sorts = (bool(self._order.fields) or arrange is not None) and not arranged
        self._gathers = self._sorts or (bool(self._spec.fields) and not arranged)
        self._most_open = 1 if arranged else OPEN_FILES
        self._job = ambient.new_uuid()
        self._open: dict[tuple[Any, ...], tuple[tuple[Any, ...], DataFileWriter]] = {}
        self._files: list[DataFile] = []
        self._count = 0

    def write(self, batches: Iterable[pa.RecordBatch]) -> list[DataFile]:
        """Write all rows and return the files; if anything fails, none is left behind."""
        try:
            for chunk in self._chunks(batches):
                for values, rows in self._by_partition(chunk):
                    self._write(values, rows)
                if self._sorts:
                    self._close()
            self._close()
        except BaseException:
            self.abort()
            raise
        return self._files

    def _chunks(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        if not self._gathers:
            yield from (pa.Table.from_batches([batch]) for batch in batches if batch.num_rows)
            return
        held: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            held.append(batch)
            size += batch.nbytes
            if size >= CHUNK_BYTES:
                yield self._gathered(held)
                held, size = [], 0
        if held:
            yield self._gathered(held)

    def _gathered(self, batches: list[pa.RecordBatch]) -> pa.Table:
        table = pa.Table.from_batches(batches)
        if not self._sorts:
            return table
        chosen = self._arrange or partial(sort_indices, self._schema, self._order)
        return table.take(chosen(table))

    def _by_partition(self, table: pa.Table) -> Iterator[tuple[tuple[Any, ...], pa.Table]]:
        if not table.num_rows:
            return
        if not self._spec.fields:
            yield (), table
            return
        table = table.combine_chunks()
        batch = table.to_batches()[0]
        columns = []
        codes = np.zeros(table.num_rows, dtype=np.int64)
        for part in self._spec.fields:
            source = self._schema.field_by_id(part.source_id)
            if source is None:  # a dropped column behind a void transform
                values = pa.nulls(table.num_rows)
            else:
                values = part.transform.apply_array(source.type, leaf(batch, self._schema, source.id))
            columns.append(values)
            if values.null_count < len(values):
                encoded = comparable(values).dictionary_encode(null_encoding="encode")
                inner = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
                _, codes = np.unique(codes * (int(inner.max()) + 1) + inner, return_inverse=True)
        runs = np.flatnonzero(np.diff(codes, prepend=-1))
        order = None
        if len(runs) > codes.max() + 1:  # rows of a partition are not together
            order = np.argsort(codes, kind="stable")
            runs = np.flatnonzero(np.diff(codes[order], prepend=-1))
        for start, stop in zip(runs, [*runs[1:], table.num_rows], strict=True):
            first = start if order is None else order[start]
            values = tuple(canonical_list(column.slice(first, 1))[0] for column in columns)
            yield values, table.slice(start, stop - start) if order is None else table.take(pa.array(order[start:stop]))

    def _write(self, values: tuple[Any, ...], rows: pa.Table) -> None:
        key = partition_key(values)
        for batch in rows.to_batches(max_chunksize=BATCH_ROWS):  # a file may be full before all rows are in it
            if key not in self._open:
                self._make_room(self._most_open - 1)
                self._open[key] = (values, self._new_file(values))
            else:
                self._open[key] = self._open.pop(key)  # the last one that rows came for
            _, writer = self._open[key]
            writer.write(batch)
            if writer.reaches(self._target):
                self._finish(*self._open.pop(key))
            self._make_room(self._most_open)

    def _make_room(self, most: int) -> None:
        """Finish the files that got no rows for longest, until few enough are open and little enough waits."""
        waiting = sum(writer.waiting_bytes for _, writer in self._open.values())
        while self._open and (len(self._open) > most or waiting > WAITING_BYTES):
            values, writer = self._open.pop(next(iter(self._open)))
            waiting -= writer.waiting_bytes
            self._finish(values, writer)

    def _new_file(self, values: tuple[Any, ...]) -> DataFileWriter:
        self._count += 1
        name = f"00000-0-{self._job}-{self._count:05d}{self._suffix}.{self._format}"
        location = data_location(self._metadata, self._spec.path_of(self._types, values), name)
        return open_data_file(self._store, location, self._format, self._schema, self._properties)

    def _finish(self, values: tuple[Any, ...], writer: DataFileWriter) -> None:
        written = writer.close()
        self._files.append(as_data_file(written, self._spec.spec_id, values, self._order.order_id))

    def _close(self) -> None:
        for key in list(self._open):
            self._finish(*self._open.pop(key))

    def abort(self) -> None:
        """Forget files being written and remove finished ones: none of them was ever part of the table."""
        for _, writer in self._open.values():
            with suppress(FrazilError):
                writer.abort()
        self._open.clear()
        remove_files(self._store, self._files)
        self._files = []


@contextmanager
def removing(store: Store, files: Iterable[DataFile]) -> Iterator[None]:
    """Remove written files if their commit was definitely refused; after any other error they may be live."""
    try:
        yield
    except MAY_BE_COMMITTED:
        raise
    except FrazilError:
        remove_files(store, files)
        raise


@contextmanager
def abandoning(store: Store, files: Iterable[DataFile]) -> Iterator[None]:
    """Remove written files if anything fails before their commit is tried: nothing refers to them."""
    try:
        yield
    except BaseException:
        remove_files(store, files)
        raise


def remove_files(store: Store, files: Iterable[DataFile]) -> None:
    """Remove files that were never committed; what cannot be removed is an orphan, not an error."""
    with suppress(FrazilError):
        store.delete_many([file.file_path for file in files])


def as_data_file(
    written: WrittenFile, spec_id: int, partition: tuple[Any, ...], sort_order_id: int | None = None
) -> DataFile:
    """A file as the manifest will track it."""
    metrics = written.metrics
    return DataFile(
        written.location,
        written.file_format,
        written.record_count,
        written.file_size_in_bytes,
        spec_id,
        partition,
        Content.DATA,
        metrics.column_sizes,
        metrics.value_counts,
        metrics.null_value_counts,
        metrics.nan_value_counts,
        metrics.lower_bounds,
        metrics.upper_bounds,
        split_offsets=written.split_offsets,
        sort_order_id=sort_order_id,
    )
