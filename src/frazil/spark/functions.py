"""The functions of a lake in SQL, `lake.system.bucket(16, id)`: their code is in `jvm/Functions.java`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import frazil
from frazil.spark.scan.executors import ship_classes

if TYPE_CHECKING:
    from frazil.spark.bridge import Bridge


class Functions:
    """Answers `loadFunction`."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        bridge.on("loadFunction", self.load)

    def load(self, _name: str, _b: None, _c: None) -> str:
        """Tasks are going to call it; the version is what `frazil_version()` says."""
        ship_classes(self._bridge.spark)
        return frazil.__version__
