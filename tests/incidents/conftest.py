"""Every test here runs from one seed: clocks tick by themselves, and whoever waits only moves the clock."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from frazil import ambient

START_MS = 1_700_000_000_000


@pytest.fixture(autouse=True)
def clock() -> Iterator[ambient.Ambient]:
    with ambient.replaced(ambient.Ambient(seed=4, start_ms=START_MS)) as replaced:
        yield replaced
