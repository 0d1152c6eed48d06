"""The rows of a write as the table wants them: its columns, in its order, with its names and field ids."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from frazil.errors import InvalidArgument
from frazil.model.schema import Schema
from frazil.model.types import NestedField, StructType
from frazil.spark.types import FIELD_ID, Dialect, SparkJson, schema_from_struct, spark_struct

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from frazil.iceberg.actions.update_schema import UpdateSchema
    from frazil.iceberg.changes import Changes

_WRONG_TYPE = "INVALID_COLUMN_OR_FIELD_DATA_TYPE"


def merging(changes: Changes, rows: DataFrame) -> UpdateSchema:
    """The change that takes in the columns that rows have and the table lacks."""
    found = schema_from_struct(struct_of(rows))
    return changes.update_schema().case_sensitive(_case_sensitive(rows)).union_by_name(found)


def struct_of(rows: DataFrame) -> SparkJson:
    """The schema of rows, asked of the JVM: Python has no name for some types that it has."""
    found: SparkJson = json.loads(rows._jdf.schema().json())
    return found


def _case_sensitive(rows: DataFrame) -> bool:
    return rows.sparkSession.conf.get("spark.sql.caseSensitive", "false") == "true"


def by_name(rows: DataFrame, schema: Schema, dialect: Dialect, *, check_nulls: bool, check_order: bool) -> DataFrame:
    """Rows that Spark did not fit to the table, fitted: columns by name, values only where nothing can be lost."""
    from pyspark.sql import DataFrame

    check_columns(struct_of(rows)["fields"], schema, _case_sensitive(rows), check_order)
    struct = spark_struct(schema, dialect=dialect)
    if not check_nulls:
        struct = nullable(struct)
    jvm: Any = rows.sparkSession.sparkContext._jvm
    wanted = jvm.org.apache.spark.sql.types.DataType.fromJson(json.dumps(struct))
    return DataFrame(rows._jdf.to(wanted), rows.sparkSession)


@contextmanager
def refusing_casts() -> Iterator[None]:
    """Refuse, in words of ours, a column whose type does not become the table's without a cast."""
    from pyspark.errors import AnalysisException

    try:
        yield
    except AnalysisException as error:
        if error.getCondition() != _WRONG_TYPE:
            raise
        told = error.getMessageParameters() or {}
        name, have, want = (told.get(key, "").strip('"') for key in ("name", "type", "expectedType"))
        raise InvalidArgument(
            f"column {name} of the rows is of type {have}, which does not become {want} of itself",
            hint=f"cast it to {want}",
        ) from None


def check_columns(given: Sequence[SparkJson], schema: Schema, sensitive: bool, check_order: bool) -> None:
    """Refuse columns that the table has not, or has in another order."""
    places = {column.name if sensitive else column.name.lower(): place for place, column in enumerate(schema.fields)}
    last = -1
    for name in (column["name"] for column in given):
        place = places.get(name if sensitive else name.lower())
        if place is None:
            raise InvalidArgument(
                f"the table has no column {name!r}",
                hint="leave it out, or add it by ALTER TABLE; appends take the option mergeSchema",
            )
        if check_order and place < last:
            raise InvalidArgument(
                f"column {name!r} is out of order: in the table it is before {schema.fields[last].name!r}",
                hint="select the columns in the table's order, or write with the option check-ordering=false",
            )
        last = place


def nullable(document: Any) -> Any:
    """A type in which everything may be null."""
    if isinstance(document, list):
        return [nullable(item) for item in document]
    if not isinstance(document, dict):
        return document
    loosened = {key: nullable(item) for key, item in document.items() if key != "metadata"}
    flags = {key: True for key in ("nullable", "containsNull", "valueContainsNull") if key in document}
    return {**loosened, **flags, **({"metadata": document["metadata"]} if "metadata" in document else {})}


def by_position(rows: DataFrame, schema: Schema, classes: Any) -> DataFrame:
    """Rows that Spark fitted to the table, under its names, and its field ids for the files.

    A null in a required column ends the write.
    """
    from pyspark.sql import DataFrame

    given = struct_of(rows)["fields"]
    if len(given) != len(schema.fields):
        raise InvalidArgument(
            f"{len(given)} columns of rows for {len(schema.fields)} of the table",
            hint="the table's schema was changed meanwhile: write again",
        )
    columns = [
        {**_numbered(have, field), "nullable": not field.required}
        for have, field in zip(given, schema.fields, strict=True)
    ]
    struct = json.dumps({"type": "struct", "fields": columns})
    return DataFrame(classes.FrazilFileWriter.columns(rows._jdf, struct), rows.sparkSession)


def _numbered(have: SparkJson, field: NestedField) -> SparkJson:
    type_ = have["type"]
    if isinstance(field.type, StructType):
        inside = zip(type_["fields"], field.type.fields, strict=True)
        type_ = {"type": "struct", "fields": [_numbered(inner, column) for inner, column in inside]}
    return {**have, "name": field.name, "type": type_, "metadata": {FIELD_ID: field.id}}
