"""What goes to Spark's reader, taken apart and applied here: the rows are those of the kernel's own merge. No Spark."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil import ambient
from frazil.io.deletion_vector import DeletionVector
from frazil.mixed.file_names import FileType
from frazil.mixed.table import MixedTable
from frazil.spark.mixed import applied
from frazil.spark.mixed.handle import MixedHandle, current
from frazil.spark.mixed.native import StoreFiles, Stores
from frazil.spark.mixed.source import MixedSource, source_of
from frazil.spark.scan.contents import contents_of
from frazil.spark.types import NEWEST
from tests.mixed.goldens import golden
from tests.mixed.tables import new_table
from tests.mixed.test_goldens import DOUBTFUL, KEYED

NUMBERS = range(10)
REGIONS = ("eu", "us", None)


class Packed:
    """Reads the byte string, as the JVM does."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0
        self.rows = self.integer()

    def take(self, size: int) -> bytes:
        self._at += size
        return self._data[self._at - size : self._at]

    def integer(self) -> int:
        return int.from_bytes(self.take(4), "little")

    def _column(self, values: Callable[[], list[Any]]) -> list[Any]:
        valid = self.take(self.rows) if self.take(1) == b"\1" else b"\1" * self.rows
        return [value if there else None for value, there in zip(values(), valid, strict=True)]

    def longs(self) -> list[Any]:
        return self._column(lambda: np.frombuffer(self.take(8 * self.rows), "<i8").tolist())

    def blobs(self) -> list[Any]:
        def values() -> list[bytes]:
            ends = np.frombuffer(self.take(4 * (self.rows + 1)), "<i4")
            return [self.take(int(end - start)) for start, end in pairwise(ends)]

        return self._column(values)

    def values(self, kind: str) -> list[Any]:
        """A column of one of Spark's types, in the form of `plain`."""
        if kind in ("string", "binary"):
            return self.blobs()
        if kind.startswith("decimal"):
            found = self._column(lambda: [self.take(16) for _ in range(self.rows)])
            return [None if one is None else int.from_bytes(one, "little", signed=True) for one in found]
        if kind in ("integer", "date"):
            return self._column(lambda: np.frombuffer(self.take(4 * self.rows), "<i4").tolist())
        return self.longs()


def plain(column: pa.ChunkedArray) -> list[Any]:
    """Values as they are packed: numbers, and bytes."""
    kind = column.type
    if pa.types.is_decimal(kind):
        return [None if one is None else int(one.scaleb(kind.scale)) for one in column.to_pylist()]
    if pa.types.is_temporal(kind):
        return column.cast(pa.int32() if pa.types.is_date(kind) else pa.int64()).to_pylist()
    return [one.encode() if isinstance(one, str) else one for one in column.to_pylist()]


def key_set(data: bytes, fields: list[dict[str, Any]]) -> dict[tuple[Any, ...], int]:
    """The newest sequence number of each key, whose columns are in the order of `fields`."""
    packed = Packed(data)
    columns: dict[int, list[Any]] = {}
    for _ in range(packed.integer()):
        place = packed.integer()
        columns[place] = packed.values(fields[place]["type"])
    newest: dict[tuple[Any, ...], int] = {}
    keys = list(zip(*(columns[place] for place in sorted(columns)), strict=True))
    for key, sequence in zip(keys, packed.longs(), strict=True):
        newest[key] = max(newest.get(key, 0), sequence)
    return newest


def rows_left(relation: StoreFiles, filters: str) -> Iterator[pa.Table]:
    """The rows of the files, less what is told to be gone."""
    fields = relation.document["keys"]["fields"]
    packed = Packed(relation.list_files(filters))
    has_deletes = packed.take(1) == b"\1"
    paths, _sizes = [path.decode().removeprefix("file:") for path in packed.blobs()], packed.longs()
    nothing: list[Any] = [None] * packed.rows
    positions, sequences, numbers = nothing, nothing, nothing
    sets = []
    if has_deletes:
        positions, sequences, numbers = packed.blobs(), packed.longs(), packed.blobs()
        for _ in range(packed.integer()):
            packed.take(16)  # the digest, by which the JVM knows a set
            sets.append(key_set(packed.take(packed.integer()), fields))
    for path, blob, sequence, mine in zip(paths, positions, sequences, numbers, strict=True):
        rows = pq.read_table(path, partitioning=None)
        kept = np.ones(rows.num_rows, bool) if blob is None else DeletionVector.from_blob(blob).mask(0, rows.num_rows)
        checked = [sets[number] for number in np.frombuffer(mine or b"", "<i4")]
        if checked:
            keys = zip(*(plain(rows.column(field["name"])) for field in fields), strict=True)
            kept &= np.array([not any(one.get(key, 0) > sequence for one in checked) for key in keys], bool)
        yield rows.filter(pa.array(kept))


def source(table: MixedTable) -> MixedSource:
    handle = current(table)
    assert isinstance(handle, MixedHandle)
    return source_of(handle, None)


def merged(table: MixedTable, columns: list[str] | None = None, filters: str = "[]") -> Counter[str]:
    found = source(table)
    names = tuple(table.schema.columns) if columns is None else tuple(columns)
    stores = Stores(found, names, NEWEST, own_reader=False)
    deletes = bool(found.changes.deletes)
    parts = [
        stores.base(contents_of(found.base.metadata, found.base.store, found.base.snapshot), keyed=deletes),
        stores.changes(FileType.INSERT, columns=names, applied=deletes),
    ]
    tables = (rows for part in parts if isinstance(part, StoreFiles) for rows in rows_left(part, filters))
    return Counter(repr(row) for rows in tables for row in rows.select(names).to_pylist())


def in_process(table: MixedTable, where: str | None = None) -> Counter[str]:
    return Counter(map(repr, table.scan(where).to_arrow().to_pylist()))


