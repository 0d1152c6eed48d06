"""Rewrite manifests: the same entries in fewer, better clustered manifests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from frazil.iceberg.actions.action import Context
from frazil.iceberg.actions.manifest_changes import write_manifests
from frazil.iceberg.actions.snapshot_action import Change, SnapshotAction
from frazil.iceberg.entries import Entries, concat
from frazil.iceberg.manifest import ALL_COLUMNS, as_existing
from frazil.iceberg.manifest_list import ManifestFile
from frazil.iceberg.snapshot import REPLACE, Snapshot
from frazil.iceberg.transaction import Transaction


class RewriteManifests(SnapshotAction):
    """Rewrites manifests so that files of one partition stand together; no file is added or removed."""

    def __init__(self, transaction: Transaction) -> None:
        super().__init__(transaction)
        self._predicate: Callable[[ManifestFile], bool] = lambda _: True
        self._spec_id: int | None = None

    @property
    def operation(self) -> str:
        return REPLACE

    def rewrite_if(self, predicate: Callable[[ManifestFile], bool]) -> Self:
        """Rewrite only these manifests."""
        self._predicate = predicate
        return self

    def spec(self, spec_id: int) -> Self:
        """Rewrite only manifests of this partition spec."""
        self._spec_id = spec_id
        return self

    def change(self, context: Context, parent: Snapshot | None, manifests: Sequence[ManifestFile]) -> Change:
        groups: dict[tuple[int, int], list[ManifestFile]] = {}
        kept = []
        for manifest in manifests:
            wanted = self._spec_id in (None, manifest.partition_spec_id) and self._predicate(manifest)
            if wanted:
                groups.setdefault((manifest.content, manifest.partition_spec_id), []).append(manifest)
            else:
                kept.append(manifest)
        created: list[ManifestFile] = []
        replaced = processed = 0
        for (content, _), members in groups.items():
            if len(members) == 1 and not members[0].has_deleted_files:
                kept.extend(members)
                continue
            parts = [self._live(context, manifest) for manifest in members if manifest.has_live_files]
            replaced += len(members)
            if not parts:
                continue
            entries = _clustered(as_existing(concat(parts)))
            processed += len(entries)
            name = self.next_manifest_name
            created.extend(write_manifests(context, [entries], content, self.snapshot_id, name))
        counts = {
            "manifests-created": str(len(created)),
            "manifests-kept": str(len(kept)),
            "manifests-replaced": str(replaced),
            "entries-processed": str(processed),
        }
        return Change([*created, *kept], summary=counts)

    def _live(self, context: Context, manifest: ManifestFile) -> Entries:
        entries = context.reader.read_one(manifest, ALL_COLUMNS)
        return entries.filter(entries.live)


def _clustered(entries: Entries) -> Entries:
    """Entries sorted by partition, so that each manifest covers a narrow range of partitions."""
    keys = {
        str(number): values.cast(pa.binary()) if pa.types.is_fixed_size_binary(values.type) else values
        for number, values in enumerate(entries.partition_columns())
        if values.null_count < len(values)
    }
    if not keys:
        return entries
    return entries.take(pc.sort_indices(pa.table(keys), sort_keys=[(name, "ascending") for name in keys]))
