"""Small lakes on a store that fails on demand, and deletes of every kind written by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import pyarrow as pa

from frazil import ambient
from frazil.catalog.catalog import Catalog
from frazil.catalog.filesystem import FilesystemCatalog
from frazil.catalog.memory import MemoryCatalog
from frazil.iceberg.data_file import Content, DataFile
from frazil.iceberg.delete_settings import NewDeleteFiles
from frazil.iceberg.manifest_reader import SHARED_CACHE
from frazil.iceberg.table import IcebergTable
from frazil.iceberg.vector_files import VectorFiles
from frazil.iceberg.write import RowWriter, as_data_file
from frazil.io.data_files import write_data_file
from frazil.io.deletion_vector import DeletionVector
from frazil.io.memory_store import MemoryStore
from frazil.io.store import Store
from frazil.lake import Lake
from frazil.model.conform import conform
from frazil.model.schema import DELETE_FILE_PATH, DELETE_POS, Schema
from tests.faults import Fault, FaultyStore

CATALOGS = ("memory", "folder", "sqlite")
_numbers = count()


@dataclass
class Place:
    """A lake and the store under it."""

    lake: Lake
    store: FaultyStore

    @property
    def catalog(self) -> Any:
        return self.lake.catalog

    def table(self, name: str = "db.t") -> IcebergTable:
        """The table as another process would load it."""
        return self.lake.table(name)

    def plan(self, *faults: Fault) -> None:
        """What goes wrong from now on."""
        self.store.plan = list(faults)

    def deleted(self) -> list[str]:
        return [location for verb, location in self.store.calls if verb == "delete"]

    def contents(self) -> dict[str, bytes]:
        return contents(self.store)


def contents(store: FaultyStore) -> dict[str, bytes]:
    """Every file of a memory store and its bytes."""
    inner = store.inner
    assert isinstance(inner, MemoryStore)
    return {file.location: inner.read(file.location) for file in inner.list(f"memory://{inner.name}")}


def place(kind: str = "memory") -> Place:
    """An empty lake in a memory store of its own; `sqlite` has its rows in a database in memory."""
    name = f"incident-{next(_numbers)}"
    store = FaultyStore(MemoryStore(name))
    warehouse = f"memory://{name}/w"
    catalog: Catalog
    if kind == "memory":
        catalog = MemoryCatalog(store, warehouse)
    elif kind == "folder":
        catalog = FilesystemCatalog(store, warehouse)
    else:
        from frazil.catalog.sql import SqlCatalog

        catalog = SqlCatalog("sqlite://", store, warehouse)
    return Place(Lake(catalog), store)


def new_table(
    at: Place | None = None,
    schema: str = "id BIGINT, name STRING",
    *,
    version: int = 2,
    name: str = "db.t",
    partition_by: Iterable[str] = (),
    **properties: str,
) -> IcebergTable:
    """A new table; properties are written with `__` for a dot and `_` for a hyphen."""
    given = {key.replace("__", ".").replace("_", "-"): value for key, value in properties.items()}
    lake = (place() if at is None else at).lake
    return lake.create_table(name, schema, partition_by=partition_by, format_version=version, properties=given)


def rows_of(*ids: int) -> list[dict[str, Any]]:
    return [{"id": number, "name": f"n{number}"} for number in ids]


def ids_in(table: IcebergTable, **scan: Any) -> list[int]:
    return sorted(table.scan(columns=["id"], **scan).to_arrow()["id"].to_pylist())


def again(table: IcebergTable) -> IcebergTable:
    """The same table in the hands of another writer, as it is now."""
    return IcebergTable(table.identifier, table.store, table._committer, table._committer.load())


def data_files(table: IcebergTable, **scan: Any) -> list[DataFile]:
    return [task.file for task in table.scan(**scan).plan().tasks()]


def delete_files(table: IcebergTable, **scan: Any) -> list[DataFile]:
    return list(table.scan(**scan).plan().delete_files)


def write_rows(table: IcebergTable, rows: Any) -> list[DataFile]:
    """Data files that are in the store and in no snapshot yet."""
    return RowWriter(table.metadata, table.store).write(conform(rows, table.schema))


def _new_location(table: IcebergTable, suffix: str) -> str:
    return f"{table.location}/data/{ambient.new_uuid()}{suffix}"


def vector(table: IcebergTable, file: DataFile, positions: Iterable[int], **members: Any) -> DataFile:
    """A deletion vector for a data file, in a Puffin file of its own."""
    files = VectorFiles(table.store, NewDeleteFiles(table.metadata, table.store), 1)
    return replace(files.write([(file, DeletionVector.from_positions(list(positions)))])[0], **members)


def position_deletes(table: IcebergTable, file: DataFile, deleted: Iterable[int], **members: Any) -> DataFile:
    """A position delete file for one data file and its deleted positions."""
    rows = [{"file_path": file.file_path, "pos": position} for position in deleted]
    made = _write(table, Schema((DELETE_FILE_PATH, DELETE_POS)), rows)
    changed = replace(made, content=Content.POSITION_DELETES, spec_id=file.spec_id, partition=file.partition)
    return replace(changed, **members)


def equality_deletes(table: IcebergTable, column: str, *values: Any, **members: Any) -> DataFile:
    """An equality delete file for values of one column; unpartitioned unless told."""
    schema = table.schema.select([column])
    made = _write(table, schema, [{column: value} for value in values])
    ids = tuple(field.id for field in schema.fields)
    return replace(made, content=Content.EQUALITY_DELETES, equality_ids=ids, **members)


def _write(table: IcebergTable, schema: Schema, rows: list[dict[str, Any]]) -> DataFile:
    location = _new_location(table, "-deletes.parquet")
    batches: Iterable[pa.RecordBatch] = conform(rows, schema)
    whole = {"write.metadata.metrics.default": "full"}  # equal bounds of the path say which file is meant
    return as_data_file(write_data_file(table.store, location, "parquet", schema, batches, whole), 0, ())


def damage(store: Store, location: str, change: Callable[[bytes], bytes]) -> None:
    """Change a file behind everybody's back."""
    store.write(location, change(store.read(location)))
    SHARED_CACHE.clear()
