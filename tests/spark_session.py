"""The Spark session of all tests of the engine, which is one for each worker process."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import frazil

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FOLDERS = {
    *(Path(__file__).parent / name for name in ("spark", "conformance", "interop/java")),
    Path(frazil.__file__).parent / "spark",
}
_MASTER = os.environ.get("FRAZIL_TEST_MASTER", "local[2]")
"""Where the tests run: `spark://host:port` is a cluster on this machine."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _FOLDERS & set(item.path.parents):
            # sockets of py4j are closed by the garbage collector, which tells nobody in time
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))


CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}


@contextmanager
def classic_session(master: str, **conf: str) -> Iterator[SparkSession]:
    """A classic session as a user makes one, whose workers find the Frazil that pytest finds."""
    from frazil.spark.session import find_java

    find_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    source = str(Path(frazil.__file__).parents[1])
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName("frazil tests")
    for key, text in {**CONF, "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"], **conf}.items():
        builder = builder.config(key, text)
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session, with no lake attached."""
    conf = {
        "spark.executor.memory": "1g",
        "spark.sql.timeType.enabled": "true",
        "spark.sql.timestampNanosTypes.enabled": "true",
    }
    with classic_session(_MASTER, **conf) as session:
        yield session
