"""`table.append(df)` and `table.overwrite(df)`: the rows of a DataFrame are written where Spark computes them.

Columns go by name, and one that is not given is null. A session of Spark Connect writes too: its server's workers must
have Frazil, and reach the table's files.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from frazil.errors import FrazilError, InvalidArgument
from frazil.lance.operations.append import append_fragments, overwrite_fragments
from frazil.lance.table import LanceTable
from frazil.lance.version import LanceVersion
from frazil.lance.write import FileTarget, remove_job
from frazil.model.property_text import property_texts
from frazil.spark.changes.builder import any_bridge
from frazil.spark.lance.handle import current
from frazil.spark.lance.insert import insert
from frazil.spark.lance.write import WriteFragments
from frazil.spark.session import is_connect
from frazil.spark.write.commit import was_refused
from frazil.spark.write.rows import by_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

APPEND, ALL = "append", "truncate"


def write_frame(table: LanceTable, rows: DataFrame, mode: str, properties: Mapping[str, str] | None) -> LanceVersion:
    """Add the rows of a DataFrame, or put them in the place of all that there are."""
    told = property_texts(properties)
    if is_connect(rows.sparkSession):
        return _on_connect(table, rows, mode, told)
    bridge = any_bridge(rows.sparkSession)
    fitted = by_name(rows, table.schema, bridge.dialect, check_nulls=False, check_order=False)
    options = {f"snapshot-property.{key}": text for key, text in told.items()}
    insert(bridge, current(table), mode, "[]", options, fitted)
    return table.current_snapshot


def _on_connect(table: LanceTable, rows: Any, mode: str, properties: Mapping[str, str]) -> LanceVersion:
    at, store = table.current_snapshot, table.store
    history = table._history()
    target = FileTarget.of(at).of_job()
    try:
        found = _ordered(rows, table).mapInArrow(WriteFragments(store, target, table.schema), "written binary")
        written = [pickle.loads(data).message() for data in found.toArrow().column(0).to_pylist()]  # noqa: S301 - ours
    except BaseException:
        remove_job(store, target)
        raise
    try:
        if mode == APPEND:
            made = append_fragments(history, at, written, properties) if written else at
        else:
            made = overwrite_fragments(history, at, written, None, properties)
    except FrazilError as error:
        if was_refused(error):
            remove_job(store, target)
        raise
    return table._moved(made)


def _ordered(rows: Any, table: LanceTable) -> Any:
    """The table's columns, in its order; those that are not given are null."""
    from pyspark.sql.connect.functions import lit

    given, known = rows.columns, table.schema.columns
    extra = [name for name in given if name not in known]
    if extra:
        raise InvalidArgument(f"the table has no column {extra[0]!r}", hint="leave the column out, or add it first")
    return rows.select(*(rows[name] if name in given else lit(None).alias(name) for name in known))
