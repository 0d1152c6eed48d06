"""How delete files are written, by the properties of a table: their format, size and compression, and their names."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any

from frazil import ambient
from frazil.errors import FrazilError, Unsupported
from frazil.iceberg import properties as props
from frazil.iceberg.data_file import PUFFIN
from frazil.iceberg.data_locations import data_location
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.partition_types import partition_type
from frazil.io.store import Store

SUFFIX = "-deletes"
"""How the names of delete files end, before their extension."""


@dataclass(frozen=True, slots=True)
class DeleteSettings:
    """What the properties of a table, and those of a job that come before them, say about its delete files."""

    file_format: str
    """Of delete files with rows; vectors are always in Puffin files."""
    target_bytes: int
    by_file: bool
    """Whether each data file has position delete files of its own."""
    properties: Mapping[str, str]
    """Those to write files with: what is set for deletes stands where that for data would."""

    @classmethod
    def of(cls, metadata: TableMetadata, properties: Mapping[str, str] | None = None) -> DeleteSettings:
        """The settings of one job. Tables of format version 1 have no deletes, and are refused."""
        if metadata.format_version < 2:
            raise Unsupported(
                "format version 1 has no delete files",
                hint="upgrade the table to version 2 or 3, or use copy-on-write",
            )
        given = {**metadata.properties, **(properties or {})}
        settings = props.PropertyReader(given)
        chosen = settings.get(props.DELETE_DEFAULT_FILE_FORMAT)
        if chosen is None or chosen == PUFFIN:  # Puffin has vectors only
            chosen = settings.get(props.DEFAULT_FILE_FORMAT)
        by_file = settings.get(props.DELETE_GRANULARITY) != "partition"
        return cls(chosen, settings.get(props.DELETE_TARGET_FILE_SIZE_BYTES), by_file, _as_of_data(given))


def _as_of_data(properties: Mapping[str, str]) -> dict[str, str]:
    """Properties as writers of data files know them: `write.delete.parquet.*` in the place of `write.parquet.*`."""
    result = dict(properties)
    for kind in ("parquet", "avro", "orc"):
        told = props.PropertyReader(properties).with_prefix(f"write.delete.{kind}.")
        result.update({f"write.{kind}.{name}": text for name, text in told.items()})
    return result


class NewDeleteFiles:
    """Locations of the delete files of one job, which are remembered until the job is done. Threads may share it."""

    def __init__(self, metadata: TableMetadata, store: Store) -> None:
        self._metadata = metadata
        self._store = store
        self._job = ambient.new_uuid()
        self._numbers = count(1)
        self._locations: list[str] = []

    def next(self, extension: str, spec_id: int | None = None, partition: tuple[Any, ...] = ()) -> str:
        """A location in the folder of a partition, or in that of all data."""
        folder = ""
        if spec_id is not None:
            spec = self._metadata.spec(spec_id)
            types = [column.type for column in partition_type(self._metadata, spec).fields]
            folder = spec.path_of(types, partition)
        name = f"00000-0-{self._job}-{next(self._numbers):05d}{SUFFIX}.{extension}"
        location = data_location(self._metadata, folder, name)
        self._locations.append(location)
        return location

    def remove(self) -> None:
        """Remove all that was written: none of it was ever part of the table."""
        with suppress(FrazilError):
            self._store.delete_many(self._locations)
        self._locations = []
