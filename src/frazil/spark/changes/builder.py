"""UPDATE, DELETE and MERGE from Python, on a table that no catalog of the session need have.

Conditions and values are SQL text; the table is `t` in it, and the source of a merge `s`. Other values than texts stand
for themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from frazil import ambient
from frazil.errors import ColumnNotFound, InvalidArgument, InvalidExpression
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
    conditions = () if where is None else (condition_sql(where, table.schema),)
    text = " WHERE ".join([f"UPDATE {{t}} AS t SET {_assignments(values, table.schema)}", *conditions])
    return Statement(table, text, spark, branch, (*_texts(values), *conditions)).execute()


def delete_on_spark(table: AnyTable, where: str | Expression, spark: SparkSession, branch: str) -> RowChanges:
    """DELETE."""
    return _deletion(table, where, spark, branch).execute()


def filter_on_spark(table: AnyTable, where: str, spark: SparkSession, branch: str) -> Expression:
    """What a condition of Spark's SQL says of the rows of a table; Unsupported if a filter cannot say it."""
    with _deletion(table, where, spark, branch).command() as command:
        return command.condition()


def _deletion(table: AnyTable, where: str | Expression, spark: SparkSession, branch: str) -> Statement:
    condition = condition_sql(where, table.schema)
    return Statement(table, f"DELETE FROM {{t}} AS t WHERE {condition}", spark, branch, (condition,))


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
    """SQL text in which `{t}` stands for a table. `parts` of it were given, and are to be an expression each."""

    table: AnyTable
    text: str
    spark: SparkSession | None = None
    branch: str = MAIN
    parts: tuple[str, ...] = ()

    def execute(self) -> RowChanges:
        """Carry it out, on the table as it is now."""
        self.table.refresh()
        with self.command() as command:
            changed: RowChanges = command.handle.change_rows(command)
        return changed

    def explain(self, mode: str | None = None) -> None:
        """Print Spark's plan of the rows that change; nothing is changed. `mode` is as for DataFrames."""
        self.table.refresh()
        with self.command() as command, command.narrowed() as narrowed:
            print(narrowed.explained(mode))  # noqa: T201

    @property
    def _session(self) -> SparkSession:
        return active_session() if self.spark is None else self.spark

    @contextmanager
    def command(self) -> Iterator[Command]:
        """The statement as Spark understands it, not carried out."""
        session = self._session
        _check_expressions(session, self.parts)
        bridge = any_bridge(session)
        with bridge.tables.held(lambda: handle_on(self.table, self.branch, session)) as name:
            target = ".".join(map(quoted_name, (bridge.name, HELD, name)))
            text = self.text.replace("{t}", target, 1)
            key, node = bridge.classes.FrazilRunner.about(session._jsparkSession, text)
            yield Command(bridge, bridge.handle(key), session, node)


def _check_expressions(spark: SparkSession, parts: Sequence[str]) -> None:
    """What is put into a statement must not be more than an expression: the rest would change what is said."""
    from pyspark.errors import ParseException

    parser = spark._jsparkSession.sessionState().sqlParser()
    for part in parts:
        try:
            parser.parseExpression(part)
        except ParseException as error:
            told = str(error).strip().splitlines()[0]
            raise InvalidExpression(
                f"{part!r} is no expression: {told}",
                hint="give one expression of Spark's SQL",
            ) from None


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
    parts: tuple[str, ...] = ()
    evolves: bool = False
    keys: tuple[str, ...] = ()
    """The columns of both that are to be equal, if that is what `on` says."""

    def when_matched_update(self, values: Values, condition: str | None = None) -> Merge:
        """Update rows that match."""
        return self._when("MATCHED", condition, f"UPDATE SET {_assignments(values, self.table.schema)}", values)

    def when_matched_update_all(self, condition: str | None = None) -> Merge:
        """Update all columns of rows that match, by the source's columns of the same names."""
        return self._when("MATCHED", condition, "UPDATE SET *")

    def when_matched_delete(self, condition: str | None = None) -> Merge:
        """Delete rows that match."""
        return self._when("MATCHED", condition, "DELETE")

    def when_not_matched_insert(self, values: Values, condition: str | None = None) -> Merge:
        """Insert rows of the source that match none."""
        names = ", ".join(map(quoted_name, values))
        given = ", ".join(f"{_sql(value)}\n" for value in values.values())
        return self._when("NOT MATCHED", condition, f"INSERT ({names}) VALUES ({given})", values)

    def when_not_matched_insert_all(self, condition: str | None = None) -> Merge:
        """Insert rows of the source that match none, by their columns of the same names."""
        return self._when("NOT MATCHED", condition, "INSERT *")

    def when_not_matched_by_source_update(self, values: Values, condition: str | None = None) -> Merge:
        """Update rows of the table that no row of the source matches."""
        action = f"UPDATE SET {_assignments(values, self.table.schema)}"
        return self._when("NOT MATCHED BY SOURCE", condition, action, values)

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

    def _when(self, when: str, condition: str | None, action: str, values: Values | None = None) -> Merge:
        if not isinstance(condition, str | None):
            raise InvalidArgument(f"{condition!r} is no condition", hint="give SQL text: the table is t, the source s")
        also = "" if condition is None else f" AND ({condition}\n)"
        parts = (*self.parts, *_texts(values or {}), *(() if condition is None else (condition,)))
        return replace(self, clauses=(*self.clauses, f"WHEN {when}{also} THEN {action}"), parts=parts)

    @contextmanager
    def _statement(self) -> Iterator[Statement]:
        if not self.clauses:
            raise InvalidArgument("a merge that does nothing", hint="say what: .when_matched_update_all() and the like")
        rows = _as_frame(self.source, self.spark, self.table.schema)
        _check_source(rows, self.keys)
        view = f"frazil_{ambient.new_uuid().hex}"
        rows.createTempView(view)
        clauses = sorted(self.clauses, key=_rank)
        evolution = " WITH SCHEMA EVOLUTION" if self.evolves else ""
        text = f"MERGE{evolution} INTO {{t}} AS t USING {view} AS s ON {self.on}\n{' '.join(clauses)}"
        try:
            yield Statement(self.table, text, rows.sparkSession, self.branch, (self.on, *self.parts))
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
    found = tuple(table.schema.find(name, case_sensitive=False).name for name in names)  # or it says what there is
    equal = " AND ".join(f"t.{quoted_name(name)} = s.{quoted_name(name)}" for name in found)
    return Merge(table, source, equal, spark, branch, keys=found)


