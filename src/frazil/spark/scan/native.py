"""Relations of Spark's own Parquet reader: which columns they have, and how the table's columns are made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa

from frazil.iceberg import manifest_schema as ids
from frazil.iceberg.entries import Entries
from frazil.iceberg.metadata import TableMetadata
from frazil.model.schema import LAST_UPDATED_SEQUENCE_NUMBER, Schema
from frazil.model.transforms import IdentityTransform
from frazil.model.types import NestedField, StructType, UnknownType
from frazil.spark.scan.columns import to_spark
from frazil.spark.scan.deletes import KeyColumn
from frazil.spark.scan.files import Constant
from frazil.spark.scan.relations import (
    as_told,
    quoted_name,
    relation_schema,
    rows_by_schema,
    stored_key,
    without_defaults,
)
from frazil.spark.types import Dialect, quoted, spark_struct, spark_type

_POSITION = "`_metadata`.`row_index`"


@dataclass
class NativeColumns:
    """The columns of one relation, gathered as they turn out to be needed.

    `identity` are the columns that have one value per file, taken from its partition and not from the file; `keys`
    those that equality deletes compare.
    """

    metadata: TableMetadata
    schema: Schema
    dialect: Dialect
    identity: tuple[int, ...]
    select: list[list[str | None]] = field(default_factory=list)
    """Of each output column its name and the relation's column, or (after None) SQL over the relation."""
    constants: dict[str, Constant] = field(default_factory=dict)
    _extra: dict[int, NestedField] = field(default_factory=dict)

    @cached_property
    def _stored(self) -> dict[int, NestedField]:
        stored = relation_schema(self.schema, self.metadata.schemas, rows_by_schema(self.metadata))
        return {column.id: column for column in stored.fields}

    @cached_property
    def _prefix(self) -> str:
        """What the names of the relation's own columns begin with, and no other."""
        prefix = "_frazil_"
        while any(column.name.lower().startswith(prefix) for column in self._stored.values()):
            prefix += "_"
        return prefix

    @cached_property
    def _told(self) -> dict[int, NestedField]:
        return {column.id: column for column in self.schema.fields}

    @property
    def data(self) -> list[NestedField]:
        """What is read from files."""
        return [column for column in self._stored.values() if column.id not in self.identity] + [*self._extra.values()]

    @property
    def filterable(self) -> Schema:
        """The columns that Spark may filter by, with the relation's names."""
        known = [replace(self._told[number], name=self._stored[number].name) for number in self.identity]
        return Schema((*self.data, *known), self.schema.schema_id)

    def add(self, wanted: NestedField) -> None:
        """Give the relation what a column of the output needs."""
        stored = self._stored.get(wanted.id)
        if wanted.id in self.identity:
            self.select.append([wanted.name, self._identity(wanted.id)])
        elif stored is not None:
            told = as_told(stored.name, stored.type, wanted.type)
            self.select.append([wanted.name, stored.name] if told is None else [wanted.name, None, told])
        elif isinstance(wanted.type, UnknownType):
            self.select.append([wanted.name, None, "NULL"])
        else:
            self._add_hidden(wanted)

    def _add_hidden(self, wanted: NestedField) -> None:
        match wanted.name:
            case "_file":
                self.select.append([wanted.name, self._constant("file", "string", _column(ids.FILE_PATH))])
            case "_pos":
                self.select.append([wanted.name, None, _POSITION])
            case "_spec_id":
                self.select.append([wanted.name, self._constant("spec_id", "integer", _spec_id)])
            case "_partition":
                self.select.append([wanted.name, None, self._partition(wanted)])
            case _:
                self._add_lineage(wanted)

    def _add_lineage(self, wanted: NestedField) -> None:
        """Row ids and sequence numbers are stored where rows moved to another file, and inherited elsewhere."""
        first = self._constant("first_row_id", "long", _column(ids.FIRST_ROW_ID))
        inherited = f"{first} + {_POSITION}"
        if wanted.id == LAST_UPDATED_SEQUENCE_NUMBER.id:
            inherited = self._constant("sequence", "long", _column(ids.SEQUENCE_NUMBER))
        self._extra[wanted.id] = wanted
        kept = f"coalesce({quoted_name(wanted.name)}, {inherited})"
        self.select.append([wanted.name, None, f"if({first} IS NULL, NULL, {kept})"])

    def keys(self, fields: Mapping[int, NestedField]) -> tuple[dict[int, KeyColumn], dict[str, Any]]:
        """The columns that equality deletes compare, by field id, and their Spark schema.

        They are those of the relation, with their defaults: a key is read from files that may be older than its column.
        """
        found: dict[int, KeyColumn] = {}
        kinds = []
        for place, (number, column) in enumerate(fields.items()):
            if number in self.identity:
                kind = NestedField(number, self._identity(number), self._told[number].type)
            else:
                if number not in self._stored:  # dropped since
                    self._extra[number] = replace(stored_key(column), name=f"{self._prefix}key_{number}")
                kind = self._stored.get(number) or self._extra[number]
            found[number] = KeyColumn(place, kind.type)
            kinds.append(kind)
        return found, nullable(spark_struct(Schema(tuple(kinds)), field_ids=True, dialect=self.dialect))

    def data_struct(self) -> dict[str, Any]:
        """The Spark schema of what is read from files."""
        return nullable(spark_struct(Schema(tuple(self.data)), field_ids=True, dialect=self.dialect))

    def constants_struct(self) -> dict[str, Any]:
        """The Spark schema of what is the same in all rows of a file."""
        kinds = [(constant.name, constant.spark_type) for constant in self.constants.values()]
        fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in kinds]
        return {"type": "struct", "fields": fields}

    def _identity(self, number: int) -> str:
        column, name = self._told[number], self._stored[number].name
        kind = spark_type(column.type, path=column.name, dialect=self.dialect)
        self.constants.setdefault(name, Constant(name, kind, partial(_identity, column)))
        return name

    def _partition(self, wanted: NestedField) -> str:
        """A struct of constants: a constant struct is more than the vectorised reader of Spark 4.0 can make."""
        assert isinstance(wanted.type, StructType)
        parts = []
        for part in wanted.type.fields:
            kind = spark_type(part.type, path=f"{wanted.name}.{part.name}", dialect=self.dialect)
            parts += [quoted(part.name), self._constant(f"partition_{part.id}", kind, partial(_partition_value, part))]
        return f"named_struct({', '.join(parts)})"

    def _constant(self, word: str, kind: Any, values: Callable[[Entries], pa.Array]) -> str:
        name = f"{self._prefix}{word}"
        self.constants.setdefault(name, Constant(name, kind, values))
        return name


