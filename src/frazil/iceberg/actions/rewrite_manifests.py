"""Rewrite manifests: the same entries in manifests of the target size that each cover a narrow range of partitions.

Manifests that are like that already are left alone; if all are, there is no new snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import InvalidArgument
from frazil.iceberg import properties as props
from frazil.iceberg.actions.action import Context
from frazil.iceberg.actions.manifest_changes import write_manifests
from frazil.iceberg.actions.snapshot_action import Change, SnapshotAction
from frazil.iceberg.entries import Entries, concat
from frazil.iceberg.manifest import ALL_COLUMNS, CORE_COLUMNS, as_existing
from frazil.iceberg.manifest_clusters import bytes_per_entry, is_tidy
from frazil.iceberg.manifest_list import ManifestFile
from frazil.iceberg.manifest_reader import ManifestCache, ManifestReader
from frazil.iceberg.partition_types import partition_type
from frazil.iceberg.snapshot import REPLACE, Snapshot
from frazil.iceberg.transaction import Transaction
from frazil.model.partition import PartitionSpec
from frazil.progress import Progress

_ENTRIES_AT_A_TIME = 100_000
"""How many entries are in memory at once, with all their metrics: some hundred megabytes."""
Ranks = npt.NDArray[np.int64]


@dataclass(frozen=True)
class RewriteManifestsResult:
    """How many manifests were replaced, and by how many."""

    rewritten_manifests_count: int = 0
    added_manifests_count: int = 0


class RewriteManifests(SnapshotAction):
    """Rewrites manifests so that files of one partition stand together; no file is added or removed."""

    def __init__(self, transaction: Transaction) -> None:
        super().__init__(transaction)
        self._predicate: Callable[[ManifestFile], bool] = lambda _: True
        self._spec_id: int | None = None
        self._sort_by: tuple[str, ...] = ()
        self._result: RewriteManifestsResult | None = None

    @property
    def operation(self) -> str:
        return REPLACE

    def rewrite_if(self, predicate: Callable[[ManifestFile], bool]) -> Self:
        """Rewrite only these manifests."""
        self._predicate = predicate
        return self

    def spec(self, spec_id: int) -> Self:
        """Rewrite only manifests of this partition spec."""
        self._transaction.metadata.spec(spec_id)
        self._spec_id = spec_id
        return self

    def sort_by(self, names: Iterable[str]) -> Self:
        """Let files stand together by these partition fields, the first of them first; else by all of the spec."""
        wanted = (names,) if isinstance(names, str) else tuple(names)
        metadata = self._transaction.metadata
        spec = metadata.spec(metadata.default_spec_id if self._spec_id is None else self._spec_id)
        missing = [name for name in wanted if spec.field_by_name(name) is None]
        if missing:
            raise InvalidArgument(
                f"partition spec {spec.spec_id} has no field {' nor '.join(map(repr, missing))}",
                hint=f"it has {', '.join(field.name for field in spec.fields) or 'no fields'}",
            )
        self._sort_by = wanted
        return self

    @property
    def result(self) -> RewriteManifestsResult:
        """What the commit did."""
        if self._result is None:
            raise InvalidArgument("the manifests are not rewritten yet", hint="call commit() first")
        return self._result

    def change(self, context: Context, parent: Snapshot | None, manifests: Sequence[ManifestFile]) -> Change | None:
        kept: list[ManifestFile] = []
        created: list[ManifestFile] = []
        replaced = processed = 0
        for members in self._groups(manifests, kept):
            spec = context.metadata.spec(members[0].partition_spec_id)
            fields = self._sort_fields(spec)
            target = context.metadata.property_reader.get(props.MANIFEST_TARGET_SIZE_BYTES)
            if is_tidy(members, partition_type(context.metadata, spec), fields, target):
                kept.extend(members)
                continue
            written = self._rewrite(context, members, fields, target)
            replaced += len(members)
            processed += sum(manifest.live_files for manifest in written)
            created.extend(written)
        self._result = RewriteManifestsResult(replaced, len(created))
        if not replaced:
            return None
        counts = {
            "manifests-created": str(len(created)),
            "manifests-kept": str(len(kept)),
            "manifests-replaced": str(replaced),
            "entries-processed": str(processed),
        }
        return Change([*created, *kept], summary=counts)

    def _groups(self, manifests: Sequence[ManifestFile], kept: list[ManifestFile]) -> list[list[ManifestFile]]:
        """Manifests that may be joined; the others go to `kept`."""
        groups: dict[tuple[int, int], list[ManifestFile]] = {}
        for manifest in manifests:
            if self._spec_id in (None, manifest.partition_spec_id) and self._predicate(manifest):
                groups.setdefault((manifest.content, manifest.partition_spec_id), []).append(manifest)
            else:
                kept.append(manifest)
        return list(groups.values())

    def _sort_fields(self, spec: PartitionSpec) -> list[int]:
        """The positions in the spec of the fields to sort by."""
        names = [field.name for field in spec.fields]
        chosen = [names.index(name) for name in self._sort_by if name in names]
        return chosen or list(range(len(names)))

    def _rewrite(
        self, context: Context, members: Sequence[ManifestFile], fields: Sequence[int], target: int
    ) -> list[ManifestFile]:
        living = [manifest for manifest in members if manifest.has_live_files]
        spec = context.metadata.spec(members[0].partition_spec_id)
        typed = spec, partition_type(context.metadata, spec)
        # what is kept for later reads would only take up memory
        reader = ManifestReader(context.store, lambda _: typed, ManifestCache(0))
        ranks = _ranks([_places(_live(reader, manifest, CORE_COLUMNS)) for manifest in living], fields)
        count = sum(map(len, ranks))
        if not count:
            return []
        manifests = min(count, max(1, -(-int(bytes_per_entry(members) * count) // target)))
        size = -(-count // manifests)
        parts = _in_order(reader, living, ranks, max(1, _ENTRIES_AT_A_TIME // size) * size)
        return write_manifests(context, parts, members[0].content, self.snapshot_id, self.next_manifest_name, size)


def _live(reader: ManifestReader, manifest: ManifestFile, columns: frozenset[int]) -> Entries:
    entries = reader.read_one(manifest, columns)
    return entries.filter(entries.live)


def _places(entries: Entries) -> list[pa.Array]:
    """The partitions alone, and of an unpartitioned table their number."""
    return entries.partition_columns() or [pa.nulls(len(entries))]


def _ranks(parts: Sequence[Sequence[pa.Array]], fields: Sequence[int]) -> list[Ranks]:
    """For each entry of each part, its place among all when they are sorted by partition."""
    lengths = [len(part[0]) for part in parts]
    total = sum(lengths)
    keys: dict[str, pa.Array] = {}
    for field in fields if total else ():
        values = pa.concat_arrays([part[field] for part in parts])
        if values.null_count < total:
            keys[str(field)] = values.cast(pa.binary()) if pa.types.is_fixed_size_binary(values.type) else values
    ranks = np.arange(total, dtype=np.int64)
    if keys:
        order = pc.sort_indices(pa.table(keys), sort_keys=[(name, "ascending") for name in keys]).to_numpy()
        ranks[order] = np.arange(total, dtype=np.int64)
    return np.split(ranks, np.cumsum(lengths)[:-1]) if lengths else []


def _in_order(
    reader: ManifestReader, manifests: Sequence[ManifestFile], ranks: Sequence[Ranks], at_a_time: int
) -> Iterator[Entries]:
    """All live entries by rank, so many at a time; each time the manifests that have any of them are read."""
    total = sum(map(len, ranks))
    with Progress("rewriting manifests", total) as progress:
        for start in range(0, total, at_a_time):
            parts, places = [], []
            for manifest, mine in zip(manifests, ranks, strict=True):
                chosen = (mine >= start) & (mine < start + at_a_time)
                if chosen.any():
                    parts.append(_live(reader, manifest, ALL_COLUMNS).filter(chosen))
                    places.append(mine[chosen])
                    progress.step(len(places[-1]))
            order = np.argsort(np.concatenate(places), kind="stable")
            yield as_existing(concat(parts)).take(pa.array(order))
