"""Data expiry: rows that are old by a column of theirs go, whole files or partitions at a time (`data-expire.*`).

A file goes if all of its rows are known to be old, by its partition or its metrics; a row without a time is not old.
Change deletes stay until they are optimized: of a row that is updated to an older one, the old version must not come
back. Texts are compared as texts, and times without a zone are taken for UTC.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from frazil import ambient
from frazil.errors import InvalidArgument
from frazil.iceberg.actions.action import Context
from frazil.iceberg.actions.delete_files import DeleteFiles
from frazil.iceberg.data_file import DataFile, partition_key
from frazil.iceberg.file_filter import FileFilter
from frazil.iceberg.manifest_list import DATA
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.properties import Property, PropertyReader, boolean, choice
from frazil.iceberg.snapshot import REPLACE
from frazil.iceberg.table import IcebergTable
from frazil.iceberg.validation import COLUMNS
from frazil.mixed.closing import BARRED, CLOSING
from frazil.mixed.file_names import FileType, parse_change
from frazil.mixed.pair import BASE_SNAPSHOT, CHANGE_SNAPSHOT, recorded
from frazil.mixed.table import MixedTable
from frazil.mixed.transactions import DATA_EXPIRATION, MAINTENANCE, PRODUCER, SIGNATURE
from frazil.model.expressions import Expression, col
from frazil.model.schema import Schema
from frazil.model.types import (
    DateType,
    LongType,
    StringType,
    TimestampNsType,
    TimestampType,
    TimestamptzNsType,
    TimestamptzType,
    Type,
)
from frazil.optimize.durations import formatted, milliseconds


def _text(_: str, text: str) -> str:
    return text


ENABLED = Property("data-expire.enabled", False, boolean)
LEVEL = Property("data-expire.level", "partition", choice(("partition", "file")))
FIELD: Property[str | None] = Property("data-expire.field", None, _text)
PATTERN = Property("data-expire.datetime-string-pattern", "yyyy-MM-dd", _text)
NUMBERS = Property("data-expire.datetime-number-format", "timestamp_ms", choice(("timestamp_ms", "timestamp_s")))
RETENTION: Property[int] = Property("data-expire.retention-time", -1, milliseconds)
_EMPTY = frozenset({SIGNATURE, CLOSING, BARRED})
"""In summaries of commits that begin, give up, close or bar transactions."""
RULE = Property("data-expire.base-on-rule", "last_commit_time", choice(("last_commit_time", "current_time")))


@dataclass(frozen=True, slots=True)
class DataExpiry:
    """What a table says about the age of its rows."""

    field: str
    retention_ms: int
    whole_partitions: bool = True
    since_last_commit: bool = True
    pattern: str = PATTERN.default
    numbers: str = NUMBERS.default

    @classmethod
    def of(cls, metadata: TableMetadata) -> DataExpiry | None:
        """None if rows of the table do not expire."""
        read = PropertyReader(metadata.properties)
        retention = read.get(RETENTION)
        if not read.get(ENABLED) or retention <= 0:
            return None
        field = read.get(FIELD)
        if field is None:
            raise InvalidArgument(f"{ENABLED.name} is true, and {FIELD.name} is not set", hint="name a column")
        by_partition = read.get(LEVEL) == "partition"
        by_commit = read.get(RULE) == "last_commit_time"
        return cls(field, retention, by_partition, by_commit, read.get(PATTERN), read.get(NUMBERS))

    def old_rows(self, schema: Schema, limit_ms: int) -> Expression:
        """What is true of rows that are as old as a time, or older."""
        limit = self._limit(schema.find(self.field).type, limit_ms)
        old: Expression = col(self.field) <= limit
        return old

    def _limit(self, type_: Type, limit_ms: int) -> Any:
        moment = datetime.fromtimestamp(limit_ms / 1000, UTC)
        if isinstance(type_, TimestamptzType | TimestamptzNsType):
            return moment
        if isinstance(type_, TimestampType | TimestampNsType):
            return moment.replace(tzinfo=None)
        if isinstance(type_, DateType):
            return moment.date()
        if isinstance(type_, LongType):
            return limit_ms if self.numbers == "timestamp_ms" else limit_ms // 1000
        if isinstance(type_, StringType):
            return formatted(limit_ms, self.pattern)
        raise InvalidArgument(
            f"column {self.field!r} of type {type_} tells no age", hint="use a timestamp, date, bigint or string"
        )


def expire_data(table: IcebergTable | MixedTable, *, now_ms: int | None = None, dry_run: bool = False) -> int:
    """Remove files of which all rows are old, as the table's properties say: how many. None, if they do not say."""
    table.refresh()
    stores = stores_of(table)
    expiry = DataExpiry.of(stores[0].metadata)
    now = ambient.now_ms() if now_ms is None else now_ms
    start = None if expiry is None else last_commit_ms(stores) if expiry.since_last_commit else now
    if expiry is None or start is None:
        return 0
    old = _old_files(stores, expiry, start - expiry.retention_ms)
    if not dry_run:
        for place, files in enumerate(old):
            if files:
                _remove(stores, place, files)
        table.refresh()
    return sum(map(len, old))


