"""Keyed tables for tests of writing, each with a dictionary of the rows it should have."""

from __future__ import annotations

import itertools
from typing import Any

from frazil.lake import Lake
from frazil.mixed.table import MixedTable
from tests.spark.mixed.conftest import WAYS

SCHEMA = "id BIGINT NOT NULL, name STRING, region STRING"
PARTITIONINGS: dict[str, list[str]] = {"whole": [], "by key": ["bucket(2, id)"], "by region": ["region"]}

_WAYS = itertools.cycle(WAYS.values())

Rows = dict[int, tuple[Any, ...]]


class Keyed:
    """A table and what it should hold."""

    def __init__(
        self, lake: Lake, name: str, partition_by: list[str], *, schema: str = SCHEMA, **properties: str
    ) -> None:
        self.lake, self.name = lake, name
        self.table: MixedTable = lake.create_table(  # type: ignore[assignment]
            name.removeprefix("lake."),
            schema,
            format="mixed",
            primary_key=["id"],
            partition_by=partition_by,
            properties=properties,
        )
        self.rows: Rows = {}

    def filled(self, count: int = 12) -> Keyed:
        """With rows of three regions, of which some are in the base store and some were changed since."""
        rows = [{"id": n, "name": "old", "region": ("eu", "us", None)[n % 3]} for n in range(count)]
        self.table.append(rows[: count // 2])
        self.table.optimize("minor", upkeep=False)
        self.table.append(rows[count // 2 :])
        self.rows = {row["id"]: tuple(row.values()) for row in rows}
        return self

    @property
    def versions(self) -> list[int]:
        """The snapshots that brought or took rows."""
        return [one.snapshot_id for one in self.table.refresh().snapshots if "added-data-files" in one.summary]

    def check(self, spark: Any) -> None:
        """Spark in one of its ways to read, a table opened anew, and the table's own object find the rows."""
        wanted = sorted(self.rows.values(), key=repr)
        options = next(_WAYS)
        found = spark.read.options(**options).table(self.name).collect()
        assert sorted(map(tuple, found), key=repr) == wanted, options
        opened: Any = self.lake.table(self.name.removeprefix("lake."))
        assert in_process(opened) == wanted
        assert in_process(self.table.refresh()) == wanted


def in_process(table: MixedTable) -> list[tuple[Any, ...]]:
    """The rows that the kernel reads."""
    return sorted((tuple(row.values()) for row in table.scan().to_arrow().to_pylist()), key=repr)
