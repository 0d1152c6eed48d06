"""ORC timestamps outside 1677 to 2262, which pyarrow reads as nanoseconds and therefore not at all.

A timestamp column is two streams of integers: seconds from the start of 2015, and nanoseconds. pyarrow reads the first
one when the footer says that the column is a long, with nulls and nesting in their places; the second is decoded here.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import orc

from frazil.errors import MalformedData, Unsupported
from frazil.io.orc_tail import TIMESTAMP, TIMESTAMP_INSTANT, Tail, read_streams, read_tail, with_longs_for_timestamps
from frazil.model.arrow import rebuild_list, rebuild_map, rebuild_struct

Longs = npt.NDArray[np.int64]
_EPOCH_2015 = 1_420_070_400
_SECONDARY = 5
_DIRECT_V2 = 2
_UTC = frozenset({"", "UTC", "GMT", "Etc/UTC", "Z"})
_WIDTHS = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)


@cache
def pyarrow_checks_range() -> bool:
    """Whether this pyarrow refuses timestamps that do not fit; older ones return wrong values."""
    data = io.BytesIO()
    with orc.ORCWriter(data) as writer:
        writer.write(pa.table({"t": pa.array([-62_135_596_800_000_000], pa.timestamp("us"))}))
    try:
        orc.ORCFile(pa.BufferReader(data.getvalue())).read()
    except pa.ArrowInvalid:
        return True
    return False


def read_stripe_in_microseconds(
    source: pa.NativeFile, schema: pa.Schema, number: int, columns: list[str] | None
) -> pa.RecordBatch:
    """A stripe whose timestamps are microseconds (rounded down), but for those that the writer says are nanoseconds.

    `schema` is the file's, as pyarrow tells it.
    """
    tail = read_tail(source)
    streams, encodings, zone = read_streams(source, tail, tail.stripes[number])
    if zone not in _UTC and TIMESTAMP in tail.kinds:
        raise Unsupported(f"timestamps far from today, written in the time zone {zone}", hint="rewrite the file")
    seconds = orc.ORCFile(pa.PythonFile(_Overlay(source, tail), mode="r")).read_stripe(number, columns)
    nanos: dict[int, Longs] = {}
    for stream in streams:
        if stream.kind == _SECONDARY and tail.kinds[stream.column] in (TIMESTAMP, TIMESTAMP_INSTANT):
            if encodings[stream.column] != _DIRECT_V2:
                raise Unsupported("ORC timestamps in the encoding of Hive 0.11", hint="rewrite the file")
            data = tail.decompress(source.read_at(stream.length, stream.offset))
            nanos[stream.column] = _trailing_zeros(decode_rle(data))
    numbers = iter(range(1, len(tail.kinds)))
    ids = {field.name: _numbers(field.type, numbers) for field in schema}
    arrays = [
        _merge(seconds.column(index), schema.field(field.name), ids[field.name], nanos)
        for index, field in enumerate(seconds.schema)
    ]
    fields = [schema.field(f.name).with_type(array.type) for f, array in zip(seconds.schema, arrays, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


class _Overlay(io.RawIOBase):
    """The file with another tail in place of its own."""

    def __init__(self, source: pa.NativeFile, tail: Tail) -> None:
        super().__init__()
        self._source = source
        self._end = tail.footer_offset
        self._tail = with_longs_for_timestamps(tail)
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        base = (0, self._at, self._end + len(self._tail))[whence]
        self._at = base + offset
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        end = self._end + len(self._tail)
        stop = end if size is None or size < 0 else min(end, self._at + size)
        head = self._source.read_at(min(stop, self._end) - self._at, self._at) if self._at < self._end else b""
        tail = self._tail[max(0, self._at - self._end) : max(0, stop - self._end)]
        self._at = max(self._at, stop)
        return bytes(head) + tail


def _numbers(kind: pa.DataType, numbers: Iterator[int]) -> Any:
    """ORC's number of a column, and those of the columns inside it."""
    number = next(numbers)
    if pa.types.is_struct(kind):
        return number, [_numbers(field.type, numbers) for field in kind]
    if pa.types.is_map(kind):
        return number, [_numbers(kind.key_type, numbers), _numbers(kind.item_type, numbers)]
    if pa.types.is_list(kind):
        return number, [_numbers(kind.value_type, numbers)]
    return number, []


def is_nanoseconds(field: pa.Field) -> bool:
    """Whether the writer says that a timestamp is one of nanoseconds; microseconds are the default."""
    return bool((field.metadata or {}).get(b"iceberg.timestamp-unit") == b"NANOS")


