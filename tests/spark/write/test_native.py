"""Files that Spark's own writer writes: rows, ids, metrics, partitions, order and size."""

from __future__ import annotations

import datetime
import itertools
from decimal import Decimal

import pyarrow as pa
import pytest

from frazil.errors import NotFound, Unsupported
from frazil.io.metrics import MetricsCollector, MetricsModes
from frazil.model.arrow import schema_to_arrow
from frazil.model.conform import conform
from tests.spark.write.disk import parquet, path_of

_ALL = (
    "b BOOLEAN, i INT, l BIGINT NOT NULL, f FLOAT, d DOUBLE, dec DECIMAL(9,2), big DECIMAL(38,10), day DATE,"
    " ts TIMESTAMP, ntz TIMESTAMP_NTZ, s STRING, bin BINARY, st STRUCT<x: INT NOT NULL, y: STRUCT<z: STRING>>"
)


def _rows(spark):
    from pyspark.sql.types import _parse_datatype_string

    when = datetime.datetime(2024, 3, 31, 1, 30, 0, 123456)
    utc = when.replace(tzinfo=datetime.UTC)
    values = [
        (
            True,
            1,
            1,
            1.5,
            2.5,
            Decimal("1.25"),
            Decimal("-1.0000000001"),
            when.date(),
            utc,
            when,
            "a",
            b"\0",
            (1, ("q",)),
        ),
        (None, None, 2, None, None, None, None, None, None, None, None, None, None),
        (
            False,
            -5,
            3,
            -1.5,
            0.0,
            Decimal("-9.99"),
            Decimal("1e20"),
            datetime.date(1, 1, 1),
            utc,
            when,
            "ü" * 40,
            b"xyz",
            (2, None),
        ),
    ]
    return spark.createDataFrame(values, _parse_datatype_string(_ALL))


def test_rows_of_all_types_come_back_through_spark_the_kernel_and_pyiceberg(spark, sql, name, table, files):
    spark.sql(f"CREATE TABLE {name} ({_ALL})")
    rows = _rows(spark)
    rows.writeTo(name).append()
    key = lambda row: row["l"]  # noqa: E731
    assert sorted(spark.table(name).collect(), key=key) == sorted(rows.collect(), key=key)
    mine = table().scan().to_arrow().sort_by("l").to_pylist()
    assert [row["s"] for row in mine] == ["a", None, "ü" * 40]
    assert mine[0]["st"] == {"x": 1, "y": {"z": "q"}}
    assert all(file.file_format == "parquet" and "/part-" in file.file_path for file in files())
    pyiceberg = pytest.importorskip("pyiceberg.table")
    theirs = pyiceberg.StaticTable.from_metadata(table().metadata_location).scan().to_arrow().sort_by("l").to_pylist()
    assert theirs == mine


def test_every_field_has_its_id_and_no_timestamp_is_int96(spark, name, files, table):
    spark.sql(f"CREATE TABLE {name} ({_ALL})")
    saved = spark.conf.get("spark.sql.parquet.fieldId.write.enabled")
    spark.conf.set("spark.sql.parquet.fieldId.write.enabled", "false")  # whatever the user has set
    try:
        _rows(spark).writeTo(name).append()
    finally:
        spark.conf.set("spark.sql.parquet.fieldId.write.enabled", saved)

    def ids(field):
        inner = [found for child in range(field.type.num_fields) for found in ids(field.type.field(child))]
        return [int(field.metadata[b"PARQUET:field_id"]), *(inner if pa.types.is_struct(field.type) else [])]

    for file in files():
        schema = parquet(file).schema_arrow
        assert [number for field in schema for number in ids(field)] == [f.id for f in table().schema.all_fields()]
        assert schema.field("ts").type == pa.timestamp("us", "UTC")
        assert schema.field("ntz").type == pa.timestamp("us")


