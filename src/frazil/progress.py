"""A line that tells how far long work is, where somebody looks at it."""

from __future__ import annotations

import sys
from threading import Lock
from time import monotonic
from types import TracebackType
from typing import Self, TextIO

_WIDTH = 30
_AFTER = 1.0
"""Seconds of silence: what is done by then needs no line."""
_EVERY = 0.1


class Progress:
    """Counts steps, of how many in all if that is known. It shows them on a terminal only."""

    def __init__(self, what: str, steps: int | None = None, *, shown: bool = True, out: TextIO | None = None) -> None:
        self._what, self._steps, self._done = what, steps, 0
        self._out = sys.stderr if out is None else out
        self._wanted = shown and self._out.isatty()
        self._next = monotonic() + _AFTER
        self._has_line = False
        self._lock = Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._has_line:
            self._show()
            self._out.write("\n")

    def step(self, count: int = 1) -> None:
        """So many more are done."""
        with self._lock:
            self._done += count
            if self._wanted and monotonic() >= self._next:
                self._next = monotonic() + _EVERY
                self._has_line = True
                self._show()

    def _show(self) -> None:
        bar, of = "", ""
        if self._steps:
            full = min(_WIDTH, _WIDTH * self._done // self._steps)
            bar, of = f" [{'=' * full}{' ' * (_WIDTH - full)}]", f"/{self._steps:,}"
        self._out.write(f"\r{self._what}{bar} {self._done:,}{of}")
        self._out.flush()
