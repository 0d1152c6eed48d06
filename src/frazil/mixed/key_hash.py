"""The hash of a primary key, exactly as Java has it: files lie by it, so another one would lose deletes.

It is `Arrays.hashCode` over the values of the key in Iceberg's internal form, made positive. Everything is arithmetic
modulo 2^32 over whole columns. A text's hash is a polynomial in 31, which has an inverse modulo 2^32: so the hashes of
all texts of a column follow from one running sum over their bytes.

>>> import pyarrow as pa
>>> from frazil.model.types import IntegerType, StringType
>>> key_hashes([pa.array([1, 2]), pa.array(["john", None])], [IntegerType(), StringType()]).tolist()
[3268843, 1023]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import Unsupported
from frazil.model import types as t

Words = npt.NDArray[np.uint32]

_PRIME = np.uint32(31)
_INVERSE = np.uint32(pow(31, -1, 1 << 32))
_LARGEST = 2**31 - 1


def key_hashes(columns: Sequence[pa.Array], types: Sequence[t.Type]) -> npt.NDArray[np.int64]:
    """The hash of each row's key; the columns are those of the key in its order."""
    rows = len(columns[0])
    result = np.ones(rows, dtype=np.uint32)
    for column, type_ in zip(columns, types, strict=True):
        result = result * _PRIME + _column_hashes(column, type_)
    signed = result.view(np.int32).astype(np.int64)
    # abs of the smallest integer has no 32 bits: Amoro takes the largest instead
    return np.minimum(np.abs(signed), _LARGEST)


def can_be_key(type_: t.Type) -> bool:
    """Whether values of a type can be hashed."""
    return type(type_) in _HASHES


def _column_hashes(column: pa.Array, type_: t.Type) -> Words:
    hashing = _HASHES.get(type(type_))
    if hashing is None:
        raise Unsupported(f"a column of type {type_} cannot be in a primary key", hint="use a primitive type")
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    hashes = hashing(column, type_)
    if column.null_count:
        hashes = np.where(column.is_null().to_numpy(zero_copy_only=False), np.uint32(0), hashes)
    return hashes


def _fold(values: npt.NDArray[np.uint64]) -> Words:
    return (values ^ (values >> np.uint64(32))).astype(np.uint32)


def _filled(column: pa.Array, storage: pa.DataType) -> pa.Array:
    plain = column.view(storage) if column.type != storage else column
    return pc.fill_null(plain, 0) if plain.null_count else plain


def _of_ints(column: pa.Array, _: t.Type) -> Words:
    storage = column if pa.types.is_date32(column.type) else column.cast(pa.int32())
    words: Words = _filled(storage, pa.int32()).to_numpy(zero_copy_only=False).view(np.uint32)
    return words


def _of_longs(column: pa.Array, _: t.Type) -> Words:
    storage = column.cast(pa.int64()) if pa.types.is_integer(column.type) else column
    return _fold(_filled(storage, pa.int64()).to_numpy(zero_copy_only=False).view(np.uint64))


def _of_booleans(column: pa.Array, _: t.Type) -> Words:
    values = pc.fill_null(column, False).to_numpy(zero_copy_only=False)
    return np.where(values, np.uint32(1231), np.uint32(1237))


def _of_floats(column: pa.Array, _: t.Type) -> Words:
    values = np.array(pc.fill_null(column, 0.0).to_numpy(zero_copy_only=False), dtype=np.float32)
    return np.where(np.isnan(values), np.uint32(0x7FC00000), values.view(np.uint32))


def _of_doubles(column: pa.Array, _: t.Type) -> Words:
    values = np.array(pc.fill_null(column, 0.0).to_numpy(zero_copy_only=False), dtype=np.float64)
    return _fold(np.where(np.isnan(values), np.uint64(0x7FF8 << 48), values.view(np.uint64)))


def _of_decimals(column: pa.Array, type_: t.Type) -> Words:
    """31 * (hash of the unscaled number) + scale; a number's hash runs over the words of its magnitude."""
    assert isinstance(type_, t.DecimalType)
    wide = column.cast(pa.decimal128(38, type_.scale))
    words = np.frombuffer(wide.buffers()[1], dtype="<u8")[2 * wide.offset :][: 2 * len(wide)].reshape(-1, 2)
    low, high = words[:, 0].copy(), words[:, 1].copy()
    negative = high >> np.uint64(63) == 1
    # two's complement: all bits turned, plus one, which carries into the upper half where the lower one was zero
    high = np.where(negative, ~high + (low == 0).astype(np.uint64), high)
    low = np.where(negative, ~low + np.uint64(1), low)
    hashes = np.zeros(len(wide), dtype=np.uint32)
    for half in (high, low):
        for word in (half >> np.uint64(32), half):
            hashes = hashes * _PRIME + word.astype(np.uint32)
    hashes = np.where(negative, np.uint32(0) - hashes, hashes)
    return hashes * _PRIME + np.uint32(type_.scale)


