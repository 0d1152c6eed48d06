"""Small tables of every format for tests of optimizing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import frazil
from frazil import ambient

SCHEMA = "id BIGINT NOT NULL, name STRING, region STRING"


def new_lake(folder: Path | None = None) -> Any:
    return frazil.connect(f"memory://optimize-{ambient.new_uuid()}" if folder is None else folder)


def iceberg_table(
    *,
    schema: str = SCHEMA,
    partition_by: tuple[str, ...] = (),
    format_version: int = 2,
    properties: dict[str, str] | None = None,
    **options: Any,
) -> Any:
    return new_lake().create_table(
        "db.t",
        schema,
        partition_by=partition_by,
        format_version=format_version,
        properties={"write.delete.mode": "merge-on-read", **(properties or {})},
        **options,
    )


def live(table: Any) -> list[str]:
    """The data files of a table."""
    return sorted(table.scan().plan().file_paths)


def deletes_of(table: Any) -> set[tuple[str, int | None]]:
    return {one.key for task in table.scan().plan().tasks() for one in task.deletes}


def sorted_rows(table: Any, **options: Any) -> list[dict[str, Any]]:
    return sorted(table.scan(**options).to_arrow().to_pylist(), key=repr)
