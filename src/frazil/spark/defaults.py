"""Column defaults: Spark has them as SQL text, tables as values. Spark itself works the value out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from frazil.errors import InvalidValue, Unsupported
from frazil.model.arrow import canonical_from_scalar, type_to_arrow
from frazil.model.types import TimestampNsType, TimestamptzNsType, Type
from frazil.model.values import canonical
from frazil.spark.types import spark_type

if TYPE_CHECKING:
    from frazil.spark.bridge import Bridge


def default_value(bridge: Bridge, column: str, sql: str, type_: Type) -> Any:
    """The canonical value of a default's SQL text, converted to the column's type; None is null."""
    import pyarrow as pa
    from pyspark.sql.types import _parse_datatype_json_value

    if not sql.strip() or sql.strip().upper() == "NULL":
        return None
    if type_.is_nested:
        raise InvalidValue(
            f"column {column!r} of type {type_} has the default {sql}", hint="nested columns can only default to NULL"
        )
    if isinstance(type_, TimestampNsType | TimestamptzNsType):
        raise Unsupported(f"column {column!r} of type {type_} has the default {sql}", hint="leave out the default")
    wanted = _parse_datatype_json_value(spark_type(type_, path=column, dialect=bridge.dialect))
    [[scalar]] = bridge.spark.sql(f"SELECT CAST(({sql}) AS {wanted.simpleString()}) AS value").toArrow().columns
    if pa.types.is_temporal(scalar.type):  # Spark has nanoseconds of times
        scalar = scalar.cast(type_to_arrow(type_))
    found = canonical_from_scalar(type_, scalar)
    # Spark has texts for uuids, which have a form of their own here
    return canonical(type_, found) if isinstance(found, str) else found
