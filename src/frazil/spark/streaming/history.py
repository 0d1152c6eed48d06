"""The snapshots that a stream goes through, and the files that each brings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from frazil.errors import InvalidArgument, SnapshotNotFound, Unsupported
from frazil.iceberg import manifest_schema as ids
from frazil.iceberg.actions.action import Context
from frazil.iceberg.data_file import Status
from frazil.iceberg.manifest import CORE_COLUMNS
from frazil.iceberg.manifest_list import DATA, read_manifest_list
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.snapshot import Snapshot
from frazil.iceberg.table import IcebergTable
from frazil.io.store import Store
from frazil.recent import Recent
from frazil.spark.options import folded
from frazil.spark.streaming.offsets import NOWHERE, Offset

_APPEND, _REPLACE = "append", "replace"
_REMEMBERED = 64

FROM_TIMESTAMP = "stream-from-timestamp"
FROM_SNAPSHOT = "stream-from-snapshot-id"
MAX_FILES = "streaming-max-files-per-micro-batch"
MAX_ROWS = "streaming-max-rows-per-micro-batch"
_SKIP = {"delete": "streaming-skip-delete-snapshots", "overwrite": "streaming-skip-overwrite-snapshots"}


@dataclass(frozen=True)
class StreamOptions:
    """What a stream was asked to do; Iceberg's names, and one of ours to begin with a snapshot."""

    from_timestamp: int | None = None
    from_snapshot: int | None = None
    max_files: int | None = None
    max_rows: int | None = None
    skipped: frozenset[str] = frozenset()
    """The operations whose snapshots are passed over."""

    @classmethod
    def of(cls, options: Mapping[str, str]) -> StreamOptions:
        """From the options of a read."""
        given = folded(options)
        if FROM_TIMESTAMP in given and FROM_SNAPSHOT in given:
            raise InvalidArgument(f"{FROM_TIMESTAMP} and {FROM_SNAPSHOT} are both given", hint="give one of them")
        return cls(
            _number(given, FROM_TIMESTAMP),
            _number(given, FROM_SNAPSHOT),
            _number(given, MAX_FILES, least=1),
            _number(given, MAX_ROWS, least=1),
            frozenset(operation for operation, name in _SKIP.items() if _flag(given, name)),
        )


def _number(options: Mapping[str, str], name: str, least: int | None = None) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    try:
        number = int(text)
    except ValueError:
        raise InvalidArgument(f"option {name} is {text!r}", hint="give a number") from None
    if least is not None and number < least:
        raise InvalidArgument(f"option {name} is {number}", hint=f"give {least} or more")
    return number


def _flag(options: Mapping[str, str], name: str) -> bool:
    text = options.get(name, "false").lower()
    if text not in ("true", "false"):
        raise InvalidArgument(f"option {name} is {text!r}", hint="use true or false")
    return text == "true"


@dataclass(frozen=True, slots=True)
class Step:
    """Some files of one snapshot, from one position to another."""

    snapshot: Snapshot
    first: int
    end: int | None
    scan_all_files: bool = False


