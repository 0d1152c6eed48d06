"""Equality delete files: keys of rows that are gone, wherever these rows are.

They are what a stream of upserts writes, since nothing need be read. They hit rows of earlier commits only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from frazil.errors import InvalidArgument
from frazil.iceberg.data_file import Content, DataFile
from frazil.iceberg.delete_settings import SUFFIX, DeleteSettings
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.write import RowWriter
from frazil.io.store import Store
from frazil.model.conform import conform
from frazil.model.partition import PartitionSpec
from frazil.model.schema import Schema
from frazil.model.sorting import UNSORTED
from frazil.model.transforms import VoidTransform
from frazil.model.types import (
    DoubleType,
    FloatType,
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    NestedField,
    StructType,
    Type,
    UnknownType,
    VariantType,
)

_NO_KEYS = FloatType | DoubleType | VariantType | GeometryType | GeographyType | UnknownType


class EqualityDeleteWriter:
    """Writes the keys of one job: values of the fields `equality_ids`, at any depth of structs.

    Under an unpartitioned spec they hit rows of all partitions, else those of their own, and of their own spec: rows
    then need the columns that the table is partitioned by as well. If not told, the spec is one that reaches all files.
    """

    def __init__(
        self,
        metadata: TableMetadata,
        store: Store,
        equality_ids: Sequence[int],
        *,
        spec: PartitionSpec | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        settings = DeleteSettings.of(metadata, properties)
        self.equality_ids = tuple(equality_ids)
        self.spec = spec = _reaching_all(metadata) if spec is None else spec
        self.schema = _columns(metadata.current_schema, self.equality_ids, spec)
        """The columns that rows must have."""
        self._writer = RowWriter(
            metadata,
            store,
            schema=self.schema,
            spec=spec,
            order=UNSORTED,
            properties={**settings.properties, "write.format.default": settings.file_format},
            suffix=SUFFIX,
            target_bytes=settings.target_bytes,
        )

    def write(self, batches: Iterable[pa.RecordBatch]) -> list[DataFile]:
        """Write all keys, further columns left out; if anything fails, no file is left behind."""
        files = self._writer.write(conform(self._chosen(batches), self.schema))
        return [self.as_delete(file) for file in files]

    def as_delete(self, file: DataFile) -> DataFile:
        """A file of keys, as the manifest will track it."""
        return replace(file, content=Content.EQUALITY_DELETES, equality_ids=self.equality_ids)

    def _chosen(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        names = self.schema.columns
        for batch in batches:
            missing = [name for name in names if name not in batch.schema.names]
            if missing:
                raise InvalidArgument(
                    f"rows to delete have no column {missing[0]!r}",
                    hint=f"give the keys and what the table is partitioned by: {', '.join(names)}",
                )
            arrays = [_only(batch.column(column.name), column.type) for column in self.schema.fields]
            yield pa.RecordBatch.from_arrays(arrays, names=names)


def _only(values: pa.Array, type_: Type) -> pa.Array:
    """A column without those fields of its structs that are no keys."""
    if not isinstance(type_, StructType) or not pa.types.is_struct(values.type):
        return values
    kept = [column for column in type_.fields if values.type.get_field_index(column.name) >= 0]
    arrays = [_only(values.field(column.name), column.type) for column in kept]
    fields = [values.type.field(column.name).with_type(array.type) for column, array in zip(kept, arrays, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=values.is_null())


def _reaching_all(metadata: TableMetadata) -> PartitionSpec:
    """The spec whose equality deletes hit files of all specs: the only one, or one without partitions."""
    if len(metadata.partition_specs) == 1:
        return metadata.default_spec
    for spec in metadata.partition_specs:
        if spec.is_unpartitioned:
            return spec
    raise InvalidArgument(
        "the partitioning of the table has changed, and equality deletes reach only files of one spec",
        hint="say which spec is meant, or delete the rows by their positions",
    )


def _columns(schema: Schema, equality_ids: Sequence[int], spec: PartitionSpec) -> Schema:
    if not equality_ids:
        raise InvalidArgument("no column to delete by", hint="name at least one key column")
    names = [_key_name(schema, number) for number in equality_ids]
    for part in spec.fields:
        source = schema.name_of(part.source_id)
        if source is not None and not isinstance(part.transform, VoidTransform):
            names.append(source)
    return schema.select(names)


def _key_name(schema: Schema, number: int) -> str:
    found, name = schema.field_by_id(number), schema.name_of(number)
    if found is None or name is None:
        raise InvalidArgument(f"the table has no field {number}", hint="equality deletes go by ids of today's columns")
    around = [schema.field_by_id(parent) for parent in schema.path_ids(number)[:-1]]
    if found.type.is_nested or isinstance(found.type, _NO_KEYS) or any(map(_repeats, around)):
        raise InvalidArgument(
            f"column {name!r} of type {found.type} cannot be a key of equality deletes",
            hint="keys are of primitive types other than float and double, and not inside lists or maps",
        )
    return name


def _repeats(field: NestedField | None) -> bool:
    return field is not None and isinstance(field.type, ListType | MapType)
