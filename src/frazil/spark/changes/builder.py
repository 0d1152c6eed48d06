"""UPDATE, DELETE and MERGE from Python, on a table that no catalog of the session need have.

Conditions and values are SQL text; the table is `t` in it, and the source of a merge `s`. Other values than texts stand
for themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from frazil import ambient
from frazil.errors import InvalidArgument
from frazil.iceberg.refs import MAIN
from frazil.iceberg.rewritten import ConvertedDeleteFiles, RewrittenDataFiles, RewrittenDeleteFiles
from frazil.iceberg.row_changes import RowChanges
from frazil.lake import connect
from frazil.model.arrow import schema_to_arrow
from frazil.spark.attach import OWN_CATALOG, attach, bridges_of
from frazil.spark.catalog import HELD
from frazil.spark.changes.command import Command
from frazil.spark.changes.conditions import column_sql, condition_sql, value_sql
from frazil.spark.formats import handle_on
from frazil.spark.iceberg.handle import on_branch
from frazil.spark.scan.relations import quoted_name
from frazil.spark.session import active_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from frazil.iceberg.table import IcebergTable
    from frazil.lance.table import LanceTable
    from frazil.mixed.table import MixedTable
    from frazil.model.expressions import Expression
    from frazil.model.schema import Schema
    from frazil.spark.bridge import Bridge

Values = Mapping[str, Any]
AnyTable: TypeAlias = "IcebergTable | LanceTable | MixedTable"


def update_rows(
    table: AnyTable, values: Values, where: str | Expression | None, spark: SparkSession | None, branch: str
) -> RowChanges:
    """UPDATE."""
    condition = "" if where is None else f" WHERE {condition_sql(where, table.schema)}"
    return Statement(
        table, f"UPDATE {{t}} AS t SET {_assignments(values, table.schema)}{condition}", spark, branch
    ).execute()


def delete_on_spark(table: AnyTable, where: str | Expression, spark: SparkSession, branch: str) -> RowChanges:
    """DELETE."""
    return _deletion(table, where, spark, branch).execute()


def filter_on_spark(table: AnyTable, where: str, spark: SparkSession, branch: str) -> Expression:
    """What a condition of Spark's SQL says of the rows of a table; Unsupported if a filter cannot say it."""
    with _deletion(table, where, spark, branch).command() as command:
        return command.condition()


def _deletion(table: AnyTable, where: str | Expression, spark: SparkSession, branch: str) -> Statement:
    return Statement(table, f"DELETE FROM {{t}} AS t WHERE {condition_sql(where, table.schema)}", spark, branch)


def compact(
    table: IcebergTable,
    strategy: str | None,
    sort_order: str | None,
    where: str | Expression | None,
    options: Mapping[str, str] | None,
    spark: SparkSession | None,
    branch: str,
) -> RewrittenDataFiles:
    """Compaction."""
    from frazil.spark.upkeep.rewrite_data_files import rewrite_data_files

    session = active_session() if spark is None else spark
    return rewrite_data_files(
        any_bridge(session), session, on_branch(table, branch), strategy, sort_order, where, options
    )


def convert_on_spark(
    table: IcebergTable,
    where: str | Expression | None,
    options: Mapping[str, str] | None,
    spark: SparkSession,
    branch: str,
) -> ConvertedDeleteFiles:
    """Conversion of equality deletes."""
    from frazil.spark.upkeep.convert_equality_deletes import convert_equality_deletes

    return convert_equality_deletes(any_bridge(spark), spark, on_branch(table, branch), where, options)


def rewrite_deletes_on_spark(
    table: IcebergTable,
    where: str | Expression | None,
    options: Mapping[str, str] | None,
    spark: SparkSession,
    branch: str,
) -> RewrittenDeleteFiles:
    """Compaction of position delete files."""
    from frazil.spark.upkeep.rewrite_position_delete_files import rewrite_position_delete_files

    return rewrite_position_delete_files(spark, table, where, options or {}, branch)


