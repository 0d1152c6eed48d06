"""Rows to data files, in-process with Arrow: split by partition, sorted by the table's order, rolled by size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import pyarrow as pa

from frazil import ambient
from frazil.errors import CatalogError, CommitStateUnknown, FrazilError, InvalidSchema, StoreError
from frazil.iceberg import properties as props
from frazil.iceberg.data_file import Content, DataFile, partition_key
from frazil.iceberg.data_locations import data_location
from frazil.iceberg.delete_index import comparable
from frazil.iceberg.entries import canonical_list
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.partition_types import partition_type
from frazil.iceberg.scan_columns import leaf
from frazil.io.data_files import DataFileWriter, WrittenFile, open_data_file
from frazil.io.store import Store
from frazil.model.partition import PartitionSpec
from frazil.model.schema import Schema
from frazil.model.sorting import sort_indices

CHUNK_BYTES = 256 << 20
"""Rows sorted together, where the table has a sort order: each chunk makes files of its own, each one sorted."""


class RowWriter:
    """Writes rows of one job. Files are complete when `close` returns; after a failure `abort` removes them."""

    def __init__(
        self,
        metadata: TableMetadata,
        store: Store,
        *,
        schema: Schema | None = None,
        spec: PartitionSpec | None = None,
        target_bytes: int | None = None,
    ) -> None:
        settings = metadata.property_reader
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
        self._order = metadata.default_sort_order
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
                if self._order.fields:
                    self._close()
            self._close()
        except BaseException:
            self.abort()
            raise
        return self._files

    def _chunks(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        if not self._order.fields:
            yield from (pa.Table.from_batches([batch]) for batch in batches if batch.num_rows)
            return
        held: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            held.append(batch)
            size += batch.nbytes
            if size >= CHUNK_BYTES:
                yield self._sorted(held)
                held, size = [], 0
        if held:
            yield self._sorted(held)

    def _sorted(self, batches: list[pa.RecordBatch]) -> pa.Table:
        table = pa.Table.from_batches(batches)
        return table.take(sort_indices(self._schema, self._order, table))

    def _by_partition(self, table: pa.Table) -> Iterator[tuple[tuple[Any, ...], pa.Table]]:
        if not table.num_rows:
            return
        if not self._spec.fields:
            yield (), table
            return
        batch = table.combine_chunks().to_batches()[0]
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
        order = np.argsort(codes, kind="stable")
        borders = np.flatnonzero(np.diff(codes[order], prepend=-1))
        for start, stop in zip(borders, [*borders[1:], len(order)], strict=True):
            rows = pa.array(order[start:stop])
            first = rows.slice(0, 1)
            values = tuple(canonical_list(column.take(first))[0] for column in columns)
            yield values, table if stop - start == table.num_rows else table.take(rows)

    def _write(self, values: tuple[Any, ...], rows: pa.Table) -> None:
        key = partition_key(values)
        if key not in self._open:
            self._open[key] = (values, self._new_file(values))
        _, writer = self._open[key]
        for batch in rows.to_batches():
            writer.write(batch)
        if writer.estimated_bytes >= self._target:
            self._finish(*self._open.pop(key))

    def _new_file(self, values: tuple[Any, ...]) -> DataFileWriter:
        self._count += 1
        name = f"00000-0-{self._job}-{self._count:05d}.{self._format}"
        location = data_location(self._metadata, self._spec.path_of(self._types, values), name)
        return open_data_file(self._store, location, self._format, self._schema, self._metadata.properties)

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
    except (CommitStateUnknown, StoreError, CatalogError):
        raise
    except FrazilError:
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