@pytest.mark.parametrize("mode", ["truncate(16)", "full", "counts", "none"])
def test_metrics_are_those_of_the_rows(spark, name, files, metrics, table, mode):
    spark.sql(f"CREATE TABLE {name} ({_ALL}) TBLPROPERTIES ('write.metadata.metrics.default' = '{mode}')")
    _rows(spark).coalesce(1).writeTo(name).append()
    [file] = files()
    schema = table().schema
    collector = MetricsCollector(schema, MetricsModes.of(schema, table().properties))
    for batch in conform(table().scan().to_arrow(), schema):
        collector.update(batch.cast(schema_to_arrow(schema)))
    exact = collector.finish()
    assert file.record_count == 3
    [tracked] = metrics()
    for kind in ("value_counts", "null_value_counts", "lower_bounds", "upper_bounds"):
        assert tracked[kind] == getattr(exact, kind), kind
    assert set(tracked["column_sizes"]) == set(exact.value_counts)
    assert file.file_size_in_bytes == path_of(file.file_path).stat().st_size


_PARTITIONS = [
    ("b", "true"),
    ("i", "cast(id % 3 as int)"),
    ("bucket(4, i)", "cast(id as int)"),
    ("truncate(10, i)", "cast(id - 10 as int)"),
    ("f", "case id % 4 when 0 then float('NaN') when 1 then float('-0.0') when 2 then float('0.0') end"),
    ("dec", "cast((id % 3) / 4 - 0.5 as decimal(9,2))"),
    ("truncate(50, dec)", "cast(id / 10 - 1 as decimal(9,2))"),
    ("bucket(5, big)", "cast(id - 10 as decimal(38,10))"),
    ("day", "date_from_unix_date(int(id % 3 - 2))"),
    ("years(day)", "date_from_unix_date(int(id * 100 - 800))"),
    ("months(ts)", "timestamp_micros(id * 1000000000000 - 5000000000000)"),
    ("days(ntz)", "cast(timestamp_micros(id * 20000000000 - 100000000001) as timestamp_ntz)"),
    ("hours(ts)", "timestamp_micros(id * 1000000000 - 5000000001)"),
    ("ts", "timestamp_micros(id % 3 - 1)"),
    ("s", "case id % 5 when 0 then '' when 1 then 'A b/c=d' when 2 then 'a' when 3 then repeat('ü', 3000) end"),
    ("truncate(2, s)", "concat(char(65 + id % 3), '😀', cast(id as string))"),
    ("bucket(4, s)", "concat('日本', cast(id as string))"),
    ("bin", "case id % 3 when 0 then X'' when 1 then X'FF00' end"),
    ("bucket(3, bin)", "cast(cast(id as string) as binary)"),
    ("st.x", "named_struct('x', cast(id % 3 as int), 'y', null)"),
]


_CASES = [(by, value, "native") for by, value in _PARTITIONS]
_CASES += [(by, value, "arrow") for by, value in _PARTITIONS if by in ("f", "s", "bucket(5, big)")]


