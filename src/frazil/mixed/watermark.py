"""Watermarks: up to which event time a store has all rows, kept in a property that only grows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from frazil import ambient
from frazil.errors import InvalidArgument
from frazil.iceberg.actions.action import Action, Context, Staged
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.properties import METRICS_MODE_COLUMN_PREFIX, Property, PropertyReader, choice, integer
from frazil.iceberg.transaction import Transaction
from frazil.iceberg.updates import SetProperties
from frazil.mixed.properties import WATERMARK_TABLE
from frazil.model import types as t
from frazil.model.schema import Schema
from frazil.model.values import from_bytes

INGEST_TIME = "_ingest_time"


def _text(_name: str, text: str) -> str:
    return text


EVENT_TIME = Property("table.event-time-field", INGEST_TIME, _text)
LATENESS_SECONDS = Property("table.watermark-allowed-lateness-second", 0, integer(0, 2**31 - 1))
STRING_FORMAT = Property("table.event-time-field.datetime-string-format", "yyyy-MM-dd HH:mm:ss", _text)
NUMBER_FORMAT = Property(
    "table.event-time-field.datetime-number-format", "TIMESTAMP_MS", choice(("timestamp_ms", "timestamp_s"))
)
_TIMES = (t.TimestampType, t.TimestamptzType, t.LongType, t.IntegerType, t.StringType)
_JAVA = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S", "SSS": "%f"}


def check_event_time(properties: Mapping[str, str], schema: Schema) -> None:
    """Refuse an event time that would give no watermark, or fail when rows are written."""
    settings = PropertyReader(properties)
    settings.get(LATENESS_SECONDS)
    settings.get(NUMBER_FORMAT)
    name = settings.get(EVENT_TIME)
    if name == INGEST_TIME:
        return
    column = schema.find_or_none(name)
    if column is None:
        raise InvalidArgument(
            f"property {EVENT_TIME.name} names a column {name!r} that the table does not have",
            hint=f"the columns are {', '.join(schema.columns[:12])}; {INGEST_TIME} is the time of writing",
        )
    outer = [schema.field_by_id(number) for number in schema.path_ids(column.id)[:-1]]
    # there are no bounds of what a row has many of
    is_one = all(one is None or isinstance(one.type, t.StructType) for one in outer)
    if not is_one or not isinstance(column.type, _TIMES):
        raise _no_time(name, column.type)


def watermark_of(files: Iterable[DataFile], schema: Schema, properties: Mapping[str, str]) -> int | None:
    """The watermark that new files stand for, in milliseconds; None if their metrics do not tell."""
    settings = PropertyReader(properties)
    name = settings.get(EVENT_TIME)
    late_ms = settings.get(LATENESS_SECONDS) * 1000
    if name == INGEST_TIME:
        return ambient.now_ms() - late_ms
    column = schema.find_or_none(name)
    if column is None:
        return None
    bounds = [file.upper_bounds.get(column.id) for file in files if file.upper_bounds is not None]
    times = [_millis(column.type, bound, settings) for bound in bounds if bound is not None]
    known = [time for time in times if time is not None]
    return max(known) - late_ms if known else None


def _millis(type_: t.Type, bound: bytes, settings: PropertyReader) -> int | None:
    value = from_bytes(type_, bound)
    if isinstance(type_, t.TimestampType | t.TimestamptzType):
        return int(value) // 1000
    if isinstance(type_, t.LongType | t.IntegerType):
        return int(value) * (1000 if settings.get(NUMBER_FORMAT) == "timestamp_s" else 1)
    if isinstance(type_, t.StringType):
        return _parsed(str(value), settings.get(STRING_FORMAT))
    raise _no_time(settings.get(EVENT_TIME), type_)


def _no_time(name: str, type_: t.Type) -> InvalidArgument:
    return InvalidArgument(
        f"property {EVENT_TIME.name} names {name!r} of type {type_}, which tells no time of a row",
        hint="use a timestamp, a whole number or a text, that is in no list or map",
    )


def _parsed(text: str, java_format: str) -> int | None:
    pattern = re.sub("|".join(sorted(_JAVA, key=len, reverse=True)), lambda found: _JAVA[found[0]], java_format)
    try:
        # an upper bound may be cut and its last letter raised: then it is no time, and tells nothing
        return int(datetime.strptime(text, pattern.replace("'", "")).replace(tzinfo=UTC).timestamp() * 1000)
    except ValueError:
        return None


def full_event_time(schema: Schema, properties: Mapping[str, str]) -> dict[str, str]:
    """What makes files keep the whole bound of the event time: the watermark is read from it."""
    name = PropertyReader(properties).get(EVENT_TIME)
    return {} if schema.find_or_none(name) is None else {f"{METRICS_MODE_COLUMN_PREFIX}{name}": "full"}


class MoveWatermark(Action):
    """Raises a store's watermark; a lower one than it has changes nothing."""

    def __init__(self, transaction: Transaction, watermark: int | None) -> None:
        super().__init__(transaction)
        self._watermark = watermark

    def stage(self, context: Context) -> Staged:
        text = context.metadata.properties.get(WATERMARK_TABLE, "-1")
        now = int(text) if text.lstrip("-").isdecimal() else -1
        if self._watermark is None or self._watermark <= now:
            return Staged(())
        return Staged((SetProperties({WATERMARK_TABLE: str(self._watermark)}),))