def _of_uuids(column: pa.Array, _: t.Type) -> Words:
    data = _fixed_bytes(column, 16).reshape(-1, 16)
    halves = np.ascontiguousarray(data).view(">u8").astype(np.uint64)
    return _fold(halves[:, 0] ^ halves[:, 1])


def _of_strings(column: pa.Array, _: t.Type) -> Words:
    """Java's strings are units of UTF-16; the first unit has the highest power of 31."""
    data, borders = _bytes_of(column.cast(pa.large_binary()))
    if len(data) and data.max() >= 0x80:
        starts = ((data & 0xC0) != 0x80).astype(np.int64) + (data >= 0xF0)
        units = np.frombuffer(data.tobytes().decode().encode("utf-16-le"), dtype="<u2")
        borders = np.concatenate([[0], np.cumsum(starts)])[borders]
    else:
        units = data
    sums = _running_sums(units.astype(np.uint32), _INVERSE)
    lengths = np.diff(borders)
    last = np.maximum(borders[1:] - 1, 0)
    hashes = (sums[borders[1:]] - sums[borders[:-1]]) * _powers(_PRIME, len(units) + 1)[last]
    return np.where(lengths > 0, hashes, np.uint32(0))


def _of_binaries(column: pa.Array, type_: t.Type) -> Words:
    """`ByteBuffer.hashCode`: from the last byte to the first, beginning with one; bytes are signed."""
    if isinstance(type_, t.FixedType):
        data = _fixed_bytes(column, type_.length)
        borders = np.arange(len(column) + 1, dtype=np.int64) * type_.length
    else:
        data, borders = _bytes_of(column.cast(pa.large_binary()))
    signed = data.view(np.int8).astype(np.int32).view(np.uint32)
    sums = _running_sums(signed, _PRIME)
    back = _powers(_INVERSE, len(data) + 1)[borders[:-1]]
    lengths = np.diff(borders)
    first = _powers(_PRIME, int(lengths.max(initial=0)) + 1)[lengths]
    return first + (sums[borders[1:]] - sums[borders[:-1]]) * back


def _bytes_of(column: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """The bytes of all values, one after the other, and where each begins and ends."""
    _, offsets, values = column.buffers()
    borders = np.frombuffer(offsets, dtype=np.int64)[column.offset : column.offset + len(column) + 1]
    if values is None or not len(column):
        return np.zeros(0, dtype=np.uint8), np.zeros(len(column) + 1, dtype=np.int64)
    data = np.frombuffer(values, dtype=np.uint8)[borders[0] : borders[-1]]
    return data, borders - borders[0]


def _fixed_bytes(column: pa.Array, width: int) -> npt.NDArray[np.uint8]:
    data = np.frombuffer(column.buffers()[1], dtype=np.uint8)
    return data[column.offset * width : (column.offset + len(column)) * width]


def _powers(base: np.uint32, count: int) -> Words:
    """base^0, base^1 and so on."""
    factors = np.full(count, base, dtype=np.uint32)
    factors[:1] = 1
    return np.cumprod(factors, dtype=np.uint32)


def _running_sums(values: Words, base: np.uint32) -> Words:
    """Before each value, and after the last, the sum of values so far, each times its power of the base."""
    sums = np.zeros(len(values) + 1, dtype=np.uint32)
    np.cumsum(values * _powers(base, len(values)), dtype=np.uint32, out=sums[1:])
    return sums


_HASHES: dict[type[t.Type], Callable[[pa.Array, t.Type], Words]] = {
    t.BooleanType: _of_booleans,
    t.IntegerType: _of_ints,
    t.DateType: _of_ints,
    t.LongType: _of_longs,
    t.TimeType: _of_longs,
    t.TimestampType: _of_longs,
    t.TimestamptzType: _of_longs,
    t.FloatType: _of_floats,
    t.DoubleType: _of_doubles,
    t.DecimalType: _of_decimals,
    t.StringType: _of_strings,
    t.BinaryType: _of_binaries,
    t.FixedType: _of_binaries,
    t.UuidType: _of_uuids,
}