@pytest.mark.parametrize(("by", "value", "writer"), _CASES, ids=[f"{by}-{writer}" for by, _, writer in _CASES])
def test_partition_values_are_those_of_the_kernel(spark, sql, name, table, files, on_disk, by, value, writer):
    column = by.split("(")[-1].split(",")[-1].strip(" )").split(".")[0]
    spark.sql(f"CREATE TABLE {name} ({_ALL}) PARTITIONED BY ({by})")
    frame = spark.range(0, 20, 1, 2).selectExpr("id AS l", f"{value} AS {column}") if column != "l" else None
    empty = spark.table(name).drop(column, "l")
    nulls = frame.selectExpr("*", *(f"CAST(NULL AS {kind}) AS `{c}`" for c, kind in empty.dtypes))
    nulls.select(*spark.table(name).columns).writeTo(name).option("frazil.write", writer).append()
    current = table()
    [part] = current.spec.fields
    source = current.schema.field_by_id(part.source_id)
    assert sorted(row[0] for row in sql(f"SELECT l FROM {name}")) == list(range(20))
    seen = set()
    for task in current.scan().plan().tasks():
        rows = parquet(task.file).read()
        values = rows.column(column).combine_chunks()
        if "." in by:
            values = pa.compute.struct_field(values, "x")
        if pa.types.is_decimal(values.type):
            values = values.cast(pa.decimal128(values.type.precision, values.type.scale))
        kernel = part.transform.apply_array(source.type, values)
        distinct = {repr(item) for item in pa.array(kernel).to_pylist()}
        assert len(distinct) == 1, (by, distinct)
        from frazil.iceberg.entries import canonical_list

        [mine] = {repr(item) for item in canonical_list(kernel)}
        assert repr(task.file.partition[0]) == mine
        seen.add(mine)
    assert len(seen) == len({repr(file.partition[0]) for file in files()}) == len(files())
    assert on_disk() == sorted(str(path_of(file.file_path)) for file in files())


def test_hash_distribution_makes_one_file_per_partition_and_none_one_per_task(spark, name, files):
    spark.sql(f"CREATE TABLE {name} (id BIGINT, p INT) PARTITIONED BY (p)")
    rows = spark.range(0, 1000, 1, 2).selectExpr("id", "cast(id % 4 as int) AS p")
    rows.writeTo(name).append()
    assert len(files()) == 4
    spark.sql(f"TRUNCATE TABLE {name}")
    rows.writeTo(name).option("distribution-mode", "none").append()
    assert len(files()) == 8


def test_rows_are_sorted_by_the_tables_order_within_files(spark, name, table, files):
    spark.sql(f"CREATE TABLE {name} (id BIGINT, p INT, s STRING) PARTITIONED BY (p)")
    spark.sql(f"ALTER TABLE {name} WRITE ORDERED BY s DESC NULLS LAST, id")
    rows = spark.range(0, 1000, 1, 2).selectExpr(
        "id", "cast(id % 2 as int) AS p", "case when id % 7 = 0 then null else cast(hash(id) % 50 as string) end AS s"
    )
    for mode in ("range", "hash", "none"):
        rows.writeTo(name).option("distribution-mode", mode).append()
    assert sum(file.record_count for file in files()) == 3000
    order = table().sort_order
    for file in files():
        assert file.sort_order_id == order.order_id
        read = parquet(file).read()
        got = list(zip(read.column("s").to_pylist(), read.column("id").to_pylist(), strict=True))
        texts = sorted({text for text, _ in got if text is not None}, reverse=True)
        wanted = sorted(got, key=lambda row: (row[0] is None, texts.index(row[0]) if row[0] else 0, row[1]))
        assert got == wanted


def test_rows_stay_sorted_where_folders_are_named_by_text(spark, name, files):
    spark.sql(f"CREATE TABLE {name} (id BIGINT, s STRING) PARTITIONED BY (s)")
    spark.sql(f"ALTER TABLE {name} WRITE ORDERED BY id DESC")
    rows = spark.range(0, 5000, 1, 2).selectExpr("(id * 7919) % 5000 AS id", "nullif(concat('v', id % 3), 'v2') AS s")
    rows.writeTo(name).option("distribution-mode", "hash").append()
    assert {file.partition for file in files()} == {("v0",), ("v1",), (None,)}
    for file in files():
        ids = parquet(file).read().column("id").to_pylist()
        assert ids == sorted(ids, reverse=True)


@pytest.mark.parametrize("how", ["option", "property"])
@pytest.mark.parametrize("writer", ["native", "arrow"])
def test_fanout_leaves_the_rows_as_they_come(spark, name, files, how, writer):
    spark.sql(f"CREATE TABLE {name} (id BIGINT, p INT) PARTITIONED BY (p)")
    frame = spark.range(0, 1000, 1, 2).selectExpr("id", "cast(id % 4 as int) AS p")
    rows = frame.writeTo(name).option("distribution-mode", "none").option("frazil.write", writer)
    if how == "option":
        rows = rows.option("fanout-enabled", "true")
    else:
        spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('write.spark.fanout.enabled' = 'true')")
    rows.append()
    assert len(files()) == 8
    for file in files():
        ids = parquet(file).read().column("id").to_pylist()
        assert ids == sorted(ids)


