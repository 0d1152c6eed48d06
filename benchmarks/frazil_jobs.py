"""What Frazil is measured at."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks import rows
from benchmarks.probe import Job, MakeJob
from benchmarks.tables import FILTERS, SMALL, metadata_file, new_files, new_metadata, open_table
from frazil.catalog.folder_table import FolderCommitter
from frazil.iceberg.manifest_list import read_manifest_list
from frazil.iceberg.manifest_reader import SHARED_CACHE
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.new_table import new_table_metadata
from frazil.iceberg.table import IcebergTable
from frazil.io.local_store import LocalStore
from frazil.model.arrow import schema_from_arrow


@contextmanager
def plan(path: Path, _: int, where: str, *, again: bool = False, tasks: bool = False) -> Iterator[Job]:
    """Plan with an empty cache; or again, with what the plan before it left there; or with an object for each file."""
    table, small = open_table(metadata_file(path)), open_table(metadata_file(path.with_name(SMALL)))

    def run(planned_table: IcebergTable = table) -> int:
        planned = planned_table.scan(FILTERS[where]).plan()
        return len(list(planned.tasks())) if tasks else len(planned)

    run(small)
    if again:
        run()
    yield Job(run, before=(lambda: None) if again else SHARED_CACHE.clear)


@contextmanager
def manifest_list(path: Path, _: int) -> Iterator[Job]:
    """Read the manifest list alone."""
    table = open_table(metadata_file(path))
    assert table.current_snapshot is not None
    run = partial(read_manifest_list, table.store, table.current_snapshot, {0: table.spec})
    run()
    yield Job(lambda: len(run()))


@contextmanager
def append_files(path: Path, size: int) -> Iterator[Job]:
    """Append files, which are objects already, to an empty table: manifests, manifest list and metadata."""
    folder = path / "frazil"
    files = list(new_files(str(folder), size))
    table = _empty(folder, new_metadata(str(folder)))
    table.new_append().append_files(files[:10]).commit()

    def run() -> int:
        table.new_append().append_files(files).commit()
        return size

    def before() -> None:
        nonlocal table
        table = _empty(folder, new_metadata(str(folder)))

    yield Job(run, before)


@contextmanager
def write_rows(path: Path, size: int) -> Iterator[Job]:
    """Append rows to an empty table."""
    data, folder = rows.made(size), path / "frazil-rows"
    metadata = new_table_metadata(schema_from_arrow(data.schema), location=str(folder), format_version=2)
    table = _empty(folder, metadata)
    table.append(data.slice(0, 10))

    def run() -> int:
        table.append(data)
        return size

    def before() -> None:
        nonlocal table
        table = _empty(folder, metadata)

    yield Job(run, before)


@contextmanager
def read_rows(path: Path, _: int) -> Iterator[Job]:
    """Read all rows of the table that `write_rows` left."""
    folder, store = path / "frazil-rows", LocalStore()
    committer = FolderCommitter(store, str(folder))
    table = IcebergTable("rows", store, committer, committer.load())
    table.scan(limit=10).to_arrow()
    yield Job(lambda: table.scan().to_arrow().num_rows)


def _empty(folder: Path, metadata: TableMetadata) -> IcebergTable:
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "metadata").mkdir(parents=True)
    store = LocalStore()
    committer = FolderCommitter(store, str(folder))
    return IcebergTable("new", store, committer, committer.create(metadata))


JOBS: dict[str, MakeJob] = {
    **{f"plan-{name}": partial(plan, where=name) for name in FILTERS},
    "plan-again": partial(plan, where="all", again=True),
    "plan-tasks": partial(plan, where="all", tasks=True),
    "manifest-list": manifest_list,
    "append-files": append_files,
    "write-rows": write_rows,
    "read-rows": read_rows,
}
