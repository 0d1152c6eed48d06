"""How a case of Iceberg's Spark documentation is told: what is there, the statement, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from frazil.errors import FrazilError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.iceberg.table import IcebergTable
    from frazil.lake import Lake

Row = tuple[Any, ...]


@dataclass(frozen=True)
class World:
    """The catalog `prod` of the documentation."""

    spark: SparkSession
    lake: Lake

    def sql(self, text: str) -> list[Row]:
        """Run a statement; its rows."""
        return [tuple(row) for row in self.spark.sql(text).collect()]

    def table(self, name: str = "db.sample") -> IcebergTable:
        """A table as the kernel sees it."""
        return self.lake.table(name)


Effect = Callable[[World], Any]


@dataclass(frozen=True)
class Case:
    """Run `setup` and `statement` (`;` parts several); then `effect`, a query or a function, gives `expected`.

    Without an effect the rows of the statement itself are expected, in any order.
    """

    section: str
    statement: str
    expected: Any = None
    effect: str | Effect | None = None
    setup: str = ""

    def __str__(self) -> str:
        return f"{self.section}: {' '.join(self.statement.split())}"

    def run(self, world: World) -> None:
        """Carry it out and compare."""
        for text in statements(self.setup):
            world.sql(text)
        rows: list[Row] = []
        for text in statements(self.statement):
            rows = world.sql(text)
        if self.effect is not None:
            found = world.sql(self.effect) if isinstance(self.effect, str) else self.effect(world)
        else:
            found = rows
        assert in_any_order(found) == in_any_order(self.expected)


def statements(text: str) -> Iterator[str]:
    """Statements parted by semicolons, without the empty ones."""
    return (part for part in map(str.strip, text.split(";")) if part)


def in_any_order(rows: Any) -> Any:
    """Rows sorted, if these are rows; None sorts like anything else."""
    return sorted(rows, key=repr) if isinstance(rows, list) and all(isinstance(row, tuple) for row in rows) else rows


# What can be seen of the table prod.db.sample


def columns(world: World) -> list[str]:
    """Its columns, as `name type`, with the comment behind it."""
    told = []
    for name, kind, comment in world.sql("DESCRIBE prod.db.sample"):
        if not name or name.startswith("#"):
            break
        told.append(f"{name} {kind}" + ("" if comment is None else f": {comment}"))
    return told


def required(world: World) -> list[str]:
    """The columns that are NOT NULL."""
    return [column.name for column in world.table().schema.fields if column.required]


def partitioning(world: World) -> list[str]:
    """Its partition fields, as `name = transform(column)`."""
    table = world.table()
    return [f"{field.name} = {field.transform}({table.schema.name_of(field.source_id)})" for field in table.spec.fields]


def write_order(world: World) -> tuple[str | None, str | None]:
    """Its sort order, and how rows are distributed when they are written."""
    told = dict(world.sql("SHOW TBLPROPERTIES prod.db.sample"))
    return told.get("sort-order"), told.get("write.distribution-mode")


def identifiers(world: World) -> set[str | None]:
    """Its identifier fields."""
    schema = world.table().schema
    return {schema.name_of(number) for number in schema.identifier_field_ids}


def shown(key: str) -> Effect:
    """A property, as it is shown."""
    return lambda world: dict(world.sql("SHOW TBLPROPERTIES prod.db.sample")).get(key)


def comment(world: World) -> str:
    """What it is said to be."""
    return {row[0]: row[1] for row in world.sql("DESCRIBE EXTENDED prod.db.sample")}["Comment"]


def tables(world: World) -> list[str]:
    """The tables of namespace db."""
    return [row[1] for row in world.sql("SHOW TABLES IN prod.db")]


SAMPLE = "CREATE TABLE prod.db.sample (id bigint, data string, category string, ts timestamp) USING iceberg"


def sample(more: str) -> str:
    """The sample table with other columns."""
    return f"CREATE TABLE prod.db.sample ({more}) USING iceberg"


def partitioned(*terms: str) -> str:
    """The sample table with partition fields."""
    return ";".join([SAMPLE.replace("ts timestamp", "ts timestamp, catalog string"), *map(add_field, terms)])


def add_field(term: str) -> str:
    """A partition field more."""
    return f"ALTER TABLE prod.db.sample ADD PARTITION FIELD {term}"


def refused(world: World, change: str, setup: str) -> None:
    """A change of the sample table that is refused, and leaves it as it was."""
    from pyspark.errors import AnalysisException

    world.sql(setup)
    before = world.table().metadata_location
    with pytest.raises((AnalysisException, FrazilError)):
        world.sql(f"ALTER TABLE prod.db.sample {change}")
    assert world.table().metadata_location == before
