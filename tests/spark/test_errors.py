"""Errors: Python's arrive as themselves, Spark's as Spark's, and the session goes on."""

from __future__ import annotations

import signal
import threading
import time

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException

from frazil.errors import InvalidValue, RefNotFound, SnapshotNotFound
from frazil.spark.attach import bridge_of
from frazil.spark.bridge import Thrown


class Odd(Exception):
    """Not one of ours, nor of Spark."""

    def __init__(self, one, two):
        super().__init__(one, two)
        self.two = two


@pytest.fixture
def failing(spark, lake, name):
    """Let an operation of the bridge raise."""
    bridge = bridge_of(spark)
    kept = dict(bridge._handlers)

    def fail(op, error):
        def handler(*_):
            raise error

        bridge.on(op, handler)

    yield fail
    bridge._handlers.clear()
    bridge._handlers.update(kept)


@pytest.mark.parametrize("op", ["loadTable", "scan"])
def test_a_python_exception_arrives_as_itself_with_its_traceback(spark, sql, name, failing, op):
    sql(f"CREATE TABLE {name} AS SELECT 1 AS id")
    error = Odd("text", {"any": "thing"})
    failing(op, error)
    with pytest.raises(Odd) as raised:
        sql(f"SELECT * FROM {name}")
    assert raised.value is error
    assert raised.value.two == {"any": "thing"}
    assert any(entry.name == "handler" for entry in raised.traceback)
    assert raised.value.__cause__ is None


def test_it_does_so_from_a_broadcast_thread_and_a_subquery_and_a_write(sql, spark, name, failing):
    sql(f"CREATE TABLE {name} AS SELECT 1 AS id")
    sql(f"SELECT * FROM {name}")  # whoever answers for files is there now
    failing("listFiles", Odd("late", 1))
    for query in (
        f"SELECT /*+ BROADCAST(b) */ * FROM range(3) a JOIN {name} b USING (id)",
        f"SELECT * FROM range(3) WHERE id IN (SELECT id FROM {name})",
        f"SELECT (SELECT sum(id) FROM {name})",
        f"CREATE TABLE {name}_copy AS SELECT * FROM {name}",
        f"INSERT INTO {name} SELECT * FROM {name}",
    ):
        with pytest.raises(Odd):
            sql(query)
    with pytest.raises(Odd):
        spark.table(name).toArrow()
    with pytest.raises(Odd):
        spark.table(name).write.format("noop").mode("overwrite").save()


def test_a_failed_plan_gives_the_same_error_again(spark, sql, name, failing):
    """Spark keeps the failure of a plan and throws it again without asking us."""
    sql(f"CREATE TABLE {name} AS SELECT 1 AS id")
    frame = spark.table(name)
    error = Odd("once", 1)
    failing("scan", error)
    for _ in range(3):
        with pytest.raises(Odd) as raised:
            frame.collect()
        assert raised.value is error


def test_an_exception_of_the_jvm_is_thrown_as_itself(spark, sql, name, failing):
    sql(f"CREATE TABLE {name} (id INT)")
    jvm = spark.sparkContext._jvm
    failing("loadTable", Thrown(jvm.java.lang.UnsupportedOperationException("not today")))
    with pytest.raises(Exception, match="not today") as raised:
        sql(f"SELECT * FROM {name}")
    assert type(raised.value).__name__ == "UnsupportedOperationException"


def test_an_error_of_spark_inside_a_callback_stays_sparks(spark, sql, name, lake):
    bridge = bridge_of(spark)
    original = bridge._handlers["loadTable"]
    bridge.on("loadTable", lambda *_: spark.sql("SELECT nothing FROM range(1)"))
    try:
        with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
            sql("SELECT * FROM lake.db.whatever")
    finally:
        bridge.on("loadTable", original)


