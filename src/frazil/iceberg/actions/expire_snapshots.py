"""Snapshot expiry: old snapshots leave the metadata, then the files that only they needed are deleted."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from typing import TYPE_CHECKING, Any, Literal, Self

from frazil import ambient
from frazil.counts import Counts
from frazil.errors import FrazilError, InvalidArgument
from frazil.iceberg import properties as props
from frazil.iceberg.actions.action import Action, Context, Staged
from frazil.iceberg.data_file import Content
from frazil.iceberg.file_removal import Locations, checked_threads, delete_files
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.reachable import Files, Reachability, location_key
from frazil.iceberg.requirements import (
    AssertCurrentSchemaId,
    AssertDefaultSpecId,
    AssertRefSnapshotId,
    Requirement,
)
from frazil.iceberg.retention import retained_snapshots
from frazil.iceberg.snapshot import Snapshot
from frazil.iceberg.statistics import PartitionStatisticsFile, StatisticsFile
from frazil.iceberg.transaction import Transaction
from frazil.iceberg.updates import (
    RemovePartitionSpecs,
    RemoveSchemas,
    RemoveSnapshotRef,
    RemoveSnapshots,
    Update,
    apply_updates,
)
from frazil.io.store import Store
from frazil.model.temporal import to_millis

if TYPE_CHECKING:
    from frazil.iceberg.committer import TableState

Cleanup = Literal["none", "metadata", "all"]


@dataclass(frozen=True, repr=False)
class ExpireResult(Counts):
    """What an expiry did, or with `dry_run` would do. Files that could not be deleted are in none of the counts."""

    expired_snapshot_ids: tuple[int, ...] = ()
    removed_refs: tuple[str, ...] = ()
    deleted_data_files_count: int = 0
    deleted_position_delete_files_count: int = 0
    deleted_equality_delete_files_count: int = 0
    deleted_manifest_files_count: int = 0
    deleted_manifest_lists_count: int = 0
    deleted_statistics_files_count: int = 0
    failed_files: tuple[str, ...] = ()
    """Files that are no longer needed and could not be deleted."""
    problems: tuple[str, ...] = ()
    """Why files were left that may no longer be needed."""
    files: Files | None = None
    """A dry run only: the files that would be deleted."""

    def __repr__(self) -> str:
        told = {"expired_snapshots": len(self.expired_snapshot_ids), "removed_refs": len(self.removed_refs)}
        told |= self.counts() | {"failed_files": len(self.failed_files), "problems": len(self.problems)}
        parts = ["dry run"] if self.files is not None else []
        return f"ExpireResult({', '.join([*parts, *(f'{name}={count}' for name, count in told.items() if count)])})"

    def _repr_html_(self) -> str:
        problems = "".join(f"<p>{escape(problem)}</p>" for problem in self.problems)
        return f"<b>{escape(repr(self))}</b>{super()._repr_html_()}{problems}"


class ExpireSnapshots(Action):
    """Expires snapshots by age, number and id, and refs by age.

    Without `older_than` and `retain_last` the table's properties `history.expire.*` say what is old; what a branch says
    for itself stands above both. Every ref keeps the snapshot it names.
    """

    def __init__(self, transaction: Transaction) -> None:
        super().__init__(transaction)
        self._older_than_ms: int | None = None
        self._retain_last: int | None = None
        self._ids: set[int] = set()
        self._cleanup: Cleanup = "all"
        self._clean_metadata = False
        self._threads: int | None = None
        self._now_ms = ambient.now_ms()
        self._before: TableMetadata | None = None
        self._result: ExpireResult | None = None

    def older_than(self, time: int | str | datetime) -> Self:
        """Expire snapshots made before a time: milliseconds since 1970, ISO text (of UTC unless it has a zone), or a
        datetime with a time zone.
        """
        if isinstance(time, datetime) and time.tzinfo is None:
            raise InvalidArgument(f"{time} has no time zone", hint="give one, such as datetime.UTC")
        self._older_than_ms = to_millis(time)
        return self

    def retain_last(self, count: int) -> Self:
        """Keep at least so many snapshots of each branch, however old."""
        if type(count) is not int or count < 1:
            raise InvalidArgument(f"cannot retain the last {count!r} snapshots", hint="give a number, at least 1")
        self._retain_last = count
        return self

    def expire_ids(self, snapshot_ids: Iterable[int]) -> Self:
        """Expire these snapshots too, however new. One that a branch or tag names is refused."""
        told: Any = snapshot_ids
        given = list(told) if isinstance(told, Iterable) else [told]
        wrong = [one for one in given if type(one) is not int]
        if wrong:
            raise InvalidArgument(f"{wrong[0]!r} is not a snapshot id", hint="give a list of integers")
        self._ids.update(given)
        return self

    def clean_expired_files(self, clean: bool | Literal["metadata"] = True) -> Self:
        """Delete the files that nobody needs any more: all, only manifests and the like, or none."""
        levels: dict[bool | str, Cleanup] = {True: "all", False: "none", "metadata": "metadata"}
        if clean not in levels:
            raise InvalidArgument(f"cannot clean {clean!r}", hint="use True, False or 'metadata'")
        self._cleanup = levels[clean]
        return self

    def clean_expired_metadata(self, clean: bool = True) -> Self:
        """Also remove the schemas and partition specs that no snapshot uses any more."""
        self._clean_metadata = clean
        return self

    def delete_with(self, threads: int | None) -> Self:
        """Delete files by so many threads at a time; one, if not told."""
        self._threads = checked_threads(threads)
        return self

    @property
    def result(self) -> ExpireResult:
        """What the commit did."""
        if self._result is None:
            raise InvalidArgument("the expiry is not committed yet", hint="call commit() first")
        return self._result

    def dry_run(self) -> ExpireResult:
        """What a commit would do now; nothing is changed."""
        before = self._transaction.metadata
        context = Context(before, self._transaction.store)
        after = apply_updates(before, self._plan(context).updates)
        expired, files = self._unreachable(context.store, before, after)
        counts = {name: len(group) for name, group in _groups(files).items()}
        return _result(before, after, expired, counts, problems=files.problems, files=files)

    def stage(self, context: Context) -> Staged:
        staged = self._plan(context)
        self._before, self._result = context.metadata, None if staged.updates else ExpireResult()
        return staged

    def _plan(self, context: Context) -> Staged:
        metadata = context.metadata
        if not metadata.property_reader.get(props.GC_ENABLED):
            raise InvalidArgument(
                "snapshots of this table cannot expire: gc.enabled is false",
                hint="its files may belong to other tables too; set gc.enabled to true if they do not",
            )
        retention = retained_snapshots(
            metadata, self._now_ms, older_than_ms=self._older_than_ms, retain_last=self._retain_last
        )
        self._check_ids(metadata, set(retention.expired_refs), retention.looked_up_ids)
        expired = tuple(
            snapshot.snapshot_id
            for snapshot in metadata.snapshots
            if snapshot.snapshot_id in self._ids or snapshot.snapshot_id not in retention.kept_snapshot_ids
        )
        updates: list[Update] = [RemoveSnapshotRef(name) for name in retention.expired_refs]
        if expired:
            updates.append(RemoveSnapshots(expired))
        requirements: list[Requirement] = []
        if self._clean_metadata:
            unused = _unused_metadata(context, set(expired))
            updates += unused
            if unused:
                requirements.append(AssertDefaultSpecId(metadata.default_spec_id))
                requirements.append(AssertCurrentSchemaId(metadata.current_schema_id))
        # a ref that another writer moved may need what is about to go
        requirements += [AssertRefSnapshotId(name, ref.snapshot_id) for name, ref in metadata.refs.items()]
        return Staged(tuple(updates), tuple(requirements) if updates else ())

    def _check_ids(self, metadata: TableMetadata, expired_refs: set[str], looked_up: frozenset[int]) -> None:
        for snapshot_id in sorted(self._ids):
            metadata.snapshot(snapshot_id)
            if snapshot_id in looked_up:
                raise InvalidArgument(
                    f"snapshot {snapshot_id} cannot expire: later ones need what it says of optimized changes",
                    hint="expire older snapshots; this one can go when the table was optimized again",
                )
            living = {name: ref for name, ref in metadata.refs.items() if name not in expired_refs}
            holders = [name for name, ref in living.items() if ref.snapshot_id == snapshot_id]
            if holders:
                raise InvalidArgument(
                    f"snapshot {snapshot_id} cannot expire: {' and '.join(holders)} refers to it",
                    hint="remove that branch or tag, or move it to another snapshot",
                )

    def finished(self, context: Context, state: TableState) -> None:
        before, after = self._before, state.metadata
        if before is None:
            return
        try:
            expired, files = self._unreachable(context.store, before, after)
        except FrazilError as error:
            # what is still needed is not known for sure: nothing may go
            expired, files = _expired(before, after), Files.none(problems=(str(error),))
        counts: dict[str, int] = {}
        failed: list[str] = []
        for name, group in _groups(files).items():
            undeleted = delete_files(context.store, group, threads=self._threads)
            counts[name] = len(group) - len(undeleted)
            failed.extend(undeleted)
        self._result = _result(before, after, expired, counts, failed_files=tuple(failed), problems=files.problems)

    def _unreachable(self, store: Store, before: TableMetadata, after: TableMetadata) -> tuple[list[Snapshot], Files]:
        """The snapshots that are gone, and the files to delete with them. Specs are looked up as they were before."""
        expired = _expired(before, after)
        if self._cleanup == "none" or not expired:
            return expired, Files.none()
        reachability = Reachability(store, before)
        files = reachability.only_expired(expired, after.snapshots, content=self._cleanup == "all")
        kept = {location_key(path) for path in _statistics(after)}
        gone = {location_key(path): path for path in _statistics(before, {one.snapshot_id for one in expired})}
        return expired, files.with_statistics(path for key, path in gone.items() if key not in kept)


def _expired(before: TableMetadata, after: TableMetadata) -> list[Snapshot]:
    return [snapshot for snapshot in before.snapshots if after.snapshot_or_none(snapshot.snapshot_id) is None]


def _statistics(metadata: TableMetadata, snapshot_ids: Container[int] | None = None) -> Iterator[str]:
    files: list[StatisticsFile | PartitionStatisticsFile] = [*metadata.statistics, *metadata.partition_statistics]
    for file in files:
        if snapshot_ids is None or file.snapshot_id in snapshot_ids:
            yield file.statistics_path


def _groups(files: Files) -> dict[str, Locations]:
    """Locations by the count they belong to; what tells of files goes after them."""
    return {
        "deleted_data_files_count": files.paths(Content.DATA),
        "deleted_position_delete_files_count": files.paths(Content.POSITION_DELETES),
        "deleted_equality_delete_files_count": files.paths(Content.EQUALITY_DELETES),
        "deleted_manifest_files_count": files.manifests,
        "deleted_manifest_lists_count": files.manifest_lists,
        "deleted_statistics_files_count": files.statistics,
    }


def _result(
    before: TableMetadata, after: TableMetadata, expired: Sequence[Snapshot], counts: Mapping[str, Any], **members: Any
) -> ExpireResult:
    return ExpireResult(
        tuple(snapshot.snapshot_id for snapshot in expired),
        tuple(name for name in before.refs if name not in after.refs),
        **counts,
        **members,
    )


def _unused_metadata(context: Context, expired: set[int]) -> list[Update]:
    """Removals of the specs and schemas that only expired snapshots used, if any did."""
    metadata = context.metadata
    kept = [snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id not in expired]
    reachability = Reachability(context.store, metadata)
    manifests = reachability.manifests(kept).values()
    spec_ids = {metadata.default_spec_id, *(manifest.partition_spec_id for manifest in manifests)}
    schema_ids = {metadata.current_schema_id, *(snapshot.schema_id for snapshot in kept)}
    # a column that was dropped still tells the type of the partitions made from it, and of keys that deletes name
    newest_first = sorted(metadata.schemas, key=lambda schema: -schema.schema_id)
    specs_kept = [spec for spec in metadata.partition_specs if spec.spec_id in spec_ids]
    sources = {source for spec in specs_kept for part in spec.fields for source in part.source_ids}
    for column in sources | reachability.equality_ids(list(manifests)):
        if metadata.current_schema.field_by_id(column) is None:
            holder = next((schema for schema in newest_first if schema.field_by_id(column) is not None), None)
            schema_ids.update(() if holder is None else (holder.schema_id,))
    specs = tuple(spec.spec_id for spec in metadata.partition_specs if spec.spec_id not in spec_ids)
    schemas = tuple(schema.schema_id for schema in metadata.schemas if schema.schema_id not in schema_ids)
    updates: list[Update] = [RemovePartitionSpecs(specs)] if specs else []
    return [*updates, RemoveSchemas(schemas)] if schemas else updates
