"""What was used last, up to a number of things, or a weight."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """Remembers values by key, and forgets the one that was not used for longest; safe to share between threads.

    >>> known = Recent(2)
    >>> for number in (1, 2):
    ...     known.put(number, str(number))
    >>> known.get(1)
    '1'
    >>> known.put(3, "3")
    >>> known.get(2), known.get(1), len(known)
    (None, '1', 2)

    What values weigh may be told; then it is their weight together that is limited.

    >>> short = Recent(5, len)
    >>> for text in ("four", "two", "a"):
    ...     short.put(text, text)
    >>> short.get("four"), short.get("two"), len(short)
    (None, 'two', 2)
    """

    def __init__(self, most: int, weigh: Callable[[V], int] = lambda _: 1) -> None:
        self._most = most
        self._weigh = weigh
        self._weight = 0
        self._lock = Lock()
        self._values: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: K) -> V | None:
        """The value, or None if it is forgotten."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        """Remember a value."""
        with self._lock:
            if key in self._values:
                self._weight -= self._weigh(self._values.pop(key))
            self._values[key] = value
            self._weight += self._weigh(value)
            while self._weight > self._most:
                self._weight -= self._weigh(self._values.popitem(last=False)[1])

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._values.clear()
            self._weight = 0