@pytest.mark.parametrize("partitions", [90, 330])
def test_partitions_have_one_file_each_whether_or_not_they_can_be_open_at_once(spark, name, files, partitions):
    spark.sql(f"CREATE TABLE {name} (id BIGINT, p INT, s STRING) PARTITIONED BY (p)")
    rows = spark.range(0, 20_000, 1, 2).selectExpr(
        "id", f"nullif(cast(id % {partitions} as int), 7) AS p", "repeat(cast(id as string), cast(id % 9 as int)) AS s"
    )
    rows.coalesce(1).writeTo(name).option("advisory-partition-size", "100000000").append()
    assert {file.partition for file in files()} == {(p if p != 7 else None,) for p in range(partitions)}
    assert len(files()) == partitions
    assert spark.table(name).exceptAll(rows).isEmpty()
    assert spark.table(name).count() == 20_000


def test_tasks_get_what_makes_a_file_of_the_target_size(spark, name, files):
    spark.sql(f"CREATE TABLE {name} (id BIGINT, p INT, s STRING) PARTITIONED BY (p)")
    rows = spark.range(0, 60_000, 1, 6).selectExpr("id", "1 AS p", "md5(cast(id as string)) AS s")
    spark.conf.set("spark.sql.adaptive.advisoryPartitionSizeInBytes", "100kb")  # of every other exchange
    try:
        rows.writeTo(name).append()
        assert len(files()) == 1
        rows.writeTo(name).option("advisory-partition-size", "100000").append()
        assert len(files()) > 3
    finally:
        spark.conf.unset("spark.sql.adaptive.advisoryPartitionSizeInBytes")


def test_range_distribution_keeps_sorted_files_apart(spark, name, metrics):
    spark.sql(f"CREATE TABLE {name} (id BIGINT)")
    spark.sql(f"ALTER TABLE {name} WRITE ORDERED BY id")
    spark.range(0, 200_000, 1, 2).selectExpr("(id * 7919) % 200000 AS id").writeTo(name).append()
    bounds = sorted((row["lower_bounds"][1][::-1], row["upper_bounds"][1][::-1]) for row in metrics())
    assert all(left[1] < right[0] for left, right in itertools.pairwise(bounds))


def test_files_are_near_the_target_size(spark, name, files):
    spark.sql(f"CREATE TABLE {name} (id BIGINT, s STRING)")
    rows = spark.range(0, 200_000, 1, 1).selectExpr("id", "md5(cast(id as string)) AS s")
    rows.writeTo(name).append()
    [one] = files()
    target = one.file_size_in_bytes // 4
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('write.target-file-size-bytes' = '{target}')")
    rows.writeTo(name).append()
    made = [file for file in files() if file.file_path != one.file_path]
    assert 4 <= len(made) <= 5
    assert all(file.file_size_in_bytes < 1.1 * target for file in made)


@pytest.mark.parametrize("codec", ["zstd", "gzip", "snappy", "lz4", "uncompressed"])
def test_parquet_properties_are_honoured(spark, name, files, codec):
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT, s STRING) TBLPROPERTIES ('write.parquet.compression-codec' = '{codec}',"
        " 'write.parquet.compression-level' = '5', 'write.parquet.row-group-size-bytes' = '65536',"
        " 'write.parquet.page-size-bytes' = '4096', 'write.parquet.bloom-filter-enabled.column.s' = 'true',"
        " 'write.parquet.bloom-filter-ndv.column.s' = '1000', 'write.parquet.bloom-filter-max-bytes' = '65536')"
    )
    spark.range(0, 50_000, 1, 1).selectExpr("id", "md5(cast(id as string)) AS s").writeTo(name).append()
    [file] = files()
    metadata = parquet(file).metadata
    assert metadata.num_row_groups > 2
    first = metadata.row_group(0)
    assert first.column(0).compression == {"lz4": "LZ4"}.get(codec, codec.upper())
    assert first.column(0).bloom_filter_offset is None
    assert first.column(1).bloom_filter_offset is not None
    assert file.split_offsets is not None
    assert len(file.split_offsets) == metadata.num_row_groups


