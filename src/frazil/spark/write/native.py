"""Files written by Spark's own Parquet writer, as fast as it is.

Field ids come from the metadata of the columns. Our kind of Spark's format writes the files of some partitions at
once, or one after the other if rows are sorted by partition. The write runs in a clone of the user's session, so that
settings which Iceberg forbids (INT96 timestamps, the Julian calendar) or needs (field ids) are right whatever the
user's are.

Spark's commit protocol moves only the files of committed tasks into the job's folder. What is there after the job is
what was written, once.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from frazil.errors import InvalidArgument, Unsupported
from frazil.iceberg import properties as props
from frazil.iceberg.data_file import DataFile
from frazil.io import location as locations
from frazil.model.schema import Schema
from frazil.model.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)
from frazil.spark.jvm import PACKAGE
from frazil.spark.scan.executors import ship_classes
from frazil.spark.scan.files import jvm_path
from frazil.spark.write.footers import Footers
from frazil.spark.write.job import Job
from frazil.spark.write.layout import distributed, rows_per_file, sort_keys, sorted_within
from frazil.spark.write.partitions import Keyed, PartitionKey, Transforms

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TYPES = (
    *(BooleanType, IntegerType, LongType, FloatType, DoubleType, DecimalType, DateType, TimestampType),
    *(TimestamptzType, StringType, BinaryType, StructType),
)
_CODECS = {
    "zstd": "zstd",
    "gzip": "gzip",
    "snappy": "snappy",
    "lz4": "lz4_raw",
    "lz4_raw": "lz4_raw",
    "uncompressed": "none",
    "none": "none",
}
_GZIP_LEVELS = ("BEST_SPEED", "TWO", "THREE", "FOUR", "FIVE", "SIX", "SEVEN", "EIGHT", "BEST_COMPRESSION")
_SETTINGS = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.parquet.fieldId.write.enabled": "true",
    "spark.sql.parquet.output.committer.class": "org.apache.parquet.hadoop.ParquetOutputCommitter",
    "spark.sql.sources.commitProtocolClass": (
        "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol"
    ),
    "spark.sql.caseSensitive": "true",
}
_BLOOM = "write.parquet.bloom-filter-"
_THREADS = 16
_FOOTERS_HERE = 2_000
"""More files than these are described by Spark."""


def obstacle(job: Job, partition: Sequence[PartitionKey | None], classes: Any) -> str | None:
    """Why Spark's writer cannot write these rows as the table wants them, or None."""
    if job.file_format != "parquet":
        return f"it does not write {job.file_format} with field ids"
    for column in job.schema.all_fields():
        if not isinstance(column.type, _TYPES):
            return f"it does not write column {job.schema.name_of(column.id)!r} of type {column.type} as Iceberg does"
    if None in partition:
        return "it cannot compute a partition transform"
    codec = job.settings.properties.get(props.PARQUET_COMPRESSION.name, "zstd").lower()
    if codec not in _CODECS:
        return f"it has no codec {codec!r}"
    try:
        scheme = locations.parse(jvm_path(job.store, job.folder)).scheme
    except Unsupported as error:
        return error.message
    if scheme != "file" and not classes.FrazilPlan.hasFileSystem(job.spark._jsparkSession, scheme):
        return f"the JVM has no file system for {job.folder}"
    return None


def write_native(
    job: Job, rows: DataFrame, partition: Sequence[PartitionKey], transforms: Transforms, classes: Any
) -> list[DataFile]:
    """Write the rows; the files are complete, and nothing refers to them yet."""
    settings = job.settings
    order = sort_keys(job.schema, job.metadata.default_sort_order, transforms)
    keyed = Keyed.of(rows, job.schema, partition)
    laid_out = distributed(keyed.rows, settings, keyed.keys, order or [])
    open_files = 1 if order else settings.open_files
    if open_files == 1:
        laid_out = sorted_within(laid_out, keyed.keys, order or [])
    laid_out = keyed.without_keys(laid_out)
    most = str(rows_per_file(job.metadata, job.schema, settings.target_bytes))
    how = {
        "settings": _SETTINGS,
        "options": {
            **parquet_options(settings.properties, job.schema),
            **_local_files(job.spark),
            "maxRecordsPerFile": "0" if partition else most,
            "frazil.rows": most,
            "frazil.open": str(open_files),
        },
    }
    ship_classes(job.spark)
    keys = laid_out.select(*(key.value for key in partition))
    classes.FrazilFileWriter.files(laid_out._jdf, keys._jdf, jvm_path(job.store, job.folder), json.dumps(how))
    return describe_files(job, job.metadata.default_sort_order.order_id if order else 0)


