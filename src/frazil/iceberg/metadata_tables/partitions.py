"""The table of partitions: how many rows and files each has, and which snapshot changed it last."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.iceberg import manifest_schema as ids
from frazil.iceberg.data_file import Content
from frazil.iceberg.entries import Entries
from frazil.iceberg.manifest import CORE_COLUMNS
from frazil.iceberg.metadata_tables import schemas
from frazil.iceberg.metadata_tables.arrow_arrays import batch_of
from frazil.iceberg.metadata_tables.files import partition_arrays, spec_ids
from frazil.iceberg.metadata_tables.source import Source
from frazil.model.arrow import schema_to_arrow
from frazil.model.types import StructType

_SUMS = (
    "record_count",
    "file_count",
    "total_data_file_size_in_bytes",
    "position_delete_record_count",
    "position_delete_file_count",
    "equality_delete_record_count",
    "equality_delete_file_count",
)
_OWN_FIELDS = "own_fields"
_LONG_AGO = -(1 << 63)


def partitions(source: Source) -> pa.Table:
    """One row per partition that has files. The spec is that of the file that was added last."""
    type_ = schemas.partition_struct(source.metadata)
    arrow = schema_to_arrow(schemas.partitions_schema(source.metadata))
    manifests = [manifest for manifest in source.manifests if manifest.has_live_files]
    parts = [_counted(part.filter(part.live), type_) for part in source.context.reader.read(manifests, CORE_COLUMNS)]
    if not parts:
        return arrow.empty_table()
    files = _with_times(source, pa.concat_tables(parts))
    # a partition of a spec without some field is another one than that with a null in it
    keys = [_OWN_FIELDS, *_key_names(type_)]
    lasts = ("spec_id", "last_updated_at", "last_updated_snapshot_id")
    grouped = files.group_by(keys, use_threads=False).aggregate(
        [*((name, "sum") for name in _SUMS), *((name, "last") for name in lasts)]
    )
    columns = {name: _whole(grouped[f"{name}_sum"]) for name in _SUMS}
    columns |= {name: _whole(grouped[f"{name}_last"]) for name in lasts}
    if type_.fields:
        values = [_whole(grouped[name]) for name in _key_names(type_)]
        columns["partition"] = pa.StructArray.from_arrays(values, names=[column.name for column in type_.fields])
    return pa.Table.from_batches([batch_of(columns, arrow)], arrow)


def _key_names(type_: StructType) -> list[str]:
    return [f"key{column.id}" for column in type_.fields]


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _counted(part: Entries, type_: StructType) -> pa.Table:
    """The files of one spec with what each adds to the counts of its partition."""
    content, rows, ones = part.numpy(ids.CONTENT), part.numpy(ids.RECORD_COUNT), np.ones(len(part), dtype=np.int64)
    data, positions, equality = (content == kind for kind in Content)
    own = {field.field_id for field in part.spec.fields}
    columns = {
        _OWN_FIELDS: pa.array(np.full(len(part), sum(column.id in own for column in type_.fields), dtype=np.int32)),
        **dict(zip(_key_names(type_), partition_arrays(part, type_), strict=True)),
        "spec_id": spec_ids(part),
        "snapshot_id": part.column(ids.SNAPSHOT_ID),
    }
    added = (
        rows * data,
        ones * data,
        part.numpy(ids.FILE_SIZE) * data,
        rows * positions,
        ones * positions,
        rows * equality,
        ones * equality,
    )
    columns |= {name: pa.array(values) for name, values in zip(_SUMS, added, strict=True)}
    return pa.table(columns)


def _with_times(source: Source, files: pa.Table) -> pa.Table:
    """The files by the time of the snapshot that added them; of an expired snapshot no time is known."""
    known = source.metadata.snapshots
    number = pc.index_in(
        files["snapshot_id"], value_set=pa.array([snapshot.snapshot_id for snapshot in known], pa.int64())
    )
    times = pa.array([snapshot.timestamp_ms * 1000 for snapshot in known], pa.int64()).take(number)
    snapshot_ids = pc.if_else(number.is_valid(), files["snapshot_id"], pa.scalar(None, pa.int64()))
    files = files.append_column("last_updated_at", times).append_column("last_updated_snapshot_id", snapshot_ids)
    order = np.argsort(pc.fill_null(times, _LONG_AGO).to_numpy(), kind="stable")
    return files.take(pa.array(order))
