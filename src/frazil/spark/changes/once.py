"""Rows that are made once, however often they are used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@contextmanager
def made_once(rows: DataFrame, classes: Any) -> Iterator[DataFrame]:
    """Rows that the first job which needs them makes; let go of at the end. If some get lost, reading them fails."""
    kept = rows.localCheckpoint(eager=False)
    try:
        yield kept
    finally:
        classes.FrazilRowLevel.forget(kept._jdf)