KEYS: dict[str, tuple[str, Callable[[int], dict[str, Any]]]] = {
    "number": ("k BIGINT NOT NULL", lambda n: {"k": n * 7}),
    "text": ("k STRING NOT NULL", lambda n: {"k": f"ä{n}"}),
    "both": ("k BIGINT NOT NULL, w STRING NOT NULL", lambda n: {"k": n // 3, "w": "abc"[n % 3]}),
}
steps = st.lists(
    st.tuples(
        st.sampled_from(["upsert", "upsert", "insert", "delete", "ingest", "optimize", "rebucket"]),
        st.lists(st.sampled_from(NUMBERS), min_size=1, max_size=6),
    ),
    max_size=8,
)


@pytest.mark.parametrize("partition_by", [(), ("bucket(2, k)",), ("region",)], ids=["whole", "by key", "by region"])
@pytest.mark.parametrize("kind", KEYS)
def test_the_rows_are_those_of_the_kernel(kind: str, partition_by: tuple[str, ...], tmp_path: Path) -> None:
    schema, key = KEYS[kind]

    @settings(max_examples=8)
    @given(steps=steps)
    def check(steps: list[tuple[str, list[int]]]) -> None:
        keys = list(key(0))
        table = new_table(
            f"{schema}, region STRING, v INT",
            partition_by=partition_by,
            primary_key=tuple(keys),
            folder=str(tmp_path / ambient.new_uuid().hex),
        )
        rows: dict[int, dict[str, Any]] = {}
        for moment, (what, numbers) in enumerate(steps):
            apply(table, rows, key, what, numbers, moment)
        wanted = Counter(map(repr, rows.values()))
        assert in_process(table) == wanted
        assert merged(table) == wanted
        assert merged(table) == wanted  # from what is remembered
        applied.forget()
        assert merged(table) == wanted

    check()


def apply(
    table: MixedTable,
    rows: dict[int, dict[str, Any]],
    key: Callable[[int], dict[str, Any]],
    what: str,
    numbers: list[int],
    moment: int,
) -> None:
    """Change a table, and a dictionary in the same way."""
    new = {number: {**key(number), "region": REGIONS[(number + moment) % 3], "v": moment} for number in numbers}
    if what == "upsert":
        table.upsert(list(new.values()))
        rows.update(new)
    elif what == "insert":
        fresh = {number: row for number, row in new.items() if number not in rows}
        if fresh:
            table.append(list(fresh.values()))
            rows.update(fresh)
    elif what == "delete":
        table.delete_keys([key(number) for number in new])
        for number in new:
            rows.pop(number, None)
    elif what == "ingest":  # a key may come and go more than once in a transaction
        told: list[dict[str, Any]] = []
        for place, number in enumerate(numbers):
            row = {**new[number], "v": moment * 10 + place}
            old = rows.pop(number, None)
            if old is not None:
                told.append({"op": "delete", **(old if place % 2 else key(number))})
            if place % 3:
                told.append({"op": "insert", **row})
                rows[number] = row
        if told:
            table.ingest(told)
    elif what == "optimize":
        table.optimize("minor", upkeep=False)
    else:
        table.update_properties().set("change.file-index.hash-bucket", str(2 ** (len(numbers) % 4))).commit()


@pytest.mark.parametrize("case", [case for case in KEYED if case not in {*DOUBTFUL, "k_orc"}])
def test_keys_that_are_left_of_amoros_tables_are_those_of_the_kernel(case: str) -> None:
    table = golden(case)
    names = list(table.primary_key)
    wanted = Counter(map(repr, table.scan(columns=names).to_arrow().to_pylist()))
    assert merged(table, names) == wanted


def test_filters_leave_out_files_and_no_deletes(tmp_path: Path) -> None:
    """A delete must be seen whatever a filter says of other columns; rows are filtered by Spark after."""
    table = new_table("k BIGINT NOT NULL, v INT", primary_key=("k",), folder=str(tmp_path / "t"))
    table.overwrite([{"k": number, "v": 1} for number in range(8)])
    table.delete_keys([{"k": 2}, {"k": 3}])
    table.append([{"k": 2, "v": 5}])
    of_value = json.dumps([["EqualTo", {"c": ["v"], "t": "int"}, {"v": "1", "t": "int"}]])
    found = merged(table, filters=of_value)
    assert found == Counter(repr({"k": number, "v": 1}) for number in (0, 1, 4, 5, 6, 7))  # the file of 5 is left out
    of_key = json.dumps([["LessThan", {"c": ["k"], "t": "bigint"}, {"v": "0", "t": "bigint"}]])
    assert merged(table, filters=of_key) == Counter()
    some = json.dumps([["GreaterThan", {"c": ["k"], "t": "bigint"}, {"v": "2", "t": "bigint"}]])
    left = {number for number in range(8) if str({"k": number, "v": 1}) in merged(table, filters=some)}
    assert left & {3, 4, 5, 6, 7} == {4, 5, 6, 7}


def test_base_files_that_no_delete_can_hit_have_no_keys(tmp_path: Path) -> None:
    table = new_table("k BIGINT NOT NULL, v INT", primary_key=("k",), folder=str(tmp_path / "t"))
    table.append([{"k": 1, "v": 1}])
    table.delete_keys([{"k": 1}])
    table.append([{"k": 1, "v": 2}])
    before = source(table).changes
    assert (len(before.inserts), len(before.deletes)) == (2, 1)
    table.overwrite([{"k": 1, "v": 3}, {"k": 2, "v": 3}])
    after = source(table).changes
    assert (after.inserts, after.deletes) == ({}, {})
    assert merged(table) == Counter(repr({"k": number, "v": 3}) for number in (1, 2))
