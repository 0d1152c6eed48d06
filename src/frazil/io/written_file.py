"""What writers of data files have in common: the interface, the result, options, and what is not stored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from frazil.errors import InvalidArgument, InvalidSchema
from frazil.io.metrics import Metrics, MetricsCollector, MetricsModes
from frazil.model.arrow import rebuild_list, rebuild_map, rebuild_struct, schema_to_arrow, type_to_arrow
from frazil.model.conform import conform_batch
from frazil.model.schema import Schema
from frazil.model.types import ListType, MapType, NestedField, StructType, Type, UnknownType, walk

if TYPE_CHECKING:
    from frazil.io.store import Sink, Store


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file that was written and closed: all a manifest entry needs to know of it."""

    location: str
    file_format: str
    record_count: int
    file_size_in_bytes: int
    metrics: Metrics
    split_offsets: tuple[int, ...] = ()


class DataFileWriter(ABC):
    """Writes one data file. It appears at its location when `close` returns; after `abort`, or an error, never.

    Batches are made to fit the schema, or refused (`frazil.model.conform`). `reaches` lets a caller
    roll over to the next file.
    """

    file_format: str

    def __init__(
        self,
        store: Store,
        location: str,
        schema: Schema,
        properties: Mapping[str, str],
        modes: MetricsModes | None = None,
    ) -> None:
        self.location = location
        self.record_count = 0
        self._schema = schema
        self.stored_schema = stored_schema(schema)
        self._metrics = MetricsCollector(schema, MetricsModes.of(schema, properties) if modes is None else modes)
        self._start(properties)
        self._sink = store.open_output(location)
        try:
            self._open()
        except BaseException:
            self._sink.abort()
            raise

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows."""
        try:
            batch = conform_batch(batch, self._schema)
            self._metrics.update(batch)
            self.record_count += batch.num_rows
            self._append(stored_batch(batch, self._schema, self.stored_schema))
        except BaseException:
            self.abort()
            raise

    def close(self) -> WrittenFile:
        """Finish the file and make it visible."""
        try:
            sizes, offsets = self._finish()
        except BaseException:
            self.abort()
            raise
        self._sink.close()
        size = self._sink.tell()
        metrics = self._metrics.finish(sizes)
        return WrittenFile(self.location, self.file_format, self.record_count, size, metrics, offsets)

    def abort(self) -> None:
        """Give up; nothing is left at the location."""
        self._sink.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._sink.closed:
            self.abort()

    @property
    @abstractmethod
    def estimated_bytes(self) -> int:
        """About how large the file would be if it were closed now."""

    @property
    def waiting_bytes(self) -> int:
        """About how much of that is still in memory."""
        return self.estimated_bytes - self._sink.tell()

    def reaches(self, target: int) -> bool:
        """Whether the file is about as large as it should be; rows that wait may be written to find out."""
        return self.estimated_bytes >= target

    @abstractmethod
    def _start(self, properties: Mapping[str, str]) -> None:
        """Read the properties, before anything is created."""

    @abstractmethod
    def _open(self) -> None: ...

    @abstractmethod
    def _append(self, batch: pa.RecordBatch) -> None: ...

    @abstractmethod
    def _finish(self) -> tuple[dict[int, int], tuple[int, ...]]:
        """Write the end of the file; the sizes of its columns, and where it can be split."""


class OpenSink:
    """A sink as pyarrow sees it: not to be closed by it, and able to keep the end of the file for changes."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._parts: list[bytes] | None = None
        self._dropped = False
        self._position = 0
        self.closed = False

    def write(self, data: Any) -> int:
        """Pass on, keep or drop some bytes."""
        view = memoryview(data).cast("B")
        self._position += view.nbytes
        if self._parts is not None:
            self._parts.append(bytes(view))
        elif not self._dropped:
            self._sink.write(view)
        return view.nbytes

    def hold(self) -> None:
        """Keep what is written from now on."""
        self._parts = []

    def held(self) -> bytes:
        """What was kept."""
        return b"".join(self._parts or [])

    def drop(self) -> None:
        """Forget what is written from now on."""
        self._dropped, self._parts = True, None

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Not ours to close."""

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False


def whole(properties: Mapping[str, str], key: str, default: int) -> int:
    """A positive whole number among the properties."""
    text = properties.get(key)
    if text is None:
        return default
    if not text.strip().isdigit() or int(text) == 0:
        raise InvalidArgument(f"{key} is {text!r}, not a positive number", hint=f"for example {default}")
    return int(text)


def choice(properties: Mapping[str, str], key: str, default: str, choices: Mapping[str, str]) -> str:
    """One of several words among the properties, translated."""
    text = properties.get(key, default).strip().lower()
    if text not in choices:
        raise InvalidArgument(f"{key} is {text!r}", hint=f"one of {', '.join(choices)}")
    return choices[text]


def stored_schema(schema: Schema) -> Schema:
    """The schema without columns of type unknown, which no data file holds."""
    if not any(isinstance(column.type, UnknownType) for column in schema.all_fields()):
        return schema
    kept = _without_unknown(schema.fields)
    if not kept:
        raise InvalidSchema("all columns are of type unknown", hint="a data file needs one column with a type")
    return Schema(kept, schema.schema_id)


def _without_unknown(fields: Sequence[NestedField]) -> tuple[NestedField, ...]:
    return tuple(
        replace(column, type=_stored_type(column)) for column in fields if not isinstance(column.type, UnknownType)
    )


def _stored_type(column: NestedField) -> Type:
    type_ = column.type
    if isinstance(type_, StructType):
        kept = _without_unknown(type_.fields)
        if kept:
            return StructType(kept)
    elif isinstance(type_, ListType):
        if not isinstance(type_.element.type, UnknownType):
            return ListType(replace(type_.element, type=_stored_type(type_.element)))
    elif isinstance(type_, MapType):
        if not isinstance(type_.value.type, UnknownType):
            return MapType(type_.key, replace(type_.value, type=_stored_type(type_.value)))
    else:
        return type_
    raise InvalidSchema(
        f"column {column.name!r} of type {type_} has only unknown inside and cannot be stored",
        hint="give the field inside it a type first",
    )


def stored_batch(batch: pa.RecordBatch, schema: Schema, stored: Schema) -> pa.RecordBatch:
    """A batch without its columns of type unknown."""
    if stored is schema:
        return batch
    arrays = [
        _stored_array(batch.column(schema.columns.index(column.name)), schema.find(column.name).type, column.type)
        for column in stored.fields
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema_to_arrow(stored))


def _stored_array(array: pa.Array, type_: Type, stored: Type) -> pa.Array:
    if not any(isinstance(column.type, UnknownType) for column in walk(type_)):
        return array
    arrow = type_to_arrow(stored)
    if isinstance(type_, StructType) and isinstance(stored, StructType):
        children = []
        for column in stored.fields:
            index = next(index for index, field in enumerate(type_.fields) if field.id == column.id)
            children.append(_stored_array(array.field(index), type_.fields[index].type, column.type))
        return rebuild_struct(array, children, arrow)
    if isinstance(type_, ListType) and isinstance(stored, ListType):
        return rebuild_list(array, _stored_array(array.values, type_.element.type, stored.element.type), arrow)
    assert isinstance(type_, MapType)
    assert isinstance(stored, MapType)
    return rebuild_map(array, array.keys, _stored_array(array.items, type_.value.type, stored.value.type), arrow)
