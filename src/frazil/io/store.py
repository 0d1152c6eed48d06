"""One interface to files, whatever holds them: `Store`.

A store works on locations exactly as metadata spells them. It never guesses: a name that exists is not written over
except by the two verbs that say so (`write`, `replace`), and an operation whose answer was lost says that it was.

>>> store = store_for("memory://example/t")
>>> store.put_if_absent("memory://example/t/v1", b"one")
>>> [(file.location, file.size) for file in store.list("memory://example/t")]
[('memory://example/t/v1', 3)]
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from frazil.errors import FrazilError, InvalidArgument, PermissionDenied, StoreError, Unsupported
from frazil.io import location as locations

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import fs


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One file of a listing. ``location`` begins with the prefix that was listed, in its spelling."""

    location: str
    size: int
    modified_ms: int


class Sink(ABC):
    """A file being written. It appears at its location when `close` returns, and not at all after `abort`.

    As a context manager it closes, or aborts when the block raised. pyarrow's writers take it as a file object.
    """

    def __init__(self, location: str) -> None:
        self.location = location
        self.closed = False
        self._position = 0

    def write(self, data: Any) -> int:
        """Append any bytes-like object."""
        if self.closed:
            raise InvalidArgument(f"{self.location} is already closed", hint="open a new sink to write more")
        view = memoryview(data).cast("B")
        self._append(view)
        self._position += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        """The number of bytes written so far."""
        return self._position

    def flush(self) -> None:  # noqa: B027 - bytes become visible at `close` only, yet writers call it
        """Nothing to do."""

    def close(self) -> None:
        """Make the file visible, whole and durable; AlreadyExists when something is at its location."""
        if not self.closed:
            self.closed = True
            self._publish()

    def abort(self) -> None:
        """Forget what was written. Nothing is ever visible at the location."""
        if not self.closed:
            self.closed = True
            self._discard()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    @abstractmethod
    def _append(self, data: memoryview) -> None: ...

    @abstractmethod
    def _publish(self) -> None: ...

    @abstractmethod
    def _discard(self) -> None: ...


class Store(ABC):
    """Files by location. Safe to share between threads.

    Errors: FileMissing (no such file), AlreadyExists, PermissionDenied, InvalidName (a location that is no location),
    StoreError for everything the disk or service did. `may_have_applied` tells what a failed write left behind.
    """

    @abstractmethod
    def read(self, location: str) -> bytes:
        """The whole file."""

    @abstractmethod
    def read_range(self, location: str, offset: int, length: int) -> bytes:
        """Exactly ``length`` bytes from ``offset``; MalformedData when the file ends before."""

    @abstractmethod
    def size(self, location: str) -> int:
        """The file's length in bytes."""

    @abstractmethod
    def exists(self, location: str) -> bool:
        """Whether there is a file (a folder is not a file)."""

    @abstractmethod
    def write(self, location: str, data: bytes) -> None:
        """Put a file there, whether or not one was there before. Readers see the old bytes or the new."""

    @abstractmethod
    def put_if_absent(self, location: str, data: bytes) -> None:
        """Create the file atomically and durably, or raise AlreadyExists and change nothing.

        StoreError when neither could be established: then `may_have_applied` says whether the file may exist.
        """

    @abstractmethod
    def replace(self, location: str, data: bytes) -> None:
        """Like `write`, and durable whatever the store's options say: for pointers such as ``version-hint.text``."""

    @abstractmethod
    def delete(self, location: str) -> None:
        """Remove the file. A file that is not there is removed already."""

    def delete_many(self, places: Iterable[str]) -> None:
        """Remove all of them, going on past failures; then StoreError with ``failed`` in its context if any failed."""
        failed: dict[str, FrazilError] = {}
        for place in places:
            try:
                self.delete(place)
            except FrazilError as error:
                failed[place] = error
        raise_undeleted(failed)

    @abstractmethod
    def list(self, prefix: str) -> Iterator[FileInfo]:
        """Every file in the folder ``prefix`` and below, sorted by location. Nothing if there is no such folder."""

    @abstractmethod
    def open_input(self, location: str) -> pa.NativeFile:
        """A random-access file for Parquet and ORC readers."""

    @abstractmethod
    def open_output(self, location: str) -> Sink:
        """A new file to be written in pieces; see `Sink`."""

    @abstractmethod
    def filesystem(self, location: str) -> tuple[fs.FileSystem, str]:
        """pyarrow's file system for this location and the path in it, for bulk reads."""

    def sync(self, location: str, root: str) -> None:  # noqa: B027 - object stores show nothing before it is durable
        """Make durable a file that something else wrote, and the folders it is in, up to the folder ``root``.

        What this store writes is durable already.
        """


