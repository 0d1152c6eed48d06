"""What every commit does, whoever holds the pointer: make the next metadata, find out about lost answers, tidy up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from frazil import ambient
from frazil.errors import CatalogError, CommitFailed, CommitStateUnknown, FrazilError
from frazil.iceberg import properties as props
from frazil.iceberg.committer import TableState
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.metadata_files import metadata_file_name, version_of
from frazil.iceberg.metadata_json import parse_metadata, serialize_metadata
from frazil.iceberg.properties import METADATA_COMPRESSION
from frazil.iceberg.requirements import Requirement, check_requirements
from frazil.iceberg.updates import Update, apply_updates
from frazil.io import location as locations
from frazil.io.damage import naming
from frazil.io.store import Store, may_have_applied
from frazil.recent import Recent

_SHORT = 1 << 20
_known: Recent[bytes, TableMetadata] = Recent(64)
"""Metadata by the bytes of its file, if they are few: the same are parsed once, however often a table is loaded."""


def read_state(store: Store, location: str) -> TableState:
    """Read the metadata file at a location."""
    return parse_state(store.read(location), location)


def parse_state(data: bytes, location: str) -> TableState:
    """A table's state from the bytes of its metadata file."""
    metadata = _known.get(data)
    if metadata is None:
        with naming(location):
            metadata = parse_metadata(data)
        if len(data) <= _SHORT:
            _known.put(data, metadata)
    return TableState(metadata, location)


def updated(base: TableState, updates: Sequence[Update], requirements: Sequence[Requirement]) -> TableMetadata:
    """The metadata after a commit; `base`'s own if the updates change nothing."""
    check_requirements(base.metadata, requirements)
    return apply_updates(base.metadata, updates)


def metadata_folder(metadata: TableMetadata) -> str:
    """Where a table's metadata files go: `write.metadata.path`, or `metadata` under its location."""
    own = metadata.property_reader.get(props.WRITE_METADATA_LOCATION)
    return locations.join(own) if own else locations.join(metadata.location, "metadata")


def write_metadata_file(store: Store, metadata: TableMetadata, previous: str | None) -> str:
    """Write metadata under a name that nobody else has, numbered after the previous file's; return its location."""
    before = None if previous is None else version_of(previous)
    codec = metadata.property_reader.get(METADATA_COMPRESSION)
    name = metadata_file_name(0 if before is None else before + 1, ambient.new_uuid(), codec)
    location = locations.join(metadata_folder(metadata), name)
    store.put_if_absent(location, serialize_metadata(metadata, compress=codec == "gzip"))
    return location


def settle(metadata: TableMetadata, location: str, lost: FrazilError, ask: Callable[[], TableState]) -> TableState:
    """Find out what became of a commit whose answer was lost.

    `ask` returns the state if the commit is in, and raises CommitFailed if it definitely is not. With any other error
    it cannot tell either: then it is asked again, by the table's `commit.status-check.*` properties.
    """
    settings = metadata.property_reader
    wait_ms = settings.get(props.COMMIT_STATUS_CHECKS_MIN_WAIT_MS)
    longest_ms = settings.get(props.COMMIT_STATUS_CHECKS_MAX_WAIT_MS)
    deadline = ambient.now_ms() + settings.get(props.COMMIT_STATUS_CHECKS_TOTAL_WAIT_MS)
    for attempt in range(settings.get(props.COMMIT_NUM_STATUS_CHECKS) + 1):
        if attempt > 0:
            if ambient.now_ms() >= deadline:
                break
            ambient.sleep(min(wait_ms * 2 ** (attempt - 1), longest_ms) / 1000)
        try:
            return ask()
        except (CommitFailed, CommitStateUnknown):
            raise
        except FrazilError:
            continue  # whatever it is, such as newer metadata that cannot be read: it is no refusal
    raise CommitStateUnknown(
        f"the answer to a commit was lost, and whether it was applied cannot be found out: {lost.message}",
        hint=f"nothing was deleted; look whether the table's metadata is {location} or has it in its log",
        location=location,
    ) from lost


def was_lost(error: FrazilError) -> bool:
    """Whether an error of a swap leaves open if the swap happened."""
    return may_have_applied(error) or (isinstance(error, CatalogError) and error.context.get("applied") != "no")


def delete_removed(store: Store, base: TableMetadata, now: TableMetadata) -> None:
    """After a commit, delete the metadata files that fell out of the log, if the table wants that.

    Oldest first, and none after one that could not be deleted: see `frazil.catalog.folder_table` on why. Only what is
    named like a metadata file and lies in the table's metadata folder: a log may hold anything.
    """
    if not now.property_reader.get(props.METADATA_DELETE_AFTER_COMMIT_ENABLED):
        return
    kept = {entry.metadata_file for entry in now.metadata_log}
    folders = {metadata_folder(base), metadata_folder(now), locations.join(now.location, "metadata")}
    # the change is in: failing to tidy up must not look like failing to commit
    with suppress(FrazilError):
        for entry in base.metadata_log:
            file = entry.metadata_file
            own = version_of(file) is not None and any(locations.same(locations.parent(file), one) for one in folders)
            if own and file not in kept:
                store.delete(file)
