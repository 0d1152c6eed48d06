"""Two thousand queries in one session: threads, sockets and memory do not grow with them."""

from __future__ import annotations

import gc
import os
import threading
from dataclasses import dataclass
from pathlib import Path

_BEFORE, _QUERIES = 200, 2_000
_MIB = 1 << 20
_POOLS = (
    *("block-manager-", "shuffle-exchange-", "broadcast-exchange-", "QueryStageCreator-", "ResultQueryStageExecution-"),
    *("task-result-getter-", "Executor task launch worker", "Worker Monitor for "),
)
"""Threads that Spark itself starts as queries come, keeps for a while and has limits for (up to a thousand)."""


@dataclass(frozen=True)
class Usage:
    """What this process and its JVM hold."""

    python_threads: int
    jvm_threads: int
    sockets: int
    jvm_sockets: int
    proxies: int
    python_memory: int
    heap: int


def usage(spark):
    gc.collect()
    jvm = spark.sparkContext._jvm
    memory = jvm.java.lang.management.ManagementFactory.getMemoryMXBean()
    heap, before = 0, 1 << 62
    while heap < before - _MIB:  # Spark frees what queries broadcast some time after a collection
        before = heap or before
        jvm.java.lang.System.gc()
        jvm.java.lang.Thread.sleep(1000)
        heap = memory.getHeapMemoryUsage().getUsed()
    names = [thread.getName() for thread in jvm.java.lang.Thread.getAllStackTraces().keySet().toArray()]
    return Usage(
        threading.active_count(),
        sum(not name.startswith(_POOLS) for name in names),
        sockets_of(os.getpid()),
        sockets_of(jvm.java.lang.ProcessHandle.current().pid()),
        len(spark.sparkContext._gateway.gateway_property.pool),
        resident(os.getpid()),
        heap,
    )


def sockets_of(process):
    links = Path(f"/proc/{process}/fd")
    return sum(str(link.readlink()).startswith("socket:") for link in links.iterdir() if link.is_symlink())


def resident(process):
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_two_thousand_queries_leave_nothing_behind(spark, lake, name):
    spark.sql(f"CREATE TABLE {name} PARTITIONED BY (p) AS SELECT id, id % 2 AS p FROM range(10)")
    grown = f"{name}_grown"
    spark.sql(f"CREATE TABLE {grown} (id INT) TBLPROPERTIES ('write.metadata.previous-versions-max' = '2')")
    statements = [
        (lambda n: f"SELECT id FROM {name} WHERE id = {n % 10}", lambda n: n % 10),
        (lambda n: f"DESCRIBE TABLE {name}", None),
        (lambda n: f"SHOW TBLPROPERTIES {name}", None),
        (lambda n: f"SHOW TABLES IN lake.db LIKE 't{n}'", None),
        (lambda n: f"SELECT id + {n} FROM {name} WHERE p = 1 LIMIT 1", None),
        (lambda n: f"EXPLAIN SELECT * FROM {name} a JOIN {name} b USING (id)", None),
        (lambda n: f"SELECT parent_id FROM {name}.snapshots" if n % 16 < 8 else f"DESCRIBE {name}.files", None),
        (lambda n: f"SHOW CREATE TABLE {name}", None),
    ]

    def query(number):
        if number % 250 == 10:
            spark.sql(f"INSERT INTO {grown} VALUES ({number})")
        elif number % 40 == 20:
            joined = spark.sql(f"SELECT /*+ BROADCAST(b) */ count(*) FROM {name} a JOIN {name} b USING (id)")
            assert joined.collect() == [(10,)]
        elif number % 100 == 50:
            frame = spark.read.option("frazil.scan", "arrow").table(name)
            assert frame.where("id < 4").count() == 4
        else:
            text, expected = statements[number % len(statements)]
            found = spark.sql(text(number)).collect()
            assert expected is None or found == [(expected(number),)]

    for number in range(_BEFORE):
        query(number)
    early = usage(spark)
    for number in range(_BEFORE, _QUERIES):
        query(number)
    late = usage(spark)
    assert spark.table(grown).count() == _QUERIES // 250
    told = f"after {_BEFORE}: {early}\nafter {_QUERIES}: {late}"
    assert late.python_threads <= early.python_threads + 1, told
    assert late.jvm_threads <= early.jvm_threads + 4, told
    assert late.sockets <= early.sockets + 2, told
    assert late.jvm_sockets <= early.jvm_sockets + 4, told
    assert late.proxies <= early.proxies + 2, told
    assert late.python_memory <= early.python_memory + 64 * _MIB, told
    # Spark keeps what it knows of the last thousand queries, and their code as long as it likes
    assert late.heap <= early.heap + 192 * _MIB, told
    print(told)
