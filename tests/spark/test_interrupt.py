"""A session in a process of its own: how long attaching takes, and what Ctrl-C leaves."""

from __future__ import annotations

import signal
import threading

import pytest

from frazil.spark import interrupt
from tests.spark.programs import SMALL, start

_PROGRAM = f"""
import sys, threading, time
import frazil
from pyspark.sql import SparkSession
from frazil.spark.session import find_java
find_java()
builder = SparkSession.builder.master("local[2]")
for key, text in {SMALL}.items():
    builder = builder.config(key, text)
spark = builder.getOrCreate()
spark.range(1).collect()
lake = frazil.connect(sys.argv[1])
began = time.perf_counter()
lake.attach(spark)
print("attached", time.perf_counter() - began, flush=True)
spark.sql("CREATE NAMESPACE lake.db")
spark.sql("CREATE TABLE lake.db.t AS SELECT id FROM range(1000)")
tracker = spark.sparkContext.statusTracker()

def tell():
    while not tracker.getActiveJobsIds():
        time.sleep(0.05)
    print("running", flush=True)

threading.Thread(target=tell, daemon=True).start()
try:
    spark.sql(
        "SELECT count(*) FROM lake.db.t a, lake.db.t b, lake.db.t c, lake.db.t d WHERE a.id + b.id + c.id + d.id > 5"
    ).collect()
    print("not interrupted", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)

answered = spark.sql("SELECT count(*) AS n FROM lake.db.t").collect()[0].n
print("answered", answered, flush=True)

from frazil.spark.attach import bridge_of
bridge = bridge_of(spark)
scan = bridge._handlers["scan"]

def slow(*arguments):
    print("planning", flush=True)
    time.sleep(60)
    return scan(*arguments)

bridge.on("scan", slow)
try:
    spark.sql("SELECT sum(id) FROM lake.db.t").collect()
    print("not interrupted", flush=True)
except KeyboardInterrupt:
    print("interrupted in a callback", flush=True)
bridge.on("scan", scan)
spark.sql("INSERT INTO lake.db.t VALUES (5)")
print("still", spark.sql("SELECT count(*) AS n FROM lake.db.t").collect()[0].n, flush=True)
spark.stop()
"""


def test_ctrl_c_leaves_the_session_usable_and_attaching_is_quick(tmp_path):
    program = start(_PROGRAM, str(tmp_path))
    watchdog = threading.Timer(200, program.kill)
    watchdog.start()
    told = []
    try:
        for line in program.stdout:
            told.append(line.rstrip())
            if line.strip() in ("running", "planning"):
                program.send_signal(signal.SIGINT)
        program.wait()
    finally:
        watchdog.cancel()
        program.kill()
        program.wait()
    words = {line.rpartition(" ")[0]: line.rpartition(" ")[2] for line in told}
    assert "interrupted" in told, told
    assert words["answered"] == "1000", told
    assert "interrupted in a callback" in told, told
    assert words["still"] == "1001", told
    assert float(words["attached"]) < 10, told  # two seconds where nothing else runs; see `make bench`
    assert program.returncode == 0, told


def test_a_handler_of_the_user_stays(monkeypatch):
    def own(number, frame):
        raise AssertionError("not called")

    before = signal.signal(signal.SIGINT, own)
    try:
        interrupt.handle_interrupts()
        assert signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGINT, before)


def test_without_spark_it_is_the_usual_ctrl_c(monkeypatch):
    from pyspark import SparkContext

    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    with pytest.raises(KeyboardInterrupt):
        interrupt.interrupt(signal.SIGINT, None)
