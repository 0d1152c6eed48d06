"""Which row a MERGE cannot change: one that several rows of its source match."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from frazil.errors import FrazilError, InvalidArgument
from frazil.spark.plans import frame_of

if TYPE_CHECKING:
    from frazil.spark.changes.command import Command

_VIOLATION = "MERGE_CARDINALITY_VIOLATION"


@contextmanager
def named_violations(command: Command) -> Iterator[None]:
    """Spark says that there is such a row; here it is said which. Looking for it costs nothing where there is none."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        if command.kind != "merge" or _VIOLATION not in str(error):
            raise
        named = _violation(command)
        raise error if named is None else named from error


def _violation(command: Command) -> FrazilError | None:
    """The error that names the row, None if it is not found any more."""
    matches = frame_of(command.spark, command.bridge.classes.FrazilRowLevel.matches(command.node))
    found = matches.where(matches[matches.columns[-1]] > 1).limit(1).collect()
    if not found:
        return None
    *values, count = found[0]
    row = ", ".join(f"{name} = {value!r}" for name, value in zip(matches.columns, values, strict=False))
    return InvalidArgument(
        f"{_VIOLATION}: {count} rows of the source match one row of {command.handle.name}"
        f"{f', the one with {row}' if row else ''}",
        hint="make the source's rows unique in what ON compares, as by GROUP BY or row_number()",
    )
