"""Rows deleted by vectors and delete files of every kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from frazil.iceberg.actions.action import Context
from frazil.iceberg.data_file import Content, DataFile
from frazil.iceberg.delete_settings import DeleteSettings, NewDeleteFiles
from frazil.iceberg.equality_writer import EqualityDeleteWriter
from frazil.iceberg.manifest import ALL_COLUMNS
from frazil.iceberg.merge_on_read import MergeOnRead
from frazil.iceberg.position_files import PositionFiles
from frazil.iceberg.table import IcebergTable
from frazil.iceberg.vector_files import VectorFiles
from frazil.io.data_files import write_data_file
from frazil.io.deletion_vector import DeletionVector
from frazil.model.conform import conform
from frazil.model.expressions import col
from frazil.model.schema import DELETE_FILE_PATH, DELETE_POS, Schema


def position_deletes(table: IcebergTable, name: str, deletes: Mapping[str, Iterable[int]], **members: Any) -> DataFile:
    """A position delete file of the table, for one partition."""
    schema = Schema((DELETE_FILE_PATH, DELETE_POS))
    pairs = sorted((path, position) for path, positions in deletes.items() for position in positions)
    batch = pa.RecordBatch.from_pylist([{"file_path": path, "pos": position} for path, position in pairs])
    location = f"{table.location}/data/{name}.parquet"
    properties = {"write.metadata.metrics.default": "full"}
    return _delete_file(table, location, schema, [batch], properties, Content.POSITION_DELETES, **members)


def equality_deletes(
    table: IcebergTable, name: str, rows: list[dict[str, Any]], columns: list[str], **members: Any
) -> DataFile:
    """An equality delete file of the table."""
    schema = table.schema.select(columns)
    location = f"{table.location}/data/{name}.parquet"
    ids = tuple(table.schema.find(column).id for column in columns)
    batches = conform(rows, schema)
    return _delete_file(table, location, schema, batches, {}, Content.EQUALITY_DELETES, equality_ids=ids, **members)


def _delete_file(
    table: IcebergTable, location: str, schema: Schema, batches: Any, properties: Any, content: Content, **members: Any
) -> DataFile:
    written = write_data_file(table.store, location, "parquet", schema, batches, properties)
    metrics = written.metrics
    return DataFile(
        location,
        "parquet",
        written.record_count,
        written.file_size_in_bytes,
        content=content,
        value_counts=metrics.value_counts,
        null_value_counts=metrics.null_value_counts,
        lower_bounds=metrics.lower_bounds,
        upper_bounds=metrics.upper_bounds,
        split_offsets=written.split_offsets,
        **{"spec_id": table.spec.spec_id, **members},
    )


def delete_keys(table: IcebergTable, rows: list[dict[str, Any]], columns: list[str]) -> None:
    """Merge-on-read without reading: rows that have these keys are gone."""
    ids = [table.schema.find(column).id for column in columns]
    action = table.new_row_delta()
    for file in EqualityDeleteWriter(table.metadata, table.store, ids).write([pa.RecordBatch.from_pylist(rows)]):
        action.add_deletes(file)
    action.commit()


def live_files(table: IcebergTable) -> list[DataFile]:
    """The data and delete files of the current snapshot, with all their metrics."""
    context = Context(table.metadata, table.store)
    return [
        file
        for entries in context.reader.read(context.manifests(table.current_snapshot), ALL_COLUMNS)
        for file in entries.filter(entries.live).iter_files()
    ]


def delete_rows(table: IcebergTable, column: str, values: set[Any]) -> None:
    """Merge-on-read: positions of the rows whose column has one of the values, in files or vectors as v2 or v3 ask."""
    MergeOnRead(table).delete(col(column).isin(values))


def mark_all_rows(table: IcebergTable, path: str) -> None:
    """Delete all rows of a data file, which stays in the table, as some writers leave it."""
    [task] = [task for task in table.scan().plan().tasks() if task.file.file_path == path]
    places, settings = NewDeleteFiles(table.metadata, table.store), DeleteSettings.of(table.metadata)
    vectors, positions = VectorFiles(table.store, places, 1), PositionFiles(table.store, places, settings)
    files = vectors if table.format_version >= 3 else positions
    [made] = files.write([(task.file, DeletionVector.from_positions(range(task.file.record_count)))])
    action = table.new_row_delta().add_deletes(made)
    for old in task.deletes:
        action.remove_deletes(old)
    action.commit()
