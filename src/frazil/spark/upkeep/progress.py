"""A line that tells how far long work is, where somebody looks at it."""

from __future__ import annotations

import sys
from threading import Lock
from types import TracebackType
from typing import Self, TextIO

_WIDTH = 30


class Progress:
    """Counts steps. It shows them on a terminal only, unless Spark shows its own progress there."""

    def __init__(self, what: str, steps: int, *, shown: bool, out: TextIO | None = None) -> None:
        self._what, self._steps, self._done = what, steps, 0
        self._out = sys.stderr if out is None else out
        self._shown = shown and steps > 1 and self._out.isatty()
        self._lock = Lock()

    def __enter__(self) -> Self:
        self._show()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            self._out.write("\n")

    def step(self) -> None:
        """One more is done."""
        with self._lock:
            self._done += 1
            self._show()

    def _show(self) -> None:
        if self._shown:
            full = _WIDTH * self._done // self._steps
            self._out.write(f"\r{self._what} [{'=' * full}{' ' * (_WIDTH - full)}] {self._done}/{self._steps}")
            self._out.flush()
