"""A table's pointer in memory, for tests of actions: it swaps under a lock, and other writers can be let in between."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from frazil.iceberg.actions.append import FastAppend
from frazil.iceberg.committer import Committer, TableState
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.new_table import new_table_metadata
from frazil.iceberg.requirements import Requirement, check_requirements
from frazil.iceberg.transaction import Transaction
from frazil.iceberg.updates import Update, apply_updates
from frazil.io.memory_store import MemoryStore
from frazil.io.store import Store
from frazil.model.partition import PartitionField, PartitionSpec
from frazil.model.schema import Schema
from frazil.model.sorting import SortField, SortOrder
from frazil.model.transforms import parse_transform
from frazil.model.types import LongType, NestedField, StringType, StructType, TimestampType

SCHEMA = Schema(
    (
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "ts", TimestampType()),
        NestedField(3, "name", StringType()),
        NestedField(4, "point", StructType((NestedField(5, "x", LongType()), NestedField(6, "y", LongType())))),
    )
)
SPEC = PartitionSpec(0, (PartitionField((1,), 1000, "id_bucket", parse_transform("bucket[4]")),))
ORDER = SortOrder(1, (SortField(parse_transform("identity"), (2,), "asc", "nulls-first"),))
_numbers = count()


class MemoryCommitter(Committer):
    """Checks and applies like a REST catalog: requirements against the table as it is, not as the writer knew it."""

    def __init__(self, metadata: TableMetadata) -> None:
        self.state = TableState(metadata, "memory://t/metadata/v0.metadata.json")
        self.before_commit: Callable[[], None] | None = None
        self.commits = 0
        self._lock = threading.RLock()

    def load(self) -> TableState:
        return self.state

    def commit(self, base: TableState, updates: Sequence[Update], requirements: Sequence[Requirement]) -> TableState:
        other, self.before_commit = self.before_commit, None
        if other is not None:
            other()
        with self._lock:
            check_requirements(self.state.metadata, requirements)
            self.commits += 1
            name = f"memory://t/metadata/v{self.commits}.metadata.json"
            self.state = TableState(apply_updates(self.state.metadata, updates), name)
            return self.state


class Table:
    """A table in a memory store of its own, and the actions on it."""

    def __init__(self, format_version: int = 2, **arguments: Any) -> None:
        self.name = f"actions-{next(_numbers)}"
        self.location = f"memory://{self.name}/t"
        self.store: Store = MemoryStore(self.name)
        made = new_table_metadata(
            arguments.pop("schema", SCHEMA),
            arguments.pop("spec", SPEC),
            arguments.pop("order", ORDER),
            location=self.location,
            format_version=format_version,
            **arguments,
        )
        self.committer = MemoryCommitter(made)

    @property
    def metadata(self) -> TableMetadata:
        return self.committer.state.metadata

    def transaction(self, *, autocommit: bool = True) -> Transaction:
        return Transaction(self.store, self.committer, self.committer.load(), autocommit=autocommit)

    def file(self, name: str, bucket: int = 0, **members: Any) -> DataFile:
        """A data file that really is in the store (with nothing worth reading in it)."""
        path = f"{self.location}/data/{name}"
        self.store.write(path, b"rows")
        members = {
            "file_format": "parquet",
            "record_count": 10,
            "file_size_in_bytes": 4,
            "partition": (bucket,),
            **members,
        }
        return DataFile(path, **members)

    def append(self, *names: str, branch: str = "main", staged: bool = False, **summary: str) -> int:
        """Append new files of those names, and the id of the snapshot."""
        action = FastAppend(self.transaction()).append_files([self.file(name) for name in names]).to_branch(branch)
        for key, value in summary.items():
            action.set(key.replace("_", "."), value)
        return (action.stage_only() if staged else action).commit().snapshot_id

    def in_between(self, change: Callable[[], Any]) -> None:
        """Let another writer's change happen just before the next commit."""
        self.committer.before_commit = lambda: (change(), None)[1]

    def data_names(self) -> set[str]:
        return {file.location.rpartition("/")[2] for file in self.store.list(f"{self.location}/data")}

    def metadata_names(self) -> set[str]:
        return {file.location.rpartition("/")[2] for file in self.store.list(f"{self.location}/metadata")}
