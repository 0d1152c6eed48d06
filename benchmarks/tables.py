"""Tables to plan: many manifests, no data files. The same on every machine, since the numbers come from a seed.

Each manifest has 500 files of one day `d` and of 500 buckets `b`; every file has full metrics of 12 columns. A filter
on `d` leaves one manifest, one on `b` or `c1` leaves one file of each.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.iceberg import manifest_schema as ids
from frazil.iceberg.committer import ReadOnly, TableState
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.entries import BOUNDS, COUNTS, Entries, partition_array
from frazil.iceberg.manifest import as_added, write_manifest
from frazil.iceberg.manifest_list import DATA, ManifestFile, serialize_manifest_list
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.metadata_json import parse_metadata, serialize_metadata
from frazil.iceberg.new_table import new_table_metadata
from frazil.iceberg.partition_types import partition_type
from frazil.iceberg.refs import MAIN, SnapshotRef
from frazil.iceberg.snapshot import Snapshot
from frazil.iceberg.table import IcebergTable
from frazil.iceberg.updates import AddSnapshot, SetSnapshotRef, apply_updates
from frazil.io.local_store import LocalStore
from frazil.model.partition import PartitionField, PartitionSpec
from frazil.model.schema import Schema
from frazil.model.transforms import parse_transform
from frazil.model.types import DoubleType, IntegerType, LongType, NestedField, StringType, Type

FILES_PER_MANIFEST = 500
SNAPSHOT_ID = 1
SMALL = "small"
"""The table of one manifest, beside the large ones, on which a process warms up."""

FILTERS = {"all": None, "d": "d = 7", "b": "b = 7", "c1": "c1 = 5000"}
C1_STEP = 20
"""File `b` has the values of `c1` from `20 * b` to `20 * b + 19`."""

_TYPES: dict[str, Type] = {
    **dict.fromkeys(("d", "b"), IntegerType()),
    **{f"c{number}": LongType() for number in range(1, 7)},
    **{f"c{number}": DoubleType() for number in range(7, 9)},
    **{f"c{number}": StringType() for number in range(9, 11)},
}
_DOUBLES = (9, 10)
SCHEMA = Schema(tuple(NestedField(place, name, type_) for place, (name, type_) in enumerate(_TYPES.items(), 1)))
SPEC = PartitionSpec(
    0,
    tuple(
        PartitionField((place,), 999 + place, name, parse_transform("identity")) for place, name in ((1, "d"), (2, "b"))
    ),
)


def new_metadata(location: str) -> TableMetadata:
    """A version 2 table without snapshots."""
    return new_table_metadata(SCHEMA, SPEC, location=location, format_version=2)


def entries(location: str, day: int, count: int = FILES_PER_MANIFEST) -> Entries:
    """New files of one day, one per bucket."""
    chance = np.random.default_rng(day)
    bucket = np.arange(count)
    rows = chance.integers(1_000, 1_000_000, count)
    names = chance.integers(0, 2**63, (count, 2))
    paths = [
        f"{location}/data/d={day}/b={place}/00000-{place}-{high:016x}{low:016x}.parquet"
        for place, (high, low) in enumerate(names.tolist())
    ]
    columns = np.arange(1, len(_TYPES) + 1)
    low = chance.integers(0, 2**40, (count, len(columns)))
    low[:, 0], low[:, 1], low[:, 2] = day, bucket, bucket * C1_STEP
    high = low + chance.integers(0, 2**20, low.shape)
    high[:, 0], high[:, 1], high[:, 2] = day, bucket, bucket * C1_STEP + C1_STEP - 1
    tuples = [(day, place) for place in range(count)]
    partitions = partition_type(new_metadata(location), SPEC)
    splits = pa.ListArray.from_arrays(
        pa.array(np.arange(count + 1, dtype=np.int32) * 2), pa.array(np.tile([4, 4 + (128 << 20)], count))
    )
    made = {
        ids.CONTENT: pa.array(np.zeros(count, np.int32)),
        ids.FILE_PATH: pa.array(paths),
        ids.FILE_FORMAT: pa.array(["PARQUET"] * count),
        ids.PARTITION: partition_array(partitions, tuples),
        ids.RECORD_COUNT: pa.array(rows),
        ids.FILE_SIZE: pa.array(chance.integers(1 << 20, 1 << 29, count)),
        ids.COLUMN_SIZES: _counts(columns, chance.integers(1 << 10, 1 << 24, low.shape)),
        ids.VALUE_COUNTS: _counts(columns, np.repeat(rows, len(columns)).reshape(low.shape)),
        ids.NULL_COUNTS: _counts(columns, chance.integers(0, 100, low.shape)),
        ids.NAN_COUNTS: _counts(np.array(_DOUBLES), np.zeros((count, len(_DOUBLES)), np.int64)),
        ids.LOWER_BOUNDS: _bounds(columns, low),
        ids.UPPER_BOUNDS: _bounds(columns, high),
        ids.SPLIT_OFFSETS: splits,
        ids.SORT_ORDER_ID: pa.array(np.zeros(count, np.int32)),
        ids.SEQUENCE_NUMBER: pa.nulls(count, pa.int64()),
    }
    return Entries(SPEC, partitions, made)


def _counts(columns: npt.NDArray[np.int64], values: npt.NDArray[np.int64]) -> pa.Array:
    return _map(columns, len(values), pa.array(values.reshape(-1)), COUNTS)


def _bounds(columns: npt.NDArray[np.int64], values: npt.NDArray[np.int64]) -> pa.Array:
    parts = []
    for place, type_ in enumerate(_TYPES.values()):
        column = values[:, place]
        if isinstance(type_, StringType):
            text = np.char.add("prefix", np.char.zfill(column.astype("U13"), 13)).astype("S")
            parts.append(text.view(np.uint8).reshape(len(values), -1))
            continue
        width = {IntegerType: "<i4", LongType: "<i8", DoubleType: "<f8"}[type(type_)]
        parts.append(np.ascontiguousarray(column.astype(width)).view(np.uint8).reshape(len(values), -1))
    row = np.array([part.shape[1] for part in parts])
    offsets = np.concatenate([[0], np.cumsum(np.tile(row, len(values)))]).astype(np.int32)
    data = np.concatenate(parts, axis=1)
    binary = pa.Array.from_buffers(pa.binary(), values.size, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    return _map(columns, len(values), binary, BOUNDS)


def _map(columns: npt.NDArray[np.int64], count: int, values: pa.Array, type_: pa.DataType) -> pa.Array:
    offsets = pa.array(np.arange(count + 1, dtype=np.int32) * len(columns))
    return pa.MapArray.from_arrays(offsets, pa.array(np.tile(columns, count).astype(np.int32)), values, type_)


def write_table(folder: Path, manifests: int) -> None:
    """Make a table of so many manifests."""
    location, store = str(folder), LocalStore(fsync=False)
    (folder / "metadata").mkdir(parents=True)
    metadata = new_metadata(location)

    def write(day: int) -> ManifestFile:
        return write_manifest(
            store,
            f"{location}/metadata/m{day}.avro",
            as_added(entries(location, day), SNAPSHOT_ID),
            schema=metadata.current_schema,
            format_version=2,
            content=DATA,
            snapshot_id=SNAPSHOT_ID,
        )

    with ThreadPoolExecutor(2) as pool:
        written = [
            replace(manifest, sequence_number=1, min_sequence_number=1)
            for manifest in pool.map(write, range(manifests))
        ]
    listed = f"{location}/metadata/snap-{SNAPSHOT_ID}.avro"
    store.write(listed, serialize_manifest_list(written, {"snapshot-id": SNAPSHOT_ID, "sequence-number": 1}, 2))
    snapshot = Snapshot(
        SNAPSHOT_ID, None, 1, metadata.last_updated_ms + 1, listed, summary={"operation": "append"}, schema_id=0
    )
    metadata = apply_updates(metadata, [AddSnapshot(snapshot), SetSnapshotRef(MAIN, SnapshotRef(SNAPSHOT_ID))])
    metadata_file(folder).write_bytes(serialize_metadata(metadata))


def metadata_file(folder: Path) -> Path:
    """The metadata of a table made by `write_table`."""
    return folder / "metadata" / "v1.metadata.json"


def open_table(metadata: Path) -> IcebergTable:
    """A table as its metadata file has it."""
    state = TableState(parse_metadata(metadata.read_bytes()), str(metadata))
    return IcebergTable(metadata.parent.parent.name, LocalStore(), ReadOnly(state), state)


def new_files(location: str, count: int) -> Iterator[DataFile]:
    """New files as objects."""
    for day, start in enumerate(range(0, count, FILES_PER_MANIFEST)):
        yield from entries(location, day, min(FILES_PER_MANIFEST, count - start)).iter_files()
