"""Deletion vectors: the positions of the deleted rows of one data file, and the ``deletion-vector-v1`` blob for them.

>>> vector = DeletionVector.from_positions([7, 3, 3])
>>> vector.cardinality, vector.mask(2, 4).tolist()
(2, [True, False, True, True])
>>> DeletionVector.from_blob(vector.to_blob(), cardinality=2) == vector
True
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from frazil.errors import ChecksumMismatch, InvalidValue, MalformedData
from frazil.io import roaring
from frazil.io.puffin import BlobMetadata, PuffinWriter

BLOB_TYPE = "deletion-vector-v1"
"""The Puffin blob type of a deletion vector."""

_MAGIC = bytes.fromhex("D1D33964")
_POSITION_FIELD_ID = 2147483645  # Java lists the reserved field `_pos` as the blob's field


@dataclass(frozen=True, slots=True, eq=False)
class DeletionVector:
    """Deleted positions: int64, strictly ascending, read-only. Make one by `from_positions` or `from_blob`."""

    positions: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        self.positions.setflags(write=False)

    @staticmethod
    def from_positions(positions: npt.ArrayLike) -> DeletionVector:
        """From positions in any order, with or without repetitions."""
        given = np.asarray(positions)
        if given.size == 0:
            return DeletionVector(np.empty(0, np.int64))
        if given.ndim != 1 or given.dtype.kind not in "iu" or given.min() < 0 or given.max() > roaring.MAX_POSITION:
            raise InvalidValue(
                "positions of rows are not a list of integers in range",
                hint=f"a position is a whole number from 0 to {roaring.MAX_POSITION}",
            )
        return DeletionVector(sorted_unique(given.astype(np.int64)))

    @staticmethod
    def from_blob(blob: bytes, *, cardinality: int | None = None) -> DeletionVector:
        """From the blob's bytes; frame, checksum and the cardinality the metadata states (if given) are checked."""
        stated = int.from_bytes(blob[:4], "big")
        if len(blob) < 12 or stated != len(blob) - 8:
            raise MalformedData(
                f"a deletion vector of {len(blob)} bytes says that it has {stated} between length and checksum",
                hint="the content offset or size in the manifest is wrong, or the file is damaged",
            )
        body = memoryview(blob)[4:-4]
        if body[:4] != _MAGIC:
            raise MalformedData(
                f"a deletion vector starts with {bytes(body[:4]).hex()}, not {_MAGIC.hex()}",
                hint="the content offset in the manifest is wrong, or the file is damaged",
            )
        if zlib.crc32(body) != int.from_bytes(blob[-4:], "big"):
            raise ChecksumMismatch("the checksum of a deletion vector is wrong", hint="the file is damaged")
        return DeletionVector(roaring.deserialize(body[4:], expected_count=cardinality))

    def to_blob(self) -> bytes:
        """Length, magic, vector and checksum, as they stand in a Puffin file."""
        body = _MAGIC + roaring.serialize(self.positions)
        if len(body) >= 1 << 31:
            raise InvalidValue("a deletion vector of 2 GiB or more", hint="rewrite the data file instead")
        return len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")

    @property
    def cardinality(self) -> int:
        """How many rows are deleted."""
        return len(self.positions)

    def union(self, *others: DeletionVector) -> DeletionVector:
        """The rows that any of them deletes."""
        parts = [vector for vector in (self, *others) if vector.cardinality]
        if len(parts) <= 1:
            return parts[0] if parts else self
        return DeletionVector(sorted_unique(np.concatenate([part.positions for part in parts])))

    def mask(self, start: int, count: int) -> npt.NDArray[np.bool_]:
        """For the rows ``start`` to ``start + count`` of the file: True where the row is kept."""
        keep = np.ones(count, np.bool_)
        first, last = np.searchsorted(self.positions, (start, start + count))
        keep[self.positions[first:last] - start] = False
        return keep

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeletionVector) and np.array_equal(self.positions, other.positions)

    def __hash__(self) -> int:
        return hash(self.positions.tobytes())

    def __repr__(self) -> str:
        return f"DeletionVector({self.cardinality} positions)"


def sorted_unique(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Sorted, without repetitions. Sorted runs are merged; `np.unique` hashes, which takes a hundred times as long."""
    ordered = np.sort(numbers, kind="stable")
    keep = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=keep[1:])
    return ordered[keep]


def add_deletion_vector(writer: PuffinWriter, vector: DeletionVector, data_file: str) -> BlobMetadata:
    """Put the vector of ``data_file`` (its location as the manifest spells it) into a Puffin file.

    The answer's offset and length are the manifest entry's ``content_offset`` and ``content_size_in_bytes``.
    """
    return writer.add(
        BLOB_TYPE,
        vector.to_blob(),
        fields=(_POSITION_FIELD_ID,),
        snapshot_id=-1,  # not known while the file is written, and inherited from the manifest
        sequence_number=-1,
        properties={"referenced-data-file": data_file, "cardinality": str(vector.cardinality)},
    )