@dataclass(frozen=True)
class History:
    """The snapshots of a branch, as far as they are kept."""

    table: IcebergTable
    branch: str
    options: StreamOptions

    @property
    def name(self) -> str:
        return self.table.identifier

    @property
    def metadata(self) -> TableMetadata:
        return self.table.metadata

    @cached_property
    def lineage(self) -> list[Snapshot]:
        """From the oldest to the newest."""
        found = self.metadata.refs.get(self.branch)
        return [] if found is None else list(self.metadata.ancestors_of(found.snapshot_id))[::-1]

    @cached_property
    def _places(self) -> dict[int, int]:
        return {snapshot.snapshot_id: place for place, snapshot in enumerate(self.lineage)}

    def start(self) -> Offset:
        """Where a new stream begins."""
        options = self.options
        if options.from_snapshot is not None:
            self._place(options.from_snapshot)
            return Offset(options.from_snapshot, 0)
        if options.from_timestamp is not None:
            later = (one for one in self.lineage if one.timestamp_ms >= options.from_timestamp)
            found = next(later, None)
            return NOWHERE if found is None else Offset(found.snapshot_id, 0)
        if not self.lineage:
            return NOWHERE
        oldest = self.lineage[0]
        # What came before it has expired, or was not appended: the rows it has are where the table begins.
        whole = oldest.parent_snapshot_id is not None or oldest.operation != _APPEND
        return Offset(oldest.snapshot_id, 0, whole)

    def end(self) -> Offset:
        """After everything there is now."""
        if not self.lineage:
            return NOWHERE
        newest = self.lineage[-1]
        return Offset(newest.snapshot_id, len(self.files(newest, False)))

    def next(self, start: Offset, until: Offset | None, *, limited: bool) -> Offset | None:
        """The end of the next batch; None if there is nothing new."""
        begin = self.start() if start == NOWHERE else start
        if NOWHERE in (begin, until):
            return None
        last = len(self.lineage) - 1 if until is None else self._place(until.snapshot_id)
        files_left = self.options.max_files if limited else None
        rows_left = self.options.max_rows if limited else None
        found: Offset | None = None
        steps = self._steps(begin, last, None)
        while (step := self._following(steps, raising=found is None)) is not None:
            counts = self.files(step.snapshot, step.scan_all_files).rows[step.first :]
            taken = len(counts)
            if files_left is not None:
                taken = min(taken, files_left)
                files_left -= taken
            if rows_left is not None:
                taken = min(taken, _within(counts, rows_left, at_least_one=found is None))
                rows_left -= int(counts[:taken].sum())
            if taken:
                found = Offset(step.snapshot.snapshot_id, step.first + taken, step.scan_all_files)
            if taken < len(counts):
                break
        return found

    def _following(self, steps: Iterator[Step], *, raising: bool) -> Step | None:
        """The next step; a snapshot that cannot be read ends a batch, and is an error only where one would begin."""
        try:
            return next(steps, None)
        except Unsupported:
            if raising:
                raise
            return None

    def runs(self, start: Offset, end: Offset) -> list[list[Step]]:
        """What to read for a batch. The files of all steps of a run are files of its last snapshot."""
        begin = self.start() if start == NOWHERE else start
        if NOWHERE in (begin, end):
            return []
        runs: list[list[Step]] = []
        place = -2
        for step in self._steps(begin, self._place(end.snapshot_id), end.position):
            here = self._places[step.snapshot.snapshot_id]
            if runs and here == place + 1 and not runs[-1][-1].scan_all_files:
                runs[-1].append(step)
            else:
                runs.append([step])
            place = here
        return runs

    def _steps(self, begin: Offset, last: int, end: int | None) -> Iterator[Step]:
        first = self._place(begin.snapshot_id)
        for place in range(first, last + 1):
            snapshot = self.lineage[place]
            at_begin = place == first
            whole = at_begin and begin.scan_all_files
            if whole or self._is_read(snapshot):
                yield Step(snapshot, begin.position if at_begin else 0, end if place == last else None, whole)

    def _is_read(self, snapshot: Snapshot) -> bool:
        operation = snapshot.operation or _APPEND
        if operation == _APPEND:
            return True
        if operation == _REPLACE or operation in self.options.skipped:
            return False
        option = _SKIP.get(operation)
        raise Unsupported(
            f"snapshot {snapshot.snapshot_id} of {self.name} is of operation {operation}: a stream reads appended rows",
            hint=f"set the option {option} to true to pass over it" if option else "start the stream after it",
        )

    def _place(self, snapshot_id: int) -> int:
        found = self._places.get(snapshot_id)
        if found is None:
            raise SnapshotNotFound(
                f"{self.name} has no snapshot {snapshot_id} in the history of {self.branch}, where the stream is",
                hint="it has expired, or was rolled back: start the query with another checkpoint",
            )
        return found

    def files(self, snapshot: Snapshot, whole: bool) -> Files:
        """The data files that a snapshot added, or all that it has, always in the same order."""
        key = (self.metadata.table_uuid or self.metadata.location, snapshot.snapshot_id, whole)
        found = _known.get(key)
        if found is None:
            found = _read(self.metadata, self.table.store, snapshot, whole)
            _known.put(key, found)
        return found


@dataclass(frozen=True)
class Files:
    """Data files, in the order of their manifests."""

    paths: pa.Array
    rows: np.ndarray[tuple[int], np.dtype[np.int64]]

    def __len__(self) -> int:
        return len(self.rows)


_known: Recent[tuple[str, int, bool], Files] = Recent(_REMEMBERED)


def _read(metadata: TableMetadata, store: Store, snapshot: Snapshot, whole: bool) -> Files:
    specs = {spec.spec_id: spec for spec in metadata.partition_specs}
    manifests = [
        item
        for item in read_manifest_list(store, snapshot, specs)
        if item.content == DATA and (whole or item.added_snapshot_id == snapshot.snapshot_id)
    ]
    paths, rows = [pa.array([], pa.string())], [np.zeros(0, dtype=np.int64)]
    for manifest in manifests:  # one by one: the reader sorts many by their specs
        for entries in Context(metadata, store).reader.read([manifest], CORE_COLUMNS):
            added = entries.numpy(ids.STATUS) == Status.ADDED
            mask = entries.live if whole else added & (entries.numpy(ids.SNAPSHOT_ID) == snapshot.snapshot_id)
            kept = entries.filter(mask)
            paths.append(kept.column(ids.FILE_PATH))
            rows.append(kept.numpy(ids.RECORD_COUNT))
    return Files(pa.concat_arrays(paths), np.concatenate(rows))


def _within(counts: np.ndarray[tuple[int], np.dtype[np.int64]], rows: int, *, at_least_one: bool) -> int:
    """How many files have so many rows in all; a batch has one file at least."""
    fitting = int(np.searchsorted(np.cumsum(counts), rows, side="right"))
    return max(fitting, 1) if at_least_one and len(counts) else fitting
