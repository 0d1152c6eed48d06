"""Commands that two committers may run at a time, each beside a plain model, and the table they run on.

The table has something for each of them: small files, several manifests, position deletes (in version 3 also vectors),
equality deletes, an older snapshot to go back to, a staged one to pick, a branch that is ahead of main, an orphan.
"""

from __future__ import annotations

import operator
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from frazil.iceberg.write import RowWriter
from frazil.model.conform import conform
from tests.spark.changes import model
from tests.spark.changes.layouts import COPY, MERGE, as_dicts, modes
from tests.spark.changes.model import Rows, Values, numbered
from tests.spark.write.disk import path_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.iceberg.table import IcebergTable
    from frazil.lake import Lake

NAMES = ("id", "v", "part")
OLD: list[Values] = [
    *((1, 10, 0), (2, 20, 0), (90, 90, 0)),
    *((3, 30, 1), (4, 40, 1), (91, 91, 1)),
    *((5, 5, 0), (92, 92, 0)),
    *((6, 6, 1), (93, 93, 1)),
]
"""Two files for each partition. Those with v above 90 are deleted before the test begins."""
HEAD = [row for row in OLD if row[1] < 90] + [(8, 80, 1)]
PICKED: Values = (70, 60, 0)
AHEAD: Values = (71, 61, 1)
_TEN_DAYS = 10 * 24 * 3600


class Refused(Exception):
    """What a model says where the command must fail."""


@dataclass(frozen=True)
class State:
    """What a table is, to the models."""

    rows: Rows
    at: str = "head"
    """Where main is: at the first `head`, at the `old` snapshot, `ahead` where the branch is, or elsewhere."""
    expired: bool = False
    defined: frozenset[str] = frozenset()
    """What was changed of the table's definition."""
    version: int = 2


@dataclass(frozen=True)
class Scene:
    """The table of a test, and where its commands run."""

    spark: SparkSession
    lake: Lake
    name: str
    old: int
    staged: int
    orphan: Path
    known: dict[int, list[Values]]
    """The rows of the snapshots that there were at the start."""

    @property
    def table(self) -> IcebergTable:
        """As it is now."""
        return self.lake.table(self.name.removeprefix("lake."))

    def prepare(self, command: Pairable) -> None:
        """Let the table want the mode in which a command is to be carried out."""
        if command.mode is not None and self.table.properties["write.merge.mode"] != command.mode:
            change = self.table.update_properties()
            for key, text in modes(command.mode).items():
                change.set(key, text)
            change.commit()


def scene(spark: SparkSession, lake: Lake, name: str, version: int, by_partition: bool) -> Scene:
    """Make the table."""
    quick = {"commit.retry.min-wait-ms": "1", "commit.retry.max-wait-ms": "1"}
    granularity = {"write.delete.granularity": "partition" if by_partition else "file"}
    table = lake.create_table(
        name.removeprefix("lake."),
        "id BIGINT, v BIGINT, part INT",
        partition_by=["part"],
        format_version=min(version, 2),
        properties={**modes(COPY if version == 1 else MERGE), **quick, **granularity},
    )
    table.append(as_dicts(OLD[:6], NAMES))
    old = table.append(as_dicts(OLD[6:], NAMES)).snapshot_id
    table.delete("v = 90")
    if version == 3:
        table.upgrade_format_version().to(3).commit()
    table.delete("v BETWEEN 91 AND 92")
    if version == 1:
        table.delete("v = 93")
        table.append(as_dicts(HEAD[-1:], NAMES))
    else:
        table.upsert(as_dicts([(93, 0, 1), (8, 80, 1)], NAMES), keys=["id", "part"])
        table.delete("v = 0")
    table.manage_refs().create_branch("ahead", table.history[0].snapshot_id).commit()
    table.append(as_dicts([AHEAD], NAMES), branch="ahead")
    files = RowWriter(table.metadata, table.store).write(conform(as_dicts([PICKED], NAMES), table.schema))
    staged = table.new_append().append_files(files).stage_only().commit().snapshot_id
    orphan = path_of(table.location) / "data" / "left-by-nobody.parquet"
    orphan.write_bytes(b"")
    long_ago = time.time() - _TEN_DAYS
    for file in path_of(table.location).rglob("*"):
        os.utime(file, (long_ago, long_ago))
    known = {one.snapshot_id: rows_at(table, one.snapshot_id) for one in table.snapshots}
    assert known[table.history[0].snapshot_id] == sorted(HEAD)
    return Scene(spark, lake, name, old, staged, orphan, known)


def rows_at(table: IcebergTable, snapshot_id: int | None = None) -> list[Values]:
    """The rows of a snapshot, the current one if not told."""
    found = table.scan(version=snapshot_id).to_arrow().to_pylist()
    return sorted(tuple(row[name] for name in NAMES) for row in found)


@dataclass(frozen=True)
class Pairable:
    """A command, and what it makes of a table."""

    run: Callable[[Scene], Any]
    after: Callable[[State], State]
    before: str = "frazil.iceberg.transaction.Transaction.commit"
    """What it is about to do when the other one comes: to commit, or to delete files."""
    mode: str | None = None
    """In which mode, if there are several."""
    least_version: int = 1


def _changing(command: model.Command, mode: str | None = None) -> Pairable:
    """A statement, which is carried out in a mode."""
    return Pairable(
        lambda at: at.spark.sql(command.text.format(t=at.name)),
        _model(command.delta),
        mode=mode,
        least_version=2 if mode == MERGE else 1,
    )


def _model(delta: Callable[[Rows], model.Delta]) -> Callable[[State], State]:
    return lambda state: replace(state, rows=delta(state.rows).on(state.rows), at="elsewhere")


