"""Calls that wait for a store, a few at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

AT_A_TIME = 16
"""More than there are processors: most of the time is spent waiting."""


def ahead(function: Callable[[T], R], items: Iterable[T], at_a_time: int = AT_A_TIME) -> Generator[R, None, None]:
    """Results in the order of the items, which are taken only as far ahead as calls run. None runs after the end.

    >>> list(ahead(lambda number: number * 2, range(4), at_a_time=2))
    [0, 2, 4, 6]
    """
    waiting: deque[Future[R]] = deque()
    with ThreadPoolExecutor(at_a_time, thread_name_prefix="frazil-ahead") as pool:
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) == at_a_time:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
