"""What kinds of files a snapshot has: enough to choose the relations of a scan before its filters are known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.iceberg import manifest_schema as ids
from frazil.iceberg.actions.action import Context
from frazil.iceberg.data_file import Content
from frazil.iceberg.entries import Entries
from frazil.iceberg.incremental import appended_manifests
from frazil.iceberg.manifest_list import DATA, read_manifest_list
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.planning import FILTER_COLUMNS, PLAN_COLUMNS
from frazil.iceberg.snapshot import Snapshot
from frazil.io.deletion_vector import DeletionVector
from frazil.io.store import Store
from frazil.recent import Recent

_COLUMNS = frozenset(
    {
        *(ids.STATUS, ids.CONTENT, ids.FILE_PATH, ids.FILE_FORMAT, ids.FILE_SIZE, ids.RECORD_COUNT),
        *(ids.SEQUENCE_NUMBER, ids.SNAPSHOT_ID, ids.EQUALITY_IDS),
    }
)
_REMEMBERED = 64


@dataclass(frozen=True)
class Contents:
    """The live files of a snapshot by spec, with few columns; and what its deletes are."""

    data: tuple[Entries, ...]
    has_position_deletes: bool
    newest_equality_delete: int
    """Sequence number of the newest equality delete file, 0 if there is none: only older files can be hit by one."""
    equality_ids: frozenset[int] = frozenset()
    """The columns that equality deletes compare."""

    def only(self, files: OnlyFiles) -> Contents:
        """With these data files alone."""
        kept = (entries.filter(files.mask(entries)) for entries in self.data)
        return replace(self, data=tuple(entries for entries in kept if len(entries)))

    def __iter__(self) -> Iterator[Entries]:
        return iter(self.data)


@dataclass(frozen=True)
class OnlyFiles:
    """Some files of a snapshot, by path; the key says which, and which rows."""

    key: str
    paths: pa.Array
    without: Mapping[str, DeletionVector] = field(default_factory=dict)
    """Rows to leave out, by file, besides those that are deleted."""

    def mask(self, entries: Entries) -> npt.NDArray[np.bool_]:
        """Where entries are of these files."""
        found = pc.is_in(entries.column(ids.FILE_PATH), value_set=self.paths)
        result: npt.NDArray[np.bool_] = found.to_numpy(zero_copy_only=False)
        return result


def is_native(entries: Entries, newest_equality_delete: int) -> npt.NDArray[np.bool_]:
    """Where Spark's own reader may read a file: a property of the file alone, whatever a query's filters are."""
    lowered = pc.utf8_lower(entries.column(ids.FILE_FORMAT))
    parquet: npt.NDArray[np.bool_] = pc.equal(lowered, "parquet").to_numpy(zero_copy_only=False)
    result: npt.NDArray[np.bool_] = parquet & (entries.numpy(ids.SEQUENCE_NUMBER) >= newest_equality_delete)
    return result


_Key = tuple[str, int, tuple[int, ...] | None]
_known: Recent[_Key, Contents] = Recent(_REMEMBERED)


def contents_of(
    metadata: TableMetadata,
    store: Store,
    snapshot: Snapshot | None,
    appends: tuple[Snapshot, ...] | None = None,
    filtered: frozenset[int] = frozenset(),
) -> Contents:
    """What a snapshot has, or what some appends added. Snapshots never change: the answer is remembered.

    The files will be planned next, with filters on the columns `filtered`: manifests are decoded with all that this
    needs, so that they are decoded once.
    """
    if snapshot is None:
        return Contents((), False, 0)
    added_by = None if appends is None else tuple(one.snapshot_id for one in appends)
    key = (metadata.table_uuid or metadata.location, snapshot.snapshot_id, added_by)
    found = _known.get(key)
    if found is None:
        found = _read(metadata, store, snapshot, appends, filtered)
        _known.put(key, found)
    return found


def forget() -> None:
    """Forget what is remembered, as if no snapshot had been looked at."""
    _known.clear()


def _read(
    metadata: TableMetadata,
    store: Store,
    snapshot: Snapshot,
    appends: tuple[Snapshot, ...] | None,
    filtered: frozenset[int],
) -> Contents:
    if appends is None:
        specs = {spec.spec_id: spec for spec in metadata.partition_specs}
        manifests = [item for item in read_manifest_list(store, snapshot, specs) if item.has_live_files]
    else:
        manifests = appended_manifests(metadata, store, appends)
    reader = Context(metadata, store).reader
    data, positions, newest = [], False, 0
    compared: set[int] = set()
    columns = FILTER_COLUMNS if filtered else PLAN_COLUMNS
    for entries in reader.read([item for item in manifests if item.content == DATA], columns, filtered):
        live = entries.filter(entries.live if appends is None else entries.added_by(one.snapshot_id for one in appends))
        if len(live):
            data.append(Entries(live.spec, live.partition_type, {key: live.column(key) for key in _COLUMNS}))
    for entries in reader.read([item for item in manifests if item.content != DATA], FILTER_COLUMNS):
        live = entries.filter(entries.live)
        equality = live.numpy(ids.CONTENT) == Content.EQUALITY_DELETES
        positions = positions or not equality.all()
        newest = max(newest, int(live.numpy(ids.SEQUENCE_NUMBER)[equality].max(initial=0)))
        compared.update(live.column(ids.EQUALITY_IDS).flatten().to_pylist())
    return Contents(tuple(data), positions, newest, frozenset(compared))