def test_a_column_may_go_without_a_dictionary(spark, name, files):
    spark.sql(
        f"CREATE TABLE {name} (a BIGINT, b BIGINT)"
        " TBLPROPERTIES ('write.parquet.dict-encoding-enabled.column.a' = 'false')"
    )
    spark.range(0, 1_000, 1, 1).selectExpr("id % 3 AS a", "id % 3 AS b").writeTo(name).append()
    [file] = files()
    group = parquet(file).metadata.row_group(0)
    assert [group.column(n).has_dictionary_page for n in (0, 1)] == [False, True]


def _pages(spark, file, column):
    """The number of data pages of a column in the first row group, and the Java class of the first of them."""
    jvm = spark.sparkContext._jvm
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    path = jvm.org.apache.hadoop.fs.Path(file.file_path)
    source = jvm.org.apache.parquet.hadoop.util.HadoopInputFile.fromPath(path, conf)
    reader = jvm.org.apache.parquet.hadoop.ParquetFileReader.open(source)
    try:
        chunk = reader.getFooter().getBlocks().get(0).getColumns().get(column)
        descriptor = reader.getFileMetaData().getSchema().getColumns().get(column)
        first = reader.readNextRowGroup().getPageReader(descriptor).readPage()
        return reader.readOffsetIndex(chunk).getPageCount(), first.getClass().getSimpleName()
    finally:
        reader.close()


def test_page_properties_are_honoured(spark, name, files):
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT, s STRING) TBLPROPERTIES ('write.parquet.page-version' = 'v2',"
        " 'write.parquet.page-row-limit' = '1000', 'write.parquet.dict-size-bytes' = '100')"
    )
    rows = spark.range(0, 10_000, 1, 1).selectExpr("id", "cast(id % 50 as string) AS s")
    rows.writeTo(name).append()
    [file] = files()
    assert _pages(spark, file, 0) == (10, "DataPageV2")
    assert not parquet(file).metadata.row_group(0).column(0).has_dictionary_page
    spark.sql(f"ALTER TABLE {name} UNSET TBLPROPERTIES ('write.parquet.page-version', 'write.parquet.page-row-limit')")
    rows.writeTo(name).append()
    [other] = [found for found in files() if found.file_path != file.file_path]
    assert _pages(spark, other, 0) == (1, "DataPageV1")


def test_the_level_of_compression_is_honoured(spark, name, files):
    spark.sql(f"CREATE TABLE {name} (s STRING)")
    rows = spark.range(0, 20_000, 1, 1).selectExpr("concat(id % 700, ' of ', md5(cast(id % 900 as string))) AS s")
    for level in ("1", "19"):
        rows.writeTo(name).option("compression-level", level).append()
    fast, small = [file.file_size_in_bytes for file in sorted(files(), key=lambda file: -file.file_size_in_bytes)]
    assert small < fast


