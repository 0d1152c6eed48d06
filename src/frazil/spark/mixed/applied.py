"""Change deletes as Spark's reader applies them.

To rows of the base store by their keys: a key goes with the newest transaction that deletes it, and a file with its
own, so that sets of keys with sequence numbers, as for equality deletes, are just right. Rows of change files are
written and deleted at moments inside a transaction. Which of them are gone is found here, from their keys and offsets
alone, and the reader is told their positions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from frazil.iceberg import manifest_schema as ids
from frazil.iceberg.planning import PlannedFiles
from frazil.io.deletion_vector import DeletionVector
from frazil.io.store import Store
from frazil.mixed.change_keys import ChangeKeys, Memory, new_memory
from frazil.mixed.deleted_keys import DeletedKeys
from frazil.mixed.file_names import FilePlace, parse_base
from frazil.mixed.plan import PlannedFile
from frazil.recent import Recent
from frazil.spark.mixed.source import ChangeDeletes, DeleteGroup, MixedSource
from frazil.spark.scan.arrow import BATCH_ROWS
from frazil.spark.scan.deletes import KeyColumn, pack_keys, set_numbers
from frazil.spark.scan.filters import numbered

_In = TypeVar("_In")
_Out = TypeVar("_Out")
_READERS = 8
_keys: Memory = new_memory(256 << 20)
_vectors: Recent[tuple[Store, str, tuple[str, ...]], bytes] = Recent(64 << 20, lambda blob: len(blob) + 200)
_sets: Recent[tuple[Store, tuple[str, ...], str], bytes] = Recent(128 << 20, lambda packed: len(packed) + 200)
"""What was worked out of files, none of which ever changes."""


def forget() -> None:
    """Forget what is remembered, as if no change file had been read."""
    _keys.clear()
    _vectors.clear()
    _sets.clear()


def change_keys(source: MixedSource) -> ChangeKeys:
    """The reader of keys, which remembers what it read for whoever comes next."""
    return ChangeKeys(source.change, numbered(source.schema), source.keys, BATCH_ROWS, _keys)


@dataclass
class KeySets:
    """The keys that base files must be checked against: a set for each group of files that delete."""

    source: MixedSource
    keys: Mapping[int, KeyColumn]
    _groups: dict[tuple[str, ...], int] = field(default_factory=dict)
    _members: list[tuple[PlannedFile, ...]] = field(default_factory=list)
    _numbers: dict[int, int] = field(default_factory=dict)
    """Of groups that were met, all of one `ChangeDeletes`, which keeps them."""

    def of_files(self, part: PlannedFiles, deletes: ChangeDeletes) -> Iterator[tuple[int, bytes | None]]:
        """The transaction of each base file, and the numbers of its sets."""
        for place, partition in base_places(part):
            group = deletes.of(partition, place.node)
            later = group.newest > place.transaction_id
            yield place.transaction_id, set_numbers([self._number(group)] if later else [])

    def _number(self, group: DeleteGroup) -> int:
        number = self._numbers.get(id(group))
        if number is None:
            number = self._groups.setdefault(group.paths, len(self._members))
            if number == len(self._members):
                self._members.append(group.files)
            self._numbers[id(group)] = number
        return number

    def packed(self) -> list[bytes]:
        """The sets."""
        reader = change_keys(self.source)
        shape = repr(sorted(self.keys.items()))
        store = self.source.change.store
        found = [_sets.get((store, group, shape)) for group in self._groups]
        load(reader, (one for files, known in zip(self._members, found, strict=True) if known is None for one in files))
        result = []
        for group, files, known in zip(self._groups, self._members, found, strict=True):
            made = self._pack(reader, files) if known is None else known
            if known is None:
                _sets.put((store, group, shape), made)
            result.append(made)
        return result

    def _pack(self, reader: ChangeKeys, files: Sequence[PlannedFile]) -> bytes:
        loaded = [(one.transaction_id, *reader.load(one)) for one in files]
        loaded = [one for one in loaded if len(one[2])]
        sequences = [np.full(len(offsets), transaction, np.int64) for transaction, _, offsets in loaded]
        columns = [
            (self.keys[number], [parts[place] for _, parts, _ in loaded])
            for place, number in enumerate(self.source.keys)
        ]
        return pack_keys(columns, np.concatenate([np.zeros(0, np.int64), *sequences]))


def deleted_inserts(source: MixedSource, inserts: Sequence[PlannedFile], deletes: ChangeDeletes) -> list[bytes | None]:
    """For each change file with inserted rows a deletion-vector-v1 blob of those that are gone, None if none is."""
    reader = change_keys(source)
    store = source.change.store
    groups = [deletes.of(one.task.file.partition, one.node) for one in inserts]
    # deletes of earlier transactions hit nothing; with a later one among them all are taken, as for other files there
    hit = [group.newest >= one.transaction_id for one, group in zip(inserts, groups, strict=True)]
    places = [(store, one.path, group.paths) for one, group in zip(inserts, groups, strict=True)]
    known = [_vectors.get(place) if may else b"" for place, may in zip(places, hit, strict=True)]
    unknown = [number for number, blob in enumerate(known) if blob is None]
    load(reader, (one for number in unknown for one in (inserts[number], *groups[number].files)))
    together = {groups[number].paths: groups[number].files for number in unknown}
    deleted = dict(zip(together, side_by_side(reader.deleted, together.values()), strict=True))
    made = side_by_side(lambda number: _blob(reader, inserts[number], deleted[groups[number].paths]), unknown)
    for number, blob in zip(unknown, made, strict=True):
        _vectors.put(places[number], blob)
        known[number] = blob
    return [blob or None for blob in known]


def _blob(reader: ChangeKeys, one: PlannedFile, deleted: DeletedKeys | None) -> bytes:
    if deleted is None:
        return b""
    columns, offsets = reader.load(one)
    if not len(offsets):
        return b""
    gone = np.flatnonzero(~deleted.kept(columns, one.transaction_id, offsets))
    return DeletionVector.from_positions(gone).to_blob() if len(gone) else b""


def load(reader: ChangeKeys, files: Iterable[PlannedFile]) -> None:
    """Read the keys of files side by side."""
    side_by_side(reader.load, {one.path: one for one in files}.values())


def side_by_side(work: Callable[[_In], _Out], given: Collection[_In]) -> list[_Out]:
    """What work gives for each of some things, done by threads if there are several."""
    if len(given) < 2:
        return [work(one) for one in given]
    with ThreadPoolExecutor(_READERS, thread_name_prefix="frazil-keys") as pool:
        return list(pool.map(work, given))


def base_places(part: PlannedFiles) -> Iterator[tuple[FilePlace, tuple[Any, ...]]]:
    """What the name of each base file says, and its partition."""
    entries = part.entries
    for path, partition in zip(entries.column(ids.FILE_PATH).to_pylist(), entries.partition_tuples(), strict=True):
        yield parse_base(path), partition