def may_have_applied(error: FrazilError) -> bool:
    """Whether a write that failed with ``error`` may nevertheless have taken effect.

    Only a store that is certain says no (AlreadyExists, or ``applied="no"`` in the error's context).
    """
    return isinstance(error, StoreError) and error.context.get("applied") != "no"


def raise_undeleted(failed: Mapping[str, FrazilError]) -> None:
    """StoreError for what `Store.delete_many` could not remove, if anything."""
    if failed:
        place, error = next(iter(failed.items()))
        raise StoreError(
            f"{len(failed)} files could not be deleted, the first of them {place}: {error.message}",
            hint="deleting is idempotent: fix the cause and delete them again",
            failed=sorted(failed),
        )


def check_range(location: str, offset: int, length: int) -> None:
    """InvalidArgument for a range that cannot be one."""
    if offset < 0 or length < 0:
        raise InvalidArgument(
            f"range {offset}+{length} of {location} is negative", hint="offsets and lengths start at zero"
        )


class ForwardingStore(Store):
    """A store that hands every operation to another one; a subclass says which, and where the file is there."""

    @abstractmethod
    def route(self, location: str) -> tuple[Store, str]:
        """The store that has ``location``, and the location to ask it for."""

    def route_to_delete(self, location: str) -> tuple[Store, str]:
        """The same for a file that is to go, which may be refused."""
        return self.route(location)

    def read(self, location: str) -> bytes:
        store, place = self.route(location)
        return store.read(place)

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        store, place = self.route(location)
        return store.read_range(place, offset, length)

    def size(self, location: str) -> int:
        store, place = self.route(location)
        return store.size(place)

    def exists(self, location: str) -> bool:
        store, place = self.route(location)
        return store.exists(place)

    def write(self, location: str, data: bytes) -> None:
        store, place = self.route(location)
        store.write(place, data)

    def put_if_absent(self, location: str, data: bytes) -> None:
        store, place = self.route(location)
        store.put_if_absent(place, data)

    def replace(self, location: str, data: bytes) -> None:
        store, place = self.route(location)
        store.replace(place, data)

    def delete(self, location: str) -> None:
        store, place = self.route_to_delete(location)
        store.delete(place)

    def delete_many(self, places: Iterable[str]) -> None:
        groups: dict[int, tuple[Store, list[str]]] = {}
        failed: dict[str, FrazilError] = {}
        for place in places:
            try:
                store, target = self.route_to_delete(place)
            except FrazilError as error:
                failed[place] = error
            else:
                groups.setdefault(id(store), (store, []))[1].append(target)
        for store, targets in groups.values():
            try:
                store.delete_many(targets)
            except FrazilError as error:
                failed.update(dict.fromkeys(error.context.get("failed", targets), error))
        raise_undeleted(failed)

    def list(self, prefix: str) -> Iterator[FileInfo]:
        store, place = self.route(prefix)
        if place == prefix:
            yield from store.list(place)
            return
        for file in store.list(place):
            yield replace(file, location=prefix.rstrip("/") + file.location[len(place.rstrip("/")) :])

    def open_input(self, location: str) -> pa.NativeFile:
        store, place = self.route(location)
        return store.open_input(place)

    def open_output(self, location: str) -> Sink:
        store, place = self.route(location)
        return store.open_output(place)

    def filesystem(self, location: str) -> tuple[fs.FileSystem, str]:
        store, place = self.route(location)
        return store.filesystem(place)

    def sync(self, location: str, root: str) -> None:
        store, place = self.route(location)
        store.sync(place, self.route(root)[1])


