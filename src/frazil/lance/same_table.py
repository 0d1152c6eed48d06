"""Whether the versions in a folder are still those of the table that a change was worked out on.

A table may be dropped and made again in its folder, and a branch under its name. Then the numbers are the same, and
nothing else is: a change that was worked out on the one must not go on top of the other.
"""

from __future__ import annotations

from frazil.errors import CommitConflict, FileMissing, FrazilError
from frazil.lance.history import History
from frazil.lance.manifest_file import parse_manifest_file
from frazil.lance.proto.messages import Manifest
from frazil.lance.version import LanceVersion

_HEAD = 4 + 80
"""Bytes in which a transaction, behind its length, has told its id."""


def made_by(version: LanceVersion) -> str:
    """What tells a version from another one of its number."""
    return _maker(version.manifest)


def is_there(history: History, version: LanceVersion) -> bool:
    """Whether a version is there still; CommitConflict if another one is in its place. It costs one small read."""
    store, known = history.store, version.file.transaction
    at = _where_told(version.manifest)
    try:
        if known is not None and known.uuid and at is not None:
            try:
                if known.uuid.encode() in store.read_range(version.location, at, _HEAD):
                    return True
            except FileMissing:
                raise
            except FrazilError:  # another file, which is shorter
                pass
        found = parse_manifest_file(store.read(version.location), version.location)
    except FileMissing:
        return False
    if _maker(found.manifest) != made_by(version):
        raise _replaced(history)
    return True


def newest_after(history: History, version: LanceVersion) -> LanceVersion:
    """The newest version of the table that a version is of; CommitConflict if another table is in its place."""
    is_known = is_there(history, version)
    newest = history.latest()
    if newest.version < version.version or not (is_known or _have_files_in_common(version, newest)):
        raise _replaced(history)
    return newest


def _have_files_in_common(old: LanceVersion, new: LanceVersion) -> bool:
    """What tells a table that was cleaned up from another one: names of data files are never used twice."""
    before = {file.path for fragment in old.manifest.fragments for file in fragment.files}
    return any(file.path in before for fragment in new.manifest.fragments for file in fragment.files)


def _where_told(manifest: Manifest) -> int | None:
    for name in ("transaction_section", "transaction_section_before_14"):
        if manifest.HasField(name):
            return int(getattr(manifest, name))
    return None


def _maker(manifest: Manifest) -> str:
    moment = manifest.timestamp
    return str(manifest.transaction_file) or str(moment.seconds * 1000 + moment.nanos // 1_000_000)


def _replaced(history: History) -> CommitConflict:
    return CommitConflict(
        f"the table at {history.folder} was dropped, or replaced by another one",
        hint="open the table again, and make the change anew",
    )
