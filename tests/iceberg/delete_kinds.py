"""What tests of upkeep of deletes ask of a table: its rows at every snapshot, its delete files, another writer."""

from __future__ import annotations

from typing import Any

from frazil.iceberg.data_file import Content, DataFile
from frazil.iceberg.table import IcebergTable

History = dict[int, list[dict[str, Any]]]


def rows_at(table: IcebergTable, **at: Any) -> list[dict[str, Any]]:
    """The rows, in an order of their own; with their ids in format version 3."""
    columns = [*table.scan(**at).schema.columns, *(["_row_id"] if table.format_version >= 3 else [])]
    found = table.scan(columns=columns, **at).to_arrow().to_pylist()
    return sorted(found, key=repr)


def rows_at_all(table: IcebergTable) -> History:
    """The rows at every snapshot."""
    return {one.snapshot_id: rows_at(table, version=one.snapshot_id) for one in table.snapshots}


def same_rows(table: IcebergTable, before: History, now: list[dict[str, Any]]) -> None:
    """Nothing changed for readers, neither of the table as it is nor of any snapshot there was."""
    fresh = again(table)
    assert rows_at(fresh) == now
    assert {number: rows_at(fresh, version=number) for number in before} == before
    assert fresh.scan().count() == len(now)


def again(table: IcebergTable) -> IcebergTable:
    """The same table in the hands of another writer, as it is now."""
    return IcebergTable(table.identifier, table.store, table._committer, table._committer.load())


def deletes_of(table: IcebergTable, **at: Any) -> list[DataFile]:
    """All live delete files."""
    return list(again(table).scan(**at).plan().delete_files)


def kinds_of(table: IcebergTable, **at: Any) -> list[str]:
    """What the delete files are."""
    return sorted("vector" if file.is_deletion_vector else _NAMES[file.content] for file in deletes_of(table, **at))


_NAMES = {Content.POSITION_DELETES: "positions", Content.EQUALITY_DELETES: "keys"}


def files_in_store(table: IcebergTable) -> set[str]:
    """Everything under the data folder."""
    return {file.location for file in table.store.list(f"{table.location}/data")}
