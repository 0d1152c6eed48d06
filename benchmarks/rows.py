"""Rows to write and read: numbers, text and times, the same on every machine."""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def made(count: int) -> pa.Table:
    """A table of five columns."""
    chance = np.random.default_rng(0)
    words = pa.array([f"word-{number}" for number in range(1_000)])
    return pa.table(
        {
            "id": pa.array(np.arange(count)),
            "customer": pa.array(chance.integers(0, 1_000_000, count)),
            "amount": pa.array(chance.random(count)),
            "word": words.take(pa.array(chance.integers(0, len(words), count))),
            "at": pa.array(1_700_000_000_000_000 + np.arange(count) * 1_000).cast(pa.timestamp("us")),
        }
    )
