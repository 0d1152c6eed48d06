"""Data files and delete files as a manifest tracks them: path, partition, counts and column metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from frazil.model.schema import DELETE_FILE_PATH


class Content(IntEnum):
    """What the rows of a file are."""

    DATA = 0
    POSITION_DELETES = 1
    EQUALITY_DELETES = 2


class Status(IntEnum):
    """What a manifest entry says of its file."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


PUFFIN = "puffin"


def partition_key(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """What tells partitions apart: NaN is the same partition as NaN, and -0.0 another one than 0.0.

    >>> partition_key((float("nan"), 1)) == partition_key((float("nan"), 1))
    True
    >>> partition_key((-0.0,)) == partition_key((0.0,))
    False
    """
    return tuple(repr(value) if isinstance(value, float) else value for value in values)


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file of a table. Delete files have the same shape, with another `content`.

    `partition` is the tuple of canonical values in the order of the fields of spec `spec_id`; bounds are in the
    specification's binary single-value form, by field id.
    """

    file_path: str
    file_format: str
    record_count: int
    file_size_in_bytes: int
    spec_id: int = 0
    partition: tuple[Any, ...] = ()
    content: Content = Content.DATA
    column_sizes: Mapping[int, int] | None = None
    value_counts: Mapping[int, int] | None = None
    null_value_counts: Mapping[int, int] | None = None
    nan_value_counts: Mapping[int, int] | None = None
    lower_bounds: Mapping[int, bytes] | None = None
    upper_bounds: Mapping[int, bytes] | None = None
    key_metadata: bytes | None = None
    split_offsets: tuple[int, ...] | None = None
    equality_ids: tuple[int, ...] | None = None
    sort_order_id: int | None = None
    first_row_id: int | None = None
    referenced_data_file: str | None = None
    content_offset: int | None = None
    content_size_in_bytes: int | None = None
    data_sequence_number: int | None = field(default=None, compare=False)
    file_sequence_number: int | None = field(default=None, compare=False)

    @property
    def is_deletion_vector(self) -> bool:
        return self.content == Content.POSITION_DELETES and self.file_format.lower() == PUFFIN

    @property
    def target_path(self) -> str | None:
        """The one data file whose positions a delete file or vector holds; None if it may hold those of several.

        Before `referenced_data_file` existed, equal bounds of the path column said the same.
        """
        if self.content != Content.POSITION_DELETES:
            return None
        if self.referenced_data_file is not None:
            return self.referenced_data_file
        lower = (self.lower_bounds or {}).get(DELETE_FILE_PATH.id)
        upper = (self.upper_bounds or {}).get(DELETE_FILE_PATH.id)
        return None if lower is None or lower != upper else lower.decode()

    @property
    def key(self) -> tuple[str, int | None]:
        """What tells files apart: vectors of one Puffin file share its path and differ in their offset."""
        return (self.file_path, self.content_offset)
