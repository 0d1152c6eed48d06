"""Tables that are a folder and nothing else, as in Iceberg's Hadoop catalog: `t/metadata/v3.metadata.json`.

Version N+1 is committed by creating the file of that name, which only one writer can. `version-hint.text` says where
to begin looking for the newest; it may be stale, missing or damaged.

Names that come back. `write.metadata.delete-after-commit.enabled` deletes old versions, so a writer that was stalled
for long can create a version whose name was taken, used and deleted meanwhile: its commit would be acknowledged, and in
no later history. Three rules together prevent that:

- Versions are deleted oldest first, none after one that could not be deleted, and never the last two.
- After creating version N+1, a writer looks whether version N is still the one it built on. If it is, then by the first
  rule nobody had deleted an N+1 before, so the name was free because nobody had used it. If not, the log of the next
  version that is left tells whether ours is in the history, or its snapshots, or its age; one that is not is deleted
  again, and the commit has failed.
- Readers do not trust a version that the hint led to if the version before it is missing: they list the folder.

Dropping a table is a commit like any other: the next version is created with a text that is no metadata, so a writer
who comes later fails. After that the files are tidied away. A table created again in the folder goes on counting above
the old one's numbers, so that writers of the old one cannot commit to it.

So is giving a table's name to one of another format (`move`): the next version says which that is, and where. It stays,
and what comes after it is an Iceberg table again, or nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from frazil import ambient
from frazil.catalog.folder_versions import (
    LONGEST_TEXT,
    TOMBSTONE,
    Moved,
    Version,
    is_no_metadata,
    moved_text,
    parse_moved,
)
from frazil.catalog.next_metadata import delete_removed, parse_state, read_state, settle, updated
from frazil.catalog.purge import check_purge, purge_files
from frazil.errors import (
    AlreadyExists,
    CommitFailed,
    CommitStateUnknown,
    FileMissing,
    FrazilError,
    InvalidArgument,
    MalformedMetadata,
    StoreError,
    TableAlreadyExists,
    TableNotFound,
    Unsupported,
)
from frazil.iceberg import properties as props
from frazil.iceberg.committer import Committer, TableState
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.metadata_files import hadoop_file_name, metadata_file_name, version_of
from frazil.iceberg.metadata_json import serialize_metadata
from frazil.iceberg.requirements import Requirement
from frazil.iceberg.updates import Update, with_metadata_log
from frazil.io import location as locations
from frazil.io.store import Store, may_have_applied

HINT = "version-hint.text"
_ATTEMPTS = 5
_CLOCK_TOLERANCE_MS = 60_000
"""How far the times of files in one store may be apart without telling which was first."""


class FolderCommitter(Committer):
    """Loads, commits, creates and drops the table in one folder."""

    def __init__(self, store: Store, folder: str) -> None:
        self._store = store
        self.folder = locations.join(folder)
        self._metadata_folder = locations.join(folder, "metadata")
        self._hint = locations.join(self._metadata_folder, HINT)

    # Reading.

    def load(self) -> TableState:
        state = self.load_or_none()
        if state is None:
            raise TableNotFound(
                f"no table in {self.folder}", hint=f"looked for v<N>.metadata.json in {self._metadata_folder}"
            )
        return state

    def load_or_none(self) -> TableState | None:
        """The newest version; None if there is no table, or it was dropped or moved."""
        version = self._newest()
        if version is None:
            return None
        for _ in range(_ATTEMPTS):
            try:
                data = self._store.read(version.location)
                return None if is_no_metadata(data) else parse_state(data, version.location)
            except FileMissing:  # another writer has deleted this version since: there is a newer one
                newer = self._newest()
                if newer is None or newer == version:
                    raise
                version = newer
        raise StoreError(
            f"the versions of {self.folder} are deleted faster than they can be read",
            hint="set write.metadata.previous-versions-max higher",
        )

    def exists(self) -> bool:
        """Whether there is a table."""
        version = self._newest()
        return version is not None and not is_no_metadata(self._text(version))

    def moved(self) -> Moved | None:
        """The table of another format that has this one's name now."""
        version = self._newest()
        return None if version is None else parse_moved(self._text(version), self.folder, version)

    def _newest(self) -> Version | None:
        hinted = self._hinted()
        version = None if hinted is None else self._find(hinted)
        if version is not None:
            while (following := self._find(version.number + 1)) is not None:
                version = following
            if self._find(version.number - 1) is not None:
                return version
        versions = self._listed()
        return versions[-1] if versions else version

    def _hinted(self) -> int | None:
        try:
            text = self._store.read(self._hint)[:32].decode("ascii", "replace").strip()
        except FileMissing:
            return None
        return int(text) if text.isdecimal() else None

    def _find(self, number: int) -> Version | None:
        if number < 1:
            return None
        plain, packed = hadoop_file_name(number), hadoop_file_name(number, "gzip")
        for name in (plain, packed, f"{plain}.gz"):
            location = locations.join(self._metadata_folder, name)
            if self._store.exists(location):
                return Version(number, location)
        return None

    def _listed(self) -> list[Version]:
        """All versions, in order."""
        versions: dict[int, Version] = {}
        for file in self._store.list(self._metadata_folder):
            number = version_of(file.location)
            direct = locations.same(locations.parent(file.location), self._metadata_folder)
            if number is not None and direct and locations.name(file.location).startswith("v"):
                versions.setdefault(number, Version(number, file.location))
        return [versions[number] for number in sorted(versions)]

    def _is_tombstone(self, version: Version) -> bool:
        return self._text(version) == TOMBSTONE

    def _text(self, version: Version) -> bytes:
        """What a version says, if it may be no metadata; nothing otherwise."""
        try:
            if self._store.size(version.location) > LONGEST_TEXT:
                return b""
            return self._store.read(version.location)
        except FileMissing:
            return b""

    # Writing.

    def commit(self, base: TableState, updates: Sequence[Update], requirements: Sequence[Requirement]) -> TableState:
        metadata = updated(base, updates, requirements)
        if metadata is base.metadata:
            return base
        if metadata.location != base.metadata.location:
            raise InvalidArgument(
                f"the table in {self.folder} cannot have another location", hint="use a SQL or REST catalog for that"
            )
        _refuse_metadata_path(metadata)
        number = self._number(base)
        metadata = with_metadata_log(metadata, self._logged(base), base.metadata.last_updated_ms)
        # By the base's codec, not the new one: writers that would change it and others must meet on one name.
        state = self._put(metadata, number + 1, base.metadata.property_reader.get(props.METADATA_COMPRESSION), base)
        if self._write_hint(number + 1):
            delete_removed(self._store, base.metadata, metadata)
        return state

    def create(self, metadata: TableMetadata, *, registered: bool = False, after: Moved | None = None) -> TableState:
        """Make the first version of a table, or the first `after` one of another format; TableAlreadyExists."""
        _refuse_metadata_path(metadata)
        if not registered and not locations.same(metadata.location, self.folder):
            raise InvalidArgument(
                f"a table of this catalog cannot be at {metadata.location}",
                hint=f"leave the location out: it is {self.folder}; a SQL catalog lets tables be anywhere",
            )
        version = self._newest()
        if version is not None and after is None:
            if not self._is_tombstone(version):
                raise self._already_there()
            self._tidy_dropped(version)  # whoever dropped it did not come to the end
        number = max(self._highest_number(), 0 if version is None else version.number) + 1
        if after is not None:
            if version != after.version:
                raise self._already_there()
            number = after.version.number + 1  # where whoever drops that table meets us
        try:
            # Always the plain name: two who create a table at once must meet, whatever codecs they want.
            state = self._put(metadata, number, "none", None)
        except CommitFailed:
            raise self._already_there() from None
        if after is not None and not self._store.exists(after.version.location):  # dropped meanwhile, and tidied away
            self._store.delete(state.metadata_location)
            raise self._already_there()
        self._write_hint(number)
        return state

    def _already_there(self) -> TableAlreadyExists:
        return TableAlreadyExists(f"there is a table in {self.folder}", hint="open it, or choose another name")

    def check_drop(self, *, purge: bool) -> TableState:
        """The table to drop; TableNotFound, or Unsupported if its files may not be deleted."""
        state = self.load()
        if purge:
            check_purge(state.metadata, f"in {self.folder}")
            self._check_own_files(state.metadata)
        return state

    def drop(self, *, purge: bool) -> None:
        """Make the table disappear; TableNotFound.

        Without `purge` its files stay, and its last metadata under a catalog's name: `frazil.open` reads it there, and
        a catalog can register it again.
        """
        for _ in range(_ATTEMPTS):
            state = self.check_drop(purge=purge)
            number = self._number(state)
            kept = locations.join(self._metadata_folder, metadata_file_name(number, ambient.new_uuid()))
            if not purge:
                self._store.put_if_absent(kept, serialize_metadata(state.metadata))
            try:
                tombstone = self._create(number + 1, "none", TOMBSTONE, state.metadata)
            except CommitFailed:
                self._store.delete(kept)
                continue
            break
        else:
            raise CommitFailed(
                f"the table in {self.folder} is being written to", hint="try again when its writers are done"
            )
        if purge:
            purge_files(self._store, state)
        self._tidy_dropped(tombstone)

    def move(self, base: TableState, format_name: str, location: str) -> str:
        """Give the name to a table of another format, if this one is at `base` still; CommitFailed if not.

        That one is in a folder of this folder, so that both can be copied together. This one's files stay, and its
        last metadata, whose location is returned.
        """
        number = self._number(base) + 1
        text = moved_text(format_name, self.folder, location)
        version = self._create(number, "none", text, base.metadata)
        try:
            if not self._still_there(base):  # dropped meanwhile, and tidied away
                self._store.delete(version.location)
                raise self._taken(number)
        except StoreError as error:
            raise self._unknown(version) from error
        self._write_hint(number)
        return base.metadata_location

    def create_after(self, location: str, metadata: TableMetadata) -> TableState:
        """Make the first version of a table that takes the place of one of another format; CommitFailed if it is gone.

        That one is at `location`: in this folder, or where this folder's last version says.
        """
        moved = self.moved()
        here = self.folder if moved is None else moved.location
        try:
            if not locations.same(here, location):
                raise self._taken(1 if moved is None else moved.version.number + 1)
            return self.create(metadata, after=moved)
        except TableAlreadyExists as error:
            raise CommitFailed(error.message, hint="open the table again") from error

    def forget_moved(self, moved: Moved) -> None:
        """Let the name be nobody's; CommitFailed if it is not that table's any more."""
        number = moved.version.number + 1
        tombstone = Version(number, locations.join(self._metadata_folder, hadoop_file_name(number)))
        try:
            self._store.put_if_absent(tombstone.location, TOMBSTONE)
        except AlreadyExists:
            raise self._taken(number) from None
        self._tidy_dropped(tombstone)

    def _check_own_files(self, metadata: TableMetadata) -> None:
        if not locations.same(metadata.location, self.folder):
            raise Unsupported(
                f"the table in {self.folder} was registered: its files are in {metadata.location}, perhaps another's",
                hint="drop it without purge, and the files where they are at home",
            )

    def _tidy_dropped(self, tombstone: Version) -> None:
        self._store.delete(self._hint)
        # none above: somebody may have created a table here meanwhile
        self._store.delete_many([one.location for one in self._listed() if one.number < tombstone.number])
        self._store.delete(tombstone.location)

    def _put(self, metadata: TableMetadata, number: int, codec: str, base: TableState | None) -> TableState:
        data = serialize_metadata(metadata, compress=codec == "gzip")
        version = self._create(number, codec, data, metadata)
        state = TableState(metadata, version.location)
        try:
            if base is not None and not self._still_there(base):
                self._check_history(version, state, base)
        except (CommitFailed, CommitStateUnknown):
            raise
        except FrazilError as error:  # the version is there: whatever cannot be read now, that is no refusal
            raise self._unknown(version) from error
        return state

    def _create(self, number: int, codec: str, data: bytes, metadata: TableMetadata) -> Version:
        """Create a version's file, or CommitFailed."""
        location = locations.join(self._metadata_folder, hadoop_file_name(number, codec))
        if self._find(number) is not None:  # also under the name of another codec
            raise self._taken(number)

        def put() -> None:
            try:
                self._store.put_if_absent(location, data)
            except AlreadyExists:
                # Perhaps ours: the store may have repeated a request whose first answer was lost.
                if self._content(location) != data:
                    raise self._taken(number) from None

        def put_again() -> TableState:
            put()
            return TableState(metadata, location)

        try:
            put()
        except StoreError as error:
            if not may_have_applied(error):
                raise
            settle(metadata, location, error, put_again)
        return Version(number, location)

    def _content(self, location: str) -> bytes | None:
        try:
            return self._store.read(location)
        except FileMissing:
            return None
        except StoreError as error:
            # of the reading, which tells nothing about what was written
            raise StoreError(error.message, hint=error.hint) from error

    def _taken(self, number: int) -> CommitFailed:
        return CommitFailed(
            f"version {number} of the table in {self.folder} was written by another", hint="refresh and try again"
        )

    def _still_there(self, base: TableState) -> bool:
        try:
            found = read_state(self._store, base.metadata_location).metadata
        except FileMissing:
            return False
        return _same_version(found, base.metadata)

    def _check_history(self, version: Version, state: TableState, base: TableState) -> None:
        """We created a version, but the one it follows is gone: CommitFailed unless ours is in the table's history."""
        for _ in range(_ATTEMPTS):
            versions = self._listed()
            later = next((one for one in versions if one.number > version.number), None)
            if later is None:
                earlier = [one for one in versions if one.number < version.number]
                # who drops a table removes the hint before the versions; another table may be here by now
                if self._store.exists(self._hint) and not self._is_anothers(earlier, state.metadata):
                    raise self._unknown(version)
                break
            try:
                found = read_state(self._store, later.location).metadata
            except FileMissing:  # deleted as well by now
                continue
            except MalformedMetadata as error:
                raise self._unknown(version) from error
            if self._is_in(found, version, later, state.metadata, base.metadata):
                return
            break
        else:
            raise self._unknown(version)
        # Nobody can have built on it: readers do not take a version whose predecessor is missing for the newest.
        with suppress(FrazilError):
            self._store.delete(version.location)
        raise CommitFailed(
            f"version {version.number} of the table in {self.folder} was committed and deleted by others long ago",
            hint=f"this writer was stalled since {base.metadata_location}; refresh and try again",
        )

    def _is_anothers(self, versions: Sequence[Version], ours: TableMetadata) -> bool:
        """Whether the newest of these is of a table that was created here after ours was dropped and purged."""
        return bool(versions) and read_state(self._store, versions[-1].location).metadata.table_uuid != ours.table_uuid

    def _is_in(
        self, found: TableMetadata, version: Version, later: Version, ours: TableMetadata, base: TableMetadata
    ) -> bool:
        """Whether `found`, the metadata of the next version that is left, was built on ours, perhaps through others."""
        if found.table_uuid != ours.table_uuid:
            return False
        name = locations.name(version.location)
        times = [entry.timestamp_ms for entry in found.metadata_log if locations.name(entry.metadata_file) == name]
        if times:
            return times == [ours.last_updated_ms]
        # So many commits later that no log has it. A snapshot of ours tells, or one that has its sequence number.
        before = _snapshot_ids(base)
        added = [snapshot for snapshot in ours.snapshots if snapshot.snapshot_id not in before]
        if any(found.snapshot_or_none(snapshot.snapshot_id) is not None for snapshot in added):
            return True
        taken = {snapshot.sequence_number for snapshot in found.snapshots if snapshot.sequence_number > 0}
        if any(snapshot.sequence_number in taken for snapshot in added):
            return False
        # What was built on ours cannot be older than ours.
        written = {file.location: file.modified_ms for file in self._store.list(self._metadata_folder)}
        age_ms = written.get(version.location, 0) - written.get(later.location, 0)
        if age_ms <= _CLOCK_TOLERANCE_MS:
            raise self._unknown(version)
        return False

    def _unknown(self, version: Version) -> CommitStateUnknown:
        return CommitStateUnknown(
            f"cannot find out whether {version.location} is part of the table's history",
            hint="nothing was deleted; look for what the commit added",
            location=version.location,
        )

    def _number(self, state: TableState) -> int:
        number = version_of(state.metadata_location)
        if number is None:
            raise InvalidArgument(
                f"{state.metadata_location} is not a version of the table in {self.folder}",
                hint="load the table through its folder",
            )
        return number

    def _highest_number(self) -> int:
        """The highest version number that any metadata file here has or had."""
        numbers = [version_of(file.location) for file in self._store.list(self._metadata_folder)]
        # a dropped table's last version was followed by its tombstone
        return max((number + 1 for number in numbers if number is not None), default=0)

    def _logged(self, state: TableState) -> str:
        """How a former version is written to the log: in the spelling that the table's location has."""
        own = locations.join(state.metadata.location, "metadata", locations.name(state.metadata_location))
        here = locations.same(state.metadata.location, self.folder) or self._store.exists(own)
        return own if here else state.metadata_location

    def _write_hint(self, number: int) -> bool:
        try:
            self._store.replace(self._hint, str(number).encode())
        except FrazilError:
            return False  # readers find the version without it
        return True


def _same_version(left: TableMetadata, right: TableMetadata) -> bool:
    def key(metadata: TableMetadata) -> tuple[object, ...]:
        return metadata.table_uuid, metadata.last_updated_ms, metadata.metadata_log, _snapshot_ids(metadata)

    return key(left) == key(right)


def _snapshot_ids(metadata: TableMetadata) -> set[int]:
    return {snapshot.snapshot_id for snapshot in metadata.snapshots}


def _refuse_metadata_path(metadata: TableMetadata) -> None:
    if metadata.property_reader.get(props.WRITE_METADATA_LOCATION) is not None:
        raise InvalidArgument(
            f"{props.WRITE_METADATA_LOCATION.name} cannot be set: the table is found by its metadata folder",
            hint="leave it out, or use a SQL or REST catalog",
        )