def _keeping(run: Callable[[Scene], Any], least_version: int = 1) -> Pairable:
    """Upkeep: rows stay as they are."""
    return Pairable(run, lambda state: replace(state, at="elsewhere"), least_version=least_version)


def _both(name: str, command: model.Command) -> dict[str, Pairable]:
    return {f"{name} copies": _changing(command, COPY), f"{name} marks": _changing(command, MERGE)}


def _dynamic(at: Scene) -> None:
    at.spark.sql("SELECT 50L AS id, 25L AS v, 1 AS part").writeTo(at.name).overwritePartitions()


def _compared(part: int, sign: str, less: Callable[[int, int], bool]) -> Pairable:
    """A DELETE of rows of one partition that depends on those of the other."""

    def delta(rows: Rows) -> model.Delta:
        most = max((row[1] for row in rows.values() if row[2] != part), default=None)
        gone = (n for n, row in rows.items() if row[2] == part and most is not None and less(row[1], most))
        return model.Delta(frozenset(gone), ())

    text = f"DELETE FROM {{t}} WHERE part = {part} AND v {sign} (SELECT max(v) FROM {{t}} WHERE part <> {part})"
    return _changing(model.Command(text, delta))


_PUT: list[Values] = [(2, 40, 0), (72, 20, 1)]


def _upserted(rows: Rows) -> model.Delta:
    keys = {(row[0], row[2]) for row in _PUT}
    return model.Delta(frozenset(n for n, row in rows.items() if (row[0], row[2]) in keys), tuple(_PUT))


def _expire(at: Scene) -> None:
    at.table.expire_snapshots().older_than(int(time.time() * 1000) + 3_600_000).retain_last(1).commit()


def _expired(state: State) -> State:
    return replace(state, expired=True)


def _rolled_back(state: State) -> State:
    if state.expired and state.at != "old":
        raise Refused
    return replace(state, rows=numbered(OLD), at="old")


def _picked(state: State) -> State:
    if state.expired or PICKED in state.rows.values():
        raise Refused
    return replace(state, rows={**state.rows, **numbered([PICKED])}, at="elsewhere")


def _forwarded(state: State) -> State:
    if state.at not in ("head", "old", "ahead"):
        raise Refused
    return replace(state, rows=numbered([*HEAD, AHEAD]), at="ahead")


def _defining(what: str, run: Callable[[Scene], Any], *, stays_on_v1: bool = False) -> Pairable:
    """A change of the table's definition, which can be made once; rows stay as they are.

    Partition fields of version 1 stay when they are removed, as void, and can be removed again.
    """

    def after(state: State) -> State:
        if what in state.defined and not (stays_on_v1 and state.version == 1):
            raise Refused
        return replace(state, defined=state.defined | {what})

    return Pairable(run, after)


_ALL = {"rewrite-all": "true"}
COMMANDS: dict[str, Pairable] = {
    "append": _changing(model.append((73, 35, 1), (74, 20, 0))),
    "overwrite": _changing(model.replace_where("v >= 30", lambda row: row[1] >= 30, (60, 65, 0))),
    "overwrite part": _changing(model.replace_where("part = 1", lambda row: row[2] == 1, (61, 20, 1))),
    "overwrite dynamic": Pairable(
        _dynamic,
        _model(lambda rows: model.Delta(frozenset(n for n, row in rows.items() if row[2] == 1), ((50, 25, 1),))),
    ),
    "truncate": _changing(model.truncate()),
    **_both("delete", model.delete("v >= 20 AND v % 20 = 0", lambda row: row[1] >= 20 and row[1] % 20 == 0)),
    "delete part": _changing(model.delete("part = 1", lambda row: row[2] == 1)),
    "delete below": _compared(0, "<", operator.lt),
    "delete above": _compared(1, ">=", operator.ge),
    **_both(
        "update",
        model.update("v = v + 100", "v >= 20", lambda row: row[1] >= 20, lambda row: (row[0], row[1] + 100, row[2])),
    ),
    **_both("merge", model.merge((2, 100, 0), (73, 500, 1))),
    **_both("merge inserts", model.insert_missing((4, 400, 1), (75, 60, 1))),
    "upsert": Pairable(
        lambda at: at.table.upsert(as_dicts(_PUT, NAMES), keys=["id", "part"]), _model(_upserted), least_version=2
    ),
    "rewrite data": _keeping(lambda at: at.table.rewrite_data_files(options=_ALL, spark=at.spark)),
    "rewrite manifests": _keeping(lambda at: at.table.rewrite_manifests().commit()),
    "rewrite deletes": _keeping(lambda at: at.table.rewrite_position_delete_files(options=_ALL), 2),
    "convert": _keeping(lambda at: at.table.convert_equality_deletes(), 2),
    "expire": Pairable(_expire, _expired),
    "expire files": Pairable(_expire, _expired, "frazil.iceberg.actions.expire_snapshots.delete_files"),
    "orphans": Pairable(
        lambda at: at.table.remove_orphan_files(), lambda state: state, "frazil.iceberg.orphans.delete_files"
    ),
    "repartition": _defining("bucket", lambda at: at.table.update_spec().add_field("bucket(2, id)").commit()),
    "unpartition": _defining("part", lambda at: at.table.update_spec().remove_field("part").commit(), stays_on_v1=True),
    "add column": _defining("more", lambda at: at.table.update_schema().add_column("more", "string").commit()),
    "widen column": Pairable(
        lambda at: at.table.update_schema().update_column("part", "long").commit(), lambda state: state
    ),
    "rollback": Pairable(lambda at: at.table.rollback_to_snapshot(at.old), _rolled_back),
    "cherry-pick": Pairable(lambda at: at.table.cherrypick_snapshot(at.staged), _picked),
    "fast-forward": Pairable(lambda at: at.table.fast_forward("main", "ahead"), _forwarded),
}
