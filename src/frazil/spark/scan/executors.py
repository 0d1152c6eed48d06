"""The classes that tasks load where executors are other processes: a small jar, made at run time."""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from frazil.spark.jvm import class_files, sources

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASK_CLASSES = ("Deletes.java", "Functions.java")
"""They refer to no other of our Java files, and to nothing of Spark that is private to a package."""

_shipped: set[str] = set()


def ship_classes(spark: SparkSession) -> None:
    """Give executors the classes that tasks load. In a local session they have them: they are the driver's."""
    context = spark.sparkContext
    master = str(context.master)
    if master == "local" or master.startswith("local[") or context.applicationId in _shipped:
        return
    found = class_files(context._jvm, {name: text for name, text in sources().items() if name in TASK_CLASSES})
    jar = Path(tempfile.mkdtemp(prefix="frazil-")) / "frazil-reader.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for path, code in sorted(found.items()):
            archive.writestr(path, code)
    context._jsc.sc().addJar(str(jar))
    _shipped.add(context.applicationId)
