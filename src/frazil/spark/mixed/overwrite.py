"""INSERT OVERWRITE of whole partitions: workers write files of the base store, which hide what was there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from frazil.errors import FrazilError
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.row_changes import RowChanges
from frazil.mixed.overwrite import Overwrite
from frazil.model.expressions import Expression
from frazil.spark.mixed.base_files import write_base_files
from frazil.spark.mixed.layout import gathered, own_columns
from frazil.spark.mixed.target import Target, summary_of
from frazil.spark.write.partitions import Transforms

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from frazil.spark.bridge import Bridge
    from frazil.spark.mixed.handle import MixedHandle


def overwrite_matching(
    bridge: Bridge, handle: MixedHandle, rows: DataFrame, where: Expression, options: Mapping[str, str]
) -> RowChanges | None:
    """Replace the partitions that a filter means; None if it means only some rows of one."""
    target = Target.of(handle.table, handle.schema)
    work = Overwrite(target.table)
    partitions = work.matching(where)
    if partitions is None:
        return None

    def commit(transaction: int, files: list[DataFile]) -> RowChanges:
        return work.replace_matching(transaction, files, where, partitions, summary_of(options))

    return _overwrite(bridge, target, work, rows, commit)


def overwrite_partitions(
    bridge: Bridge, handle: MixedHandle, rows: DataFrame, options: Mapping[str, str]
) -> RowChanges:
    """Replace the partitions that the rows belong to."""
    target = Target.of(handle.table, handle.schema)
    work = Overwrite(target.table)

    def commit(transaction: int, files: list[DataFile]) -> RowChanges:
        return work.replace_partitions(transaction, files, summary_of(options))

    return _overwrite(bridge, target, work, rows, commit)


def _overwrite(
    bridge: Bridge,
    target: Target,
    work: Overwrite,
    rows: DataFrame,
    commit: Callable[[int, list[DataFile]], RowChanges],
) -> RowChanges:
    transaction = work.begin()
    laid_out = gathered(rows, target, Transforms(bridge.name), own_columns(target.schema))
    try:
        files = write_base_files(
            target.base.store,
            target.base.metadata,
            target.table.primary_key,
            transaction,
            laid_out,
            bridge.classes,
        )
    except BaseException:
        with suppress(FrazilError):
            work.abandon(transaction)
        raise
    return commit(transaction, files)
