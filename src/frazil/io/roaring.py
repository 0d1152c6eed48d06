"""64-bit roaring bitmaps in the portable layout, to and from sorted arrays of positions.

The vector of a deletion vector: a count, then for each upper half ("key") a 32-bit bitmap of containers, each of which
holds the positions that share their upper 16 bits as an array, a bit set, or runs. Bytes come from files that anybody
may have written, so nothing here trusts a count before it has seen the bytes for it; that is why the layout is
decoded here, with numpy, and not handed to a C library that takes counts at their word.

>>> data = serialize(np.array([1, 2, 3, 1 << 33]))
>>> deserialize(data).tolist()
[1, 2, 3, 8589934592]
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from frazil.errors import InvalidValue, MalformedData

Positions = npt.NDArray[np.int64]

MAX_KEY = 2**31 - 2
"""The largest upper half that the Java library reads and writes."""

MAX_POSITION = (MAX_KEY << 32) | 0x8000_0000
"""The largest position that the Java library writes."""

MAX_COUNT = 1 << 28
"""More positions than this are refused: twelve bytes of runs can stand for 65,536 of them."""

_COOKIE, _COOKIE_WITH_RUNS = 12346, 12347
_NO_OFFSETS_BELOW = 4
_ARRAY_MAX, _BITSET_BYTES = 4096, 8192


def serialize(positions: Positions) -> bytes:
    """The portable layout of strictly ascending positions, each container in its smallest form, as Java writes it."""
    if positions.size and (positions[0] < 0 or positions[-1] > MAX_POSITION or not _ascending(positions)):
        raise InvalidValue(
            "positions are not strictly ascending, or out of range", hint=f"sort them; they go from 0 to {MAX_POSITION}"
        )
    containers = np.split(positions, np.flatnonzero(np.diff(positions >> 16)) + 1) if positions.size else []
    by_key: dict[int, list[Positions]] = {}
    for container in containers:
        by_key.setdefault(int(container[0]) >> 32, []).append(container)
    parts = [len(by_key).to_bytes(8, "little")]
    for key, members in by_key.items():
        parts += [key.to_bytes(4, "little"), *_bitmap32(members)]
    return b"".join(parts)


def deserialize(
    data: bytes | memoryview, *, expected_count: int | None = None, max_count: int = MAX_COUNT
) -> Positions:
    """The positions in portable bytes, strictly ascending; MalformedData for anything that is not exactly the layout.

    ``expected_count`` and ``max_count`` are compared with what the headers claim before anything is expanded.
    """
    reader = _Reader(data)
    found = list(_containers(reader))
    if reader.position != len(reader.data):
        raise _malformed(f"{len(reader.data) - reader.position} bytes follow the last bitmap")
    count = sum(size for _, size, _, _ in found)
    if expected_count is not None and count != expected_count:
        raise _malformed(f"it has {count} positions where {expected_count} are expected")
    if count > max_count:
        raise _malformed(f"it has {count} positions, more than the limit of {max_count}")
    positions, filled = np.empty(count, np.int64), 0
    for base, size, is_run, body in found:
        values = _expand(is_run, body, size)
        if len(values) != size:
            raise _malformed(f"a container has {len(values)} positions where its header says {size}")
        np.add(values, base, out=positions[filled : filled + size], casting="unsafe", dtype=np.int64)
        filled += size
    if not _ascending(positions):
        raise _malformed("its positions are not in ascending order")
    return positions


def cardinality(data: bytes | memoryview) -> int:
    """How many positions portable bytes have, going by their headers; nothing is expanded.

    >>> cardinality(serialize(np.array([1, 2, 3, 1 << 33])))
    4
    """
    return sum(size for _, size, _, _ in _containers(_Reader(data)))


_ONE_KEY = (1).to_bytes(8, "little") + bytes(4)
_EMPTY32 = _COOKIE.to_bytes(4, "little") + bytes(4)


def serialize32(positions: Positions) -> bytes:
    """One 32-bit bitmap in the portable layout, of strictly ascending positions.

    >>> deserialize32(serialize32(np.array([1, 2, 70_000]))).tolist()
    [1, 2, 70000]
    """
    if positions.size and positions[-1] >= 1 << 32:
        raise InvalidValue(f"position {positions[-1]} does not fit 32 bits", hint="it must be below 4294967296")
    return serialize(positions)[len(_ONE_KEY) :] if positions.size else _EMPTY32


def deserialize32(
    data: bytes | memoryview, *, expected_count: int | None = None, max_count: int = MAX_COUNT
) -> Positions:
    """The positions of one 32-bit bitmap, strictly ascending; checked as `deserialize` does."""
    return deserialize(_ONE_KEY + bytes(data), expected_count=expected_count, max_count=max_count)


def _bitmap32(containers: list[Positions]) -> Iterator[bytes]:
    """One 32-bit bitmap: cookie, which containers are runs, their keys and sizes, their offsets, their bodies."""
    sizes = np.array([len(container) for container in containers])
    low = [(container & 0xFFFF).astype("<u2") for container in containers]
    run_counts = np.array([1 + np.count_nonzero(np.diff(container) != 1) for container in containers])
    is_run = 2 + 4 * run_counts < np.where(sizes <= _ARRAY_MAX, 2 * sizes, _BITSET_BYTES)
    bodies = [_body(values, bool(runs)) for values, runs in zip(low, is_run, strict=True)]
    header = np.empty((len(containers), 2), "<u2")
    header[:, 0] = [int(container[0]) >> 16 & 0xFFFF for container in containers]
    header[:, 1] = sizes - 1
    if is_run.any():
        cookie = (_COOKIE_WITH_RUNS | (len(containers) - 1) << 16).to_bytes(4, "little")
        start = cookie + np.packbits(is_run, bitorder="little").tobytes() + header.tobytes()
    else:
        start = _COOKIE.to_bytes(4, "little") + len(containers).to_bytes(4, "little") + header.tobytes()
    yield start
    if not is_run.any() or len(containers) >= _NO_OFFSETS_BELOW:
        lengths = [len(start) + 4 * len(containers), *(len(body) for body in bodies[:-1])]
        yield np.cumsum(lengths).astype("<u4").tobytes()
    yield from bodies


def _body(values: npt.NDArray[np.uint16], is_run: bool) -> bytes:
    if is_run:
        breaks = np.flatnonzero(np.diff(values.astype(np.int32)) != 1) + 1
        firsts = np.concatenate(([0], breaks))
        runs = np.empty((len(firsts), 2), "<u2")
        runs[:, 0] = values[firsts]
        runs[:, 1] = np.diff(np.append(firsts, len(values))) - 1
        return len(firsts).to_bytes(2, "little") + runs.tobytes()
    if len(values) <= _ARRAY_MAX:
        return values.tobytes()
    bits = np.zeros(1 << 16, np.uint8)
    bits[values] = 1
    return np.packbits(bits, bitorder="little").tobytes()


def _containers(reader: _Reader) -> Iterator[tuple[int, int, bool, memoryview]]:
    """Every container: its first possible position, how many it says it has, whether it is runs, and its bytes."""
    last_key = -1
    for _ in range(reader.integer(8)):
        key = reader.integer(4)
        if not last_key < key <= MAX_KEY:
            raise _malformed(f"key {key} follows {last_key}; keys ascend up to {MAX_KEY}")
        last_key = key
        start = reader.position
        cookie = reader.integer(4)
        if cookie & 0xFFFF == _COOKIE_WITH_RUNS:
            count = (cookie >> 16) + 1
            flags = np.unpackbits(np.frombuffer(reader.take((count + 7) // 8), np.uint8), bitorder="little")
            is_run = flags[:count].astype(bool).tolist()
        elif cookie == _COOKIE:
            count = reader.integer(4)
            if count > 1 << 16:
                raise _malformed(f"a bitmap has {count} containers")
            is_run = [False] * count
        else:
            raise _malformed(f"cookie {cookie} is unknown")
        header = np.frombuffer(reader.take(4 * count), "<u2").reshape(count, 2).astype(np.int64)
        offsets: list[int] | None = None
        if cookie == _COOKIE or count >= _NO_OFFSETS_BELOW:
            offsets = np.frombuffer(reader.take(4 * count), "<u4").tolist()
        for index, (upper, size_minus_one) in enumerate(header.tolist()):
            size = size_minus_one + 1
            if offsets is not None and offsets[index] != reader.position - start:
                raise _malformed("a container is not at its offset")
            if is_run[index]:
                body = reader.take(4 * reader.integer(2))
            else:
                body = reader.take(2 * size if size <= _ARRAY_MAX else _BITSET_BYTES)
            yield key << 32 | upper << 16, size, is_run[index], body


def _expand(is_run: bool, body: memoryview, size: int) -> npt.NDArray[np.uint16] | Positions:
    """The lower 16 bits of a container's positions."""
    if is_run:
        runs = np.frombuffer(body, "<u2").reshape(-1, 2).astype(np.int64)
        starts, lengths = runs[:, 0], runs[:, 1] + 1
        total = int(lengths.sum())
        if total != size or (starts + lengths > 1 << 16).any():
            raise _malformed(f"runs of {total} positions do not fill a container of {size}")
        before = np.cumsum(lengths) - lengths
        return np.repeat(starts - before, lengths) + np.arange(total)
    if size <= _ARRAY_MAX:
        return np.frombuffer(body, "<u2")
    return np.flatnonzero(np.unpackbits(np.frombuffer(body, np.uint8), bitorder="little"))


class _Reader:
    """A place in bytes that never moves past their end."""

    def __init__(self, data: bytes | memoryview) -> None:
        self.data = memoryview(data)
        self.position = 0

    def take(self, length: int) -> memoryview:
        piece = self.data[self.position : self.position + length]
        if len(piece) < length:
            raise _malformed(f"it ends at byte {len(self.data)}, inside a field")
        self.position += length
        return piece

    def integer(self, width: int) -> int:
        return int.from_bytes(self.take(width), "little")


def _ascending(positions: Positions) -> bool:
    return bool((positions[1:] > positions[:-1]).all())


def _malformed(what: str) -> MalformedData:
    return MalformedData(f"roaring bitmap: {what}", hint="the file is damaged, or something else than a roaring bitmap")
