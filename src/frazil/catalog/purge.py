"""Deleting a dropped table's files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from frazil.errors import FileMissing, Unsupported
from frazil.iceberg import manifest_schema as ids
from frazil.iceberg.actions.action import Context
from frazil.iceberg.committer import TableState
from frazil.iceberg.manifest_list import ManifestFile
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
    """Delete every file that the table's metadata reaches, the metadata files last. What is missing is gone already.

    StoreError if some could not be deleted; the rest are gone.
    """
    metadata = state.metadata
    context = Context(metadata, store)
    manifests: dict[str, ManifestFile] = {}
    for snapshot in metadata.snapshots:
        with suppress(FileMissing):
            manifests.update({manifest.manifest_path: manifest for manifest in context.manifests(snapshot)})
    data: set[str] = set()
    for manifest in manifests.values():
        with suppress(FileMissing):
            entries = context.reader.read_one(manifest, frozenset({ids.FILE_PATH}))
            data.update(entries.column(ids.FILE_PATH).to_pylist())
    # what leads to other files goes after them, so that an interrupted purge can be repeated
    store.delete_many(sorted(data))
    store.delete_many(sorted(manifests))
    store.delete_many(sorted(set(_other_files(state))))


def _other_files(state: TableState) -> Iterator[str]:
    metadata = state.metadata
    yield from (snapshot.manifest_list for snapshot in metadata.snapshots if snapshot.manifest_list is not None)
    yield from (file.statistics_path for file in metadata.statistics)
    yield from (file.statistics_path for file in metadata.partition_statistics)
    yield from (entry.metadata_file for entry in metadata.metadata_log)
    yield state.metadata_location
