"""Calls ahead of those who wait for them: never too many, and none after a failure."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from frazil.iceberg.ahead import ahead


def test_items_are_taken_only_as_far_ahead_as_calls_run():
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(100):
            taken.append(number)
            yield number

    results = ahead(lambda number: number, items(), at_a_time=4)
    assert taken == []
    assert next(results) == 0
    assert len(taken) == 4
    assert list(results) == list(range(1, 100))


def test_calls_run_at_the_same_time():
    both = threading.Barrier(2, timeout=10)
    assert sorted(ahead(lambda _: both.wait(), range(2), at_a_time=2)) == [0, 1]


@pytest.mark.parametrize("at", ["call", "items"])
def test_no_call_runs_after_a_failure(at: str):
    begun: set[int] = set()
    done: set[int] = set()

    def call(number: int) -> int:
        begun.add(number)
        if at == "call" and number == 3:
            raise ValueError("wrong")
        done.add(number)
        return number

    def items() -> Iterator[int]:
        yield from range(6)
        if at == "items":
            raise ValueError("wrong")
        yield from range(6, 1000)

    with pytest.raises(ValueError, match="wrong"):
        list(ahead(call, items(), at_a_time=4))
    assert begun - done <= {3}
    assert max(begun) < 10
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("frazil-ahead")]
