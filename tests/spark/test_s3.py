"""Tables in S3, on a real socket: read and written by Python workers, with credentials that are told to nobody else."""

from __future__ import annotations

import itertools

import pytest
from pyspark.sql import functions

import frazil
from frazil.errors import FrazilError
from tests.interop.deletes import delete_rows
from tests.s3_service import ACCESS_KEY, SECRET_KEY, create_bucket

_NAMES = itertools.count(1)


@pytest.fixture(scope="module")
def bucket(s3_service):
    return create_bucket(s3_service)


@pytest.fixture(scope="module")
def s3_lake(spark, bucket):
    made = frazil.connect(f"{bucket.location}/warehouse", **bucket.properties)
    made.attach(spark, "s3lake")
    made.create_namespace("db")
    yield made
    made.detach(spark, "s3lake")


@pytest.fixture
def name(s3_lake):
    return f"s3lake.db.t{next(_NAMES)}"


@pytest.fixture
def table(s3_lake, name):
    return lambda: s3_lake.table(name.removeprefix("s3lake."))


def rows(frame):
    return sorted(tuple(row) for row in frame.collect())


def objects(table):
    """Everything below the table's data folder."""
    return sorted(file.location for file in table.store.list(f"{table.location}/data"))


def test_rows_come_and_go(spark, name, table):
    spark.sql(f"CREATE TABLE {name} (id BIGINT, day DATE, what STRING) PARTITIONED BY (day)")
    spark.sql(f"INSERT INTO {name} SELECT id, date_add(DATE'2026-11-01', int(id % 3)), 'new' FROM range(30)")
    first = table().current_snapshot.snapshot_id
    assert table().location.startswith("s3://")
    assert len({task.file.partition for task in table().scan().plan().tasks()}) == 3
    assert len(rows(spark.table(name))) == 30
    spark.sql(f"DELETE FROM {name} WHERE id < 5")
    spark.sql(f"INSERT OVERWRITE {name} PARTITION (day = DATE'2026-11-01') SELECT 100, 'over'")
    assert rows(spark.sql(f"SELECT id, what FROM {name} WHERE day = DATE'2026-11-01'")) == [(100, "over")]
    assert spark.table(name).count() == 1 + 20 - 3
    assert spark.sql(f"SELECT count(*) FROM {name} VERSION AS OF {first} WHERE id < 5").collect() == [(5,)]
    assert spark.sql(f"SELECT count(*) FROM {name}.files").collect() == [(3,)]


def test_a_table_made_from_a_query_is_there_at_once_or_not_at_all(spark, name, s3_lake):
    spark.sql(f"CREATE TABLE {name} TBLPROPERTIES ('write.format.default' = 'orc') AS SELECT id FROM range(5)")
    assert rows(spark.table(name)) == [(number,) for number in range(5)]
    spark.sql(f"CREATE OR REPLACE TABLE {name} AS SELECT 'a' AS only")
    assert rows(spark.table(name)) == [("a",)]
    missing = f"{name}_failed"
    with pytest.raises(Exception, match="ends here"):
        spark.sql(f"CREATE TABLE {missing} AS SELECT if(id = 3, raise_error('ends here'), id) AS id FROM range(5)")
    assert not s3_lake.table_exists(missing.removeprefix("s3lake."))


def test_a_failed_task_leaves_nothing_behind(spark, name, table):
    spark.sql(f"CREATE TABLE {name} AS SELECT id FROM range(3)")
    before, version = objects(table()), table().current_snapshot.snapshot_id

    @functions.udf("bigint")
    def breaks(number):
        if number == 900:
            raise ValueError("this row is broken")
        return number

    data = spark.range(0, 1000, 1, 4).select(breaks("id").alias("id"))
    with pytest.raises(Exception, match="this row is broken"):
        data.writeTo(name).append()
    assert objects(table()) == before
    assert table().current_snapshot.snapshot_id == version
    assert spark.table(name).count() == 3


