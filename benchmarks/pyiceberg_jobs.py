"""The same jobs, done by PyIceberg."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, clear_manifest_cache
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable, Table
from pyiceberg.typedef import Record

from benchmarks import rows
from benchmarks.probe import Job, MakeJob
from benchmarks.tables import FILTERS, SCHEMA, SMALL, SPEC, metadata_file, new_files


@contextmanager
def plan(path: Path, _: int, where: str, *, again: bool = False) -> Iterator[Job]:
    """Plan; PyIceberg's cache, of what a manifest list says of manifests, is emptied as well."""
    table, small = (StaticTable.from_metadata(str(metadata_file(one))) for one in (path, path.with_name(SMALL)))

    def run(planned_table: Table = table) -> int:
        return len(list(planned_table.scan(FILTERS[where] or "true").plan_files()))

    run(small)
    yield Job(run, before=(lambda: None) if again else clear_manifest_cache)


@contextmanager
def append_files(path: Path, size: int) -> Iterator[Job]:
    """`fast_append`, which writes one manifest and merges none, with a catalog in memory."""
    folder = path / "pyiceberg"
    shutil.rmtree(folder, ignore_errors=True)
    schema = Schema.model_validate_json(json.dumps(SCHEMA.to_json()))
    spec = PartitionSpec.model_validate_json(json.dumps(SPEC.to_json()))
    files = [_file(file) for file in new_files(str(folder), size)]
    catalog = new_catalog(folder)
    table = catalog.create_table("n.t", schema, partition_spec=spec)

    def run() -> int:
        with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
            for file in files:
                append.append_data_file(file)
        return size

    def before() -> None:
        nonlocal table
        catalog.drop_table("n.t")
        table = catalog.create_table("n.t", schema, partition_spec=spec)

    yield Job(run, before)


def _file(file) -> DataFile:  # type: ignore[no-untyped-def]
    made = DataFile.from_args(
        _table_format_version=2,
        content=DataFileContent.DATA,
        file_path=file.file_path,
        file_format=FileFormat.PARQUET,
        partition=Record(*file.partition),
        record_count=file.record_count,
        file_size_in_bytes=file.file_size_in_bytes,
        column_sizes=file.column_sizes,
        value_counts=file.value_counts,
        null_value_counts=file.null_value_counts,
        nan_value_counts=file.nan_value_counts,
        lower_bounds=file.lower_bounds,
        upper_bounds=file.upper_bounds,
        split_offsets=list(file.split_offsets),
        sort_order_id=file.sort_order_id,
    )
    made.spec_id = file.spec_id
    return made


@contextmanager
def write_rows(path: Path, size: int) -> Iterator[Job]:
    """Append rows to an empty table."""
    data, folder = rows.made(size), path / "pyiceberg-rows"
    shutil.rmtree(folder, ignore_errors=True)
    catalog = new_catalog(folder)
    table = catalog.create_table("n.t", data.schema)
    table.append(data.slice(0, 10))

    def run() -> int:
        table.append(data)
        return size

    def before() -> None:
        nonlocal table
        catalog.drop_table("n.t")
        table = catalog.create_table("n.t", data.schema)

    yield Job(run, before)


@contextmanager
def read_rows(path: Path, _: int) -> Iterator[Job]:
    """Read all rows of the table that Frazil wrote: both sides read the same files."""
    newest = max((path / "frazil-rows" / "metadata").glob("v*.metadata.json"), key=lambda file: file.stat().st_mtime_ns)
    table = StaticTable.from_metadata(str(newest))
    table.scan(limit=10).to_arrow()
    yield Job(lambda: table.scan().to_arrow().num_rows)


def new_catalog(folder: Path) -> SqlCatalog:
    """A catalog in memory, with the namespace `n`."""
    folder.mkdir(parents=True)
    catalog = SqlCatalog("bench", uri="sqlite:///:memory:", warehouse=str(folder))
    catalog.create_namespace("n")
    return catalog


JOBS: dict[str, MakeJob] = {
    **{f"plan-{name}": partial(plan, where=name) for name in FILTERS},
    "plan-again": partial(plan, where="all", again=True),
    "append-files": append_files,
    "write-rows": write_rows,
    "read-rows": read_rows,
}