def _merge(array: pa.Array, field: pa.Field, ids: tuple[int, Sequence[Any]], nanos: dict[int, Longs]) -> pa.Array:
    """The array with its seconds, wherever `field` has a timestamp, turned into timestamps."""
    (number, inner), kind = ids, field.type
    if pa.types.is_struct(kind):
        parts = [_merge(array.field(i), child, inner[i], nanos) for i, child in enumerate(kind)]
        fields = [child.with_type(part.type) for child, part in zip(kind, parts, strict=True)]
        return rebuild_struct(array, parts, pa.struct(fields))
    if pa.types.is_list(kind):
        values = _merge(array.values, kind.value_field, inner[0], nanos)
        return rebuild_list(array, values, pa.list_(kind.value_field.with_type(values.type)))
    if pa.types.is_map(kind):
        keys = _merge(array.keys, kind.key_field, inner[0], nanos)
        items = _merge(array.items, kind.item_field, inner[1], nanos)
        type_ = pa.map_(kind.key_field.with_type(keys.type), kind.item_field.with_type(items.type))
        return rebuild_map(array, keys, items, type_)
    if not pa.types.is_timestamp(kind):
        return array
    valid = np.ones(len(array), bool) if not array.null_count else array.is_valid().to_numpy(zero_copy_only=False)
    fractions = nanos.get(number, np.zeros(0, np.int64))
    if len(fractions) < int(valid.sum()):
        raise MalformedData("an ORC timestamp column has fewer fractions than seconds", hint="the file is damaged")
    whole = array.fill_null(0).to_numpy(zero_copy_only=False)[valid] + _EPOCH_2015
    fraction = fractions[: len(whole)]
    # ORC rounds seconds towards zero and fractions down
    whole = whole - ((whole < 0) & (fraction > 999_999))
    unit, per_second = ("ns", 10**9) if is_nanoseconds(field) else ("us", 10**6)
    limit = 2**63 // per_second
    if len(whole) and (whole.min() < -limit or whole.max() > limit):
        raise MalformedData(f"an ORC timestamp is outside the range of {unit}", hint="the file is damaged")
    ticks = np.zeros(len(array), np.int64)
    ticks[valid] = whole * per_second + fraction // (10**9 // per_second)
    if bool(((ticks[valid] < 0) != (whole < 0)).any()):
        raise MalformedData(f"an ORC timestamp is outside the range of {unit}", hint="the file is damaged")
    return pa.array(ticks, mask=~valid).view(pa.timestamp(unit, kind.tz))


def _trailing_zeros(values: Longs) -> Longs:
    """Nanoseconds as ORC stores them: the low three bits tell how many zeros were cut off, less one."""
    zeros = values & 7
    return (values >> 3) * np.where(zeros == 0, 1, 10 ** (zeros + 1))


def decode_rle(data: bytes) -> Longs:
    """ORC's run length encoding, version 2, of unsigned integers.

    >>> decode_rle(bytes([0x0A, 0x27, 0x10])).tolist()
    [10000, 10000, 10000, 10000, 10000]
    >>> decode_rle(bytes([0x5E, 0x03, 0x5C, 0xA1, 0xAB, 0x1E, 0xDE, 0xAD, 0xBE, 0xEF])).tolist()
    [23713, 43806, 57005, 48879]
    >>> decode_rle(bytes([0xC6, 0x09, 0x02, 0x02, 0x22, 0x42, 0x42, 0x46])).tolist()
    [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]
    """
    runs: list[Longs] = []
    at = 0
    try:
        while at < len(data):
            run, at = _RUNS[data[at] >> 6](data, at)
            runs.append(run)
    except (IndexError, ValueError, OverflowError) as error:
        raise MalformedData("an ORC run of integers is cut off", hint="the file is damaged") from error
    return np.concatenate(runs) if runs else np.zeros(0, np.int64)


def _short_repeat(data: bytes, at: int) -> tuple[Longs, int]:
    width, count = (data[at] >> 3 & 7) + 1, (data[at] & 7) + 3
    return np.full(count, _signed(_big(data, at + 1, width)), np.int64), at + 1 + width


def _direct(data: bytes, at: int) -> tuple[Longs, int]:
    width, count = _WIDTHS[data[at] >> 1 & 31], ((data[at] & 1) << 8 | data[at + 1]) + 1
    return _bits(data, at + 2, width, count)


def _patched(data: bytes, at: int) -> tuple[Longs, int]:
    width, count = _WIDTHS[data[at] >> 1 & 31], ((data[at] & 1) << 8 | data[at + 1]) + 1
    base_bytes, patch_width = (data[at + 2] >> 5) + 1, _WIDTHS[data[at + 2] & 31]
    gap_width, patches = (data[at + 3] >> 5) + 1, data[at + 3] & 31
    raw = _big(data, at + 4, base_bytes)
    sign = 1 << base_bytes * 8 - 1
    base = -(raw & ~sign) if raw & sign else raw
    values, end = _bits(data, at + 4 + base_bytes, width, count)
    closest = next((size for size in _WIDTHS if size >= gap_width + patch_width), 64)
    entries, end = _bits(data, end, closest, patches)
    position = 0
    for entry in entries.tolist():
        position += entry >> patch_width
        values[position] |= (entry & (1 << patch_width) - 1) << width
    return values + base, end


def _delta(data: bytes, at: int) -> tuple[Longs, int]:
    code, count = data[at] >> 1 & 31, ((data[at] & 1) << 8 | data[at + 1]) + 1
    base, end = _base128(data, at + 2)
    raw, end = _base128(data, end)
    first = raw >> 1 ^ -(raw & 1)
    steps = np.full(max(0, count - 1), first, np.int64)
    if code and count > 2:
        rest, end = _bits(data, end, _WIDTHS[code], count - 2)
        steps[1:] = rest if first >= 0 else -rest
    return np.concatenate([[0], np.cumsum(steps)]).astype(np.int64) + _signed(base), end


_RUNS = (_short_repeat, _direct, _patched, _delta)


def _signed(value: int) -> int:
    """The same 64 bits: pyarrow writes fractions of seconds before 1970 as negative numbers."""
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def _big(data: bytes, at: int, width: int) -> int:
    if at + width > len(data):
        raise IndexError
    return int.from_bytes(data[at : at + width], "big")


def _base128(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if shift > 63:
            raise ValueError
        byte = data[at]
        value |= (byte & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if byte < 0x80:
            return value, at


def _bits(data: bytes, at: int, width: int, count: int) -> tuple[Longs, int]:
    """`count` big-endian numbers of `width` bits each."""
    size = (width * count + 7) // 8
    packed = np.frombuffer(data, np.uint8, size, at)
    bits = np.unpackbits(packed, count=width * count).reshape(count, width)
    values = np.zeros(count, np.int64)
    for column in range(width):
        values = values << 1 | bits[:, column]
    return values, at + size