def test_deletes_that_others_made_are_applied(spark, name, table, s3_lake):
    spark.sql(f"CREATE TABLE {name} TBLPROPERTIES ('format-version' = '3') AS SELECT id FROM range(10)")
    delete_rows(table(), "id", {2, 3, 7})
    assert spark.table(name).count() == 7
    assert rows(spark.table(name)) == [(number,) for number in (0, 1, 4, 5, 6, 8, 9)]
    assert rows(spark.table(name).where("id < 4")) == [(0,), (1,)]


def test_both_stores_of_a_mixed_table_are_merged_by_workers(spark, name, table):
    spark.sql(f"CREATE TABLE {name} PRIMARY KEY (id) USING mixed AS SELECT id, 'old' AS what FROM range(10)")
    table().upsert([{"id": 3, "what": "new"}, {"id": 30, "what": "new"}])
    table().delete("id IN (7, 8)")
    wanted = [(n, "new" if n == 3 else "old") for n in range(10) if n not in (7, 8)] + [(30, "new")]
    assert rows(spark.table(name)) == wanted
    assert rows(spark.table(name).where("what = 'new' AND id < 9")) == [(3, "new")]
    assert "Frazil by Arrow" in spark.table(name)._jdf.queryExecution().optimizedPlan().toString()
    assert spark.table(f"{name}.change").where("_change_action = 'DELETE'").count() == 4


# Credentials


@pytest.fixture
def event_log(spark, tmp_path):
    """What Spark tells its event log, and so its history server and UI, as text."""
    context = spark.sparkContext._jsc.sc()
    jvm = spark.sparkContext._jvm
    settings = context.conf().clone().set("spark.eventLog.rolling.enabled", "false")
    settings = settings.set("spark.eventLog.compress", "false")
    listener = jvm.org.apache.spark.scheduler.EventLoggingListener(
        "app-s3", jvm.scala.Option.empty(), jvm.java.net.URI(tmp_path.as_uri()), settings
    )
    listener.start()
    context.addSparkListener(listener)

    def read():
        context.listenerBus().waitUntilEmpty()
        listener.stop()
        context.removeSparkListener(listener)
        return "".join(path.read_text() for path in tmp_path.rglob("app-s3*") if path.is_file())

    return read


def test_credentials_are_in_no_plan_log_or_message(spark, name, table, s3_lake, event_log):
    told = []
    spark.sql(f"CREATE TABLE {name} (id BIGINT, p INT) PARTITIONED BY (p)")
    spark.sparkContext.setJobDescription("an insert")
    frame = spark.range(10).selectExpr("id", "cast(id % 2 AS INT) AS p")
    frame.writeTo(name).append()
    spark.sparkContext.setJobDescription(None)
    query = spark.table(name).where("id > 3")
    query.collect()
    told.append(query._jdf.queryExecution().toString())
    told.append(spark.sql(f"EXPLAIN EXTENDED SELECT * FROM {name} JOIN {name} USING (id)").collect()[0][0])
    told.append(spark.sql(f"EXPLAIN FORMATTED SELECT * FROM {name}").collect()[0][0])
    for statement in ("DESCRIBE TABLE EXTENDED", "SHOW CREATE TABLE", "SHOW TBLPROPERTIES"):
        told.append(str(spark.sql(f"{statement} {name}").collect()))
    told += [repr(s3_lake), s3_lake._repr_html_(), repr(table()), repr(table().scan()), repr(table().store)]
    told.append(str(spark.sparkContext.getConf().getAll()))
    told.append(str(spark.sql("SET -v").collect()))

    for location in objects(table()):
        table().store.delete(location)
    with pytest.raises(Exception, match="data/") as failed:  # in a worker
        query.collect()
    told += [str(failed.value), repr(failed.value), str(getattr(failed.value, "_origin", ""))]
    with pytest.raises(FrazilError) as refused:  # in the driver
        frazil.connect("s3://no-such-bucket/w", **_properties(s3_lake)).create_table("db.t", "id INT")
    told += [str(refused.value), repr(refused.value)]

    log = event_log()
    assert "SparkListenerSQLExecutionStart" in log
    assert "SparkListenerTaskEnd" in log
    assert "MapInArrow" in log
    for text in (*told, log):
        assert SECRET_KEY not in text
        assert ACCESS_KEY not in text


def _properties(lake):
    return dict(lake.catalog.store._properties)
