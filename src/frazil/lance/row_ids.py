"""Row ids and row versions of a fragment: sequences of ranges, holes, bitmaps and arrays, to and from numpy.

>>> decode_row_ids(encode_row_ids(np.array([5, 6, 7, 2], np.uint64)), 4).tolist()
[5, 6, 7, 2]
>>> decode_row_versions(encode_row_versions(np.array([1, 1, 4], np.uint64)), 3).tolist()
[1, 1, 4]
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from frazil.errors import MalformedMetadata
from frazil.lance.proto.messages import DecodeError, EncodedU64Array, RowIdSequence, RowVersionSequence, U64Segment

Numbers = npt.NDArray[np.uint64]

INLINE_LIMIT = 200 * 1024


def decode_row_ids(data: bytes, rows: int) -> Numbers:
    """The ids of a fragment's rows, in order; MalformedMetadata unless there are exactly `rows`."""
    try:
        sequence = RowIdSequence.FromString(data)
    except DecodeError as error:
        raise _malformed(f"they cannot be decoded: {error}") from error
    _check_count(sum(map(_count, sequence.segments)), rows)
    parts = [_expand(segment) for segment in sequence.segments]
    return np.concatenate(parts) if parts else np.empty(0, np.uint64)


def decode_row_versions(data: bytes, rows: int) -> Numbers:
    """The version of each of a fragment's rows. Of the spans only the lengths count."""
    try:
        sequence = RowVersionSequence.FromString(data)
    except DecodeError as error:
        raise _malformed(f"their versions cannot be decoded: {error}") from error
    counts = [_count(run.span) for run in sequence.runs]
    _check_count(sum(counts), rows)
    return np.repeat(np.array([run.version for run in sequence.runs], np.uint64), counts)


def encode_row_ids(ids: Numbers) -> bytes:
    """A sequence of row ids: ranges where they are long, else one array."""
    if not ids.size:
        return b""
    starts = np.flatnonzero(np.diff(ids.astype(np.int64)) != 1) + 1
    sequence = RowIdSequence()
    if len(starts) <= max(4, len(ids) // 16):
        firsts = [0, *starts.tolist()]
        lasts = [*starts.tolist(), len(ids)]
        for first, last in zip(firsts, lasts, strict=True):
            segment = sequence.segments.add()
            segment.range.start, segment.range.end = int(ids[first]), int(ids[last - 1]) + 1
    else:
        ascending = bool((ids[1:] > ids[:-1]).all())
        segment = sequence.segments.add()
        array = segment.sorted_array if ascending else segment.array
        _fill(array, ids)
    return bytes(sequence.SerializeToString(deterministic=True))


def encode_row_versions(versions: Numbers) -> bytes:
    """A sequence of row versions, run by run."""
    sequence = RowVersionSequence()
    if versions.size:
        starts = [0, *(np.flatnonzero(np.diff(versions.astype(np.int64))) + 1).tolist(), len(versions)]
        for first, last in pairwise(starts):
            run = sequence.runs.add(version=int(versions[first]))
            run.span.range.start, run.span.range.end = first, last
    return bytes(sequence.SerializeToString(deterministic=True))


def _fill(array: EncodedU64Array, ids: Numbers) -> None:
    base = ids.min()
    spread = int(ids.max() - base)
    if spread < 1 << 16:
        array.u16.base, array.u16.offsets = int(base), (ids - base).astype("<u2").tobytes()
    elif spread < 1 << 32:
        array.u32.base, array.u32.offsets = int(base), (ids - base).astype("<u4").tobytes()
    else:
        array.u64.values = ids.astype("<u8").tobytes()


def _array(encoded: EncodedU64Array) -> Numbers:
    kind = encoded.WhichOneof("array")
    try:
        if kind == "u16":
            return np.frombuffer(encoded.u16.offsets, "<u2").astype(np.uint64) + np.uint64(encoded.u16.base)
        if kind == "u32":
            return np.frombuffer(encoded.u32.offsets, "<u4").astype(np.uint64) + np.uint64(encoded.u32.base)
        return np.frombuffer(encoded.u64.values, "<u8").astype(np.uint64)
    except ValueError as error:
        raise _malformed(f"an array of them has a broken number: {error}") from error


def _array_count(encoded: EncodedU64Array) -> int:
    kind = encoded.WhichOneof("array")
    if kind == "u16":
        return len(encoded.u16.offsets) // 2
    return len(encoded.u32.offsets) // 4 if kind == "u32" else len(encoded.u64.values) // 8


def _bits(segment: U64Segment) -> npt.NDArray[np.uint8]:
    found = segment.range_with_bitmap
    bits = np.unpackbits(np.frombuffer(found.bitmap, np.uint8), bitorder="little")
    return bits[: max(0, found.end - found.start)]


def _count(segment: U64Segment) -> int:
    kind = segment.WhichOneof("segment")
    if kind == "range":
        count = segment.range.end - segment.range.start
    elif kind == "range_with_holes":
        found = segment.range_with_holes
        count = found.end - found.start - _array_count(found.holes)
    elif kind == "range_with_bitmap":
        count = int(_bits(segment).sum())
    elif kind is None:
        raise _malformed("a segment of them is of an unknown kind")
    else:
        count = _array_count(getattr(segment, kind))
    if count < 0:
        raise _malformed("a range of them ends before it begins")
    return count


def _expand(segment: U64Segment) -> Numbers:
    kind = segment.WhichOneof("segment")
    if kind == "range":
        return np.arange(segment.range.start, segment.range.end, dtype=np.uint64)
    if kind == "range_with_holes":
        found = segment.range_with_holes
        whole = np.arange(found.start, found.end, dtype=np.uint64)
        return whole[~np.isin(whole, _array(found.holes))]
    if kind == "range_with_bitmap":
        return np.flatnonzero(_bits(segment)).astype(np.uint64) + np.uint64(segment.range_with_bitmap.start)
    return _array(segment.sorted_array if kind == "sorted_array" else segment.array)


def _check_count(found: int, rows: int) -> None:
    if found != rows:
        raise _malformed(f"there are {found} for {rows} rows")


def _malformed(what: str) -> MalformedMetadata:
    return MalformedMetadata(f"the row ids of a Lance fragment: {what}", hint="the manifest is damaged")