def output_struct(fields: Iterable[NestedField], dialect: Dialect) -> dict[str, Any]:
    """Columns as Spark's schema, all nullable."""
    return nullable(spark_struct(Schema(tuple(without_defaults(column) for column in fields)), dialect=dialect))


def nullable(struct: dict[str, Any]) -> dict[str, Any]:
    """The same struct, in which everything may be null, as Spark takes files to be."""

    def inside(kind: Any) -> Any:
        if not isinstance(kind, dict):
            return kind
        inner = {part: inside(kind[part]) for part in ("elementType", "keyType", "valueType") if part in kind}
        loose = {part: True for part in ("containsNull", "valueContainsNull") if part in kind}
        return nullable(kind) if kind["type"] == "struct" else {**kind, **inner, **loose}

    return {
        **struct,
        "fields": [{**part, "type": inside(part["type"]), "nullable": True} for part in struct["fields"]],
    }


# Values of files


def _column(number: int) -> Callable[[Entries], pa.Array]:
    return lambda entries: entries.column(number)


def _spec_id(entries: Entries) -> pa.Array:
    return pa.array(np.full(len(entries), entries.spec.spec_id, dtype=np.int32))


def _identity(column: NestedField, entries: Entries) -> pa.Array:
    for part, values in zip(entries.spec.fields, entries.partition_columns(), strict=True):
        if part.source_id == column.id and isinstance(part.transform, IdentityTransform):
            return to_spark(values, column.type)
    raise AssertionError(f"spec {entries.spec.spec_id} has no identity of {column.name}")  # pragma: no cover


def _partition_value(part: NestedField, entries: Entries) -> pa.Array:
    for known, values in zip(entries.spec.fields, entries.partition_columns(), strict=True):
        if known.field_id == part.id:
            return to_spark(values, part.type)
    return to_spark(pa.nulls(len(entries)), part.type)
