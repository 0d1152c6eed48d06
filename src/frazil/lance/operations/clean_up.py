"""Removing old versions, and the files that only they need.

What tags name stays, and every file that a version of a branch uses. Files that no version names are left for a week,
since a writer may be about to commit them. Manifests go first: what is interrupted leaves files over, and no version
without its files. A shallow clone elsewhere is not known here: do not clean up a table that others were cloned from.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from frazil import ambient
from frazil.errors import FileMissing, InvalidArgument
from frazil.io import location as locations
from frazil.io.store import FileInfo, Store
from frazil.lance import layout
from frazil.lance.feature_flags import check_writable
from frazil.lance.history import History
from frazil.lance.refs import Refs
from frazil.lance.results import CleanedUp
from frazil.lance.version import LanceVersion

DAY_MS = 24 * 3600 * 1000
OLDER_THAN_DAYS = 14
UNVERIFIED_DAYS = 7
_Name = tuple[str, str]
"""The kind of a file, which is the folder that such are in, and its name."""
_FOLDERS = (layout.DATA, layout.DELETIONS, layout.TRANSACTIONS, layout.INDICES)


def clean_up(
    store: Store,
    root: str,
    branch: str | None = None,
    *,
    older_than_ms: int | None = None,
    retain_last: int = 1,
    delete_unverified: bool = False,
    dry_run: bool = False,
) -> CleanedUp:
    """Remove versions made before a time (two weeks ago, if not told) and what only they need."""
    if retain_last < 1:
        raise InvalidArgument("the newest version must stay", hint="retain_last is at least 1")
    history = History(store, root, branch)
    now = ambient.now_ms()
    before = now - OLDER_THAN_DAYS * DAY_MS if older_than_ms is None else older_than_ms
    versions = list(history.newest_first())
    check_writable(versions[0].manifest)
    tagged = {tag.version for tag in Refs(store, root).tags().values() if _same(tag.branch, branch)}
    gone = [
        version
        for number, version in enumerate(versions)
        if number >= retain_last and version.timestamp_ms < before and version.version not in tagged
    ]
    numbers = {version.version for version in gone}
    kept = [version for version in versions if version.version not in numbers]
    others = [
        one
        for name in _branches(store, root)
        if not _same(name, branch)
        for one in History(store, root, name).newest_first()
    ]
    if not dry_run:
        store.delete_many(version.location for version in gone)
        known = {version.version for version in versions}
        kept += [one for one in history.newest_first() if one.version not in known]  # they may use old files again
    needed = _used(kept + others)
    verified = _used(gone) - needed
    files = [
        file
        for kind, file in _listed(store, history.folder)
        if _removable(kind, file, needed, verified, now, delete_unverified)
    ]
    if not dry_run:
        store.delete_many(file.location for file in files)
    size = sum(file.size for file in files) + sum(version.size for version in gone)
    return CleanedUp(len(gone), len(files), size)


def _branches(store: Store, root: str) -> list[str | None]:
    return [None, *Refs(store, root).branches()]


def _same(left: str | None, right: str | None) -> bool:
    return (left or layout.MAIN) == (right or layout.MAIN)


def _listed(store: Store, folder: str) -> Iterable[tuple[str, FileInfo]]:
    for name in _FOLDERS:
        for file in store.list(locations.join(folder, name)):
            yield name, file


def _removable(
    kind: str, file: FileInfo, needed: set[_Name], verified: set[_Name], now: int, delete_unverified: bool
) -> bool:
    names = _names(kind, file.location)
    if not needed.isdisjoint(names):
        return False
    old = file.modified_ms < now - UNVERIFIED_DAYS * DAY_MS
    return not verified.isdisjoint(names) or old or delete_unverified


def _names(kind: str, location: str) -> set[_Name]:
    """A file, and the folders that it may be kept or removed with: an index's, or that of a data file's blobs."""
    here = locations.parent(location)
    return {(kind, locations.name(place)) for place in (location, here, locations.parent(here))}


def _used(versions: Iterable[LanceVersion]) -> set[_Name]:
    """All files that some versions name; a folder for an index, and for the blobs of a data file.

    Names are never used twice, and a folder has many: by a link, by another scheme, from another machine. So a file is
    known by its name, wherever a version says that it is.
    """
    found: set[_Name] = set()
    for version in versions:
        manifest = version.manifest
        for fragment in manifest.fragments:
            for file in fragment.files:
                name = locations.name(version.data_location(file))
                found |= {(layout.DATA, name), (layout.DATA, name.removesuffix(".lance"))}
            if (deletions := version.deletions(fragment)) is not None:
                found.add((layout.DELETIONS, locations.name(deletions.location)))
        if manifest.transaction_file:
            found.add((layout.TRANSACTIONS, manifest.transaction_file))
        for index in version.indices:
            found.add((layout.INDICES, _uuid_text(index.uuid.uuid)))
    return found


def _uuid_text(data: bytes) -> str:
    return str(uuid.UUID(bytes=data)) if len(data) == 16 else "none"


def remove_branch(store: Store, root: str, name: str) -> None:
    """Forget a branch and remove the files of its own; refused while another branch began on it."""
    refs = Refs(store, root)
    branches = refs.branches()
    if name not in branches:
        refs.find(name)
        raise InvalidArgument(f"{name!r} is a tag", hint="drop the tag")
    children = [one.name for one in branches.values() if one.parent_branch == name]
    tags = [tag.name for tag in refs.tags().values() if tag.branch == name]
    if children or tags:
        raise InvalidArgument(
            f"branch {name!r} is used by {', '.join([*children, *tags])}", hint="drop the branches and tags first"
        )
    refs.drop_branch(name)
    folder = layout.branch_root(root, name)
    nested = [locations.join(root, layout.TREE, other) for other in branches if other.startswith(f"{name}/")]
    for part in (layout.VERSIONS, *_FOLDERS):
        own = [file.location for file in store.list(locations.join(folder, part))]
        try:
            store.delete_many(place for place in own if not any(place.startswith(f"{one}/") for one in nested))
        except FileMissing:  # pragma: no cover - somebody else removes it too
            continue
