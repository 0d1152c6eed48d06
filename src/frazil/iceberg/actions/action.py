"""What a change to a table is: an object that can be staged on any version of the metadata, again after a conflict."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Self

from frazil.iceberg import properties as props
from frazil.iceberg.manifest_list import ManifestFile, read_manifest_list
from frazil.iceberg.manifest_reader import ManifestReader
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.partition_types import partition_type
from frazil.iceberg.requirements import Requirement
from frazil.iceberg.snapshot import Snapshot
from frazil.iceberg.updates import Update
from frazil.io.store import Store
from frazil.model.partition import PartitionSpec
from frazil.model.types import StructType

if TYPE_CHECKING:
    from frazil.iceberg.committer import TableState
    from frazil.iceberg.transaction import Transaction


@dataclass(frozen=True)
class Staged:
    """What an action wants changed, and what must still be true for that."""

    updates: tuple[Update, ...]
    requirements: tuple[Requirement, ...] = ()


@dataclass(frozen=True)
class Context:
    """What an action works on: metadata as of this attempt, with earlier actions of its transaction applied."""

    metadata: TableMetadata
    store: Store
    attempt: int = 0
    written: list[str] = field(default_factory=list)
    """Files written for this commit, in any attempt: those that end up unused are deleted after a definite outcome."""
    base: TableMetadata | None = None
    """The table as this attempt found it, without the actions of its transaction; None: the same as `metadata`."""

    @cached_property
    def reader(self) -> ManifestReader:
        return ManifestReader(self.store, self._spec)

    def _spec(self, spec_id: int) -> tuple[PartitionSpec, StructType]:
        spec = self.metadata.spec(spec_id)
        return spec, partition_type(self.metadata, spec)

    def manifests(self, snapshot: Snapshot | None) -> list[ManifestFile]:
        """The manifests of a snapshot; none if there is no snapshot yet."""
        if snapshot is None:
            return []
        return read_manifest_list(self.store, snapshot, {spec.spec_id: spec for spec in self.metadata.partition_specs})

    def is_own(self, snapshot: Snapshot) -> bool:
        """Whether an earlier action of the transaction makes this snapshot."""
        return self.base is not None and self.base.snapshot_or_none(snapshot.snapshot_id) is None

    def history(self, snapshot_id: int | None) -> Iterator[Snapshot]:
        """The snapshot, its parent and so on; also those that an earlier action of the transaction lets expire."""
        seen: set[int] = set()
        while snapshot_id is not None and snapshot_id not in seen:
            seen.add(snapshot_id)
            snapshot = self.metadata.snapshot_or_none(snapshot_id)
            if snapshot is None and self.base is not None:
                snapshot = self.base.snapshot_or_none(snapshot_id)
            if snapshot is None:
                return
            yield snapshot
            snapshot_id = snapshot.parent_snapshot_id

    @property
    def metadata_folder(self) -> str:
        """Where metadata files go: `write.metadata.path`, or `metadata` under the table's location."""
        own = self.metadata.property_reader.get(props.WRITE_METADATA_LOCATION)
        return (own or f"{self.metadata.location.rstrip('/')}/metadata").rstrip("/")

    def write(self, name: str, data: bytes) -> str:
        """Write a new metadata file and remember it for clean-up."""
        location = f"{self.metadata_folder}/{name}"
        self.written.append(location)
        self.store.write(location, data)
        return location


class Action(ABC):
    """One change. Built step by step, then `commit()`-ed alone or as part of a transaction."""

    _is_handed_in = False

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    @abstractmethod
    def stage(self, context: Context) -> Staged:
        """Work the change out against this metadata. Called again with newer metadata when another writer was first."""

    def finished(self, context: Context, state: TableState) -> None:  # noqa: B027 - most actions leave nothing behind
        """Called after the commit is known to be applied."""

    def commit(self) -> Self:
        """Apply the change: at once if the action stands alone, else when its transaction commits."""
        self._transaction.add(self)
        self._is_handed_in = True
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """As a context manager an action is committed at the end of the block, unless the block raised."""
        if kind is None:
            self.commit()

    def __repr__(self) -> str:
        if not self._is_handed_in:
            state = "not committed until commit() is called"
        else:
            state = "committed" if self._transaction.is_committed else "not committed until its transaction is"
        return f"{type(self).__name__}({state})"


def used_files(context: Context, snapshots: Sequence[Snapshot]) -> set[str]:
    """Metadata files that snapshots refer to, and statistics."""
    used = {file.statistics_path for file in context.metadata.statistics}
    for snapshot in snapshots:
        if snapshot.manifest_list is not None:
            used.add(snapshot.manifest_list)
        used.update(manifest.manifest_path for manifest in context.manifests(snapshot))
    return used
