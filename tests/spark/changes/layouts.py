"""The same rows in tables of every make: how they are partitioned, written, evolved, and deleted from."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from frazil.iceberg.equality_writer import EqualityDeleteWriter
from frazil.model.conform import conform

if TYPE_CHECKING:
    from frazil.iceberg.table import IcebergTable
    from frazil.lake import Lake

COPY, MERGE = "copy-on-write", "merge-on-read"
WAYS = [(1, COPY), (2, COPY), (2, MERGE), (3, COPY), (3, MERGE)]
"""Format versions and modes that go together: version 1 has no delete files."""
COLUMNS = "id BIGINT NOT NULL, cat STRING, v BIGINT, x DOUBLE, ts TIMESTAMP"
NAMES = ("id", "cat", "v", "x", "ts")


def day(number: int) -> dt.datetime:
    return dt.datetime(2024, 1, number, 10, 30, tzinfo=dt.UTC)


ROWS: list[tuple[Any, ...]] = [
    (1, "a", 10, 1.5, day(1)),
    (2, "b", 20, None, day(1)),
    (3, "a", None, 3.5, day(2)),
    (4, None, 40, -4.0, day(2)),
    (5, "b", 50, 0.0, None),
    (6, "c", None, None, day(3)),
    (7, "a", 70, 7.25, day(3)),
    (8, "c", 80, float("inf"), day(1)),
]
SOURCE: list[tuple[Any, ...]] = [
    (2, "b", 21, 2.0, day(1)),
    (3, "c", 31, None, day(2)),
    (5, None, None, 5.5, day(5)),
    (20, "a", 200, 0.5, day(1)),
    (21, "d", None, None, None),
]
_HALF = len(ROWS) // 2


def as_dicts(rows: Iterable[tuple[Any, ...]], names: Iterable[str] = NAMES) -> list[dict[str, Any]]:
    return [dict(zip(names, row, strict=True)) for row in rows]


def modes(mode: str, isolation: str = "serializable") -> dict[str, str]:
    """Properties: every command in one mode."""
    kinds = ("delete", "update", "merge")
    levels = {f"write.{kind}.isolation-level": isolation for kind in kinds}
    return {**{f"write.{kind}.mode": mode for kind in kinds}, **levels}


def new(
    lake: Lake, name: str, version: int, mode: str, by: Iterable[str] = (), columns: str = COLUMNS, **more: str
) -> IcebergTable:
    """An empty table."""
    properties = {**modes(mode), **{key.replace("__", ".").replace("_", "-"): text for key, text in more.items()}}
    return lake.create_table(
        name.removeprefix("lake."), columns, partition_by=by, format_version=version, properties=properties
    )


def _filled(table: IcebergTable) -> None:
    table.append(as_dicts(ROWS[:_HALF]))
    table.append(as_dicts(ROWS[_HALF:]))


def plain(lake: Lake, name: str, version: int, mode: str) -> None:
    _filled(new(lake, name, version, mode))


def identity(lake: Lake, name: str, version: int, mode: str) -> None:
    _filled(new(lake, name, version, mode, ["cat"]))


def bucket(lake: Lake, name: str, version: int, mode: str) -> None:
    _filled(new(lake, name, version, mode, ["bucket(3, id)"]))


def days(lake: Lake, name: str, version: int, mode: str) -> None:
    _filled(new(lake, name, version, mode, ["days(ts)", "cat"], write__delete__granularity="partition"))


def avro(lake: Lake, name: str, version: int, mode: str) -> None:
    _filled(new(lake, name, version, mode, write__format__default="avro"))


def orc(lake: Lake, name: str, version: int, mode: str) -> None:
    _filled(new(lake, name, version, mode, ["cat"], write__format__default="orc"))


def specs(lake: Lake, name: str, version: int, mode: str) -> None:
    """A part of the rows was written before the table was partitioned, another one after it was so otherwise."""
    table = new(lake, name, version, mode)
    table.append(as_dicts(ROWS[:3]))
    table.update_spec().add_field("cat").commit()
    table.append(as_dicts(ROWS[3:6]))
    table.update_spec().remove_field("cat").add_field("truncate(2, id)").commit()
    table.append(as_dicts(ROWS[6:]))


def sorted_(lake: Lake, name: str, version: int, mode: str) -> None:
    """Rows are sent to the task of their partition and sorted there, other commands have their own ways."""
    table = new(
        lake,
        name,
        version,
        mode,
        ["cat"],
        write__distribution_mode="hash",
        write__update__distribution_mode="none",
        write__merge__distribution_mode="range",
    )
    table.update_sort_order().by("v DESC NULLS LAST", "bucket(2, id)").commit()
    _filled(table)


def evolved(lake: Lake, name: str, version: int, mode: str) -> None:
    """Columns were dropped, renamed, widened, moved and added since the first rows were written."""
    table = new(lake, name, version, mode, columns="gone STRING, v2 INT, id INT NOT NULL, cat STRING, ts TIMESTAMP")
    old = [{"gone": "?", "v2": row[2], "id": row[0], "cat": row[1], "ts": row[4]} for row in ROWS if row[3] is None]
    table.append(old)
    change = table.update_schema().drop_column("gone").rename_column("v2", "v").add_column("x", "double")
    change.commit()
    change = table.update_schema().update_column("id", "long").update_column("v", "long")
    change.move_first("id").move_after("cat", "id").move_after("v", "cat").move_after("x", "v").commit()
    assert tuple(column.name for column in table.schema.fields) == NAMES
    table.append(as_dicts(row for row in ROWS if row[3] is not None))


def deleted(lake: Lake, name: str, version: int, mode: str) -> None:
    """Other rows were there and are deleted: by positions, vectors and keys, in a table that was upgraded meanwhile."""
    table = new(lake, name, min(version, 2), mode, write__delete__granularity="partition")
    more = [(100 + number, "a", number, 0.0, day(1)) for number in range(4)]
    table.append(as_dicts([more[0], *ROWS[:3], more[1]]))
    if version == 1:
        table.delete("id >= 100")
        table.append(as_dicts(ROWS[3:]))
        return
    table.update_properties().set("write.delete.mode", MERGE).commit()
    table.delete("id = 100")
    table.update_properties().set("write.delete.granularity", "file").commit()
    table.delete("id = 101")
    if version == 3:
        table.upgrade_format_version().to(3).commit()
    table.append(as_dicts([*ROWS[3:6], more[2], more[3]]))
    table.delete("id = 102")
    writer = EqualityDeleteWriter(table.metadata, table.store, [1])
    delta = table.new_row_delta()
    for file in writer.write(conform([{"id": 103}, {"id": 7}], writer.schema)):
        delta.add_deletes(file)
    delta.commit()
    table.append(as_dicts(ROWS[6:]))
    table.update_properties().set("write.delete.mode", mode).commit()


LAYOUTS: dict[str, Callable[[Lake, str, int, str], None]] = {
    made.__name__: made for made in (plain, identity, bucket, days, specs, sorted_, evolved, deleted, avro, orc)
}