def stores_of(table: IcebergTable | MixedTable) -> list[IcebergTable]:
    """The Iceberg tables that a table consists of, the one with the rows first."""
    if isinstance(table, MixedTable):
        return [table.base_store, *([] if table.change_store is None else [table.change_store])]
    return [table]


def last_commit_ms(stores: Iterable[IcebergTable]) -> int | None:
    """When rows came last; None if no snapshot tells. Commits about transactions bring none: a writer that fails over
    and over leaves those.
    """
    times = (
        snapshot.timestamp_ms
        for store in stores
        for snapshot in store.snapshots
        if snapshot.operation != REPLACE
        and snapshot.summary.get(PRODUCER) not in MAINTENANCE
        and _EMPTY.isdisjoint(snapshot.summary)
    )
    return max(times, default=None)


def _old_files(stores: list[IcebergTable], expiry: DataExpiry, limit_ms: int) -> list[list[DataFile]]:
    """By store, the files that go."""
    old: list[list[DataFile]] = []
    young: set[tuple[Any, ...]] = set()
    for number, store in enumerate(stores):
        matching = FileFilter(store.metadata, store.schema, expiry.old_rows(store.schema, limit_ms))
        gone = []
        for file, is_old in _live_files(store, matching):
            if number and not _is_insert(file):  # a delete of the change store
                continue
            if is_old:
                gone.append(file)
            else:
                young.add(_partition(file))
        old.append(gone)
    if not expiry.whole_partitions:
        return old
    return [[file for file in files if _partition(file) not in young] for files in old]


def _live_files(store: IcebergTable, matching: FileFilter) -> Iterator[tuple[DataFile, bool]]:
    """The data files, and whether all rows of each match."""
    context = Context(store.metadata, store.store)
    manifests = [one for one in context.manifests(store.current_snapshot) if one.content == DATA]
    for entries in context.reader.read(manifests, COLUMNS):
        live = entries.filter(entries.live)
        yield from zip(live.iter_files(), matching.every(live).tolist(), strict=True)


def _is_insert(file: DataFile) -> bool:
    assert file.data_sequence_number is not None
    return parse_change(file.file_path, file.data_sequence_number).type is not FileType.EQ_DELETE


def _partition(file: DataFile) -> tuple[Any, ...]:
    return file.spec_id, partition_key(file.partition)


def _remove(stores: list[IcebergTable], place: int, files: Iterable[DataFile]) -> None:
    action = DeleteFiles(stores[place]._transaction()).set(PRODUCER, DATA_EXPIRATION)
    if len(stores) > 1:
        key = BASE_SNAPSHOT if place else CHANGE_SNAPSHOT
        action.set(key, recorded(stores[1 - place].newest_state().metadata))
    for file in files:
        action.delete_file(file)
    action.commit()