def _local_files(spark: SparkSession) -> dict[str, str]:
    """How the local disk is written to: with no hidden checksum files among the table's."""
    ours = f"{PACKAGE}.FrazilLocalFiles"  # executors of a cluster do not have it
    kind = ours if spark.sparkContext._jsc.isLocal() else "org.apache.hadoop.fs.RawLocalFileSystem"
    return {"fs.file.impl": kind, "fs.file.impl.disable.cache": "true"}


def parquet_options(properties: Mapping[str, str], schema: Schema) -> dict[str, str]:
    """The table's Parquet properties as options of Spark's writer."""
    settings = props.PropertyReader(properties)
    codec = _CODECS[properties.get(props.PARQUET_COMPRESSION.name, "zstd").lower()]
    options = {
        "compression": codec,
        "parquet.block.size": str(settings.get(props.PARQUET_ROW_GROUP_SIZE_BYTES)),
        "parquet.page.size": str(settings.get(props.PARQUET_PAGE_SIZE_BYTES)),
        "parquet.page.row.count.limit": str(settings.get(props.PARQUET_PAGE_ROW_LIMIT)),
        "parquet.dictionary.page.size": str(settings.get(props.PARQUET_DICT_SIZE_BYTES)),
        "parquet.writer.version": settings.get(props.PARQUET_PAGE_VERSION),
        "parquet.bloom.filter.max.bytes": str(settings.get(props.PARQUET_BLOOM_FILTER_MAX_BYTES)),
        "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
        # the other one moves files of a task that may yet fail, and whatever is in the folder becomes part of the table
        "mapreduce.fileoutputcommitter.algorithm.version": "1",
    }
    level = settings.get(props.PARQUET_COMPRESSION_LEVEL)
    if level is not None:
        options.update(_level(codec, level))
    names = {schema.name_of(column.id) for column in schema.all_fields()}
    for word, key in (("enabled", "enabled"), ("fpp", "fpp"), ("ndv", "expected.ndv")):
        for column, text in settings.with_prefix(f"{_BLOOM}{word}.column.").items():
            if column in names:
                options[f"parquet.bloom.filter.{key}#{column}"] = text
    for column, text in settings.with_prefix(props.PARQUET_DICT_ENABLED_COLUMN_PREFIX).items():
        if column in names:
            options[f"parquet.enable.dictionary#{column}"] = text
    return options


def _level(codec: str, text: str) -> dict[str, str]:
    if not text.lstrip("-").isdecimal():
        raise InvalidArgument(f"write.parquet.compression-level is {text!r}", hint="a number such as 3")
    if codec == "zstd":
        return {"parquet.compression.codec.zstd.level": text}
    if codec == "gzip" and 1 <= int(text) <= len(_GZIP_LEVELS):
        return {"zlib.compress.level": _GZIP_LEVELS[int(text) - 1]}
    return {}


def describe_files(job: Job, sort_order_id: int) -> list[DataFile]:
    """The files in the job's folder, from their footers; those without rows are removed."""
    places = [place for place in job.listed() if place.endswith(".parquet")]
    footers = Footers(job.store, job.schema, job.spec, job.settings.properties, sort_order_id, job.metadata.location)
    if len(places) > _FOOTERS_HERE:
        files = _describe_on_spark(job.spark, footers, places)
    else:
        with ThreadPoolExecutor(max(1, min(_THREADS, len(places)))) as pool:
            files = list(pool.map(footers.describe, places))
    empty = [file.file_path for file in files if not file.record_count]
    if empty:
        job.store.delete_many(empty)
    return [file for file in files if file.record_count]


def _describe_on_spark(spark: SparkSession, footers: Footers, places: Sequence[str]) -> list[DataFile]:
    source = spark.createDataFrame(pa.table({"place": pa.array(places, pa.string())}))
    found = source.mapInArrow(footers, "file binary").toArrow().column(0).to_pylist()
    return [pickle.loads(data) for data in found]  # noqa: S301 - pickled by our own workers


def remove_folder(job: Job) -> None:
    """Remove all that the job wrote, folders too."""
    from py4j.protocol import Py4JError

    jvm: Any = job.spark.sparkContext._jvm
    with suppress(Py4JError, Unsupported):
        path = jvm.org.apache.hadoop.fs.Path(jvm_path(job.store, job.folder))
        configuration = job.spark._jsparkSession.sessionState().newHadoopConf()
        path.getFileSystem(configuration).delete(path, True)
    job.clear()
