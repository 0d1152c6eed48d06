"""Bounding boxes of geometries (WKB), gathered batch by batch.

>>> import struct
>>> box = BoundingBox()
>>> box.update(pa.array([struct.pack("<BIdd", 1, 1, x, 2.0) for x in (5.0, -3.0)]))
>>> geo_bound_from_bytes(box.lower())[:2], geo_bound_from_bytes(box.upper())[:2]
((-3.0, 2.0), (5.0, 2.0))
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.model.bounds import BinaryView
from frazil.model.geo import geo_bound_from_bytes, geo_bound_to_bytes

__all__ = ["BoundingBox", "geo_bound_from_bytes"]

Floats = npt.NDArray[np.float64]
_POINT = np.frombuffer(b"\x01\x01\x00\x00\x00", np.uint8)
_MAX_DEPTH = 32


class BoundingBox:
    """The least box around all geometries seen. Coordinates that are NaN do not count.

    One value that is no geometry makes the box unknown: a box that leaves a row out would lose rows.
    """

    def __init__(self) -> None:
        self._low = np.full(4, np.inf)
        self._high = np.full(4, -np.inf)
        self._known = True

    def update(self, array: pa.Array) -> None:
        """Take more geometries into account."""
        view = BinaryView(array)
        rows = np.flatnonzero(view.valid)
        if not self._known or len(rows) == 0:
            return
        if bool((view.lengths[rows] == 21).all()):
            matrix = view.gather(rows, 21)
            if bool((matrix[:, :5] == _POINT).all()):  # plain points: no need to look at them one by one
                self._add(matrix[:, 5:].copy().view("<f8").reshape(-1, 2), (0, 1))
                return
        for row in rows.tolist():
            start, length = int(view.starts[row]), int(view.lengths[row])
            try:
                end = self._geometry(view.data[start : start + length].tobytes(), 0, 0)
            except (IndexError, ValueError):
                end = -1
            if end != length:
                self._known = False
                return

    def lower(self) -> bytes | None:
        """The bound of the least coordinates, in the binary form of bounds; None if there is none."""
        return self._bound(self._low)

    def upper(self) -> bytes | None:
        """The bound of the greatest coordinates."""
        return self._bound(self._high)

    def _bound(self, corner: Floats) -> bytes | None:
        x, y, z, m = (float(value) if np.isfinite(value) else None for value in corner)
        return None if not self._known or x is None or y is None else geo_bound_to_bytes(x, y, z, m)

    def _add(self, points: Floats, axes: tuple[int, ...]) -> None:
        if len(points):
            places = list(axes)
            self._low[places] = np.fmin(self._low[places], np.fmin.reduce(points, axis=0))
            self._high[places] = np.fmax(self._high[places], np.fmax.reduce(points, axis=0))

    def _geometry(self, data: bytes, at: int, depth: int) -> int:
        """Adds the geometry at `at`; where it ends."""
        order = {0: ">", 1: "<"}.get(data[at])
        if order is None or depth > _MAX_DEPTH:
            raise ValueError
        code = int(np.frombuffer(data, f"{order}u4", 1, at + 1)[0])
        at += 9 if code & 0x2000_0000 else 5  # PostGIS may put an SRID behind the type
        dimensions, kind = divmod(code & 0x0FFF_FFFF, 1000)
        has_z = bool(code & 0x8000_0000) or dimensions in (1, 3)
        has_m = bool(code & 0x4000_0000) or dimensions in (2, 3)
        axes = (0, 1, *((2,) if has_z else ()), *((3,) if has_m else ()))
        if kind == 1:
            return self._points(data, at, 1, order, axes)
        count = int(np.frombuffer(data, f"{order}u4", 1, at)[0])
        at += 4
        if kind == 2:
            return self._points(data, at, count, order, axes)
        if kind == 3:
            for _ in range(count):
                size = int(np.frombuffer(data, f"{order}u4", 1, at)[0])
                at = self._points(data, at + 4, size, order, axes)
            return at
        if kind not in (4, 5, 6, 7):
            raise ValueError
        for _ in range(count):
            at = self._geometry(data, at, depth + 1)
        return at

    def _points(self, data: bytes, at: int, count: int, order: str, axes: tuple[int, ...]) -> int:
        width = len(axes)
        self._add(np.frombuffer(data, f"{order}f8", count * width, at).reshape(count, width).astype(np.float64), axes)
        return at + count * width * 8
