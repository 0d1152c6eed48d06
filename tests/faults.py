"""A store that fails on demand: before an effect (it did not happen) or after it (it did, and the answer is lost).

>>> from frazil.io.memory_store import MemoryStore
>>> store = FaultyStore(MemoryStore("faults"), [Fault("put_if_absent", "after", StoreError("time-out"), match="v2.")])
>>> store.put_if_absent("memory://faults/v1.json", b"1")
>>> store.put_if_absent("memory://faults/v2.json", b"2")
Traceback (most recent call last):
    ...
frazil.errors.StoreError: [STORE_ERROR] time-out
>>> store.exists("memory://faults/v2.json"), [verb for verb, _ in store.calls]
(True, ['put_if_absent', 'put_if_absent', 'exists'])
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from frazil.errors import StoreError
from frazil.io.store import FileInfo, Sink, Store

__all__ = ["Fault", "FaultyStore", "StoreError"]


@dataclass(frozen=True)
class Fault:
    """What to do around one call: raise ``error``, or run ``hook(location)`` (to wait at a barrier, or meddle).

    ``verb`` is a method of Store, or ``close`` for the end of a sink. It strikes the calls whose location contains
    ``match``, from the ``first`` such call on, ``times`` times.
    """

    verb: str
    at: Literal["before", "after"]
    error: BaseException | None = None
    match: str = ""
    first: int = 1
    times: int = 1
    hook: Callable[[str], None] | None = None


class FaultyStore(Store):
    """Another store, with a plan of faults. ``calls`` tells what was asked of it, in order."""

    def __init__(self, inner: Store, plan: Sequence[Fault] = ()) -> None:
        self.inner = inner
        self.plan = list(plan)
        self.calls: list[tuple[str, str]] = []
        self._seen: dict[int, int] = {}
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def around(self, verb: str, location: str) -> Iterator[None]:
        with self._lock:
            self.calls.append((verb, location))
        self._strike(verb, location, "before")
        yield
        self._strike(verb, location, "after")

    def _strike(self, verb: str, location: str, at: str) -> None:
        for fault in self.plan:
            if fault.verb != verb or fault.at != at or fault.match not in location:
                continue
            with self._lock:
                count = self._seen[id(fault)] = self._seen.get(id(fault), 0) + 1
            if fault.first <= count < fault.first + fault.times:
                if fault.hook is not None:
                    fault.hook(location)
                if fault.error is not None:
                    raise fault.error

    def _ask(self, verb: str, location: str, *more: Any) -> Any:
        with self.around(verb, location):
            return getattr(self.inner, verb)(location, *more)

    def read(self, location: str) -> bytes:
        return self._ask("read", location)

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        return self._ask("read_range", location, offset, length)

    def size(self, location: str) -> int:
        return self._ask("size", location)

    def exists(self, location: str) -> bool:
        return self._ask("exists", location)

    def write(self, location: str, data: bytes) -> None:
        self._ask("write", location, data)

    def put_if_absent(self, location: str, data: bytes) -> None:
        self._ask("put_if_absent", location, data)

    def replace(self, location: str, data: bytes) -> None:
        self._ask("replace", location, data)

    def delete(self, location: str) -> None:
        self._ask("delete", location)

    def delete_many(self, places: Iterable[str]) -> None:
        # One call of `delete` each, so that a plan has one verb to strike.
        super().delete_many(places)

    def list(self, prefix: str) -> Iterator[FileInfo]:
        with self.around("list", prefix):
            found = [*self.inner.list(prefix)]
        return iter(found)

    def open_input(self, location: str) -> Any:
        return self._ask("open_input", location)

    def open_output(self, location: str) -> Sink:
        return _FaultySink(self, self._ask("open_output", location))

    def filesystem(self, location: str) -> Any:
        return self._ask("filesystem", location)


class _FaultySink(Sink):
    def __init__(self, store: FaultyStore, inner: Sink) -> None:
        super().__init__(inner.location)
        self._store, self._inner = store, inner

    def _append(self, data: memoryview) -> None:
        self._inner.write(data)

    def _publish(self) -> None:
        with self._store.around("close", self.location):
            self._inner.close()

    def _discard(self) -> None:
        self._inner.abort()


EFFECTS = {"write", "put_if_absent", "replace", "close", "delete"}


class Mortal(FaultyStore):
    """A store whose process dies before one of its effects; after that nothing more happens."""

    dies_at: int | None = None
    effects = 0

    def _strike(self, verb: str, location: str, at: str) -> None:
        if self.dies_at is None or verb not in EFFECTS or at != "before":
            return
        self.effects += 1
        if self.effects >= self.dies_at:
            raise KeyboardInterrupt
