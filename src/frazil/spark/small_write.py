"""Writes of a DataFrame that fits into this process: collected by Arrow and written by the kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from frazil.errors import InvalidArgument
from frazil.iceberg.refs import MAIN
from frazil.iceberg.write import RowWriter, removing
from frazil.model.conform import conform
from frazil.spark.handles import TableHandle
from frazil.spark.predicates import conjunction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from frazil.spark.bridge import Bridge

_SNAPSHOT_PROPERTY = "snapshot-property."


def insert(
    bridge: Bridge,
    handle: TableHandle,
    mode: str,
    predicates: Sequence[Mapping[str, Any]],
    options: Mapping[str, str],
    dataframe: DataFrame,
) -> None:
    """Append, or overwrite all (`truncate`), what matches (`overwrite`), or the partitions rows go to (`dynamic`)."""
    table = handle.table
    branch = options.get("branch", handle.branch or MAIN)
    rows = dataframe.toArrow()
    if mode == "append":
        extra = {
            key.removeprefix(_SNAPSHOT_PROPERTY): text
            for key, text in options.items()
            if key.startswith(_SNAPSHOT_PROPERTY)
        }
        table.append(rows, branch=branch, snapshot_properties=extra)
    elif mode == "truncate":
        table.overwrite(rows, branch=branch)
    elif mode == "overwrite":
        table.overwrite(rows, conjunction(table.schema, predicates), branch=branch)
    elif mode == "dynamic":
        files = RowWriter(table.metadata, table.store).write(conform(rows, table.schema))
        with removing(table.store, files):
            table.new_replace_partitions().add_files(files).to_branch(branch).commit()
    else:
        raise InvalidArgument(f"write mode {mode!r}", hint="this is an error of Frazil: report it")
