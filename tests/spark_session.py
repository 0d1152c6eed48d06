"""The Spark session of all tests of the engine, which is one for the whole run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import frazil

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FOLDERS = {Path(__file__).parent / name for name in ("spark", "conformance")}
_MASTER = os.environ.get("FRAZIL_TEST_MASTER", "local[2]")
"""Where the tests run: `spark://host:port` is a cluster on this machine."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of them run in one worker process: a JVM for each would not fit."""
    for item in items:
        if _FOLDERS & set(item.path.parents):
            item.add_marker(pytest.mark.xdist_group("spark"))
            # sockets of py4j are closed by the garbage collector, which tells nobody in time
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A classic session as a user makes one, with no lake attached."""
    from frazil.spark.session import find_java

    find_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    source = str(Path(frazil.__file__).parents[1])  # workers find what pytest finds
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(_MASTER).appName("frazil tests")
    for key, text in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "2g",
        "spark.executor.memory": "1g",
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
        "spark.log.level": "OFF",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.timeType.enabled": "true",
        "spark.sql.timestampNanosTypes.enabled": "true",
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    }.items():
        builder = builder.config(key, text)
    session = builder.getOrCreate()
    yield session
    session.stop()
