"""Rows and deletes joined by key: for change stores that are too large to be sent to every task.

A row is left out if there is a delete of its key, in its partition and a node that may hold it, at a later moment than
the row was written at. Spark chooses how to join, by the sizes that it is told and sees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from frazil.iceberg import manifest_schema as ids
from frazil.iceberg.data_file import partition_key
from frazil.iceberg.entries import Entries
from frazil.mixed.columns import BASE_OFFSET, FILE_OFFSET, NO_OFFSET
from frazil.mixed.file_names import FilePlace, FileType, parse_base, parse_change
from frazil.mixed.tree import node_of
from frazil.spark.mixed.native import Stores
from frazil.spark.plans import frame_of
from frazil.spark.scan.contents import Contents
from frazil.spark.scan.files import Constant
from frazil.spark.scan.plan import Layout
from frazil.spark.scan.relations import quoted_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from frazil.spark.bridge import Bridge
    from frazil.spark.scan.scans import ScanRelation

_TRANSACTION, _OFFSET, _PARTITION = "_frazil_transaction", "_frazil_offset", "_frazil_partition"
_MASK, _INDEX, _KEY = "_frazil_mask", "_frazil_index", "_frazil_key_"


def shuffled_plan(bridge: Bridge, stores: Stores, base: Contents, jsession: Any) -> Any:
    """The plan of a query, analysed."""
    spark = bridge.session(jsession)
    source = stores.source
    fields = {column.id: column for column in source.schema.fields}
    keys = {fields[number].name: fields[number].required for number in source.keys}
    constants = _Constants(stores)

    def frame(relation: ScanRelation) -> DataFrame:
        described = bridge.scans.describe([relation])
        return frame_of(spark, bridge.classes.FrazilPlan.plan(bridge.key, jsession, described))

    wanted = tuple(dict.fromkeys([*stores.columns, *keys]))
    with_keys = Stores(source, wanted, stores.dialect, stores.own_reader)
    of_base = with_keys.base(base, constants.of(FileType.BASE), keyed=False)
    changes = {
        kind: with_keys.changes(
            kind,
            constants.of(kind),
            columns=[*(wanted if kind is FileType.INSERT else keys), FILE_OFFSET.name],
            applied=False,
        )
        for kind in (FileType.INSERT, FileType.EQ_DELETE)
    }
    rows = [] if of_base is None else [_moment(frame(of_base), wanted, str(BASE_OFFSET) + "L")]
    inserts, deletes = changes[FileType.INSERT], changes[FileType.EQ_DELETE]
    stored = f"coalesce({quoted_name(FILE_OFFSET.name)}, {NO_OFFSET}L)"
    if inserts is not None:
        rows.append(_moment(frame(inserts), wanted, stored))
    assert deletes is not None  # who has none is not asked to join
    if not rows:
        return bridge.scans.describe([], Layout(with_keys.base_source(), stores.columns, stores.dialect).output())
    every = reduce(lambda left, right: left.unionByName(right), rows)
    result = _without_deleted(every, _moment(frame(deletes), keys, stored), keys)
    return result.select(*map(quoted_name, stores.columns))._jdf.queryExecution().analyzed()


class _Constants:
    """What the rows of a file have in common: their transaction, their partition's number, and their node."""

    def __init__(self, stores: Stores) -> None:
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._stores = stores
        for one in stores.source.changes.deletes.values():
            self._numbers.setdefault(partition_key(one.task.file.partition), len(self._numbers))

    def of(self, kind: FileType) -> list[Constant]:
        def place(path: str, sequence: int) -> FilePlace:
            return parse_base(path) if kind is FileType.BASE else parse_change(path, sequence)

        def per_file(value: Callable[[FilePlace], int]) -> Callable[[Entries], pa.Array]:
            def values(entries: Entries) -> pa.Array:
                sequences = entries.numpy(ids.SEQUENCE_NUMBER).tolist()
                paths = entries.column(ids.FILE_PATH).to_pylist()
                found = (value(place(path, sequence)) for path, sequence in zip(paths, sequences, strict=True))
                return pa.array(list(found), pa.int64())

            return values

        return [
            Constant(_TRANSACTION, "long", per_file(lambda one: one.transaction_id)),
            Constant(_MASK, "long", per_file(lambda one: node_of(one.node)[0])),
            Constant(_INDEX, "long", per_file(lambda one: node_of(one.node)[1])),
            Constant(_PARTITION, "long", self._partitions),
        ]

    def _partitions(self, entries: Entries) -> pa.Array:
        """Numbers of partitions; those without deletes have none."""
        found = (self._numbers.get(partition_key(one), -1) for one in entries.partition_tuples())
        return pa.array(np.fromiter(found, np.int64, len(entries)))


def _moment(frame: DataFrame, columns: Iterable[str], offset: str) -> DataFrame:
    """Columns, and when and where each row was written."""
    return frame.selectExpr(
        *map(quoted_name, columns), _TRANSACTION, _MASK, _INDEX, _PARTITION, f"{offset} AS {_OFFSET}"
    )


def _without_deleted(rows: DataFrame, deletes: DataFrame, keys: Mapping[str, bool]) -> DataFrame:
    """`keys` says of each column whether it always has a value; then filters on it reach the deletes too."""
    from pyspark.sql import functions as f

    named = [f.col(quoted_name(key)).alias(f"{_KEY}{place}") for place, key in enumerate(keys)]
    moments = [f.col(name).alias(f"{name}_") for name in (_TRANSACTION, _OFFSET, _MASK, _INDEX, _PARTITION)]
    gone = deletes.select(*named, *moments)

    def both(name: str) -> tuple[Column, Column]:
        return f.col(name), f.col(f"{name}_")

    row, deleted = both(_PARTITION)
    same: Column = row == deleted
    for place, (key, required) in enumerate(keys.items()):
        mine, other = rows[quoted_name(key)], f.col(f"{_KEY}{place}")
        same = same & (mine == other if required else mine.eqNullSafe(other))
    shared = f.least(*both(_MASK))
    index, deleted_index = both(_INDEX)
    (written, deleted_in), (offset, deleted_at) = both(_TRANSACTION), both(_OFFSET)
    related = index.bitwiseAND(shared) == deleted_index.bitwiseAND(shared)
    later = (deleted_in > written) | ((deleted_in == written) & (deleted_at > offset))
    return rows.join(gone, same & related & later, "left_anti")
