"""DELETE and TRUNCATE where the condition is a filter: files with rows that match are written anew without them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.errors import FrazilError
from frazil.model.expressions import AlwaysFalse, Expression
from frazil.spark.write.commit import Commit, was_refused
from frazil.spark.write.settings import settings_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.spark.handles import TableHandle


def delete(handle: TableHandle, where: Expression, spark: SparkSession) -> None:
    """Delete the rows that match, from the branch that the session writes to."""
    settings = settings_of(handle, {}, lambda key: spark.conf.get(key, None))
    if isinstance(where, AlwaysFalse):
        return
    commit = Commit(handle.table, handle.table.transaction(), settings, spark)
    commit.prepare("delete", (), where)
    try:
        commit.run()
    except FrazilError as error:
        if was_refused(error):
            commit.abandon()
        raise
