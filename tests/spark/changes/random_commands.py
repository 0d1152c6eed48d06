"""A table and a plain model of it, both driven by the same random commands; every rule ends in `took_place`.

Work that must not change rows, as compaction, is a rule that ends in `took_place(self.rows)`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from frazil import ambient
from tests.spark.changes.conftest import left_behind
from tests.spark.changes.layouts import modes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.lake import Lake

CATS = ["a", "b", None]
SPECS: list[list[str]] = [[], ["cat"], ["bucket(2, n)"]]
_LINEAGE = ["_row_id", "_last_updated_sequence_number"]
_names = count()


@dataclass(frozen=True)
class Row:
    """Values, and in format 3 who the row is and when it was updated; None: not known yet."""

    cat: str | None
    v: int | None
    row_id: int | None = None
    updated: int | None = None


Rows = dict[int, Row]
"""By `n`, which is never used twice."""
Where = tuple[str, Callable[[int, Row], bool]]

CONDITIONS: list[Where] = [
    ("v >= 2", lambda n, row: row.v is not None and row.v >= 2),
    ("n % 3 = 1", lambda n, row: n % 3 == 1),
    ("cat = 'a'", lambda n, row: row.cat == "a"),
    ("cat IS NULL OR v = 0", lambda n, row: row.cat is None or row.v == 0),
    ("NOT (v < 3)", lambda n, row: row.v is not None and not row.v < 3),
    ("cat NOT IN ('a', 'z')", lambda n, row: row.cat not in ("a", "z", None)),
    ("upper(cat) = 'B' AND n > 2", lambda n, row: row.cat == "b" and n > 2),
    ("n IN (SELECT id * 2 FROM range(4))", lambda n, row: n in (0, 2, 4, 6)),
    ("TRUE", lambda n, row: True),
]
CHANGES: list[tuple[str, Callable[[int, Row], Row]]] = [
    ("v = coalesce(v, 0) + 1", lambda n, row: replace(row, v=(row.v or 0) + 1)),
    ("cat = 'z'", lambda n, row: replace(row, cat="z")),
    ("v = n, cat = NULL", lambda n, row: replace(row, v=n, cat=None)),
]
Given = dict[int, tuple[str | None, int | None]]
VALUES = st.tuples(st.sampled_from(CATS), st.sampled_from([0, 1, 2, 3, None]))


class RandomCommands(RuleBasedStateMachine):
    """One table of one format version in one mode, and all of its retained snapshots as they must be."""

    spark: SparkSession
    lake: Lake
    version = 2
    mode = "copy-on-write"

    @initialize(by=st.sampled_from(SPECS))
    def create(self, by: list[str]) -> None:
        self.name = f"lake.db.random{next(_names)}"
        self.table = self.lake.create_table(
            self.name.removeprefix("lake."),
            "n BIGINT NOT NULL, cat STRING, v BIGINT",
            partition_by=by,
            format_version=self.version,
            properties=modes(self.mode),
        )
        self.rows: Rows = {}
        self.snapshots: dict[int, Rows] = {}
        self.next_n = 0
        self.append([(("a", "b", None)[number % 3], number % 4) for number in range(6)], by_spark=False)

    # Commands

    @rule(given=st.lists(VALUES, min_size=1, max_size=4), by_spark=st.booleans())
    def append(self, given: list[tuple[str | None, int | None]], by_spark: bool) -> None:
        made = self.numbered(given)
        if by_spark:
            self.spark.createDataFrame(_tuples(made), "n LONG, cat STRING, v LONG").writeTo(self.name).append()
        else:
            self.table.refresh().append([{"n": n, "cat": cat, "v": v} for n, (cat, v) in made.items()])
        self.took_place({**self.rows, **_as_rows(made)}, set(made))

    @precondition(lambda self: self.rows)
    @rule(where=st.sampled_from(CONDITIONS), in_process=st.booleans())
    def delete(self, where: Where, in_process: bool) -> None:
        text, matches = where
        if in_process and "SELECT" not in text and "%" not in text and "upper" not in text:
            self.table.refresh().delete(text)
        else:
            self.spark.sql(f"DELETE FROM {self.name} WHERE {text}")
        self.took_place({n: row for n, row in self.rows.items() if not matches(n, row)})

    @precondition(lambda self: self.rows)
    @rule(where=st.sampled_from(CONDITIONS), change=st.sampled_from(CHANGES))
    def update(self, where: Where, change: tuple[str, Callable[[int, Row], Row]]) -> None:
        text, matches = where
        self.spark.sql(f"UPDATE {self.name} SET {change[0]} WHERE {text}")
        found = {n for n, row in self.rows.items() if matches(n, row)}
        changed = {n: change[1](n, self.rows[n]) for n in found}
        self.took_place({**self.rows, **changed}, found)

    @rule(
        data=st.data(),
        new=st.lists(VALUES, max_size=3),
        matched=st.sampled_from([None, *CONDITIONS[:6]]),
        action=st.sampled_from(["update", "delete"]),
        by_source=st.sampled_from([None, *CONDITIONS[:6]]),
    )
    def merge(
        self,
        data: st.DataObject,
        new: list[tuple[str | None, int | None]],
        matched: Where | None,
        action: str,
        by_source: Where | None,
    ) -> None:
        """Rows that match and fulfil `matched` are updated or deleted, others that match get the source's values."""
        known = data.draw(st.lists(st.sampled_from(sorted(self.rows)), unique=True, max_size=4)) if self.rows else []
        source = {n: data.draw(VALUES) for n in known} | self.numbered(new)
        clauses = []
        if matched is not None:
            done = "DELETE" if action == "delete" else "UPDATE SET v = -1"
            clauses.append(f"WHEN MATCHED AND ({_of('t', matched[0])}) THEN {done}")
        clauses += ["WHEN MATCHED THEN UPDATE SET *", "WHEN NOT MATCHED THEN INSERT *"]
        if by_source is not None:
            clauses.append(f"WHEN NOT MATCHED BY SOURCE AND ({_of('t', by_source[0])}) THEN UPDATE SET v = -2")
        frame = self.spark.createDataFrame(_tuples(source), "n LONG, cat STRING, v LONG")
        frame.createOrReplaceTempView("random_source")
        self.spark.sql(f"MERGE INTO {self.name} t USING random_source s ON t.n = s.n {' '.join(clauses)}")
        now, touched = dict(self.rows), set()
        for n, row in self.rows.items():
            if n in source:
                touched.add(n)
                if matched is None or not matched[1](n, row):
                    now[n] = replace(row, cat=source[n][0], v=source[n][1])
                elif action == "delete":
                    del now[n]
                else:
                    now[n] = replace(row, v=-1)
            elif by_source is not None and by_source[1](n, row):
                touched.add(n)
                now[n] = replace(row, v=-2)
        inserted = {n: values for n, values in source.items() if n not in self.rows}
        self.took_place({**now, **_as_rows(inserted)}, touched | set(inserted))

    @precondition(lambda self: self.table.format_version > 1 and self.is_keyed)
    @rule(data=st.data(), new=st.lists(VALUES, max_size=2), by_spark=st.booleans())
    def upsert(self, data: st.DataObject, new: list[tuple[str | None, int | None]], by_spark: bool) -> None:
        """Rows in the place of some that are there, and new ones: all of them with new ids."""
        known = data.draw(st.lists(st.sampled_from(sorted(self.rows)), unique=True, max_size=3)) if self.rows else []
        given = {n: data.draw(VALUES) for n in known} | self.numbered(new)
        if not given:
            return
        rows: Any = [{"n": n, "cat": cat, "v": v} for n, (cat, v) in given.items()]
        if by_spark:
            rows = self.spark.createDataFrame(_tuples(given), "n LONG, cat STRING, v LONG")
        self.table.refresh().upsert(rows, ["n"])
        self.took_place({**self.rows, **_as_rows(given)}, set(given))

    # Upkeep

    @precondition(lambda self: self.rows)
    @rule(order=st.sampled_from(["", ", sort_order => 'v DESC, n'", ", sort_order => 'zorder(n, v)'"]))
    def compact(self, order: str) -> None:
        self.call("rewrite_data_files", f"{order}, options => map('rewrite-all', 'true')")
        self.took_place(self.rows)

    @precondition(lambda self: self.table.format_version > 1)
    @rule(which=st.sampled_from(["rewrite_position_delete_files", "convert_equality_deletes", "rewrite_manifests"]))
    def tidy(self, which: str) -> None:
        self.call(which, ", options => map('rewrite-all', 'true')" if "position" in which else "")
        self.took_place(self.rows)

    def call(self, procedure: str, more: str) -> None:
        self.spark.sql(f"CALL lake.system.{procedure}(table => '{self.name.removeprefix('lake.')}'{more})")

    @property
    def is_keyed(self) -> bool:
        """Whether rows with one number are in one partition."""
        return all(self.table.schema.name_of(part.source_id) == "n" for part in self.table.spec.fields)

    # What happens to snapshots

    @precondition(lambda self: len(self.snapshots) > 1)
    @rule(data=st.data())
    def roll_back(self, data: st.DataObject) -> None:
        history = [snapshot.snapshot_id for snapshot in self.table.refresh().history]
        target = data.draw(st.sampled_from(history))
        self.table.rollback().to_snapshot(target).commit()
        self.rows = self.snapshots[target]

    @precondition(lambda self: len(self.snapshots) > 2)
    @rule(keep=st.integers(1, 3))
    def expire(self, keep: int) -> None:
        action = self.table.refresh().expire_snapshots().older_than(ambient.now_ms() + 1).retain_last(keep)
        action.commit()
        for snapshot_id in action.result.expired_snapshot_ids:
            del self.snapshots[snapshot_id]

    @precondition(lambda self: self.version > 1 and self.table.format_version == 2)
    @rule(now=st.sampled_from([False, False, True]))
    def upgrade(self, now: bool) -> None:
        if now:
            self.table.refresh().upgrade_format_version().to(3).commit()

    # The model

    def numbered(self, given: list[tuple[str | None, int | None]]) -> Given:
        first, self.next_n = self.next_n, self.next_n + len(given)
        return dict(enumerate(given, first))

    def took_place(self, rows: Rows, touched: set[int] = frozenset()) -> None:  # type: ignore[assignment]
        """The table has these rows now; those of `touched` were inserted or updated by the last commit."""
        head = self.table.refresh().current_snapshot
        assert head is not None
        if head.snapshot_id in self.snapshots:  # nothing was committed
            assert rows == self.rows
            return
        if self.table.format_version >= 3:
            rows = {n: replace(row, updated=head.sequence_number) if n in touched else row for n, row in rows.items()}
            rows = self.with_ids(rows, head.snapshot_id)
        self.rows = self.snapshots[head.snapshot_id] = rows
        assert self.in_process(head.snapshot_id) == _values(rows)

    def with_ids(self, rows: Rows, snapshot_id: int) -> Rows:
        """With the ids of rows that are new, after those that are known were found as they were."""
        found = self.table.scan(columns=["n", *_LINEAGE], version=snapshot_id).to_arrow().to_pylist()
        ids = {row["n"]: (row["_row_id"], row["_last_updated_sequence_number"]) for row in found}
        assert len({row_id for row_id, _ in ids.values()}) == len(rows), "two rows have one id"
        for n, row in rows.items():
            assert row.row_id in (None, ids[n][0]), "a row has another id"
            assert row.updated in (None, ids[n][1]), "a row was updated at another time"
        return {n: replace(row, row_id=ids[n][0], updated=ids[n][1]) for n, row in rows.items()}

    def in_process(self, snapshot_id: int) -> Counter[tuple[Any, ...]]:
        rows = self.table.scan(columns=["n", "cat", "v"], version=snapshot_id).to_arrow().to_pylist()
        return Counter(tuple(row.values()) for row in rows)

    def teardown(self) -> None:
        """Every retained snapshot, by every way of reading; and nothing else is on the disk."""
        if not hasattr(self, "snapshots"):
            return
        self.table.refresh()
        assert {snapshot.snapshot_id for snapshot in self.table.snapshots} == set(self.snapshots)
        for snapshot_id, rows in self.snapshots.items():
            self.check(snapshot_id, rows)
        assert left_behind(self.table) == []

    def check(self, snapshot_id: int, rows: Rows) -> None:
        assert self.in_process(snapshot_id) == _values(rows)
        with_lineage = bool(rows) and all(row.row_id is not None for row in rows.values())
        columns = ["n", "cat", "v", *(_LINEAGE if with_lineage else [])]
        for way in ("auto", "arrow"):
            frame = self.spark.read.options(**{"versionAsOf": str(snapshot_id), "frazil.scan": way}).table(self.name)
            found = Counter(tuple(row) for row in frame.select(*columns).collect())
            assert found == (_with_lineage(rows) if with_lineage else _values(rows)), way
        assert frame.count() == len(rows)


def _of(alias: str, condition: str) -> str:
    """A condition about the columns of one side."""
    return re.sub(r"\b(n|v|cat)\b", rf"{alias}.\1", condition)


def _tuples(given: Given) -> list[tuple[Any, ...]]:
    return [(n, *values) for n, values in given.items()]


def _as_rows(given: Given) -> Rows:
    return {n: Row(*values) for n, values in given.items()}


def _values(rows: Rows) -> Counter[tuple[Any, ...]]:
    return Counter((n, row.cat, row.v) for n, row in rows.items())


def _with_lineage(rows: Rows) -> Counter[tuple[Any, ...]]:
    return Counter((n, row.cat, row.v, row.row_id, row.updated) for n, row in rows.items())