@dataclass(frozen=True)
class Statement:
    """SQL text in which `{t}` stands for a table."""

    table: AnyTable
    text: str
    spark: SparkSession | None = None
    branch: str = MAIN

    def execute(self) -> RowChanges:
        """Carry it out. If there is nothing to change, what the table has become since it was loaded is looked at."""
        changed, seen = self._execute()
        if changed.snapshot is None and handle_on(self.table.refresh(), self.branch, self._session).rows != seen:
            changed, _ = self._execute()
        return changed

    def _execute(self) -> tuple[RowChanges, str]:
        """What changed, and what the rows were that were looked at."""
        with self.command() as command:
            return command.handle.change_rows(command), command.handle.rows

    def explain(self, mode: str | None = None) -> None:
        """Print Spark's plan of the rows that change; nothing is changed. `mode` is as for DataFrames."""
        with self.command() as command, command.narrowed() as narrowed:
            print(narrowed.explained(mode))  # noqa: T201

    @property
    def _session(self) -> SparkSession:
        return active_session() if self.spark is None else self.spark

    @contextmanager
    def command(self) -> Iterator[Command]:
        """The statement as Spark understands it, not carried out."""
        session = self._session
        bridge = any_bridge(session)
        with bridge.tables.held(lambda: handle_on(self.table, self.branch, session)) as name:
            target = ".".join(map(quoted_name, (bridge.name, HELD, name)))
            text = self.text.replace("{t}", target, 1)
            key, node = bridge.classes.FrazilRunner.about(session._jsparkSession, text)
            yield Command(bridge, bridge.handle(key), session, node)


def any_bridge(spark: SparkSession) -> Bridge:
    """A bridge of the session: that of a lake it has, or of one that is made for it."""
    found = bridges_of(spark)
    return found[0] if found else attach(connect("memory:"), spark, OWN_CATALOG)


@dataclass(frozen=True)
class Merge:
    """A MERGE in the making. Clauses are tried in the order they were added; each method gives a new one."""

    table: AnyTable
    source: Any
    on: str
    spark: SparkSession | None = None
    branch: str = MAIN
    clauses: tuple[str, ...] = ()
    evolves: bool = False

    def when_matched_update(self, values: Values, condition: str | None = None) -> Merge:
        """Update rows that match."""
        return self._when("MATCHED", condition, f"UPDATE SET {_assignments(values, self.table.schema)}")

    def when_matched_update_all(self, condition: str | None = None) -> Merge:
        """Update all columns of rows that match, by the source's columns of the same names."""
        return self._when("MATCHED", condition, "UPDATE SET *")

    def when_matched_delete(self, condition: str | None = None) -> Merge:
        """Delete rows that match."""
        return self._when("MATCHED", condition, "DELETE")

    def when_not_matched_insert(self, values: Values, condition: str | None = None) -> Merge:
        """Insert rows of the source that match none."""
        names = ", ".join(map(quoted_name, values))
        return self._when(
            "NOT MATCHED", condition, f"INSERT ({names}) VALUES ({', '.join(map(_sql, values.values()))})"
        )

    def when_not_matched_insert_all(self, condition: str | None = None) -> Merge:
        """Insert rows of the source that match none, by their columns of the same names."""
        return self._when("NOT MATCHED", condition, "INSERT *")

    def when_not_matched_by_source_update(self, values: Values, condition: str | None = None) -> Merge:
        """Update rows of the table that no row of the source matches."""
        return self._when("NOT MATCHED BY SOURCE", condition, f"UPDATE SET {_assignments(values, self.table.schema)}")

    def when_not_matched_by_source_delete(self, condition: str | None = None) -> Merge:
        """Delete rows of the table that no row of the source matches."""
        return self._when("NOT MATCHED BY SOURCE", condition, "DELETE")

    def with_schema_evolution(self) -> Merge:
        """Let columns that only the source has become columns of the table."""
        return replace(self, evolves=True)

    def execute(self) -> RowChanges:
        """Carry it out, in one commit."""
        with self._statement() as statement:
            return statement.execute()

    def explain(self, mode: str | None = None) -> None:
        """Print Spark's plan of the rows that change; nothing is changed. `mode` is as for DataFrames."""
        with self._statement() as statement:
            statement.explain(mode)

    def _when(self, when: str, condition: str | None, action: str) -> Merge:
        if not isinstance(condition, str | None):
            raise InvalidArgument(f"{condition!r} is no condition", hint="give SQL text: the table is t, the source s")
        also = "" if condition is None else f" AND ({condition})"
        return replace(self, clauses=(*self.clauses, f"WHEN {when}{also} THEN {action}"))

    @contextmanager
    def _statement(self) -> Iterator[Statement]:
        if not self.clauses:
            raise InvalidArgument("a merge that does nothing", hint="say what: .when_matched_update_all() and the like")
        rows = _as_frame(self.source, self.spark, self.table.schema)
        view = f"frazil_{ambient.new_uuid().hex}"
        rows.createTempView(view)
        clauses = sorted(self.clauses, key=_rank)
        evolution = " WITH SCHEMA EVOLUTION" if self.evolves else ""
        text = f"MERGE{evolution} INTO {{t}} AS t USING {view} AS s ON {self.on} {' '.join(clauses)}"
        try:
            yield Statement(self.table, text, rows.sparkSession, self.branch)
        finally:
            rows.sparkSession.catalog.dropTempView(view)


