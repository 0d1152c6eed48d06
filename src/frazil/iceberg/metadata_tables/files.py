"""The tables of files: files, data_files, delete_files, entries, and the same of all snapshots together.

Rows come in no particular order. A file that several manifests list is there once for each.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.iceberg import manifest_schema as ids
from frazil.iceberg.entries import Entries, storage_arrow
from frazil.iceberg.manifest import ALL_COLUMNS
from frazil.iceberg.manifest_list import DATA, DELETES, ManifestFile
from frazil.iceberg.metadata_tables import schemas
from frazil.iceberg.metadata_tables.arrow_arrays import batch_of, struct_of
from frazil.iceberg.metadata_tables.readable_metrics import readable_metrics
from frazil.iceberg.metadata_tables.source import Source
from frazil.model.arrow import schema_to_arrow
from frazil.model.transforms import VoidTransform
from frazil.model.types import StructType


def files(source: Source) -> pa.Table:
    """The data and delete files of the snapshot."""
    return _files(source, source.manifests)


def data_files(source: Source) -> pa.Table:
    """The data files of the snapshot."""
    return _files(source, _of(source.manifests, DATA))


def delete_files(source: Source) -> pa.Table:
    """The delete files of the snapshot."""
    return _files(source, _of(source.manifests, DELETES))


def all_files(source: Source) -> pa.Table:
    """The data and delete files of any snapshot."""
    return _files(source, source.all_manifests)


def all_data_files(source: Source) -> pa.Table:
    """The data files of any snapshot."""
    return _files(source, _of(source.all_manifests, DATA))


def all_delete_files(source: Source) -> pa.Table:
    """The delete files of any snapshot."""
    return _files(source, _of(source.all_manifests, DELETES))


def entries(source: Source) -> pa.Table:
    """The manifest entries of the snapshot, also those of files that were deleted."""
    return _entries(source, source.manifests)


def all_entries(source: Source) -> pa.Table:
    """The manifest entries of any snapshot."""
    return _entries(source, source.all_manifests)


def _of(manifests: Sequence[ManifestFile], content: int) -> list[ManifestFile]:
    return [manifest for manifest in manifests if manifest.content == content]


def _files(source: Source, manifests: Sequence[ManifestFile]) -> pa.Table:
    arrow = schema_to_arrow(schemas.files_schema(source.metadata))
    partition = schemas.partition_struct(source.metadata)
    current = source.metadata.current_schema
    batches = []
    for part in source.context.reader.read([one for one in manifests if one.has_live_files], ALL_COLUMNS):
        live = part.filter(part.live)
        columns = _file_columns(live, partition)
        columns["readable_metrics"] = readable_metrics(live, current, arrow.field("readable_metrics").type)
        batches.append(batch_of(columns, arrow))
    return pa.Table.from_batches(batches, arrow)


def _entries(source: Source, manifests: Sequence[ManifestFile]) -> pa.Table:
    schema = schemas.entries_schema(source.metadata)
    arrow = schema_to_arrow(schema)
    partition = schemas.partition_struct(source.metadata)
    current = source.metadata.current_schema
    batches = []
    for part in source.context.reader.read(manifests, ALL_COLUMNS):
        columns = {column.name: part.column(column.id) for column in schema.fields if column.id in ids.ENTRY_FIELDS}
        columns["data_file"] = struct_of(_file_columns(part, partition), arrow.field("data_file").type)
        columns["readable_metrics"] = readable_metrics(part, current, arrow.field("readable_metrics").type)
        batches.append(batch_of(columns, arrow))
    return pa.Table.from_batches(batches, arrow)


def _file_columns(part: Entries, partition: StructType) -> dict[str, pa.Array]:
    columns = {spec.name: part.column(spec.id) for spec in ids.DATA_FILE_FIELDS if spec.id in ALL_COLUMNS}
    columns["file_format"] = pc.utf8_upper(columns["file_format"])
    columns["spec_id"] = spec_ids(part)
    columns["partition"] = unified_partition(part, partition)
    return columns


def spec_ids(part: Entries) -> pa.Array:
    """The spec of each entry."""
    return pa.array(np.full(len(part), part.spec.spec_id, dtype=np.int32))


def unified_partition(part: Entries, type_: StructType) -> pa.Array:
    """The partition of each entry in the struct of all specs; fields that its own spec lacks are null."""
    names = [column.name for column in type_.fields]
    if not names:
        return pa.Array.from_buffers(pa.struct([]), len(part), [None])
    return pa.StructArray.from_arrays(partition_arrays(part, type_), names=names)


def partition_arrays(part: Entries, type_: StructType) -> list[pa.Array]:
    """One array per field of the struct of all specs, without extension types."""
    # a dropped field has the type of its column, not of the values it once had; it is null in any case
    own = {
        field.field_id: array
        for field, array in zip(part.spec.fields, part.partition_columns(), strict=True)
        if not isinstance(field.transform, VoidTransform)
    }
    size = len(part)
    return [
        own[column.id] if column.id in own else pa.nulls(size, storage_arrow(column.type)) for column in type_.fields
    ]
