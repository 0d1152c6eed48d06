"""Procedures of self-optimizing: what tables need, and to do it, for a table, a namespace or the whole lake.

They are for tables of every format. Files are rewritten on the session's Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from frazil.errors import InvalidArgument
from frazil.optimize.lakes import optimize_any, optimize_tables
from frazil.optimize.outcome import COUNTS
from frazil.optimize.result import LakeResult, OptimizeResult
from frazil.optimize.run import Request
from frazil.spark.grammar import table_parts
from frazil.spark.optimize.executor import SparkExecutor
from frazil.spark.procedures.procedure import Arguments, Parameter, Procedure, Row, table_argument

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.spark.bridge import Bridge

_CHOICE = (
    Parameter("table", "STRING"),
    Parameter("namespace", "STRING"),
    Parameter("kind", "STRING"),
    Parameter("where", "STRING"),
    Parameter("sort_order", "STRING"),
)
_EVALUATED = (
    "table STRING NOT NULL, health INT, kind STRING, tasks INT, input_files INT, input_bytes BIGINT, "
    "small_files_score INT, equality_deletes_score INT, position_deletes_score INT, "
    "reasons ARRAY<STRING>, upkeep ARRAY<STRING>, problems ARRAY<STRING>"
)
_OPTIMIZED = (
    "table STRING NOT NULL, kind STRING, runs INT, health_before INT, "
    + ", ".join(f"{name} INT" for name in COUNTS)
    + ", reasons ARRAY<STRING>, upkeep ARRAY<STRING>, problems ARRAY<STRING>"
)


def _evaluate(bridge: Bridge, spark: SparkSession, _table: None, given: Arguments) -> Sequence[Row]:
    return [_evaluated(one) for one in _results(bridge, spark, given, _request(given, dry_run=True))]


def _optimize(bridge: Bridge, spark: SparkSession, _table: None, given: Arguments) -> Sequence[Row]:
    executor = SparkExecutor(spark, bridge)
    upkeep = given["upkeep"] is None or bool(given["upkeep"])
    request = _request(given, dry_run=bool(given["dry_run"]), upkeep=upkeep, executor=executor)
    done = _results(bridge, spark, given, request)
    for one in done:
        if isinstance(one, OptimizeResult) and not one.dry_run:
            bridge.refresh(one.table)
    return [_optimized(one) for one in done]


def _request(given: Arguments, **more: object) -> Request:
    kind = None if given["kind"] is None else given["kind"].lower()
    return Request(kind, given["where"], given["sort_order"], **more)  # type: ignore[arg-type]


def _results(
    bridge: Bridge, spark: SparkSession, given: Arguments, request: Request
) -> Sequence[OptimizeResult | tuple[str, str]]:
    """What became of the table, or of each of many; a name and an error, where it failed."""
    if given["table"] is not None:
        if given["namespace"] is not None:
            raise InvalidArgument("a table and a namespace are given", hint="give one of them")
        return [optimize_any(table_argument(bridge, spark, given["table"]), request)]
    if given["where"] is not None or given["sort_order"] is not None:
        raise InvalidArgument("where and sort_order are of one table", hint="write table => ...")
    namespace = None if given["namespace"] is None else _namespace(bridge, given["namespace"])
    lake = bridge.lake
    found: LakeResult = optimize_tables(lake.tables(namespace), lake.table, request)
    return [*found.tables, *found.problems]


def _namespace(bridge: Bridge, text: str) -> tuple[str, ...]:
    parts = table_parts(text)
    return parts[1:] if len(parts) > 1 and parts[0] == bridge.name else parts


def _evaluated(one: OptimizeResult | tuple[str, str]) -> Row:
    if not isinstance(one, OptimizeResult):
        return (one[0], *[None] * 8, [], [], [one[1]])
    health = one.health
    plan = (_word(one), one.planned_tasks, one.planned_files, one.planned_bytes)
    scores = (health.small_files, health.equality_deletes, health.position_deletes)
    return (one.table, health.score, *plan, *scores, *_told(one))


def _optimized(one: OptimizeResult | tuple[str, str]) -> Row:
    if not isinstance(one, OptimizeResult):
        return (one[0], *[None] * (3 + len(COUNTS)), [], [], [one[1]])
    return (one.table, _word(one), len(one.runs), one.health.score, *map(one.count, COUNTS), *_told(one))


def _word(one: OptimizeResult) -> str | None:
    return None if one.kind is None else one.kind.name.lower()


def _told(one: OptimizeResult) -> Iterable[list[str]]:
    """Why, what else was done, and what went wrong, in words."""
    return [*one.reasons, *one.health.reasons], [str(step) for step in one.upkeep], [*one.problems]


PROCEDURES = (
    Procedure("evaluate", _CHOICE, _EVALUATED, _evaluate, on_table=False),
    Procedure(
        "optimize",
        (*_CHOICE, Parameter("dry_run", "BOOLEAN"), Parameter("upkeep", "BOOLEAN")),
        _OPTIMIZED,
        _optimize,
        on_table=False,
    ),
)