class Stores(ForwardingStore):
    """The stores of a table that may span several: each location goes to the store of its scheme and bucket.

    Made from properties alone, so it can be sent to another process.
    """

    def __init__(self, properties: Mapping[str, str] | None = None) -> None:
        self._properties = dict(properties or {})
        self._stores: dict[tuple[str, str], Store] = {}
        self._lock = threading.Lock()

    def route(self, location: str) -> tuple[Store, str]:
        place = locations.parse(location)
        key = (place.scheme, place.authority)
        with self._lock:
            store = self._stores.get(key)
            if store is None:
                store = self._stores[key] = store_for(location, self._properties)
        return store, location

    def __repr__(self) -> str:
        return f"Stores({', '.join(sorted(self._properties))})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Stores, (self._properties,))


class RelocatingStore(ForwardingStore):
    """Reads a table that was copied: locations under an old prefix are looked up under the new one.

    Every spelling of an old prefix counts (``/p``, ``file:/p``, ``file:///p``); the longest that fits wins; other
    locations pass unchanged. Nothing outside the new folders is ever deleted: it is the original's.

    >>> store = RelocatingStore(Stores(), [("/golden/db", "memory://copy/db")])
    >>> store.route("file:///golden/db/t/x")[1], store.route("/golden/db2/x")[1]
    ('memory://copy/db/t/x', '/golden/db2/x')
    """

    def __init__(self, inner: Store, mapping: Sequence[tuple[str, str]]) -> None:
        self._inner = inner
        self._mapping = sorted(mapping, key=lambda pair: len(locations.parse(pair[0]).path), reverse=True)

    def route(self, location: str) -> tuple[Store, str]:
        for old, new in self._mapping:
            rest = locations.relative_to(location, old)
            if rest is not None:
                return self._inner, locations.join(new, rest)
        return self._inner, location

    def route_to_delete(self, location: str) -> tuple[Store, str]:
        store, place = self.route(location)
        if all(locations.relative_to(place, new) is None for _, new in self._mapping):
            raise PermissionDenied(
                f"{location} lies outside the relocated table, and may belong to the table it was copied from",
                hint="delete it by hand if nothing else uses it",
            )
        return store, place

    def __repr__(self) -> str:
        return f"RelocatingStore({self._inner!r}, {self._mapping!r})"


def store_for(location: str, properties: Mapping[str, str] | None = None) -> Store:
    """The store that holds ``location``, by its scheme: local disk, ``memory:`` or S3.

    Properties: ``s3.*`` (see `frazil.io.object_store.S3Options`), ``file.root`` (refuse local files outside this
    folder) and ``file.fsync`` (``false``: do not wait for the disk on plain writes).
    """
    place, given = locations.parse(location), dict(properties or {})
    if place.scheme == "file":
        from frazil.io.local_store import LocalStore

        return LocalStore(root=given.get("file.root"), fsync=given.get("file.fsync", "true").lower() != "false")
    if place.scheme == "memory":
        from frazil.io.memory_store import MemoryStore

        return MemoryStore(place.authority)
    if place.scheme in locations.S3_SCHEMES:
        from frazil.io.object_store import ObjectStore, S3Options

        return ObjectStore(place.authority, S3Options.from_properties(given))
    raise Unsupported(
        f"no store for {place.scheme}: locations ({location})",
        hint="supported are local paths, file:, memory:, s3:, s3a: and s3n:",
    )
