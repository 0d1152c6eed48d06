"""The engine of all actions that add and remove files: what to add, what to remove, then one new list of manifests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Self

from frazil.errors import CommitConflict, InvalidArgument, Unsupported
from frazil.iceberg import manifest_schema as ids
from frazil.iceberg.actions.action import Context, Staged
from frazil.iceberg.actions.manifest_changes import (
    Removal,
    added_entries,
    dangling_deletes,
    merge_manifests,
    remove_files,
    write_manifests,
)
from frazil.iceberg.actions.snapshot_action import Change, SnapshotAction
from frazil.iceberg.data_file import Content, DataFile, Status
from frazil.iceberg.delete_index import is_vector
from frazil.iceberg.entries import Entries
from frazil.iceberg.layout import Layout
from frazil.iceberg.manifest import CORE_COLUMNS
from frazil.iceberg.manifest_list import DATA, DELETES, ManifestFile
from frazil.iceberg.snapshot import Snapshot
from frazil.iceberg.transaction import Transaction
from frazil.iceberg.validation import ReadPoint, changed_entries, read_point


class FileChanges(SnapshotAction):
    """Adds and removes data and delete files in one snapshot."""

    merges = True
    """Whether small manifests are joined on the way; a fast append does not."""

    def __init__(self, transaction: Transaction) -> None:
        super().__init__(transaction)
        self._added: dict[tuple[str, int | None], DataFile] = {}
        self._added_data: list[DataFile] = []
        self._added_deletes: list[DataFile] = []
        self._removal = Removal()
        self._delete_removal = Removal()
        self._told_start: tuple[int | None] | None = None
        self._read: ReadPoint | None = None
        self._layout: Layout | None = None
        self._new_manifests: dict[int, tuple[list[ManifestFile], list[Entries]]] = {}

    def _add_data(self, file: DataFile) -> Self:
        if not isinstance(file, DataFile):
            raise InvalidArgument(f"{file!r} is no DataFile", hint="rows are added with table.append")
        if file.content != Content.DATA:
            raise InvalidArgument(f"{file.file_path} is a delete file", hint="add it with a row delta")
        if self._is_new(file):
            self._added_data.append(file)
        return self

    def _add_deletes(self, file: DataFile) -> Self:
        if file.content == Content.DATA:
            raise InvalidArgument(f"{file.file_path} is a data file", hint="add it as rows")
        if self._is_new(file):
            self._added_deletes.append(file)
        return self

    def _is_new(self, file: DataFile) -> bool:
        """Whether a file is not there yet: given twice it is meant once, else its rows would count twice."""
        known = self._added.get(file.key)
        if known is None:
            self._added[file.key] = file
        elif known != file:
            raise InvalidArgument(
                f"two different files are added as {file.file_path}", hint="each file needs a path of its own"
            )
        return known is None

    @property
    def named_by_deletes(self) -> set[str]:
        """The data files that added vectors and delete files are about, as far as they say so."""
        named = (file.referenced_data_file for file in self._added_deletes)
        return {path for path in named if path is not None}

    def validate_from(self, snapshot_id: int | None) -> Self:
        """The snapshot that was read to work the change out (None: the table was empty).

        If not told, it is the one that was current when the action was first tried. In a transaction that is the last
        one the transaction made before, and all that others commit below it counts as committed since.
        """
        self._told_start = (snapshot_id,)
        return self

    def stage(self, context: Context) -> Staged:
        point = self._read_point(context, self.parent(context.metadata))
        if self._added_data and self._removal.paths:
            self._check_own_rows(context, point)
        if self._layout is None:
            self._layout = Layout.of(context.metadata)
        self._layout.check_places(context.metadata, (*self._added_data, *self._added_deletes))
        if self._added_data:
            self._layout.check_readable(context.metadata)
        return super().stage(context)

    def _read_point(self, context: Context, parent: Snapshot | None) -> ReadPoint:
        """What the change was worked out from, by what the first attempt found."""
        if self._read is None:
            current = None if parent is None else parent.snapshot_id
            self._read = read_point(context, current if self._told_start is None else self._told_start[0])
        return self._read

    def since(self, context: Context, parent: Snapshot | None) -> list[Snapshot]:
        """What was committed since the change was worked out."""
        return self._read_point(context, parent).since(context, parent)

    def check_row_ids(self, context: Context, since: Sequence[Snapshot]) -> None:
        """Rows read before the table had row ids are copied without: refuse if they were given ids meanwhile."""
        start = None if self._read is None else context.metadata.snapshot_or_none(self._read.snapshot_id)
        if start is not None and start.first_row_id is None and since and since[0].first_row_id is not None:
            raise CommitConflict(
                "a concurrent commit, the first of format version 3, gave ids to the rows that are rewritten",
                hint="read the table again and repeat the change",
            )

    def check_own_numbers(self, context: Context, parent: Snapshot | None) -> None:
        """What goes by sequence numbers of the same transaction is refused if those are others now."""
        if self._read_point(context, parent).renumbered(context):
            raise CommitConflict(
                "deletes that the transaction wrote and rewrote have other sequence numbers after a concurrent commit",
                hint="repeat the transaction",
            )

    def _check_own_rows(self, context: Context, point: ReadPoint) -> None:
        """Rows copied from files of the same transaction have the ids of then: refuse if those are others now."""
        renumbered = point.renumbered(context)
        if context.metadata.format_version < 3 or not renumbered:
            return
        start = context.metadata.snapshot_or_none(point.snapshot_id)
        gave_ids = start is not None and start.first_row_id is None
        added = changed_entries(context, renumbered, DATA, (Status.ADDED,))
        if gave_ids or any(path in self._removal.paths for entries in added for path in _paths(entries)):
            raise CommitConflict(
                "rows that the transaction wrote and then rewrote have other ids after a concurrent commit",
                hint="repeat the transaction",
            )

    def change(self, context: Context, parent: Snapshot | None, manifests: Sequence[ManifestFile]) -> Change:
        self._check_deletes_allowed(context)
        data = [manifest for manifest in manifests if manifest.content == DATA]
        deletes = [manifest for manifest in manifests if manifest.content == DELETES]
        name, number = self.next_manifest_name, self.snapshot_id
        removed: list[Entries] = []
        replaced = 0
        if self._removal:
            filtered = remove_files(context, data, self._removal, number, name)
            data, removed, replaced = filtered.manifests, filtered.removed, filtered.replaced
        gone = {path for part in removed for path in _paths(part)}
        for removal in (self._delete_removal, dangling_deletes(gone) if gone else Removal()):
            if removal:
                filtered = remove_files(context, deletes, removal, number, name)
                deletes, replaced = filtered.manifests, replaced + filtered.replaced
                removed.extend(filtered.removed)
        self._check_vectors(context, deletes)
        new_data, added = self._new(context, DATA, self._added_data)
        new_deletes, added_deletes = self._new(context, DELETES, self._added_deletes)
        data, deletes = [*new_data, *_useful(data, number)], [*new_deletes, *_useful(deletes, number)]
        if self.merges:
            data, merged = merge_manifests(context, data, number, name)
            deletes, merged_deletes = merge_manifests(context, deletes, number, name)
            replaced += merged + merged_deletes
        result = [*data, *deletes]
        before = {manifest.manifest_path for manifest in manifests}
        kept = sum(manifest.manifest_path in before for manifest in result)
        counts = {
            "manifests-created": str(len(result) - kept),
            "manifests-kept": str(kept),
            "manifests-replaced": str(replaced),
        }
        return Change(result, [*added, *added_deletes], removed, counts)

    def _new(
        self, context: Context, content: int, files: Sequence[DataFile]
    ) -> tuple[list[ManifestFile], list[Entries]]:
        """Manifests of added files: written once, good for every attempt."""
        if content not in self._new_manifests:
            entries: list[Entries] = []

            def made() -> Iterator[Entries]:
                for part in added_entries(context, files, self.snapshot_id):
                    entries.append(part)
                    yield part

            written = write_manifests(context, made(), content, self.snapshot_id, self.next_manifest_name)
            self._new_manifests[content] = (written, entries)
        return self._new_manifests[content]

    def _check_deletes_allowed(self, context: Context) -> None:
        version = context.metadata.format_version
        for file in self._added_deletes:
            if version < 2:
                raise Unsupported("format version 1 has no delete files", hint="upgrade the table to version 2 or 3")
            if version < 3 and file.is_deletion_vector:
                raise Unsupported(
                    "deletion vectors need format version 3", hint="upgrade the table, or write positions"
                )
            if version >= 3 and file.content == Content.POSITION_DELETES and not file.is_deletion_vector:
                raise Unsupported(
                    "format version 3 takes no new position delete files", hint="write deletion vectors instead"
                )
            if file.is_deletion_vector and file.referenced_data_file is None:
                raise InvalidArgument(
                    f"the vector in {file.file_path} names no data file", hint="set referenced_data_file"
                )

    def _check_vectors(self, context: Context, manifests: Sequence[ManifestFile]) -> None:
        """At most one live vector per data file: a second one would make every later scan fail."""
        targets = [file.referenced_data_file for file in self._added_deletes if file.is_deletion_vector]
        if not targets:
            return
        if len(set(targets)) != len(targets):
            raise InvalidArgument("two vectors are added for one data file", hint="join their positions in one vector")
        live = live_vectors(context, manifests, set(targets))
        if live:
            raise CommitConflict(
                f"data file {min(live)} already has a deletion vector",
                hint="a new vector must hold the old one's positions and the old one must be removed",
            )


def live_vectors(context: Context, manifests: Sequence[ManifestFile], targets: set[str | None]) -> set[str]:
    """Which of the data files have a live vector in these delete manifests."""
    found: set[str] = set()
    for entries in context.reader.read([item for item in manifests if item.has_live_files], CORE_COLUMNS):
        vectors = entries.filter(is_vector(entries) & entries.live)
        found.update(path for path in vectors.column(ids.REFERENCED_DATA_FILE).to_pylist() if path in targets)
    return found


def _paths(entries: Entries) -> list[str]:
    return entries.column(ids.FILE_PATH).to_pylist()  # type: ignore[no-any-return]


def _useful(manifests: Sequence[ManifestFile], snapshot_id: int) -> list[ManifestFile]:
    """Without manifests that hold only deletions made by earlier snapshots: they tell this one nothing."""
    return [manifest for manifest in manifests if manifest.has_live_files or manifest.added_snapshot_id == snapshot_id]
