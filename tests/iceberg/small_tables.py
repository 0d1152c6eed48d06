"""Small real tables in memory, for tests of actions: rows are written and read, not pretended."""

from __future__ import annotations

from itertools import count
from typing import Any

import pyarrow as pa

import frazil
from frazil import ambient
from frazil.iceberg.data_file import Content, DataFile
from frazil.iceberg.delete_settings import NewDeleteFiles
from frazil.iceberg.table import IcebergTable
from frazil.iceberg.vector_files import VectorFiles
from frazil.iceberg.write import RowWriter, as_data_file
from frazil.io.data_files import write_data_file
from frazil.io.deletion_vector import DeletionVector
from frazil.model.arrow import schema_to_arrow
from frazil.model.conform import conform
from frazil.model.schema import DELETE_FILE_PATH, DELETE_POS, Schema

_numbers = count()


def new_table(
    format_version: int = 2,
    schema: str = "id BIGINT NOT NULL, name STRING, part INT",
    partition_by: tuple[str, ...] = (),
    **properties: str,
) -> IcebergTable:
    """A new table in a memory store of its own."""
    lake = frazil.connect(f"memory://small-{next(_numbers)}-{ambient.new_uuid()}")
    named = {key.replace("__", "."): value for key, value in properties.items()}
    return lake.create_table("db.t", schema, partition_by=partition_by, format_version=format_version, properties=named)


def rows(*ids: int, part: int | None = 0) -> list[dict[str, Any]]:
    """Rows with those ids."""
    return [{"id": number, "name": f"n{number}", "part": part} for number in ids]


def write_files(table: IcebergTable, *groups: list[dict[str, Any]]) -> list[DataFile]:
    """Data files of the groups, written but not committed."""
    files: list[DataFile] = []
    for group in groups:
        files.extend(RowWriter(table.metadata, table.store).write(conform(group, table.schema)))
    return files


def ids_of(table: IcebergTable, **at: Any) -> list[int]:
    """The ids in the table, sorted."""
    return sorted(table.scan(columns=["id"], **at).to_arrow().column(0).to_pylist())


def live_files(table: IcebergTable) -> list[DataFile]:
    """The data files of the current snapshot, with their sequence numbers."""
    return [task.file for task in table.scan().plan().tasks()]


def position_deletes(table: IcebergTable, *pairs: tuple[str, int], partition: tuple[Any, ...] = ()) -> DataFile:
    """A position delete file, written but not committed."""
    schema = Schema((DELETE_FILE_PATH, DELETE_POS))
    batch = pa.RecordBatch.from_pylist([{"file_path": path, "pos": pos} for path, pos in sorted(pairs)])
    location = f"{table.location}/data/{ambient.new_uuid()}-deletes.parquet"
    batch = batch.cast(schema_to_arrow(schema))
    written = write_data_file(table.store, location, "parquet", schema, [batch], {})
    file = as_data_file(written, table.spec.spec_id, partition)
    return with_content(file, Content.POSITION_DELETES)


def equality_deletes(
    table: IcebergTable, keys: list[dict[str, Any]], *columns: str, partition: tuple[Any, ...] = ()
) -> DataFile:
    """An equality delete file on those columns, written but not committed."""
    schema = table.schema.select(columns)
    location = f"{table.location}/data/{ambient.new_uuid()}-eq.parquet"
    written = write_data_file(table.store, location, "parquet", schema, conform(keys, schema), {})
    file = as_data_file(written, table.spec.spec_id, partition)
    equality_ids = tuple(column.id for column in schema.fields)
    return with_content(file, Content.EQUALITY_DELETES, equality_ids=equality_ids)


def vector(table: IcebergTable, file: DataFile, *positions: int) -> DataFile:
    """A deletion vector for a data file, written but not committed."""
    files = VectorFiles(table.store, NewDeleteFiles(table.metadata, table.store), 1)
    return files.write([(file, DeletionVector.from_positions(list(positions)))])[0]


def with_content(file: DataFile, content: Content, **changes: Any) -> DataFile:
    """The same file as another kind of file."""
    from dataclasses import replace

    return replace(file, content=content, sort_order_id=None, **changes)