def _check_source(rows: DataFrame, keys: Sequence[str]) -> None:
    """A name of the source that it does not have might be found in a struct `s` of the table."""
    is_exact = rows.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
    columns = set(rows.columns if is_exact else map(str.lower, rows.columns))
    for key in keys:
        if (key if is_exact else key.lower()) not in columns:
            raise ColumnNotFound(
                f"the source has no column {key!r}, by which rows are to match",
                hint=f"it has {', '.join(rows.columns)}; or give a condition such as 't.{key} = s.key'",
            )


def _as_frame(rows: Any, spark: SparkSession | None, schema: Schema) -> DataFrame:
    if hasattr(rows, "sparkSession"):
        frame: DataFrame = rows
        return frame
    session = active_session() if spark is None else spark
    if isinstance(rows, list) and all(isinstance(row, Mapping) for row in rows):
        known = schema_to_arrow(schema)
        rows = _narrowed(_as_table(rows), known) if rows else known.empty_table()
    elif type(rows).__module__.partition(".")[0] not in ("pyarrow", "pandas"):
        raise InvalidArgument(
            f"{type(rows).__name__} is no source of rows", hint="give a DataFrame, an Arrow table or a list of dicts"
        )
    return session.createDataFrame(rows)


def _as_table(rows: list[Mapping[str, Any]]) -> pa.Table:
    """Rows with the columns of all of them: Arrow would look at the first one's alone."""
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.Table.from_pylist([{**dict.fromkeys(names), **rows[0]}, *rows[1:]])


def _narrowed(rows: pa.Table, known: pa.Schema) -> pa.Table:
    """Numbers as wide as the table's, where they fit: Python has one kind, by which no column is to be widened."""
    wanted = {field.name.lower(): field.type for field in known}
    numbers = (pa.types.is_integer, pa.types.is_floating)
    for place, name in enumerate(rows.schema.names):
        column, kind = rows.column(place), wanted.get(name.lower())
        if kind is not None and any(is_of(column.type) and is_of(kind) for is_of in numbers):
            with suppress(pa.ArrowInvalid):  # too large: Spark says so, or the column is to become wider
                rows = rows.set_column(place, name, column.cast(kind))
    return rows


def _assignments(values: Values, schema: Schema) -> str:
    if not values:
        raise InvalidArgument("no column is given a value", hint="give {'column': 'expression'}")
    # each on a line of its own, as a value may end with a comment
    return ", ".join(f"{_assigned(name, schema)} = {_sql(value)}\n" for name, value in values.items())


def _texts(values: Values) -> Iterator[str]:
    return (value for value in values.values() if isinstance(value, str))


def _assigned(name: str, schema: Schema) -> str:
    """A column as SQL: by its dotted name, or quoted already."""
    is_quoted = "`" in name and schema.find_or_none(name, case_sensitive=False) is None
    return f"t.{name}" if is_quoted else column_sql(name, schema)


def _sql(value: Any) -> str:
    """Text is SQL; other values are themselves."""
    return value if isinstance(value, str) else value_sql(value)
