"""Commits: the next manifest is put where none is. Who comes second rebases over what came between, or gives up.

After an answer that was lost nothing is deleted: the version may be there.
"""

from __future__ import annotations

import json
from contextlib import suppress

from frazil import ambient
from frazil.errors import (
    AlreadyExists,
    CommitConflict,
    CommitFailed,
    CommitStateUnknown,
    FileMissing,
    FrazilError,
    SnapshotNotFound,
)
from frazil.io import location as locations
from frazil.io.store import FileInfo, may_have_applied
from frazil.lance import layout
from frazil.lance.apply import Next, apply, stamp
from frazil.lance.conflicts import operation_of
from frazil.lance.feature_flags import check_writable, set_flags
from frazil.lance.history import History
from frazil.lance.manifest_file import parse_manifest_file, render_manifest_file
from frazil.lance.proto.messages import IndexSection, Manifest, Transaction
from frazil.lance.rebase import Change, rebased
from frazil.lance.same_table import is_there, newest_after
from frazil.lance.version import LanceVersion

ATTEMPTS = 50
HINT_EVERY = 16
_WAIT_MS, _LONGEST_MS = 5, 1_000


def new_transaction(read_version: int, **operation: object) -> Transaction:
    """A transaction with an id of its own; the operation is given by its name."""
    return Transaction(read_version=read_version, uuid=str(ambient.new_uuid()), **operation)  # type: ignore[arg-type]


def commit(history: History, change: Change, *, attempts: int = ATTEMPTS) -> LanceVersion:
    """Make a change the newest version of a table or branch."""
    written: str | None = None
    base = change.base
    for attempt in range(attempts):
        try:
            history.check_named()
            # most often the version that the change was worked out on is the newest still; if it is not, there is a
            # manifest already where the next one is to be put, or it is found out afterwards
            newest = base if not attempt and is_there(history, base) else newest_after(history, base)
            check_writable(newest.manifest)
            current = (
                change
                if newest.version == base.version
                else rebased(change, _between(history, base, newest), newest, history.store)
            )
            made = apply(current.transaction, newest, _restored(history, current.transaction))
        except FrazilError:
            if written is not None:  # the attempts so far were definitely refused
                with suppress(FrazilError):
                    history.store.delete(written)
            raise
        written = _write_transaction(history, current.transaction)
        found = _publish(history, made, current.transaction, newest.naming)
        if found is not None:
            return found
        ambient.sleep(min(_WAIT_MS * 2**attempt, _LONGEST_MS) / 1000 * (0.5 + ambient.jitter()))
    raise CommitFailed(f"{attempts} other commits came first", hint="try again when fewer writers are at work")


def follow(history: History, base: LanceVersion, made: Next, transaction: Transaction) -> LanceVersion:
    """Make a version the one after `base`, and after no other; CommitFailed if another was first."""
    if not is_there(history, base):
        raise CommitFailed(f"version {base.version} is gone", hint="make the change again on the newest")
    place = _write_transaction(history, transaction)
    found = _publish(history, made, transaction, base.naming)
    if found is None:
        with suppress(FrazilError):
            history.store.delete(place)
        raise CommitFailed(f"another version came after {base.version}", hint="make the change again on the newest")
    return found


def create(history: History, manifest: Manifest, transaction: Transaction) -> LanceVersion:
    """Make the first version of a table; AlreadyExists if there is one."""
    if history.newest() is not None:
        raise _already_there(history)
    manifest.version = 1
    stamp(manifest)
    set_flags(manifest)
    place = _write_transaction(history, transaction)
    found = _publish(history, Next(manifest, IndexSection()), transaction, layout.V2)
    if found is None:
        with suppress(FrazilError):
            history.store.delete(place)
        raise _already_there(history)
    return found


def _already_there(history: History) -> AlreadyExists:
    return AlreadyExists(f"there is a Lance table at {history.folder}", hint="open it, or choose another place")


def _between(history: History, base: LanceVersion, newest: LanceVersion) -> list[tuple[int, Transaction | None]]:
    found = []
    for number in range(base.version + 1, newest.version + 1):
        try:
            version = newest if number == newest.version else history.load(number)
        except SnapshotNotFound as error:
            raise CommitConflict(
                f"version {number} was cleaned up, so it cannot be told what it did", hint="make the change again"
            ) from error
        found.append((number, history.transaction(version)))
    return found


def _restored(history: History, transaction: Transaction) -> LanceVersion | None:
    return history.load(transaction.restore.version) if operation_of(transaction) == "restore" else None


def _write_transaction(history: History, transaction: Transaction) -> str:
    name = layout.transaction_name(transaction.read_version, transaction.uuid)
    place = locations.join(history.folder, layout.TRANSACTIONS, name)
    history.store.write(place, transaction.SerializeToString(deterministic=True))
    return place


def _publish(history: History, made: Next, transaction: Transaction, naming: layout.Naming) -> LanceVersion | None:
    """Put the manifest in place; None if another writer was first."""
    manifest = made.manifest
    manifest.transaction_file = layout.transaction_name(transaction.read_version, transaction.uuid)
    data = render_manifest_file(manifest, made.indices, transaction)
    place = locations.join(history.folder, layout.VERSIONS, naming.manifest(manifest.version))
    try:
        history.store.put_if_absent(place, data)
    except AlreadyExists:
        return None
    except FrazilError as error:
        if not may_have_applied(error):
            raise
        if not _is_ours(history, place, transaction, error):
            return None
    try:
        is_displaced = _is_displaced(history, int(manifest.version))
    except FrazilError as error:  # it is there, and maybe not in the table
        raise _unknown(place, error) from error
    if is_displaced:
        # a version of this number was there, and cleaned up: it is not to come back
        try:
            history.store.delete(place)
        except FrazilError as error:
            raise _unknown(place, error) from error
        return None
    _write_hint(history, int(manifest.version))
    return LanceVersion(history.root, place, len(data), parse_manifest_file(data, place), history.branch)


def _is_ours(history: History, place: str, transaction: Transaction, error: FrazilError) -> bool:
    """Whether a version whose answer was lost is ours; CommitStateUnknown if that cannot be told."""
    try:
        found = parse_manifest_file(history.store.read(place), place).transaction
    except FileMissing:
        found = None  # it may still arrive
    except FrazilError as unreadable:
        raise _unknown(place, error) from unreadable
    if found is None:
        raise _unknown(place, error) from error
    return bool(found.uuid == transaction.uuid)


def _unknown(place: str, error: FrazilError) -> CommitStateUnknown:
    return CommitStateUnknown(
        f"it is not known whether {place} was written: {error.message}",
        hint="look at the table's newest version before doing it again; nothing was removed",
    )


def _is_displaced(history: History, version: int) -> bool:
    """Whether newer versions were there before this one, which then was put in the place of one cleaned up."""
    newest = history.newest()
    if newest is None or newest[0] <= version:
        return False
    files = history.files()
    if version not in files:
        return False
    mine: FileInfo = files[version]
    following = files.get(version + 1)
    return following is None or following.modified_ms < mine.modified_ms


def _write_hint(history: History, version: int) -> None:
    """Tell others where to look first. Nobody relies on it, so it may be some versions old, and may fail."""
    if version % HINT_EVERY != 0:
        return
    with suppress(FrazilError):
        place = locations.join(history.folder, layout.VERSIONS, layout.HINT)
        history.store.write(place, json.dumps({"version": version}).encode())
