"""The functions of a lake in SQL, `lake.system.bucket(16, id)`: their code is in `jvm/Functions.java`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import frazil
from frazil.spark.scan.executors import ship_classes

if TYPE_CHECKING:
    from frazil.spark.bridge import Bridge

ICEBERG_VERSION = "1.12.0"
"""The Iceberg whose SQL and tables these are: none of its code is here, but queries may ask."""


class Functions:
    """Answers `loadFunction`."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        bridge.on("loadFunction", self.load)

    def load(self, name: str, _b: None, _c: None) -> str:
        """Tasks are going to call it; the version is what `frazil_version()` and `iceberg_version()` say."""
        ship_classes(self._bridge.spark)
        return ICEBERG_VERSION if name == "iceberg_version" else frazil.__version__
