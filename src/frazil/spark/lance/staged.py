"""CREATE and REPLACE TABLE [AS SELECT] of Lance tables: the first version, or the next one, has the rows in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from frazil.catalog.folders import remove_empty_folder
from frazil.catalog.formats import LANCE, STABLE_ROW_IDS, Placed
from frazil.catalog.names import table_name
from frazil.errors import FrazilError, InvalidArgument, TableAlreadyExists, Unsupported
from frazil.lance.field_ids import next_field_id
from frazil.lance.history import History
from frazil.lance.new_columns import new_fields
from frazil.lance.operations.append import overwrite_fragments
from frazil.lance.operations.create import DEFAULT_FILE_VERSION, create_with, first_manifest
from frazil.lance.plan import schema_bytes
from frazil.lance.proto.messages import DataFragment, Manifest
from frazil.lance.schema import model_schema, tree
from frazil.lance.table import LanceTable
from frazil.lance.version import LanceVersion
from frazil.lance.write import FileTarget
from frazil.spark.describe import READ, WRITE
from frazil.spark.handles import Asked, TableHandle
from frazil.spark.lance.definition import arrow_schema
from frazil.spark.lance.write import Job
from frazil.spark.paths import is_path, location_of, refuse_taken
from frazil.spark.write.commit import was_refused

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from frazil.lake import Lake
    from frazil.spark.bridge import Bridge
    from frazil.spark.definition import Definition
    from frazil.spark.types import Dialect


@dataclass(frozen=True)
class StagedLance(TableHandle):
    """A table that is to be. `replaced` is the version that it takes the place of, None if it is new."""

    format: ClassVar[str] = LANCE

    lake: Lake
    name_parts: tuple[str, ...]
    location: str
    manifest: Manifest
    """What its first version says, or of the replacing one the columns and the properties."""
    replaced: LanceVersion | None
    published: list[LanceVersion] = field(default_factory=list)

    @property
    def name(self) -> str:
        return ".".join(self.name_parts)

    def identity(self) -> dict[str, Any]:
        return {"at": self.location}

    def origin(self) -> dict[str, Any]:
        return {}

    @property
    def id(self) -> str | None:
        return self.location

    @property
    def version(self) -> str | None:
        return None

    def properties(self) -> dict[str, str]:
        return {**self.manifest.config, "provider": LANCE, "location": self.location}

    def capabilities(self, dialect: Dialect) -> Sequence[str]:
        return (*READ, *WRITE)

    def scan(self, bridge: Bridge, asked: Asked, jsession: Any) -> Any:
        self._refuse("is not there yet")

    def insert(self, bridge: Bridge, mode: str, conditions: str, options: Mapping[str, str], rows: DataFrame) -> None:
        target = FileTarget(self.location, schema_bytes(self.manifest), self.manifest.data_format.version)
        job = Job.start(self.lake.catalog.store, target, self.schema)
        written = [one.message() for one in job.write(rows, bridge.classes)]
        try:
            self._commit(written)
        except FrazilError as error:
            if was_refused(error):
                job.abandon()
            raise

    def publish(self, origin: Mapping[str, Any]) -> None:
        if not self.published:
            self._commit([])

    def abandon(self) -> None:
        remove_empty_folder(self.lake.catalog.store, self.location)

    def _commit(self, fragments: Sequence[DataFragment]) -> None:
        store = self.lake.catalog.store
        if self.replaced is not None:
            named = partial(self.lake.catalog.check_placed, self.name_parts, Placed(LANCE, self.location))
            history = History(store, self.location, self.replaced.branch, named)
            only = Manifest(fields=self.manifest.fields)
            made = overwrite_fragments(history, self.replaced, fragments, only, config=self.manifest.config)
        elif is_path(self.name):
            made = create_with(History(store, self.location), self.manifest, fragments)
        else:
            made = self._created(fragments)
        self.published.append(made)

    def _created(self, fragments: Sequence[DataFragment]) -> LanceVersion:
        store = self.lake.catalog.store

        def make(place: str) -> LanceTable:
            version = create_with(History(store, place), self.manifest, fragments)
            return LanceTable(self.name, store, place, version)

        return self.lake._placed(table_name(self.name_parts), LANCE, self.location, make).current_snapshot


def stage(lake: Lake, parts: Sequence[str], new: Definition, token: str) -> StagedLance:
    """A table to write to, that is not there yet."""
    schema, properties = arrow_schema(new)
    stable = properties.pop(STABLE_ROW_IDS, "false").lower() == "true"
    place, present = _place(lake, parts, new)
    if present is None:
        version = new.format_version or DEFAULT_FILE_VERSION
        manifest = first_manifest(schema, file_version=version, stable_row_ids=stable, config=properties)
    else:
        _check_same(present, new, stable)
        manifest = Manifest(fields=new_fields(schema, next_field_id(present)))
        manifest.data_format.file_format, manifest.data_format.version = "lance", present.file_version
        manifest.config.update(properties)
    told = model_schema(tree(manifest.fields))
    return StagedLance(None, told, lake, tuple(parts), place, manifest, present, kind="staged", token=token)


def _place(lake: Lake, parts: Sequence[str], new: Definition) -> tuple[str, LanceVersion | None]:
    """Where the table is to be, and what it replaces there."""
    if is_path(parts[0]):
        place = location_of(parts[0])
        if new.how == "replace" or new.location not in (None, place):
            raise InvalidArgument(f"{place} is a location already", hint="create the table there, without LOCATION")
        refuse_taken(lake.catalog.store, place)
        return place, None
    name = table_name(parts)
    if not lake.table_exists(parts):
        return lake._location(name, new.location), None
    if new.how == "create":
        raise TableAlreadyExists(f"table {name} exists already", hint="replace it, or drop it first")
    found: Any = lake.table(parts)
    if found.format != LANCE:
        raise Unsupported(f"{name} is a table of format {found.format}", hint="drop it, and create it anew")
    return found.location, found.current_snapshot


def _check_same(present: LanceVersion, new: Definition, stable: bool) -> None:
    from frazil.lance.feature_flags import has_stable_row_ids

    if new.format_version not in (None, present.file_version) or stable > has_stable_row_ids(present.manifest):
        raise Unsupported(
            "a lance table keeps its file version and its kind of row ids", hint="drop the table, and create it anew"
        )
