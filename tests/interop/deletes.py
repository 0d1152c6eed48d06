"""Delete files and deletion vectors, written with the library's own pieces and committed by a row delta."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from frazil.iceberg.actions.action import Context
from frazil.iceberg.data_file import Content, DataFile
from frazil.iceberg.delete_reader import DeleteReader
from frazil.iceberg.manifest import ALL_COLUMNS
from frazil.iceberg.table import IcebergTable
from frazil.io.data_files import write_data_file
from frazil.io.deletion_vector import DeletionVector, add_deletion_vector
from frazil.io.puffin import PuffinWriter
from frazil.model.conform import conform
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


def deletion_vectors(
    table: IcebergTable, name: str, deletes: Iterable[tuple[DataFile, Iterable[int]]]
) -> Iterator[DataFile]:
    """One Puffin file with a vector for each data file."""
    location = f"{table.location}/data/{name}.puffin"
    writer = PuffinWriter()
    blobs = [
        (file, vector, add_deletion_vector(writer, vector, file.file_path))
        for file, vector in ((file, DeletionVector.from_positions(list(rows))) for file, rows in deletes)
    ]
    data = writer.finish({"created-by": "frazil"}).data
    table.store.write(location, data)
    for file, vector, blob in blobs:
        yield DataFile(
            location,
            "puffin",
            vector.cardinality,
            len(data),
            file.spec_id,
            file.partition,
            Content.POSITION_DELETES,
            referenced_data_file=file.file_path,
            content_offset=blob.offset,
            content_size_in_bytes=blob.length,
        )


def live_files(table: IcebergTable) -> list[DataFile]:
    """The data and delete files of the current snapshot, with all their metrics."""
    context = Context(table.metadata, table.store)
    return [
        file
        for entries in context.reader.read(context.manifests(table.current_snapshot), ALL_COLUMNS)
        for file in entries.filter(entries.live).iter_files()
    ]


def delete_rows(table: IcebergTable, name: str, column: str, values: set[Any]) -> None:
    """Merge-on-read: positions of the rows whose column has one of the values, in files or vectors as v2 or v3 ask."""
    found = table.scan(columns=[column, "_file", "_pos"]).to_arrow().to_pylist()
    positions: dict[str, list[int]] = {}
    for row in found:
        if row[column] in values:
            positions.setdefault(row["_file"], []).append(row["_pos"])
    action = table.new_row_delta()
    tasks = [task for task in table.scan().plan().tasks() if task.file.file_path in positions]
    if table.format_version >= 3:
        reader = DeleteReader(table.store, table.metadata)
        wanted: list[tuple[DataFile, set[int]]] = []
        for task in tasks:
            gone = set(positions[task.file.file_path])
            wanted.append((task.file, gone))
            # a vector takes the place of all earlier deletes of its file: readers skip position files beside it
            before = reader.positions(task.file, task.deletes)
            gone.update(() if before is None else before.positions.tolist())
            for old in task.deletes:
                if old.is_deletion_vector:
                    action.remove_deletes(old)
        for file in deletion_vectors(table, name, wanted):
            action.add_deletes(file)
    else:
        by_partition: dict[tuple[int, tuple[Any, ...]], list[str]] = {}
        for task in tasks:
            by_partition.setdefault((task.file.spec_id, task.file.partition), []).append(task.file.file_path)
        for number, ((spec_id, partition), paths) in enumerate(by_partition.items()):
            chosen = {path: positions[path] for path in paths}
            action.add_deletes(
                position_deletes(table, f"{name}-{number}", chosen, spec_id=spec_id, partition=partition)
            )
    action.commit()
