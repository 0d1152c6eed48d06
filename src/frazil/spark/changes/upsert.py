"""Upserts of a DataFrame: its rows and the equality deletes of their keys are written by Spark's writer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from frazil.errors import FrazilError
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.row_changes import RowChanges
from frazil.iceberg.upsert import check_given, commit_upsert, has_rows, key_writer, several_rows
from frazil.model.partition import PartitionSpec
from frazil.model.schema import Schema
from frazil.model.types import StructType, Type
from frazil.spark.changes.builder import any_bridge
from frazil.spark.changes.once import made_once
from frazil.spark.iceberg.handle import on_branch
from frazil.spark.scan.relations import quoted_name
from frazil.spark.write.commit import as_told, was_refused
from frazil.spark.write.insert import write_files
from frazil.spark.write.job import Job
from frazil.spark.write.native import remove_folder
from frazil.spark.write.partitions import Transforms
from frazil.spark.write.rows import by_name, by_position
from frazil.spark.write.settings import WriteSettings, settings_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from frazil.iceberg.table import IcebergTable
    from frazil.spark.bridge import Bridge


def upsert_frame(
    table: IcebergTable, rows: DataFrame, keys: Sequence[str] | None, branch: str, properties: Mapping[str, str]
) -> RowChanges:
    """Upsert the rows of a DataFrame, which is computed once."""
    bridge = any_bridge(rows.sparkSession)
    settings = settings_of(on_branch(table, branch), {}, rows.sparkSession)
    writer = key_writer(table.metadata, table.store, keys, settings.branch)
    check_given([name.lower() for name in rows.columns], [name.lower() for name in writer.schema.columns])
    fitted = by_name(rows, table.schema, bridge.dialect, check_nulls=False, check_order=False)
    work = _Upsert(bridge, table, settings)
    try:
        with made_once(fitted, bridge.classes) as made:
            _check_keys(made, table.schema, writer.equality_ids)
            files = work.write(made, table.schema)
            deletes: list[DataFile] = []
            for one in writer.writers if has_rows(table, settings.branch) else ():
                found = work.write(_only(made, one.schema), one.schema, one.spec)
                deletes += map(one.as_delete, found)
    except BaseException:
        work.abandon()
        raise
    if not files:
        return RowChanges()
    try:
        told = replace(settings, summary=properties)
        return commit_upsert(
            table, files, deletes, settings.branch, lambda action: as_told(action, told, rows.sparkSession)
        )
    except FrazilError as error:
        if was_refused(error):
            work.abandon()
        raise


def _check_keys(rows: DataFrame, schema: Schema, ids: Sequence[int]) -> None:
    """Refuse two rows of one key; a key within a struct that is null is null."""
    keys = [_leaf(schema, number).alias(str(place)) for place, number in enumerate(ids)]
    several = rows.groupBy(*keys).count().where("count > 1").limit(1).collect()
    if several:
        raise several_rows({schema.name_of(number) or "": several[0][place] for place, number in enumerate(ids)})


def _leaf(schema: Schema, number: int) -> Column:
    from pyspark.sql import functions

    first, *others = [column.name for step in schema.path_ids(number) if (column := schema.field_by_id(step))]
    found = functions.col(quoted_name(first))
    for name in others:
        found = found.getField(name)
    return found


def _only(rows: DataFrame, keys: Schema) -> DataFrame:
    """The columns of keys, without those fields of structs that are none."""
    from pyspark.sql import functions

    def kept(column: Column, type_: Type) -> Column:
        if not isinstance(type_, StructType):
            return column
        parts = [kept(column.getField(inner.name), inner.type).alias(inner.name) for inner in type_.fields]
        return functions.when(column.isNotNull(), functions.struct(*parts))

    columns = [kept(functions.col(quoted_name(one.name)), one.type).alias(one.name) for one in keys.fields]
    return rows.select(*columns)


class _Upsert:
    """The files of one upsert, and how they are taken back."""

    def __init__(self, bridge: Bridge, table: IcebergTable, settings: WriteSettings) -> None:
        self._bridge = bridge
        self._table = table
        self._settings = settings
        self._jobs: list[Job] = []

    def write(self, rows: DataFrame, schema: Schema, spec: PartitionSpec | None = None) -> list[DataFile]:
        """Write rows of a schema."""
        spark = rows.sparkSession
        metadata = self._table.metadata
        if spec is not None:  # keys, which are in no order
            metadata = replace(metadata, default_spec_id=spec.spec_id, default_sort_order_id=0)
        job = Job.start(spark, self._table.store, metadata, schema, self._settings)
        self._jobs.append(job)
        fitted = by_position(rows, schema, self._bridge.classes)
        return write_files(self._bridge, job, fitted, Transforms(self._bridge.name))

    def abandon(self) -> None:
        """Remove everything: it was definitely not committed."""
        for job in self._jobs:
            remove_folder(job)