def test_errors_of_the_kernel_keep_their_class_code_and_hint(sql, name):
    sql(f"CREATE TABLE {name} AS SELECT 1 AS id")
    with pytest.raises(SnapshotNotFound) as raised:
        sql(f"SELECT * FROM {name} VERSION AS OF 5")
    assert raised.value.code == "SNAPSHOT_NOT_FOUND"
    assert raised.value.hint
    with pytest.raises(RefNotFound):
        sql(f"SELECT * FROM {name} VERSION AS OF 'x'")


@pytest.mark.parametrize(
    ("column", "bad", "settings"),
    [
        ("UUID", "'nonsense'", {}),
        ("FIXED(4)", "X'00'", {}),
        ("TIMESTAMP", "TIMESTAMP '1969-12-31 23:59:59.5'", {"write.format.default": "orc"}),
        ("UUID", "'nonsense'", {"spark.sql.execution.pyspark.udf.hideTraceback.enabled": "true"}),
    ],
)
def test_errors_of_the_kernel_come_from_workers_as_themselves(spark, sql, lake, name, column, bad, settings):
    conf = {key: text for key, text in settings.items() if key.startswith("spark.")}
    properties = {key: text for key, text in settings.items() if key not in conf}
    lake.create_table(name.removeprefix("lake."), f"value {column}", properties=properties)
    for key, text in conf.items():
        spark.conf.set(key, text)
    try:
        with pytest.raises(InvalidValue) as raised:
            sql(f"INSERT INTO {name} SELECT {bad}")
    finally:
        for key in conf:
            spark.conf.unset(key)
    assert raised.value.message.startswith(("column 'value': ", "ORC files cannot"))
    assert "SQLSTATE" not in str(raised.value)
    assert "Traceback" not in str(raised.value)
    assert raised.value.hint


def test_errors_of_others_in_workers_stay_as_spark_tells_them(spark, lake):
    from pyspark.errors import PythonException
    from pyspark.sql.functions import udf

    def wrapped(_value):
        try:
            raise InvalidValue("inside", hint="none")
        except InvalidValue as error:
            raise ValueError("outside") from error

    with pytest.raises(PythonException, match="outside"):
        spark.range(1).select(udf(wrapped)("id")).collect()


def test_try_except_around_a_python_error_in_a_new_session(spark, sql, name, failing):
    sql(f"CREATE TABLE {name} AS SELECT 1 AS id")
    failing("scan", Odd("here too", 2))
    with pytest.raises(Odd):
        spark.newSession().table(name).collect()


def test_ctrl_c_in_a_callback_reaches_the_user_and_the_session_goes_on(spark, sql, name, failing):
    sql(f"CREATE TABLE {name} AS SELECT 1 AS id")
    answer = bridge_of(spark)._handlers["scan"]
    failing("scan", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        sql(f"SELECT * FROM {name}")
    bridge_of(spark).on("scan", answer)
    assert sql(f"SELECT * FROM {name}") == [(1,)]


def test_ctrl_c_while_the_jvm_works_leaves_the_session_usable(spark, sql, name):
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals reach the main thread only")
    sql(f"CREATE TABLE {name} AS SELECT id FROM range(10)")
    frame = spark.sql(
        f"SELECT count(*) FROM {name} a, range(100000000) b, range(1000) c WHERE hash(a.id, b.id, c.id) = 3"
    )
    interrupted = threading.Event()
    tracker = spark.sparkContext.statusTracker()
    while tracker.getActiveJobsIds():  # it hears of the end of jobs a moment later
        time.sleep(0.05)

    def interrupt():
        while not tracker.getActiveJobsIds():
            interrupted.wait(0.05)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        if not interrupted.wait(30):
            spark.sparkContext.cancelAllJobs()  # never hang: the test fails by the error that this makes

    other = threading.Thread(target=interrupt)

    def query():
        other.start()
        frame.collect()

    try:
        # which of both depends on where PySpark's own handler met the connection
        with pytest.raises((KeyboardInterrupt, Py4JError)):
            query()
    finally:
        interrupted.set()
        other.join()
        spark.sparkContext.cancelAllJobs()
    assert sql(f"SELECT count(*) FROM {name}") == [(10,)]
