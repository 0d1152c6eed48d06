"""Deletion files: the offsets of a fragment's deleted rows, as an Arrow file or as a roaring bitmap."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil import ambient
from frazil.errors import MalformedData
from frazil.io import location as locations
from frazil.io.roaring import deserialize32, serialize32
from frazil.io.store import Store
from frazil.lance.data_files import known_as
from frazil.lance.layout import DELETIONS, deletion_name
from frazil.lance.proto.messages import DeletionFile
from frazil.recent import Recent

ARROW, BITMAP = 0, 1
BITMAP_ABOVE = 5_000
"""Up to so many offsets are written as an Arrow array."""

Offsets = npt.NDArray[np.int64]
_known: Recent[tuple[Hashable, int], Offsets] = Recent(64 << 20, lambda offsets: offsets.nbytes + 64)


@dataclass(frozen=True, slots=True)
class DeletionRef:
    """Where a fragment's deletion file is, and how many rows it deletes."""

    location: str
    count: int
    is_bitmap: bool


def read_deletions(store: Store, ref: DeletionRef | None) -> Offsets:
    """The deleted offsets, ascending. Such files never change, so what was read lately is remembered."""
    if ref is None:
        return np.empty(0, np.int64)
    key = (known_as(store, ref.location), ref.count)
    found = _known.get(key)
    if found is None:
        data = store.read(ref.location)
        found = deserialize32(data) if ref.is_bitmap else _from_arrow(data, ref.location)
        if ref.count and len(found) != ref.count:
            raise MalformedData(
                f"{ref.location} deletes {len(found)} rows, and the manifest says {ref.count}",
                hint="the table is damaged; open an earlier version of it",
            )
        _known.put(key, found)
    return found


def _from_arrow(data: bytes, location: str) -> Offsets:
    try:
        rows = pa.ipc.open_file(pa.BufferReader(data)).read_all()
        if rows.num_columns != 1:
            raise pa.ArrowInvalid(f"it has {rows.num_columns} columns")
        offsets = rows.column(0).cast(pa.int64()).to_numpy()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise MalformedData(f"{location} is no deletion file: {error}", hint="the file is damaged") from error
    return np.unique(offsets)


def write_deletions(store: Store, root: str, fragment: int, read_version: int, offsets: Offsets) -> DeletionFile:
    """Write ascending offsets to a new file of the table at `root`."""
    is_bitmap = len(offsets) > BITMAP_ABOVE
    made = DeletionFile(
        file_type=BITMAP if is_bitmap else ARROW,
        read_version=read_version,
        id=ambient.new_uuid().int >> 65,
        num_deleted_rows=len(offsets),
    )
    name = deletion_name(fragment, read_version, made.id, is_bitmap)
    store.write(locations.join(root, DELETIONS, name), serialize32(offsets) if is_bitmap else _to_arrow(offsets))
    return made


def _to_arrow(offsets: Offsets) -> bytes:
    schema = pa.schema([pa.field("row_id", pa.uint32(), nullable=False)])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write(pa.record_batch([pa.array(offsets, pa.uint32())], schema=schema))
    return bytes(sink.getvalue())
