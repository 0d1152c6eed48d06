"""Plans for tables: their files, settings and history as planning wants them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import takewhile

from frazil import ambient
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.properties import Property, PropertyReader, integer
from frazil.iceberg.snapshot import Snapshot
from frazil.iceberg.table import IcebergTable, TableTransaction
from frazil.mixed.file_names import parse_change, transaction_of
from frazil.mixed.optimized import read_optimized
from frazil.mixed.order import added_files
from frazil.mixed.plan import MixedPlan, StoreState, plan_merge
from frazil.mixed.table import MixedTable
from frazil.mixed.transactions import OPTIMIZE, PRODUCER, open_transactions
from frazil.model.expression_parser import as_expression
from frazil.model.expressions import AlwaysTrue, Expression
from frazil.optimize.evaluate import Clock, Kind
from frazil.optimize.inputs import iceberg_inputs, matching_partitions, mixed_inputs
from frazil.optimize.plan import OptimizingPlan, last_sequence_in_order, plan_optimizing
from frazil.optimize.settings import FULL_INTERVAL_MS, Settings

KIND = "frazil.optimizing"
"""In the summary of a commit of optimizing: its kind."""
TARGET = "frazil.optimizing.target-size"
"""In the same summary: how large files were to become."""
LAST_FULL_MS = Property("frazil.optimizing.last-full-ms", 0, integer(0, 2**63 - 1))
"""When all of the table was optimized last, where that is done at intervals: snapshots that tell may have expired."""
TRANSACTION_TIMEOUT_MS = Property("frazil.transaction.timeout-ms", 6 * 3_600_000, integer(0, 2**63 - 1))
"""After so long a transaction that was begun and not committed is taken for lost."""


@dataclass(frozen=True, slots=True)
class PlannedTable:
    """A plan, and the files it was made from."""

    plan: OptimizingPlan
    merge: MixedPlan | None = None
    """For keyed tables: the pair of snapshots that was planned."""


def plan_iceberg(
    table: IcebergTable,
    settings: Settings | None = None,
    where: str | Expression | None = None,
    *,
    now_ms: int | None = None,
) -> OptimizingPlan:
    """What an Iceberg table needs, or an unkeyed mixed one; with `where`, partitions that may have matching rows."""
    inputs = iceberg_inputs(table.scan().plan(), table.metadata)
    known = Settings.of(table.properties) if settings is None else settings
    among = matching_partitions(inputs, table.metadata, as_expression(where))
    vain = _vain_commits(table.metadata, known.target_size)
    return plan_optimizing(inputs, known, _clock(table.metadata, now_ms), among=among, vain=vain)


def _vain_commits(metadata: TableMetadata, target_size: int) -> frozenset[int]:
    """The sequence numbers of commits that tried to make fewer files, of the size that is wanted now, and did not."""
    return frozenset(
        one.sequence_number
        for one in metadata.snapshots
        if one.summary.get(TARGET) == str(target_size)
        and one.sequence_number > 0
        and _count(one, "added-data-files") >= _count(one, "deleted-data-files") > 0
        and _count(one, "removed-delete-files") == 0
    )


def _count(snapshot: Snapshot, name: str) -> int:
    text = snapshot.summary.get(name, "0")
    return int(text) if text.isdecimal() else 0


def plan_mixed(
    table: MixedTable,
    settings: Settings | None = None,
    where: str | Expression | None = None,
    *,
    now_ms: int | None = None,
) -> PlannedTable:
    """What a mixed table needs, as it is loaded now."""
    if table.change_store is None:
        return PlannedTable(plan_iceberg(table.base_store, settings, where, now_ms=now_ms))
    base, change = table.base_store, table.change_store
    return plan_stores(
        StoreState(base.metadata, base.store, base.current_snapshot),
        StoreState(change.metadata, change.store, change.current_snapshot),
        settings,
        as_expression(where),
        now_ms=now_ms,
    )


def plan_stores(
    base: StoreState,
    change: StoreState,
    settings: Settings | None = None,
    where: Expression | None = None,
    *,
    now_ms: int | None = None,
) -> PlannedTable:
    """What a keyed table needs at a pair of snapshots. It does not go past a transaction that is not committed."""
    known = Settings.of(base.metadata.properties) if settings is None else settings
    optimized = read_optimized(base.metadata, base.store, base.snapshot)
    clock = replace(_clock(base.metadata, now_ms), base_optimized_ms=optimized.time)
    schema = base.metadata.current_schema
    # whole partitions: what a filter leaves out would lose the deletes that wait for it
    merge = plan_merge(base, change, optimized, schema, AlwaysTrue())
    waiting = _Waiting.of(merge, known, clock.now_ms)
    if waiting.last is not None:
        merge = plan_merge(base, change, optimized, schema, AlwaysTrue(), last_sequence=waiting.last)
    inputs = mixed_inputs(merge)
    among = matching_partitions(inputs, base.metadata, as_expression(where))
    vain = _vain_commits(base.metadata, known.target_size)
    plan = plan_optimizing(inputs, known, clock, is_keyed=True, among=among, vain=vain)
    return PlannedTable(replace(plan, reasons=(*plan.reasons, *waiting.reasons)), merge)


@dataclass(frozen=True, slots=True)
class _Waiting:
    """What optimizing must leave for another time."""

    last: int | None = None
    """Up to which change commit may be optimized; None if there is no limit."""
    reasons: tuple[str, ...] = ()

    @classmethod
    def of(cls, merge: MixedPlan, settings: Settings, now_ms: int) -> _Waiting:
        """Of changes as they are planned: what is too much, and what waits for transactions that have not ended."""
        change = merge.change.metadata
        files = {}
        for task in merge.tasks:
            files.update({one.path: one for one in (*task.inserts, *task.deletes)})
        files.update({one.path: one for one in merge.idle_deletes})
        changes = [
            (sequence, parse_change(one.path, sequence).transaction_id)
            for one in files.values()
            if (sequence := one.task.file.data_sequence_number) is not None
        ]
        timeout = PropertyReader(merge.base.metadata.properties).get(TRANSACTION_TIMEOUT_MS)
        waiting = open_transactions(merge.base.metadata, change, now_ms, timeout)
        # a writer of Amoro does not say which transaction it ends: its files do
        waiting -= {transaction for _, transaction in changes}
        if waiting:
            waiting -= _transactions_of_files(merge)
        if waiting:
            waiting -= _transactions_of_history(merge, min(waiting))
        if len(changes) <= settings.max_file_count and not waiting:
            return cls()
        last = last_sequence_in_order(changes, settings.max_file_count, waiting)
        left = {sequence for sequence, _ in changes if sequence > last}
        return cls(last, (_told(change, len(left), min(waiting), timeout),) if left and waiting else ())


def _transactions_of_files(merge: MixedPlan) -> set[int]:
    """The transactions of files in both stores, also of changes that are in the base store already."""
    found = {one.transaction_id for task in merge.tasks for one in task.base}
    whole = merge.change.plan(merge.schema, AlwaysTrue(), case_sensitive=True)
    for task in whole.tasks():
        found.add(parse_change(task.file.file_path, task.file.data_sequence_number or 0).transaction_id)
    return found


def _transactions_of_history(merge: MixedPlan, first: int) -> set[int]:
    """The transactions of files that snapshots added since a transaction began, and that may be gone again."""
    begun = next(one for one in merge.change.metadata.snapshots if one.sequence_number == first)
    found: set[int] = set()
    for state in (merge.base, merge.change):
        history = state.metadata.ancestors_of(state.metadata.current_snapshot_id)
        for snapshot in takewhile(lambda one: one.timestamp_ms >= begun.timestamp_ms, history):
            names = (file.file_path for file in added_files(state.metadata, state.store, snapshot))
            found.update(number for number in map(transaction_of, names) if number is not None)
    return found


def _told(change: TableMetadata, commits: int, transaction: int, timeout_ms: int) -> str:
    """That changes wait for a transaction, in words."""
    begun = next((one.timestamp_ms for one in change.snapshots if one.sequence_number == transaction), None)
    when = "" if begun is None else f", begun {datetime.fromtimestamp(begun / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    wait = "commit waits" if commits == 1 else "commits wait"
    return (
        f"{commits:,} {wait} for transaction {transaction}{when}; if its writer is gone, it counts as lost "
        f"{timeout_ms // 60_000} minutes after that ({TRANSACTION_TIMEOUT_MS.name})"
    )


def note_full(transaction: TableTransaction, kind: Kind) -> None:
    """Note in a table's properties that a full optimizing was done, if the next one is due some time after it."""
    properties = transaction.metadata.property_reader
    if kind is Kind.FULL and properties.get(FULL_INTERVAL_MS) >= 0:
        transaction.update_properties().set(LAST_FULL_MS.name, ambient.now_ms()).commit()


def _clock(metadata: TableMetadata, now_ms: int | None) -> Clock:
    """When a table was optimized last, by its snapshots and what it notes."""
    last = {"": 0, "full": metadata.property_reader.get(LAST_FULL_MS)}
    for snapshot in metadata.ancestors_of(metadata.current_snapshot_id):
        if snapshot.summary.get(PRODUCER) == OPTIMIZE:
            last[""] = max(last[""], snapshot.timestamp_ms)
            if snapshot.summary.get(KIND) == "full":
                last["full"] = max(last["full"], snapshot.timestamp_ms)
    return Clock(ambient.now_ms() if now_ms is None else now_ms, last[""], last["full"])