def test_many_footers_are_read_by_spark(spark, name, files, metrics, monkeypatch):
    from frazil.spark.write import native

    spark.sql(f"CREATE TABLE {name} (id BIGINT, s STRING) PARTITIONED BY (bucket(5, id))")
    rows = spark.range(0, 100, 1, 1).selectExpr("id", "cast(id as string) AS s")
    rows.writeTo(name).append()

    def described():
        told = ("partition", "record_count", "value_counts", "null_value_counts", "lower_bounds", "upper_bounds")
        return sorted(repr([row[key] for key in told]) for row in metrics())

    here = described()
    spark.sql(f"TRUNCATE TABLE {name}")
    monkeypatch.setattr(native, "_FOOTERS_HERE", 4)
    monkeypatch.setattr(native.Footers, "describe", None)  # workers have their own
    rows.writeTo(name).append()
    assert described() == here


def test_files_are_on_the_disk_before_the_table_refers_to_them(spark, name, table, files, monkeypatch):
    from frazil.io import local_store

    spark.sql(f"CREATE TABLE {name} (id BIGINT, p INT) PARTITIONED BY (p)")
    synced, real = [], local_store._sync
    monkeypatch.setattr(local_store, "_sync", lambda path: (synced.append(path), real(path)))
    spark.range(10).selectExpr("id", "cast(id % 2 as int) AS p").writeTo(name).append()
    metadata = next(place for place, path in enumerate(synced) if path.name == "metadata")
    for file in files():
        path = path_of(file.file_path)
        above = list(path.parents)
        needed = {path, *above[: above.index(path_of(table().location)) + 1]}
        assert needed <= set(synced[:metadata])


def test_options_replace_properties(spark, name, files):
    spark.sql(f"CREATE TABLE {name} (id BIGINT)")
    rows = spark.range(10).coalesce(1)
    rows.writeTo(name).option("compression-codec", "gzip").append()
    [file] = files()
    assert parquet(file).metadata.row_group(0).column(0).compression == "GZIP"
    rows.writeTo(name).option("write-format", "avro").option("snapshot-property.Who", "me").append()
    assert sorted(file.file_format for file in files()) == ["avro", "parquet"]


def test_the_native_writer_says_why_it_cannot(spark, name, on_disk):
    spark.sql(f"CREATE TABLE {name} (a ARRAY<INT>)")
    with pytest.raises(Unsupported, match="column 'a' of type list"):
        spark.sql("SELECT array(1) AS a").writeTo(name).option("frazil.write", "native").append()
    assert on_disk() == []


def test_no_rows_make_a_snapshot_and_no_file(spark, name, table, files, on_disk):
    spark.sql(f"CREATE TABLE {name} (id BIGINT)")
    spark.range(0).writeTo(name).append()
    assert table().current_snapshot.summary["total-records"] == "0"
    assert files() == []
    assert on_disk() == []


def test_an_unknown_branch_is_refused(spark, name):
    spark.sql(f"CREATE TABLE {name} (id BIGINT)")
    with pytest.raises(NotFound, match="no branch 'nope'"):
        spark.range(3).writeTo(name).option("branch", "nope").append()


def test_rows_of_a_table_go_as_they_are_to_one_with_required_fields(spark, name, files):
    spark.sql(f"CREATE TABLE {name} (id BIGINT NOT NULL, s STRUCT<a: INT NOT NULL, b: STRING> NOT NULL)")
    spark.sql(f"INSERT INTO {name} VALUES (1, named_struct('a', 7, 'b', 'x'))")
    spark.sql(f"INSERT INTO {name} SELECT * FROM {name}")
    assert [tuple(row) for row in spark.sql(f"SELECT id, s.a, s.b FROM {name}").collect()] == [(1, 7, "x")] * 2
    for file in files():
        assert "required group field_id=2 s {\n    required int32 field_id=3 a;" in str(parquet(file).schema)


def test_what_is_wrong_with_a_row_is_said_as_by_a_query(spark, name, on_disk):
    from pyspark.errors import ArithmeticException

    spark.sql(f"CREATE TABLE {name} (id INT)")
    with pytest.raises(ArithmeticException, match="OVERFLOW"):
        spark.sql(f"INSERT INTO {name} SELECT CAST(id AS INT) + 2147483647 FROM range(3)")
    assert on_disk() == []
