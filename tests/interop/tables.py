"""Tables that we write, each with the rows that are in it: what every other reader must find.

A case is one function of a lake and a format version. It makes the table with the public API and tells the current
rows as plain Python values, worked out beside the table, not read from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import zip_longest
from typing import Any
from uuid import UUID

import pyarrow as pa

from frazil.iceberg.data_file import Content, DataFile
from frazil.iceberg.table import IcebergTable
from frazil.io.data_files import write_data_file
from frazil.io.deletion_vector import DeletionVector, add_deletion_vector
from frazil.io.puffin import PuffinWriter
from frazil.lake import Lake
from frazil.model.conform import conform
from frazil.model.expressions import col
from frazil.model.schema import DELETE_FILE_PATH, DELETE_POS, Schema
from frazil.model.values import to_bytes

Row = dict[str, Any]
Build = Callable[[Lake, int], tuple[IcebergTable, list[Row]]]


@dataclass(frozen=True)
class Case:
    """A table to build, and the format versions it can be of."""

    build: Build
    versions: tuple[int, ...]


CASES: dict[str, Case] = {}


def case(*versions: int) -> Callable[[Build], Build]:
    def register(build: Build) -> Build:
        CASES[build.__name__] = Case(build, versions)
        return build

    return register


def all_cases(*versions: int) -> list[tuple[str, int]]:
    """Every case in every one of these format versions that it can have."""
    return [(name, version) for name, one in CASES.items() for version in versions if version in one.versions]


# Values. Every list has the extremes of its type; a null is added to each by `typed_rows`.

PRIMITIVES: dict[str, list[Any]] = {
    "boolean": [True, False],
    "int": [34, -(2**31), 2**31 - 1, 0],
    "long": [34, -(2**63), 2**63 - 1, 0],
    "float": [1.5, float("nan"), float("inf"), -0.0, 0.0, float("-inf")],
    "double": [1.1, float("nan"), float("-inf"), -0.0, 0.0, 5e-324],
    "decimal(9, 2)": [Decimal("14.20"), Decimal("-9999999.99"), Decimal("9999999.99")],
    "decimal(18, 3)": [Decimal("1.000"), Decimal("-999999999999999.999")],
    "decimal(38, 10)": [Decimal("-1234567890123456789012345678.0123456789"), Decimal("0E-10")],
    "date": [date(2017, 11, 16), date(1969, 12, 31), date(1, 1, 1), date(9999, 12, 31)],
    "time": [time(22, 31, 8), time(0), time(23, 59, 59, 999999)],
    "timestamp": [datetime(2017, 11, 16, 22, 31, 8, 1), datetime(1969, 12, 31, 23, 59, 59, 999999)],
    "timestamptz": [datetime(2017, 11, 16, 22, 31, 8, 1, tzinfo=UTC), datetime(1900, 1, 1, 0, 0, 0, 7, tzinfo=UTC)],
    "string": ["iceberg", "", "a/b=c d%é\U0001f9ca", "z" * 40],
    "uuid": [UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"), UUID(int=0), UUID(int=2**128 - 1)],
    "fixed[4]": [b"\x00\x01\x02\x03", b"\xff\xff\xff\xff"],
    "binary": [b"\x00\x01\x02\x03", b"", b"\xff" * 20],
}
COLUMN = {text: text.replace("(", "_").replace(", ", "_").replace("[", "_").strip(")]") for text in PRIMITIVES}
BY_COLUMN = {name: text for text, name in COLUMN.items()}


def typed_rows() -> list[Row]:
    """Rows over all primitive types: the extremes side by side, then a row of nulls."""
    columns = [[*values, None] for values in PRIMITIVES.values()]
    return [
        {"id": number, **dict(zip(COLUMN.values(), values, strict=True))}
        for number, values in enumerate(zip_longest(*columns))
    ]


def typed_schema() -> str:
    return ", ".join(["id BIGINT NOT NULL", *(f"{COLUMN[text]} {text}" for text in PRIMITIVES)])


# Files of deletes.


def position_deletes(table: IcebergTable, name: str, deletes: Mapping[str, Iterable[int]], **members: Any) -> DataFile:
    """A position delete file of the table, for one partition."""
    schema = Schema((DELETE_FILE_PATH, DELETE_POS))
    pairs = sorted((path, position) for path, positions in deletes.items() for position in positions)
    batch = pa.RecordBatch.from_pylist([{"file_path": path, "pos": position} for path, position in pairs])
    location = f"{table.location}/data/{name}.parquet"
    properties = {"write.metadata.metrics.default": "full"}
    return _delete_file(table, location, schema, [batch], properties, Content.POSITION_DELETES, **members)


def equality_deletes(table: IcebergTable, name: str, rows: list[Row], columns: list[str], **members: Any) -> DataFile:
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


def deletion_vectors(table: IcebergTable, name: str, deletes: Mapping[DataFile, Iterable[int]]) -> Iterator[DataFile]:
    """One Puffin file with a vector for each data file."""
    location = f"{table.location}/data/{name}.puffin"
    writer = PuffinWriter()
    blobs = [
        (file, vector, add_deletion_vector(writer, vector, file.file_path))
        for file, vector in ((file, DeletionVector.from_positions(list(rows))) for file, rows in deletes.items())
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
    """The data files of the current snapshot."""
    return [task.file for task in table.scan().plan().tasks()]


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
        wanted: dict[DataFile, set[int]] = {}
        for task in tasks:
            wanted[task.file] = set(positions[task.file.file_path])
            for old in task.deletes:
                if old.is_deletion_vector and old.content_offset is not None and old.content_size_in_bytes is not None:
                    blob = table.store.read_range(old.file_path, old.content_offset, old.content_size_in_bytes)
                    wanted[task.file].update(DeletionVector.from_blob(blob).positions.tolist())
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
