"""Equal tables: they have the same data files, and each has what is done to it."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import pyarrow as pa

from benchmarks.probe import Job
from frazil.iceberg.actions.action import Context
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.manifest import ALL_COLUMNS
from frazil.iceberg.table import IcebergTable
from frazil.iceberg.write import RowWriter
from frazil.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAMESPACE = "db"
_NUMBERS = itertools.count(1)


def twin(lake: Lake, source: IcebergTable, properties: Mapping[str, str] = MappingProxyType({})) -> IcebergTable:
    """A table with the files of another, under a name that nobody has read yet. It never removes those files."""
    table = empty(lake, source, properties)
    table.new_fast_append().append_files([_new(file) for file in live_files(source)]).commit()
    return table


def empty(lake: Lake, source: IcebergTable, properties: Mapping[str, str] = MappingProxyType({})) -> IcebergTable:
    """A table like another, without rows."""
    told = {**source.properties, "format-version": str(source.format_version), **properties}
    return lake.create_table(f"{NAMESPACE}.twin{next(_NUMBERS)}", source.schema, properties=told)


def live_files(table: IcebergTable) -> list[DataFile]:
    """The files of the current snapshot, with their metrics."""
    context = Context(table.metadata, table.store)
    return [
        file
        for entries in context.reader.read(context.manifests(table.current_snapshot), ALL_COLUMNS)
        for file in entries.filter(entries.live).iter_files()
    ]


def _new(file: DataFile, path: str | None = None) -> DataFile:
    """A file as it is before its first commit."""
    same = replace(file, first_row_id=None, data_sequence_number=None, file_sequence_number=None)
    return same if path is None else replace(same, file_path=path)


class Fresh:
    """A command on a new table before each call; the former is removed, but not the files that it shares."""

    def __init__(self, make: Callable[[], IcebergTable], command: Callable[[IcebergTable], object]) -> None:
        self._make, self._command = make, command
        self.table: IcebergTable | None = None

    def job(self, cpu: Callable[[], float]) -> Job:
        return Job(self.run, self.before, cpu)

    def before(self) -> None:
        self.drop()
        self.table = self._make()

    def run(self) -> int:
        assert self.table is not None
        self._command(self.table)
        return 0

    def drop(self) -> None:
        if self.table is not None:
            shutil.rmtree(self.table.location)
        self.table = None

    def changed(self) -> IcebergTable:
        """The table of the last call, as it is now."""
        assert self.table is not None
        return self.table.refresh()


def own_bytes(table: IcebergTable) -> int:
    """The size of the files, of data and deletes, that were written for a twin."""
    written = {file.file_path: file.file_size_in_bytes for file in live_files(table)}
    return sum(size for path, size in written.items() if path.startswith(table.location))


def checksum(rows: DataFrame) -> tuple[int, int]:
    """How many rows there are, and a number that depends on every value of each, in any order."""
    (row,) = rows.selectExpr("count(*)", f"bit_xor(xxhash64({', '.join(rows.columns)}))").collect()
    return row[0], row[1]


# What maintenance is for


def many_files(table: IcebergTable, rows: pa.Table, count: int) -> IcebergTable:
    """Append rows as many files of equal size, in one commit."""
    writer, size, action = RowWriter(table.metadata, table.store), rows.num_rows // count, table.new_append()
    for number in range(count):
        action.append_files(writer.write(rows.slice(number * size, size).to_batches()))
    action.commit()
    return table


def many_snapshots(table: IcebergTable, rows: pa.Table, count: int, files: int) -> IcebergTable:
    """As many snapshots, each with files of its own, so that the files go with their snapshots."""
    many_files(table, rows, files)
    first = live_files(table)
    for number in range(1, count):
        action = table.new_overwrite()
        for file in live_files(table):
            action.delete_file(file)
        for place, file in enumerate(first):
            path = Path(table.location, "data", f"{number:05d}-{place:05d}.parquet")
            shutil.copyfile(file.file_path, path)
            action.add_file(_new(file, str(path)))
        action.commit()
    return table
