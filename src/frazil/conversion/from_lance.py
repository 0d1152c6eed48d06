"""A Lance table made into an Iceberg table: a snapshot for each tagged version, and the last for the newest one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from frazil import ambient
from frazil.catalog.definition import TableDefinition
from frazil.catalog.formats import ICEBERG, LANCE
from frazil.catalog.next_metadata import updated
from frazil.conversion import schemas
from frazil.conversion.from_iceberg import was_refused
from frazil.conversion.place import Place
from frazil.conversion.states import Done
from frazil.conversion.work import ToIceberg, Workers, data_files
from frazil.errors import FrazilError, Unsupported
from frazil.iceberg import properties as props
from frazil.iceberg.committer import Committer, TableState
from frazil.iceberg.data_locations import data_location
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.reachable import Reachability
from frazil.iceberg.refs import TAG, SnapshotRef
from frazil.iceberg.requirements import Requirement
from frazil.iceberg.table import IcebergTable
from frazil.iceberg.updates import SetSnapshotRef, Update, apply_updates
from frazil.lance import layout
from frazil.lance.feature_flags import is_sealed
from frazil.lance.history import History
from frazil.lance.operations.seal import seal, unseal
from frazil.lance.plan import FragmentTask
from frazil.lance.refs import Refs
from frazil.lance.scan import LanceScan
from frazil.lance.table import LanceTable
from frazil.lance.version import LanceVersion

PART_ROWS = 1 << 18
"""How many rows of a fragment are one task."""


def reopen(table: LanceTable) -> None:
    """Let a table be written to again whose conversion was begun, and did not end."""
    history = History(table.store, table.location)
    unseal(history, history.latest())
    table.refresh()


def turned(place: Place, table: LanceTable, workers: Workers) -> Done:
    """Make the Iceberg table, and give it the place of the other one."""
    states = _states(table)
    made = _Copy(place.location(ICEBERG), table, workers)
    try:
        made.begin([version for version, _ in states])
        for version, tags in states:
            made.snapshot(version, tags)
    except BaseException:
        made.abandon()
        raise
    return _swapped(place, table, made)


def _swapped(place: Place, table: LanceTable, made: _Copy) -> Done:
    """Seal the one, and give its name to the other."""
    sealed: LanceVersion | None = None
    current = table.current_snapshot
    history = History(table.store, table.location)
    try:
        # one that is sealed has the same rows for ever: another's conversion did not end, or is about to
        sealed = None if is_sealed(current.manifest) else seal(history, current, f"the Iceberg table {place.name}")
        state = place.to_iceberg(table.location, made.metadata)
    except FrazilError as error:
        if was_refused(error):
            made.abandon()
            if sealed is not None:
                _taken_back(place, table, history, sealed)
        raise
    snapshot = state.metadata.current_snapshot
    rows = 0 if snapshot is None else int(snapshot.summary.get("total-records", "0"))
    tags = sum(ref.is_tag for ref in state.metadata.refs.values())
    return Done(state.metadata.location, table.location, rows, tags)


def _taken_back(place: Place, table: LanceTable, history: History, sealed: LanceVersion) -> None:
    """Let a table be written to again that we sealed, and that is the table still."""
    with suppress(FrazilError):  # else it stays sealed until it is converted again
        now = place.opened()
        if now.format == LANCE and now.location == table.location:
            unseal(history, sealed)


def _states(table: LanceTable) -> list[tuple[LanceVersion, tuple[str, ...]]]:
    """Versions with the tags that name them, oldest first; the newest version is the last."""
    tagged: dict[int, list[str]] = {}
    refs = Refs(table.store, table.location)
    tags = refs.tags()
    branches = [*refs.branches(), *(tag.branch for tag in tags.values() if tag.branch is not None)]
    if branches:
        raise Unsupported(
            f"{table.identifier} has branch {branches[0]!r}, which a conversion does not keep",
            hint="drop the branch and its tags first",
        )
    if layout.MAIN in tags:  # pylance makes such
        raise Unsupported(f"{table.identifier} has a tag `main`, which is a branch in Iceberg", hint="drop the tag")
    for name in sorted(tags):
        tagged.setdefault(tags[name].version, []).append(name)
    numbers = sorted(number for number in tagged if number != table.version)
    states = [(table.at(version=number), tuple(tagged[number])) for number in numbers]
    return [*states, (table.current_snapshot, tuple(tagged.get(table.version, ())))]


class _Unseen(Committer):
    """Commits to a table that nobody sees yet: its metadata is in memory."""

    def __init__(self, state: TableState) -> None:
        self.state = state

    def load(self) -> TableState:
        return self.state

    def commit(self, base: TableState, updates: Sequence[Update], requirements: Sequence[Requirement]) -> TableState:
        self.state = TableState(updated(base, updates, requirements), "")
        return self.state


@dataclass
class _Copy:
    """The Iceberg table on its way."""

    location: str
    source: LanceTable
    workers: Workers
    _definitions: dict[int, TableDefinition] = field(default_factory=dict)
    _state: TableState | None = None
    _folders: list[str] = field(default_factory=list)

    @property
    def metadata(self) -> TableMetadata:
        """The table's, as far as it was made."""
        assert self._state is not None
        return self._state.metadata

    def begin(self, versions: Sequence[LanceVersion]) -> None:
        """What all versions become; refused before anything is written."""
        columns = [schemas.to_iceberg(version) for version in versions]
        number = schemas.format_version(*columns)
        for version, schema in zip(versions, columns, strict=True):
            settings = schemas.iceberg_properties(version)
            self._definitions[version.version] = TableDefinition(schema, (), (), settings, number)

    def snapshot(self, version: LanceVersion, tags: Sequence[str]) -> None:
        """A snapshot with the rows of a version, after what is there."""
        definition = self._definitions[version.version]
        if self._state is None:
            metadata = definition.first_metadata(self.location)
        else:
            metadata = apply_updates(self.metadata, definition.replacing(self.metadata))
            gone = self.metadata.properties.keys() - definition.properties.keys()
            kept = {key: text for key, text in metadata.properties.items() if key not in gone or _is_own(key)}
            metadata = replace(metadata, properties=kept)
        self._state = TableState(metadata, "")
        committer = _Unseen(self._state)
        table = IcebergTable(self.source.identifier, self.source.store, committer, self._state)
        files = data_files(self._written(version, metadata))
        made = table.new_append().append_files(files).commit().snapshot_id
        refs: list[Update] = [SetSnapshotRef(name, SnapshotRef(made, TAG)) for name in tags]
        self._state = committer.commit(committer.state, refs, []) if refs else committer.state

    def _written(self, version: LanceVersion, metadata: TableMetadata) -> list[bytes]:
        folder = data_location(metadata, "", str(ambient.new_uuid()))
        self._folders.append(folder)
        inside = {props.WRITE_DATA_LOCATION.name: folder, props.OBJECT_STORE_ENABLED.name: "false"}
        small = replace(
            metadata,
            properties={**metadata.properties, **inside},
            snapshots=(),
            snapshot_log=(),
            refs={},
            current_snapshot_id=None,
        )
        store = self.source.store
        plan = LanceScan(store, version).plan()
        work = ToIceberg(store, replace(plan, fragments=()), version.schema, small)
        tasks = [part for task in plan.fragments for part in task.parts(PART_ROWS)]
        return self.workers.run(work, tasks, _size) if tasks else []

    def abandon(self) -> None:
        """Remove what was made: the Lance table is the table still."""
        store = self.source.store
        with suppress(FrazilError):
            if self._state is not None:
                metadata = self._state.metadata
                files = Reachability(store, metadata).only_expired(metadata.snapshots, [])
                store.delete_many([*files.manifests, *files.manifest_lists])
        for folder in self._folders:
            with suppress(FrazilError):
                store.delete_many([file.location for file in store.list(folder)])


def _is_own(key: str) -> bool:
    return key == props.PARQUET_COMPRESSION.name


def _size(task: FragmentTask) -> int:
    size = sum(file.size for file in task.files)
    return size if task.span is None else size * (task.span[1] - task.span[0]) // max(task.physical_rows, 1)
