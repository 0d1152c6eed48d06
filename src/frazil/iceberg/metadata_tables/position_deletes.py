"""The table of deleted positions, as delete files and deletion vectors hold them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from frazil.errors import MalformedMetadata
from frazil.iceberg import manifest_schema as ids
from frazil.iceberg.data_file import Content, DataFile
from frazil.iceberg.entries import Entries
from frazil.iceberg.manifest import CORE_COLUMNS
from frazil.iceberg.manifest_list import DELETES
from frazil.iceberg.metadata_tables import schemas
from frazil.iceberg.metadata_tables.arrow_arrays import batch_of
from frazil.iceberg.metadata_tables.files import unified_partition
from frazil.iceberg.metadata_tables.source import Source
from frazil.io.data_files import BATCH_ROWS, read_data_file
from frazil.io.deletion_vector import DeletionVector
from frazil.io.store import Store
from frazil.model.arrow import schema_to_arrow
from frazil.model.schema import Schema


def position_deletes(source: Source) -> pa.Table:
    """One row per position in each live delete file of the snapshot, as often as files say it."""
    schema = schemas.position_deletes_schema(source.metadata)
    reader = _Reader(source.store, Schema(schema.fields[:3]), schema_to_arrow(schema))
    type_ = schemas.partition_struct(source.metadata)
    manifests = [one for one in source.manifests if one.content == DELETES and one.has_live_files]
    tasks: list[tuple[DataFile, pa.Array]] = []
    for part in source.context.reader.read(manifests, CORE_COLUMNS):
        kept = _with_positions(part)
        partition = unified_partition(kept, type_)
        tasks.extend((file, partition.slice(row, 1)) for row, file in enumerate(kept.iter_files()))
    with ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="frazil-deletes") as pool:
        batches = [batch for read in pool.map(lambda task: list(reader.read(*task)), tasks) for batch in read]
    return pa.Table.from_batches(batches, reader.arrow)


def _with_positions(part: Entries) -> Entries:
    return part.filter(part.live & (part.numpy(ids.CONTENT) == Content.POSITION_DELETES))


@dataclass(frozen=True)
class _Reader:
    """Reads delete files. `stored` are the columns that the files themselves have, `arrow` all of them."""

    store: Store
    stored: Schema
    arrow: pa.Schema

    def read(self, file: DataFile, partition: pa.Array) -> Iterator[pa.RecordBatch]:
        """The rows of one delete file; `partition` is an array of the one partition it belongs to."""
        for batch in self._vector(file) if file.is_deletion_vector else self._file(file):
            rows = batch.num_rows
            columns = {
                **dict(zip(self.stored.columns, batch.columns, strict=True)),
                "partition": partition.take(pa.repeat(0, rows)),
                "spec_id": pa.repeat(pa.scalar(file.spec_id, pa.int32()), rows),
                "delete_file_path": pa.repeat(pa.scalar(file.file_path, pa.string()), rows),
                "content_offset": pa.repeat(pa.scalar(file.content_offset, pa.int64()), rows),
                "content_size_in_bytes": pa.repeat(pa.scalar(file.content_size_in_bytes, pa.int64()), rows),
            }
            yield batch_of(columns, self.arrow)

    def _file(self, file: DataFile) -> Iterator[pa.RecordBatch]:
        for _, batch in read_data_file(self.store, file.file_path, file.file_format, self.stored):
            yield batch

    def _vector(self, file: DataFile) -> Iterator[pa.RecordBatch]:
        offset, size, referenced = file.content_offset, file.content_size_in_bytes, file.referenced_data_file
        if offset is None or size is None or referenced is None:
            raise MalformedMetadata(
                f"a deletion vector in {file.file_path} has no offset, size or data file",
                hint="the manifest entry is damaged",
            )
        blob = self.store.read_range(file.file_path, offset, size)
        positions = DeletionVector.from_blob(blob, cardinality=file.record_count).positions
        names = self.stored.columns
        row_type = self.arrow.field(names[2]).type
        for chunk in np.split(positions, range(BATCH_ROWS, len(positions), BATCH_ROWS)):
            paths = pa.repeat(pa.scalar(referenced, pa.string()), len(chunk))
            yield pa.RecordBatch.from_arrays([paths, pa.array(chunk), pa.nulls(len(chunk), row_type)], names)
