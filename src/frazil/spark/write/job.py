"""One write on its way: where it writes to, what it writes, and how that is taken back."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from frazil import ambient
from frazil.errors import FrazilError, InvalidSchema
from frazil.iceberg import properties as props
from frazil.iceberg.data_locations import data_location, writing_to
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.portable import without_history
from frazil.io.store import Store
from frazil.model.partition import PartitionSpec
from frazil.model.schema import Schema
from frazil.spark.write.settings import WriteSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Job:
    """What the writers of files must know. Everything they write is in `folder`, and nothing else is there."""

    spark: SparkSession
    store: Store
    metadata: TableMetadata
    schema: Schema
    settings: WriteSettings
    folder: str

    @classmethod
    def start(
        cls, spark: SparkSession, store: Store, metadata: TableMetadata, schema: Schema, settings: WriteSettings
    ) -> Job:
        """A write of rows of that schema."""
        if metadata.default_spec.has_unknown_transform:
            raise InvalidSchema(
                "the partition spec has a transform this library does not know", hint="replace that partition field"
            )
        folder = data_location(metadata, "", str(ambient.new_uuid()))
        return cls(spark, store, metadata, schema, settings, folder)

    @property
    def spec(self) -> PartitionSpec:
        return self.metadata.default_spec

    @property
    def file_format(self) -> str:
        return props.PropertyReader(self.settings.properties).get(props.DEFAULT_FILE_FORMAT)

    def for_workers(self) -> TableMetadata:
        """Metadata that is small to send, by which files go into the job's folder."""
        return writing_to(self.folder, replace(without_history(self.metadata), properties=self.settings.properties))

    def listed(self) -> list[str]:
        """All files in the job's folder."""
        return sorted(file.location for file in self.store.list(self.folder))

    def clear(self, keep: frozenset[str] = frozenset()) -> None:
        """Remove files that are not part of the table, as far as that is possible: what stays is an orphan."""
        with suppress(FrazilError):
            self.store.delete_many([location for location in self.listed() if location not in keep])
