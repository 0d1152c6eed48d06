"""What a metadata table is made from: one table's metadata, and the manifests that it leads to."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

from frazil.iceberg.actions.action import Context
from frazil.iceberg.manifest_list import ManifestFile
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.snapshot import Snapshot
from frazil.io.store import Store

_LISTS_AT_A_TIME = 16


@dataclass(frozen=True)
class Source:
    """A table as of one of its snapshots; there is none in a table without data."""

    metadata: TableMetadata
    store: Store
    metadata_location: str
    snapshot: Snapshot | None

    @cached_property
    def context(self) -> Context:
        """How its manifests are read."""
        return Context(self.metadata, self.store)

    @cached_property
    def manifests(self) -> list[ManifestFile]:
        """The manifests of the snapshot, in the order of its list."""
        return self.context.manifests(self.snapshot)

    @cached_property
    def manifests_by_snapshot(self) -> list[tuple[Snapshot, list[ManifestFile]]]:
        """Every snapshot that has not expired, with its manifests."""
        snapshots = self.metadata.snapshots
        with ThreadPoolExecutor(_LISTS_AT_A_TIME, thread_name_prefix="frazil-lists") as pool:
            return list(zip(snapshots, pool.map(self.context.manifests, snapshots), strict=True))

    @cached_property
    def all_manifests(self) -> list[ManifestFile]:
        """The manifests of all snapshots, each once."""
        # the newest list tells most: row ids may have been assigned since an older one
        found = {manifest.manifest_path: manifest for _, listed in self.manifests_by_snapshot for manifest in listed}
        return list(found.values())
