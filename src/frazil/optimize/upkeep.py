"""What a table needs beside optimizing: old rows, changes, snapshots and deletes go, and files that nobody knows.

The properties are Amoro's. Where an Iceberg table says nothing of its snapshots, they expire as Iceberg has it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from frazil import ambient
from frazil.errors import CommitConflict, CommitFailed, FrazilError, InvalidArgument
from frazil.iceberg import properties as props
from frazil.iceberg.actions.expire_snapshots import ExpireSnapshots
from frazil.iceberg.dangling import dangling_deletes, remove_dangling_deletes
from frazil.iceberg.orphans import LEAST_AGE_MS
from frazil.iceberg.properties import Property, PropertyReader, boolean, integer
from frazil.iceberg.table import IcebergTable
from frazil.mixed.pair import CHANGE_SNAPSHOT, recorded
from frazil.mixed.properties import store_kind
from frazil.mixed.table import MixedTable
from frazil.mixed.transactions import (
    BATCH,
    CLEAN_DANGLING,
    PRODUCER,
    begun_since,
    ended_by,
    ended_transactions,
)
from frazil.optimize.change_expiry import expire_changes
from frazil.optimize.data_expiry import DataExpiry, expire_data, last_commit_ms, stores_of
from frazil.optimize.durations import at_least_none, minutes
from frazil.optimize.evaluate import counted
from frazil.optimize.tables import TRANSACTION_TIMEOUT_MS

FLINK_CHECKPOINT = "flink.max-committed-checkpoint-id"
SPARK_QUERY = "spark.sql.streaming.queryId"
EXPIRE_ENABLED = Property("table-expire.enabled", True, boolean)
KEEP_MS: Property[int | None] = Property("snapshot.keep.duration", None, minutes)
KEEP_COUNT = Property("snapshot.keep.min-count", 1, integer(1, 2**31 - 1))
CHECKPOINT_MS = Property("snapshot.keep.flink.checkpoint-retention", 7 * 86_400_000, at_least_none)
BATCH_MS = Property("frazil.batch.retention-ms", 7 * 86_400_000, integer(0, 2**63 - 1))
"""Ours: for so long snapshots of batches with names are kept, by which a batch that comes again is known."""
DANGLING_ENABLED = Property("clean-dangling-delete-files.enabled", True, boolean)
ORPHANS_ENABLED = Property("clean-orphan-file.enabled", False, boolean)
ORPHAN_MINUTES = Property("clean-orphan-file.min-existing-time-minutes", 2880, integer(0, 2**40))
_MIXED_KEEP_MS = 720 * 60_000


@dataclass(frozen=True, slots=True)
class Upkeep:
    """One thing that was done, or with `dry_run` would be."""

    what: str
    count: int
    problem: str | None = None
    """Why it was left."""

    def __str__(self) -> str:
        return f"{self.what}: {self.problem}" if self.problem else counted(self.count, self.what)


def keep_up(table: IcebergTable | MixedTable, *, dry_run: bool = False, now_ms: int | None = None) -> list[Upkeep]:
    """Do all that is due for a table. What fails is told of, and does not keep the rest from being done."""
    now = ambient.now_ms() if now_ms is None else now_ms
    done: list[Upkeep] = []
    steps = _Steps(table, dry_run, now)
    for what, step in steps.named().items():
        try:
            count = step()
        except (CommitConflict, CommitFailed) as error:
            done.append(Upkeep(what, 0, f"left for the next time, since {error.message}"))
        except FrazilError as error:
            done.append(Upkeep(what, 0, str(error)))
        else:
            done += [Upkeep(what, count)] if count else []
    return done


class _Steps:
    """The steps, each of which gives how much it did."""

    def __init__(self, table: IcebergTable | MixedTable, dry_run: bool, now_ms: int) -> None:
        self._table = table
        self._dry_run = dry_run
        self._now_ms = now_ms
        self._stores = stores_of(table)
        self._read = PropertyReader(self._stores[0].properties)

    def named(self) -> Mapping[str, Callable[[], int]]:
        """In the order in which each makes work for the next."""
        return {
            "file of expired rows": self._expire_data,
            "optimized change file": self._expire_changes,
            "dangling delete": self._remove_dangling,
            "expired snapshot": self._expire_snapshots,
            "orphan file": self._remove_orphans,
        }

    def _expire_data(self) -> int:
        return expire_data(self._table, now_ms=self._now_ms, dry_run=self._dry_run)

    def _expire_changes(self) -> int:
        if not isinstance(self._table, MixedTable) or not self._table.is_keyed:
            return 0
        return expire_changes(self._table, dry_run=self._dry_run, now_ms=self._now_ms)

    def _remove_dangling(self) -> int:
        base = self._stores[0].refresh()
        head = base.current_snapshot
        if not self._read.get(DANGLING_ENABLED) or head is None:
            return 0
        if self._dry_run:
            return len(dangling_deletes(base, head))
        told = {PRODUCER: CLEAN_DANGLING}
        if len(self._stores) > 1:
            told[CHANGE_SNAPSHOT] = recorded(self._stores[1].newest_state().metadata)
        return remove_dangling_deletes(base, told=lambda action: [action.set(*one) for one in told.items()])

    def _expire_snapshots(self) -> int:
        if not self._read.get(EXPIRE_ENABLED):
            return 0
        gone: set[int] = set()
        # the change store first: the end of an overwrite stays in the base store for as long as its beginning is there
        for store in reversed([store.refresh() for store in self._stores]):
            if store.metadata.property_reader.get(props.GC_ENABLED):
                action = store.expire_snapshots()
                self._limit(action, store, gone)
                result = action.dry_run() if self._dry_run else action.commit().result
                gone.update(result.expired_snapshot_ids)
        return len(gone)

    def _limit(self, action: ExpireSnapshots, store: IcebergTable, gone: Container[int]) -> None:
        """Say which snapshots of a store are old: none of those that somebody may still ask for. Some are gone."""
        own = store.metadata.property_reader
        keep = self._read.get(KEEP_MS)
        if keep is None:
            mixed = store_kind(store.properties) is not None
            keep = _MIXED_KEEP_MS if mixed else own.get(props.MAX_SNAPSHOT_AGE_MS)
        if KEEP_COUNT.name in self._read.properties or store_kind(store.properties) is not None:
            action.retain_last(self._read.get(KEEP_COUNT))
        action.older_than(min([self._now_ms - keep, *self._asked_for(store, gone)]))

    def _asked_for(self, store: IcebergTable, gone: Container[int]) -> Iterator[int]:
        """Times of snapshots that are needed: by streams that repeat a batch, by transactions, by data expiry."""
        yield from self._batches(store)
        if len(self._stores) > 1:
            base, change = (one.metadata for one in self._stores)
            begun = self._now_ms - self._read.get(TRANSACTION_TIMEOUT_MS)
            begins = [one for one in begun_since(change, begun) if one.snapshot_id not in gone]
            if store is self._stores[0]:
                told = {one.sequence_number for one in begins}
                yield from (one.timestamp_ms for one in store.snapshots if ended_by(one) in told)
            else:
                ended = ended_transactions(base, change)
                yield from (one.timestamp_ms for one in begins if one.sequence_number not in ended)
        with suppress(InvalidArgument):  # told of where rows expire
            expiry = DataExpiry.of(self._stores[0].metadata)
            known = last_commit_ms([store]) if expiry is not None and expiry.since_last_commit else None
            yield from () if known is None else (known,)

    def _batches(self, store: IcebergTable) -> Iterator[int]:
        """Times of snapshots that tell of a batch which may come again. A stream repeats its last one only; of batches
        that users name, any may come.
        """
        named = self._now_ms - self._read.get(BATCH_MS)
        last: dict[str, int] = {}
        for snapshot in store.snapshots:
            told = snapshot.summary
            if SPARK_QUERY in told or FLINK_CHECKPOINT in told:
                stream = told.get(SPARK_QUERY, "")
                last[stream] = max(last.get(stream, 0), snapshot.timestamp_ms)
            elif BATCH in told and snapshot.timestamp_ms >= named:
                yield snapshot.timestamp_ms
        since = self._now_ms - self._read.get(CHECKPOINT_MS)
        yield from (time for time in last.values() if time >= since)

    def _remove_orphans(self) -> int:
        if not self._read.get(ORPHANS_ENABLED):
            return 0
        age = max(self._read.get(ORPHAN_MINUTES) * 60_000, LEAST_AGE_MS)
        limit = ambient.now_ms() - age
        return sum(len(store.remove_orphan_files(older_than=limit, dry_run=self._dry_run)) for store in self._stores)
