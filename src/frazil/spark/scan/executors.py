"""The classes that tasks load where executors are other processes: a small jar, made at run time."""

from __future__ import annotations

import hashlib
import threading
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from frazil.spark.jvm import class_files_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASK_CLASSES = (
    "Deletes.java",
    "Functions.java",
    "KeyPages.java",
    "ParquetRows.java",
    "PartitionFiles.java",
    "Positions.java",
    "Texts.java",
)
"""They refer to none of our other Java files, and to nothing of Spark that is private to a package."""

_LOCK = threading.Lock()
_shipped: set[str] = set()


def ship_classes(spark: SparkSession) -> None:
    """Give executors the classes that tasks load. In a local session they have them: they are the driver's."""
    context = spark.sparkContext
    if context._jsc.isLocal():
        return
    with _LOCK:
        if context.applicationId in _shipped:
            return
        found = class_files_of(context._jvm, TASK_CLASSES)
        context._jsc.addJar(str(_write_jar(Path(context._temp_dir), found)))
        _shipped.add(context.applicationId)


def _write_jar(folder: Path, classes: dict[str, bytes]) -> Path:
    """A jar in Spark's own temporary folder, which ends with it. The name says what is inside."""
    digest = hashlib.sha256(b"".join(classes[path] for path in sorted(classes))).hexdigest()
    jar = folder / f"frazil-{digest[:16]}.jar"
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, code in sorted(classes.items()):
            archive.writestr(path, code)
    return jar
