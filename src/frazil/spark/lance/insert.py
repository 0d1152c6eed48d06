"""A DataFrame into a Lance table: append, or overwrite all rows or those that match, in one version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from frazil.errors import CommitConflict, FrazilError, InvalidArgument, Unsupported
from frazil.lance.commit import new_transaction
from frazil.lance.history import History
from frazil.lance.operations.append import append_fragments, overwrite_fragments
from frazil.lance.operations.delete import mark
from frazil.lance.operations.retry import Attempt, until_committed
from frazil.lance.plan import schema_bytes
from frazil.lance.proto.messages import DataFragment, Update
from frazil.lance.rebase import Change
from frazil.lance.version import LanceVersion
from frazil.lance.write import FileTarget
from frazil.model.expressions import AlwaysTrue, Expression
from frazil.spark.handles import MAIN
from frazil.spark.lance.matching import matching_rows
from frazil.spark.lance.write import Job
from frazil.spark.options import folded
from frazil.spark.scan.filters import row_filter
from frazil.spark.write.commit import was_refused

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from frazil.spark.bridge import Bridge
    from frazil.spark.lance.handle import LanceHandle

_PROPERTY = "snapshot-property."


def insert(
    bridge: Bridge,
    handle: LanceHandle,
    mode: str,
    conditions: str,
    options: Mapping[str, str],
    rows: DataFrame,
) -> None:
    """Write the rows, and commit what the mode stands for."""
    if mode == "dynamic":
        raise Unsupported(f"{handle.name} has no partitions to overwrite", hint="overwrite all rows, or those WHERE")
    handle = _at_branch(handle, folded(options).get("branch"))
    handle.refuse_unless_written()
    where: Expression = row_filter(conditions, handle.schema) if mode == "overwrite" else AlwaysTrue()
    properties = {key[len(_PROPERTY) :]: text for key, text in options.items() if key.lower().startswith(_PROPERTY)}
    at, store = handle.state, handle.table.store
    history = handle.table._history()
    job = Job.start(store, FileTarget.of(at), handle.schema)
    written = [one.message() for one in job.write(rows, bridge.classes)]
    try:
        if mode == "append":
            made = append_fragments(history, at, written, properties) if written else at
        elif isinstance(where, AlwaysTrue):
            made = overwrite_fragments(history, at, written, None, properties)
        else:
            made = _replace_matching(history, at, where, written, properties, rows.sparkSession)
    except FrazilError as error:
        if was_refused(error):
            job.abandon()
        raise
    handle.table._moved(made)


def _at_branch(handle: LanceHandle, branch: str | None) -> LanceHandle:
    if branch is None or branch == handle.branch:
        return handle
    if handle.branch != MAIN:
        raise InvalidArgument(
            f"branch {branch!r} is asked for on {handle.name}.branch_{handle.branch}", hint="name one of them"
        )
    return handle.at_branch(branch)


def _replace_matching(
    history: History,
    start: LanceVersion,
    where: Expression,
    written: Sequence[DataFragment],
    properties: Mapping[str, str],
    spark: SparkSession,
) -> LanceVersion:
    """Delete what matches, and add what was written; worked out again while others change the same rows."""

    def work(at: LanceVersion) -> Attempt:
        if schema_bytes(at.manifest) != schema_bytes(start.manifest):
            raise CommitConflict("the table's columns were changed meanwhile", hint="write again")
        marked = mark(history.store, at, matching_rows(spark, history.store, at, where))
        body = Update(
            removed_fragment_ids=marked.removed,
            updated_fragments=marked.updated,
            new_fragments=written,
            fields_for_preserving_frag_bitmap=[field.id for field in at.manifest.fields],
        )
        transaction = new_transaction(at.version, update=body)
        transaction.transaction_properties.update(properties)
        return Attempt(Change(transaction, at, marked.rows))

    made = until_committed(history, start, work)
    assert made is not None
    return made