def _rank(clause: str) -> int:
    """Spark wants clauses of a kind together: matched, not matched, not matched by source."""
    if clause.startswith("WHEN NOT MATCHED BY SOURCE"):
        return 2
    return 1 if clause.startswith("WHEN NOT MATCHED") else 0


def merge_rows(table: AnyTable, source: Any, on: str | Sequence[str], spark: SparkSession | None, branch: str) -> Merge:
    """MERGE. `on` is a condition, the name of a column that both have, or several names."""
    names = [on] if isinstance(on, str) else list(on or ())
    if not all(isinstance(name, str) for name in names) or not names:
        raise InvalidArgument("nothing to match rows by", hint="give a condition, or names of columns")
    if isinstance(on, str) and on.lower() not in map(str.lower, table.schema.columns):
        return Merge(table, source, on, spark, branch)
    found = [table.schema.find(name, case_sensitive=False).name for name in names]  # or it says what there is
    return Merge(table, source, " AND ".join(f"t.{quoted_name(n)} = s.{quoted_name(n)}" for n in found), spark, branch)


def _as_frame(rows: Any, spark: SparkSession | None, schema: Schema) -> DataFrame:
    if hasattr(rows, "sparkSession"):
        frame: DataFrame = rows
        return frame
    session = active_session() if spark is None else spark
    if isinstance(rows, list) and all(isinstance(row, Mapping) for row in rows):
        rows = _as_table(rows) if rows else schema_to_arrow(schema).empty_table()
    elif type(rows).__module__.partition(".")[0] not in ("pyarrow", "pandas"):
        raise InvalidArgument(
            f"{type(rows).__name__} is no source of rows", hint="give a DataFrame, an Arrow table or a list of dicts"
        )
    return session.createDataFrame(rows)


def _as_table(rows: list[Mapping[str, Any]]) -> pa.Table:
    """Rows with the columns of all of them: Arrow would look at the first one's alone."""
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.Table.from_pylist([{**dict.fromkeys(names), **rows[0]}, *rows[1:]])


def _assignments(values: Values, schema: Schema) -> str:
    if not values:
        raise InvalidArgument("no column is given a value", hint="give {'column': 'expression'}")
    return ", ".join(f"{_assigned(name, schema)} = {_sql(value)}" for name, value in values.items())


def _assigned(name: str, schema: Schema) -> str:
    """A column as SQL: by its dotted name, or quoted already."""
    is_quoted = "`" in name and schema.find_or_none(name, case_sensitive=False) is None
    return f"t.{name}" if is_quoted else column_sql(name, schema)


def _sql(value: Any) -> str:
    """Text is SQL; other values are themselves."""
    return value if isinstance(value, str) else value_sql(value)
