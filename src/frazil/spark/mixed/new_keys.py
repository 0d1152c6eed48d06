"""Whether the rows that a command makes have each its own key.

Any task may have written any of them, so their files are looked at when all are there: keys alone, and only those of
one node of the tree together.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from frazil.iceberg.data_file import DataFile
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.planning import FileScanTask
from frazil.iceberg.portable import without_history
from frazil.io import location as locations
from frazil.io.store import Store
from frazil.mixed.change_keys import ChangeKeys, new_memory
from frazil.mixed.file_names import FilePlace, FileType, parse_change
from frazil.mixed.plan import PlannedFile, StoreState
from frazil.mixed.unique_keys import left_twice, repeated_key
from frazil.model.expressions import AlwaysTrue
from frazil.model.types import NestedField
from frazil.spark.scan.arrow import BATCH_ROWS
from frazil.spark.scan.files import routed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FEW_ROWS = 4_000_000
"""So many keys are compared in this process; more of them by workers."""
_READERS = 4


@dataclass(frozen=True)
class NewKeys:
    """Compares the keys of rows in files, wherever it is sent."""

    store: Store
    metadata: TableMetadata
    keys: tuple[NestedField, ...]

    def repeated(self, files: Sequence[tuple[DataFile, FilePlace]]) -> dict[str, Any] | None:
        """A key that is in the files of a node twice."""
        numbers = tuple(key.id for key in self.keys)
        state = StoreState(self.metadata, self.store, None)
        reader = ChangeKeys(state, self.metadata.current_schema, numbers, BATCH_ROWS, new_memory(0))
        planned = (PlannedFile(FileScanTask(file, (), AlwaysTrue()), place, "") for file, place in files)
        loaded = [columns for columns, _ in map(reader.load, planned) if columns]
        if not loaded:
            return None
        columns = [pa.concat_arrays(parts) for parts in zip(*loaded, strict=True)]
        return repeated_key([key.name for key in self.keys], columns)


def refuse_repeated(
    spark: SparkSession, store: Store, metadata: TableMetadata, keys: tuple[NestedField, ...], files: Sequence[DataFile]
) -> None:
    """Refuse files of a transaction, of either store, in which two rows that come have one key."""
    nodes: dict[int, list[tuple[DataFile, FilePlace]]] = {}
    for file in files:
        place = parse_change(file.file_path, 0)
        if place.type is not FileType.EQ_DELETE:
            nodes.setdefault(place.node, []).append((file, place))
    check = NewKeys(store, without_history(metadata), keys)
    rows = sum(file.record_count for members in nodes.values() for file, _ in members)
    in_memory = locations.parse(routed(store, metadata.location)).scheme == "memory"
    if rows <= _FEW_ROWS or in_memory:
        with ThreadPoolExecutor(_READERS, thread_name_prefix="frazil-keys") as pool:
            found = list(pool.map(check.repeated, nodes.values()))
    else:
        found = spark.sparkContext.parallelize(list(nodes.values()), len(nodes)).map(check.repeated).collect()
    key = next((one for one in found if one is not None), None)
    if key is not None:
        raise left_twice(key)
