"""The only door to clocks and randomness.

Everything that depends on the time of day or on chance asks here, so that a test can run the whole library from one
seed. A lint rule bans `time.time`, `random` and `uuid.uuid4` elsewhere.

>>> with replaced(Ambient(seed=7, start_ms=1_000)):
...     now_ms(), now_ms() > 1_000
(1001, True)
"""

from __future__ import annotations

import contextlib
import random
import time
import uuid
from collections.abc import Iterator


class Ambient:
    """Clock and dice. With a seed both are deterministic: the clock ticks one millisecond per look."""

    def __init__(self, seed: int | None = None, start_ms: int | None = None) -> None:
        self._random: random.Random = random.SystemRandom() if seed is None else random.Random(seed)
        self._start_ms = start_ms

    def now_ms(self) -> int:
        if self._start_ms is None:
            return time.time_ns() // 1_000_000
        self._start_ms += 1
        return self._start_ms

    def uuid(self) -> uuid.UUID:
        return uuid.UUID(int=self._random.getrandbits(128), version=4)

    def jitter(self) -> float:
        return self._random.random()

    def sleep(self, seconds: float) -> None:
        if self._start_ms is None:
            time.sleep(seconds)
        else:
            self._start_ms += int(seconds * 1000)


_current = Ambient()


def now_ms() -> int:
    """Milliseconds since 1970, as all metadata writes them."""
    return _current.now_ms()


def new_uuid() -> uuid.UUID:
    """A random (version 4) UUID."""
    return _current.uuid()


def new_snapshot_id() -> int:
    """A positive 63-bit id: both halves of a UUID folded into one, as the specification suggests."""
    bits = _current.uuid().int
    return ((bits >> 64) ^ bits) & 0x7FFF_FFFF_FFFF_FFFF


def jitter() -> float:
    """A number in [0, 1) to spread retries."""
    return _current.jitter()


def sleep(seconds: float) -> None:
    """Wait; under a deterministic ambient only the clock moves."""
    _current.sleep(seconds)


@contextlib.contextmanager
def replaced(ambient: Ambient) -> Iterator[Ambient]:
    """Use another ambient inside the block (for tests)."""
    global _current
    before, _current = _current, ambient
    try:
        yield ambient
    finally:
        _current = before
