"""Spark's logical plans as DataFrames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def frame_of(spark: SparkSession, plan: Any) -> DataFrame:
    """A plan of the JVM, as a DataFrame of a session."""
    from pyspark.sql import DataFrame

    jvm: Any = spark.sparkContext._jvm
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan), spark)
