"""Deleting a dropped table's files."""

from __future__ import annotations

from frazil.errors import Unsupported
from frazil.iceberg.committer import TableState
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.properties import GC_ENABLED
from frazil.io.store import Store


def check_purge(metadata: TableMetadata, name: str) -> None:
    """Unsupported if the table's files may not be deleted."""
    if not metadata.property_reader.get(GC_ENABLED):
        raise Unsupported(
            f"table {name} has gc.enabled=false: others may use its files",
            hint="drop it without purge, or set gc.enabled=true first",
        )


def purge_files(store: Store, state: TableState) -> None:
    """Delete every file that the table's metadata reaches; what cannot be read is passed over.

    What leads to other files goes after them. StoreError if some could not be deleted; the rest are gone.
    """
    from frazil.iceberg.reachable import Reachability

    metadata = state.metadata
    files = Reachability(store, metadata).only_expired(metadata.snapshots, [])
    statistics = [file.statistics_path for file in metadata.statistics]
    statistics += [file.statistics_path for file in metadata.partition_statistics]
    store.delete_many([*files.content["path"].to_pylist(), *statistics])
    store.delete_many([*files.manifests, *files.manifest_lists])
    store.delete_many([*(entry.metadata_file for entry in metadata.metadata_log), state.metadata_location])
