"""A row-level command as Spark analysed it: what it is, how the table wants it done, and the query of its changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from frazil.errors import InvalidArgument, Unsupported
from frazil.model.expressions import Expression
from frazil.spark.changes.once import made_once
from frazil.spark.describe import EVOLUTION, describe
from frazil.spark.plans import frame_of
from frazil.spark.scan.filters import exact_row_filter, row_filter, wider_row_filter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from frazil.spark.bridge import Bridge
    from frazil.spark.handles import CommandKind, TableHandle

_KINDS: dict[str, CommandKind] = {"DeleteFromTable": "delete", "UpdateTable": "update", "MergeIntoTable": "merge"}
_HIDDEN = ("_file", "_pos", "__row_operation")
_LARGE = 1_000_000


@dataclass(frozen=True)
class Command:
    """A DELETE, UPDATE or MERGE of one table; `node` is Spark's plan of it."""

    bridge: Bridge
    handle: TableHandle
    spark: SparkSession
    node: Any
    only: Any = None
    """An expression of Spark's that is true for the rows of the table that the command need look at."""
    has_made_source: bool = False
    """Whether the rows of a MERGE's source are kept: they are the same whenever they are read."""

    @property
    def kind(self) -> CommandKind:
        return _KINDS[self.node.getClass().getSimpleName()]

    @property
    def copies(self) -> bool:
        """Whether the files with changed rows are written anew; else what is gone from them is noted beside them."""
        return self.handle.copies(self.kind)

    @property
    def _rules(self) -> Any:
        return self.bridge.classes.FrazilRowLevel

    def check(self) -> None:
        """Refuse what this Spark cannot do, and tables whose columns hide what rows are changed by."""
        if self.kind == "merge" and self.node.withSchemaEvolution():
            self._check_evolution()
        clash = [column.name for column in self.handle.schema.fields if column.name.lower() in _HIDDEN]
        if clash:
            raise InvalidArgument(
                f"column {clash[0]!r} of {self.handle.name} hides a column by which rows are changed",
                hint="rename it",
            )

    def _check_evolution(self) -> None:
        """Where nothing evolves Spark would leave out the columns that are new, and say nothing."""
        if not self.bridge.dialect.schema_evolution:
            raise Unsupported(
                f"Spark {self.spark.version} has no MERGE WITH SCHEMA EVOLUTION",
                hint="add the columns by ALTER TABLE first, or use Spark 4.1",
            )
        if EVOLUTION not in self.handle.capabilities(self.bridge.dialect):
            raise Unsupported(
                f"{self.handle.name} takes no columns by MERGE WITH SCHEMA EVOLUTION",
                hint="add them by ALTER TABLE first",
            )

    def depends_on(self) -> Expression:
        """A filter that is true for every row of the table that the command looks at."""
        return wider_row_filter(self._rules.looksAt(self.node), self.handle.schema)

    @property
    def reads_itself(self) -> bool:
        """Whether the table is also where values or conditions come from: in subqueries, or in a merge's source."""
        return bool(self._rules.readsItself(self.node))

    @property
    def minds_matches(self) -> bool:
        """Whether a MERGE may find a match that it leaves alone, and inserts nothing because of it."""
        return bool(self._rules.mindsMatches(self.node))

    def exactly(self) -> Expression | None:
        """The rows that a DELETE deletes, if a filter can say that."""
        return exact_row_filter(self._rules.deletes(self.node), self.handle.schema) if self.kind == "delete" else None

    def condition(self) -> Expression:
        """The same; Unsupported if a filter cannot say it."""
        return row_filter(self._rules.deletes(self.node), self.handle.schema)

    @contextmanager
    def narrowed(self) -> Iterator[Command]:
        """A MERGE that reads only where its source's keys may be. The source is made once."""
        if not self._rules.hasKeys(self.node):
            yield self
            return
        with self.made(frame_of(self.spark, self.node.sourceTable())) as source:
            node = self._rules.narrowed(source._jdf, self.node)
            only = self._rules.mayMatch(node) if self._is_large else None
            yield replace(self, node=node, only=only, has_made_source=True)

    @property
    def _is_large(self) -> bool:
        """Whether looking at every key of the table once more is less work than to move its rows."""
        return self.handle.row_count >= _LARGE

    def made(self, rows: DataFrame) -> AbstractContextManager[DataFrame]:
        """Rows that are made once."""
        return made_once(rows, self.bridge.classes)

    @property
    def is_repeatable(self) -> bool:
        """Whether the changes need not be kept: they are read once, or give the same rows when they are read again."""
        if self.kind == "merge":  # to read its changes twice is to join twice
            return not self.copies and self.has_made_source and bool(self._rules.isRepeatable(self.node))
        return self.kind == "delete" or bool(self._rules.isRepeatable(self.node))

    def changes(self) -> DataFrame:
        """The rows that change, as FrazilRowLevel tells."""
        return frame_of(self.spark, self._rules.changes(self.node, self.only))

    def old_and_new(self) -> DataFrame:
        """The same, with the row as it was in the place of where it is."""
        return frame_of(self.spark, self._rules.oldAndNew(self.node, self.only))

    def explained(self, mode: str | None = None) -> str:
        """What is done, and Spark's plan of the rows that change. `mode` is as for DataFrames."""
        rows: Any = self.old_and_new() if self.handle.changes_by_key else self.changes()
        plans: Any = self.spark.sparkContext._jvm
        shown = plans.org.apache.spark.sql.execution.ExplainMode.fromString(mode or "simple")
        what = (
            "writes deletes of their keys, and new rows"
            if self.handle.changes_by_key
            else ("rewrites the files that they are in" if self.copies else "writes deletes beside their files")
        )
        told = f"{self.kind.upper()} of {self.handle.name}: reads these rows, and {what}"
        return f"{told}\n{rows._jdf.queryExecution().explainString(shown)}"

    def on(self, handle: TableHandle) -> Command:
        """The command on another state of the table, with the same columns."""
        node = self._rules.moved(self.node, describe(self.bridge, handle))
        return replace(self, handle=handle, node=node, only=None)
