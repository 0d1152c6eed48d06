"""How far jobs of Frazil are, unless Spark shows its own progress in the same place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def progress_of(spark: SparkSession, what: str, steps: int) -> Progress:
    """The progress of work that consists of so many jobs."""
    return Progress(what, steps, shown=spark.conf.get("spark.ui.showConsoleProgress", "false") != "true")
