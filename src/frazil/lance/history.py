"""The versions of a table or branch: which there are, the newest, one by number or by time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

from frazil.errors import FileMissing, MalformedMetadata, SnapshotNotFound, TableNotFound
from frazil.io import location as locations
from frazil.io.store import FileInfo, Store
from frazil.lance import layout
from frazil.lance.feature_flags import check_readable
from frazil.lance.manifest_file import parse_manifest_file
from frazil.lance.proto.messages import DecodeError, Transaction
from frazil.lance.version import LanceVersion


class History:
    """The versions of one branch, main if not told. The version hint is written for others, and not believed.

    `check_named` is asked before a commit whether the table is the one that a catalog has under its name; it raises if
    not. A table by its path has no such check.
    """

    def __init__(
        self, store: Store, root: str, branch: str | None = None, check_named: Callable[[], None] | None = None
    ) -> None:
        self.store = store
        self.check_named = check_named or _by_path
        self.root = root
        self.branch = None if branch == layout.MAIN else branch
        self.folder = layout.branch_root(root, self.branch)

    def files(self) -> dict[int, FileInfo]:
        """The manifest of each version, the oldest first."""
        found: dict[int, FileInfo] = {}
        for file in self.store.list(locations.join(self.folder, layout.VERSIONS)):
            version = layout.version_of(locations.name(file.location))
            if version is not None:
                found[version] = file
        return dict(sorted(found.items()))

    def newest(self) -> tuple[int, FileInfo] | None:
        """The newest version's number and file. In the second naming it comes first, and the listing ends there."""
        found: tuple[int, FileInfo] | None = None
        for file in self.store.list(locations.join(self.folder, layout.VERSIONS)):
            name = locations.name(file.location)
            version = layout.version_of(name)
            if version is not None and (found is None or version > found[0]):
                found = (version, file)
            if version is not None and layout.naming_of(name) is layout.V2:
                break
        return found

    def latest(self) -> LanceVersion:
        """The newest version; TableNotFound if there is none."""
        for _ in range(3):
            found = self.newest()
            if found is None:
                break
            with suppress(FileMissing):  # gone since it was listed: by a clean-up, so there is a newer one
                return self._load(found[1].location, found[0])
        raise TableNotFound(
            f"there is no Lance table at {self.folder}", hint=f"its versions would be in {self.folder}/_versions"
        )

    def load(self, version: int) -> LanceVersion:
        """A version by number; SnapshotNotFound if it is not there (any more)."""
        for naming in (layout.V2, layout.V1):
            place = locations.join(self.folder, layout.VERSIONS, naming.manifest(version)) if version > 0 else ""
            with suppress(FileMissing):
                if place:
                    return self._load(place, version)
        known = list(self.files())
        told = f"there are versions {known[0]} to {known[-1]}" if known else "there are no versions"
        raise SnapshotNotFound(f"no version {version} of {self.folder}", hint=f"{told}; others may be cleaned up")

    def as_of(self, millis: int) -> LanceVersion:
        """The newest version that was made at a time or before it."""
        for version in self.newest_first():  # clocks of several writers may disagree: times need not ascend
            if version.timestamp_ms <= millis:
                return version
        raise SnapshotNotFound(
            f"no version of {self.folder} is that old", hint="its first versions may have been cleaned up"
        )

    def newest_first(self) -> Iterator[LanceVersion]:
        """All versions, the newest first."""
        files = self.files()
        for number in reversed(files):
            with suppress(FileMissing):
                yield self._load(files[number].location, number)

    def transaction(self, version: LanceVersion) -> Transaction | None:
        """What a version did: from its own file, or from the one that it names."""
        if version.file.transaction is not None:
            return version.file.transaction
        name = version.manifest.transaction_file
        if not name:
            return None
        place = locations.join(self.folder, layout.TRANSACTIONS, name)
        try:
            found: Transaction = Transaction.FromString(self.store.read(place))
        except FileMissing:
            return None
        except DecodeError as error:
            raise MalformedMetadata(f"{place} is no transaction: {error}", hint="the file is damaged") from error
        return found

    def _load(self, location: str, version: int) -> LanceVersion:
        data = self.store.read(location)
        file = parse_manifest_file(data, location)
        if file.manifest.version != version:
            raise MalformedMetadata(
                f"{location} says that it is version {file.manifest.version}", hint="manifests must not be renamed"
            )
        check_readable(file.manifest)
        return LanceVersion(self.root, location, len(data), file, self.branch)


def _by_path() -> None:
    """Nobody has given the table a name that could be another's."""
