"""Delete files as an engine would write them: positions, deletion vectors, equality keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from frazil import ambient
from frazil.iceberg.data_file import Content, DataFile
from frazil.iceberg.delete_reader import DeleteReader
from frazil.iceberg.delete_settings import NewDeleteFiles
from frazil.iceberg.table import IcebergTable
from frazil.iceberg.vector_files import VectorFiles
from frazil.iceberg.write import as_data_file
from frazil.io.data_files import write_data_file
from frazil.io.deletion_vector import DeletionVector
from frazil.io.metrics import MetricsModes
from frazil.model.arrow import array_from_canonical, schema_to_arrow
from frazil.model.schema import DELETE_FILE_PATH, DELETE_POS, Schema

POSITIONS = Schema((DELETE_FILE_PATH, DELETE_POS))
FULL = {"write.metadata.metrics.default": "full"}
TRUNCATED = {"write.metadata.metrics.default": "truncate(16)"}


def _location(table: IcebergTable, ending: str) -> str:
    return f"{table.location}/data/{ambient.new_uuid()}-deletes.{ending}"


def position_deletes(
    table: IcebergTable,
    positions: Sequence[tuple[DataFile, Sequence[int]]],
    *,
    file_format: str = "parquet",
    names_file: bool = False,
    full_bounds: bool = True,
) -> DataFile:
    """One position delete file for rows of files that share a partition.

    `names_file` sets `referenced_data_file`; with `full_bounds`, equal bounds of the path say the same.
    """
    rows = sorted((file.file_path, position) for file, listed in positions for position in listed)
    first = positions[0][0]
    batch = pa.record_batch(
        [pa.array([path for path, _ in rows], pa.string()), pa.array([at for _, at in rows], pa.int64())],
        schema=schema_to_arrow(POSITIONS),
    )
    properties = FULL if full_bounds else TRUNCATED
    location = _location(table, file_format)
    modes = MetricsModes.of(POSITIONS, properties)
    written = write_data_file(table.store, location, file_format, POSITIONS, [batch], properties, modes=modes)
    return replace(
        as_data_file(written, first.spec_id, first.partition),
        content=Content.POSITION_DELETES,
        referenced_data_file=first.file_path if names_file and len(positions) == 1 else None,
    )


def equality_deletes(
    table: IcebergTable,
    schema: Schema,
    keys: Sequence[Sequence[Any]],
    spec_id: int,
    partition: tuple[Any, ...],
    *,
    file_format: str = "parquet",
    properties: Mapping[str, str] = FULL,
) -> DataFile:
    """An equality delete file of canonical keys; `schema` has only the key columns, at the top level."""
    columns = [array_from_canonical(column.type, [key[at] for key in keys]) for at, column in enumerate(schema.fields)]
    batch = pa.RecordBatch.from_arrays(columns, schema=schema_to_arrow(schema))
    location = _location(table, file_format)
    written = write_data_file(table.store, location, file_format, schema, [batch], properties)
    ids = tuple(column.id for column in schema.fields)
    return replace(as_data_file(written, spec_id, partition), content=Content.EQUALITY_DELETES, equality_ids=ids)


def deletion_vectors(table: IcebergTable, vectors: Sequence[tuple[DataFile, DeletionVector]]) -> list[DataFile]:
    """One Puffin file with a vector for each data file."""
    files = VectorFiles(table.store, NewDeleteFiles(table.metadata, table.store), 1 << 20)
    return files.write(vectors)


def old_positions(table: IcebergTable, file: DataFile, deletes: Sequence[DataFile]) -> DeletionVector:
    """What is deleted of a file already: a new vector must hold it all."""
    found = DeleteReader(table.store, table.metadata).positions(file, deletes)
    return DeletionVector.from_positions([]) if found is None else found
