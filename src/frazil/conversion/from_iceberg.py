"""An Iceberg table made into a Lance table: a version for each tagged snapshot, and the last for the current one."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace

import pyarrow as pa

from frazil.catalog.folders import remove_empty_folder
from frazil.catalog.formats import LANCE
from frazil.conversion import schemas
from frazil.conversion.place import Place
from frazil.conversion.states import Done, State, ordered
from frazil.conversion.work import ToLance, Workers, fragments
from frazil.errors import CatalogError, CommitStateUnknown, FrazilError, InvalidName, StoreError, Unsupported
from frazil.iceberg.planning import FileScanTask
from frazil.iceberg.refs import MAIN
from frazil.iceberg.scan import Scan, choose_snapshot
from frazil.iceberg.table import IcebergTable
from frazil.lance.field_ids import next_field_id
from frazil.lance.history import History
from frazil.lance.new_columns import new_fields
from frazil.lance.operations.append import overwrite_fragments
from frazil.lance.operations.create import DEFAULT_FILE_VERSION, create_with, first_manifest
from frazil.lance.plan import schema_bytes
from frazil.lance.proto.messages import DataFragment, Manifest
from frazil.lance.refs import Refs, Tag, check_tag_name
from frazil.lance.version import LanceVersion
from frazil.lance.write import FileTarget


def turned(place: Place, table: IcebergTable, workers: Workers) -> Done:
    """Make the Lance table, and give it the place of the other one."""
    refuse_branches(table)
    states = ordered(table, MAIN)
    for state in states:
        _columns(table, state)
    made = _Copy(place.location(LANCE), table, workers)
    try:
        versions = [made.version(state) for state in states]
        made.put_tags(states, versions)
    except BaseException:
        made.abandon()
        raise
    try:
        previous = place.to_lance(table._state, made.root)
    except FrazilError as error:
        if was_refused(error):
            made.abandon()
        raise
    rows = sum(int(one.physical_rows) for one in versions[-1].manifest.fragments)
    return Done(made.root, previous, rows, sum(len(state.tags) for state in states))


def _columns(table: IcebergTable, state: State) -> tuple[pa.Schema, dict[str, str]]:
    """The columns of a state, and the table's properties; earlier states have those that make vectors of lists."""
    properties = table.properties
    if not state.is_last:
        properties = schemas.about_vectors(state.schema, properties)
    return schemas.to_lance(state.schema, properties)


def refuse_branches(table: IcebergTable) -> None:
    """Refuse what a Lance table would not have: nothing is left behind without a word."""
    branches = [name for name, ref in table.refs.items() if ref.is_branch and name != MAIN]
    if branches:
        raise Unsupported(
            f"{table.identifier} has branch {branches[0]!r}, which a conversion does not keep",
            hint="drop the branch first",
        )
    for name, ref in table.refs.items():
        if ref.is_tag:
            try:
                check_tag_name(name)
            except InvalidName as error:
                raise InvalidName(error.message, hint="give the tag another name, or drop it") from error


def was_refused(error: FrazilError) -> bool:
    """Whether it is certain that the step was not done."""
    return not isinstance(error, CommitStateUnknown | StoreError | CatalogError)


@dataclass
class _Copy:
    """The Lance table on its way."""

    root: str
    table: IcebergTable
    workers: Workers
    _made: list[LanceVersion] = field(default_factory=list)

    @property
    def _history(self) -> History:
        return History(self.table.store, self.root)

    def version(self, state: State) -> LanceVersion:
        """A version with the rows of a state, after what is there."""
        columns, config = _columns(self.table, state)
        if not self._made:
            manifest = first_manifest(columns, config=config)
            made = create_with(self._history, manifest, self._written(state, manifest))
        else:
            before = self._made[-1]
            manifest = Manifest(fields=new_fields(columns, next_field_id(before)))
            written = self._written(state, manifest)
            made = overwrite_fragments(self._history, before, written, manifest, config=config)
        self._made.append(made)
        return made

    def _written(self, state: State, manifest: Manifest) -> list[DataFragment]:
        target = FileTarget(self.root, schema_bytes(manifest), DEFAULT_FILE_VERSION)
        metadata, store = self.table.metadata, self.table.store
        snapshot, schema = choose_snapshot(metadata, ref=state.tags[0] if not state.is_last else None)
        scan = Scan(metadata, store, snapshot, schema)
        small = replace(metadata, snapshots=(), snapshot_log=(), metadata_log=(), refs={}, current_snapshot_id=None)
        work = ToLance(store, small, schema, target)
        tasks = list(scan.plan().tasks())
        return fragments(self.workers.run(work, tasks, _size)) if tasks else []

    def put_tags(self, states: list[State], versions: list[LanceVersion]) -> None:
        """The tags, each of its version."""
        refs = Refs(self.table.store, self.root)
        for state, version in zip(states, versions, strict=True):
            for name in state.tags:
                refs.put_tag(Tag(name, version.version, None, version.size))

    def abandon(self) -> None:
        """Remove what was made, which is all that is in its folder: the Iceberg table is the table still."""
        store = self.table.store
        with suppress(FrazilError):
            store.delete_many([file.location for file in store.list(self.root)])
        remove_empty_folder(store, self.root)


def _size(task: FileScanTask) -> int:
    return task.file.file_size_in_bytes
