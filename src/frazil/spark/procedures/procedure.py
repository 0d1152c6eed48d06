"""What a procedure is, and what all of them do with their arguments.

Arguments come as Python's values of Spark's: timestamps in microseconds, arrays as lists, maps as lists of pairs.
Tables come as text that may begin with the catalog's name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from frazil.errors import InvalidArgument
from frazil.spark.grammar import table_parts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.spark.bridge import Bridge

Row = tuple[Any, ...]
Arguments = dict[str, Any]
Run = Callable[["Bridge", "SparkSession", Any, Arguments], Sequence[Row]]
"""What a call does: with a session, the table that it names (None if it names none that is there) and its arguments."""


@dataclass(frozen=True)
class Parameter:
    """An argument: its name and its SQL type. One that need not be given is None then."""

    name: str
    type: str
    required: bool = False


@dataclass(frozen=True)
class Procedure:
    """What can be called: `run` gives rows of `output` (a DDL text).

    `run` is for Iceberg tables; those of other formats have theirs, of the same parameters (`Format.procedures`).
    """

    name: str
    parameters: tuple[Parameter, ...]
    output: str
    run: Run
    on_table: bool = True
    """Whether its argument `table` names a table that is there."""


TABLE = Parameter("table", "STRING", required=True)


def table_name_argument(bridge: Bridge, spark: SparkSession, text: str) -> tuple[str, ...]:
    """The name in an argument, without the catalog's; a name alone is in the session's current namespace."""
    parts = table_parts(text)
    if len(parts) > 2 and parts[0] == bridge.name:
        return parts[1:]
    if len(parts) == 1 and spark.catalog.currentCatalog() == bridge.name:
        return (*table_parts(spark.catalog.currentDatabase()), *parts)
    return parts


def table_argument(bridge: Bridge, spark: SparkSession, text: str) -> Any:
    """The table that an argument names."""
    return bridge.lake.table(table_name_argument(bridge, spark, text))


def milliseconds(micros: int | None) -> int | None:
    """A timestamp of Spark's as metadata counts time."""
    return None if micros is None else micros // 1000


def text_map(name: str, pairs: list[tuple[str, str | None]] | None) -> dict[str, str]:
    """A map argument; none at all is an empty one."""
    given = dict(pairs or ())
    missing = [key for key, value in given.items() if value is None]
    if missing:
        raise InvalidArgument(f"{name} has no value for {missing[0]!r}", hint="give every key a value")
    return {key: value for key, value in given.items() if value is not None}
