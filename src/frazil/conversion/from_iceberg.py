"""An Iceberg table made into a Lance table: a version for each tagged snapshot, and the last for the current one."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pyarrow as pa

from frazil.conversion import schemas
from frazil.conversion.place import Place
from frazil.conversion.states import Done, State, ordered
from frazil.conversion.work import ToLance, Workers, fragments
from frazil.errors import CatalogError, CommitStateUnknown, FrazilError, InvalidName, StoreError, Unsupported
from frazil.iceberg.planning import FileScanTask
from frazil.iceberg.refs import MAIN
from frazil.iceberg.scan import Scan, choose_snapshot
from frazil.iceberg.table import IcebergTable
from frazil.lance.apply import apply
from frazil.lance.commit import follow, new_transaction
from frazil.lance.history import History
from frazil.lance.operations.append import next_field_id
from frazil.lance.operations.create import DEFAULT_FILE_VERSION, create_with, first_manifest
from frazil.lance.operations.seal import without_seal
from frazil.lance.plan import schema_bytes
from frazil.lance.proto.messages import DataFragment, Manifest, Overwrite
from frazil.lance.refs import Refs, Tag, check_tag_name
from frazil.lance.schema import fields_of
from frazil.lance.version import LanceVersion
from frazil.lance.write import FileTarget, remove_files, remove_job


def turned(place: Place, table: IcebergTable, workers: Workers) -> Done:
    """Make the Lance table, and give it the place of the other one."""
    refuse_branches(table)
    states = ordered(table, MAIN)
    for state in states:
        _columns(table, state)
    made = _Copy(place.location(), table, workers)
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
    _targets: list[FileTarget] = field(default_factory=list)
    _made: list[LanceVersion] = field(default_factory=list)

    @property
    def _history(self) -> History:
        return History(self.table.store, self.root)

    def version(self, state: State) -> LanceVersion:
        """A version with the rows of a state, after what is there."""
        columns, config = _columns(self.table, state)
        found = self._history.newest()
        if found is None:
            manifest = first_manifest(columns, config=config)
            written = self._written(state, manifest)
            made = create_with(self._history, manifest, written)
        else:
            before = self._history.latest()
            manifest = Manifest(fields=fields_of(columns, next_field_id(before)))
            manifest.data_format.version = before.file_version
            made = self._after(before, manifest, config, self._written(state, manifest))
        self._made.append(made)
        return made

    def _written(self, state: State, manifest: Manifest) -> list[DataFragment]:
        version = manifest.data_format.version or DEFAULT_FILE_VERSION
        target = FileTarget(self.root, schema_bytes(manifest), version).of_job()
        self._targets.append(target)
        metadata, store = self.table.metadata, self.table.store
        snapshot, schema = choose_snapshot(metadata, ref=state.tags[0] if not state.is_last else None)
        scan = Scan(metadata, store, snapshot, schema)
        small = replace(metadata, snapshots=(), snapshot_log=(), metadata_log=(), refs={}, current_snapshot_id=None)
        work = ToLance(store, small, schema, target)
        tasks = list(scan.plan().tasks())
        return fragments(self.workers.run(work, tasks, _size)) if tasks else []

    def _after(
        self, before: LanceVersion, manifest: Manifest, config: Mapping[str, str], written: list[DataFragment]
    ) -> LanceVersion:
        """A version in the place of another, which may be the sealed one of what the table was before."""
        body = Overwrite(fragments=written, schema=manifest.fields)
        transaction = new_transaction(before.version, overwrite=body)
        next_ = without_seal(apply(transaction, before))
        next_.manifest.config.clear()
        next_.manifest.config.update(config)
        return follow(self._history, before, next_, transaction)

    def put_tags(self, states: list[State], versions: list[LanceVersion]) -> None:
        """The tags, and no others that may have been there."""
        refs = Refs(self.table.store, self.root)
        wanted = {name: version for state, version in zip(states, versions, strict=True) for name in state.tags}
        for name in refs.tags():
            if name not in wanted:
                refs.drop_tag(name)
        for name, version in wanted.items():
            refs.put_tag(Tag(name, version.version, None, version.size), replace=True)

    def abandon(self) -> None:
        """Remove what was made: the Iceberg table is the table still."""
        store = self.table.store
        with suppress(FrazilError):
            store.delete_many([one.location for one in reversed(self._made)])
        for one in self._made:
            remove_files(store, self.root, one.manifest.fragments)
        for target in self._targets:
            remove_job(store, target)


def _size(task: FileScanTask) -> int:
    return task.file.file_size_in_bytes
