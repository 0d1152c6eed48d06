"""Files in this process's memory: ``memory://name/path``. For tests, trials and in-memory catalogs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, ClassVar

import pyarrow as pa
from pyarrow import fs

from frazil import ambient
from frazil.errors import AlreadyExists, FileMissing, InvalidName, MalformedData
from frazil.io import location as locations
from frazil.io.store import FileInfo, Sink, Store, check_range


class _Space:
    """The files of one name: path -> (bytes, when written)."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.files: dict[str, tuple[bytes, int]] = {}


class MemoryStore(Store):
    """A named space of files that every MemoryStore of that name in the process shares.

    >>> MemoryStore("demo").write("memory://demo/a", b"x")
    >>> MemoryStore("demo").read("memory://demo/a")
    b'x'
    >>> MemoryStore.forget("demo")
    >>> MemoryStore("demo").exists("memory://demo/a")
    False
    """

    _spaces: ClassVar[dict[str, _Space]] = {}
    _spaces_lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, name: str) -> None:
        self.name = name
        with MemoryStore._spaces_lock:
            self._space = MemoryStore._spaces.setdefault(name, _Space())

    @staticmethod
    def forget(name: str) -> None:
        """Drop the space of that name and its files."""
        with MemoryStore._spaces_lock:
            MemoryStore._spaces.pop(name, None)

    def __repr__(self) -> str:
        return f"MemoryStore({self.name!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (MemoryStore, (self.name,))

    def read(self, location: str) -> bytes:
        return self._file(location)[0]

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        check_range(location, offset, length)
        data = self.read(location)
        if offset + length > len(data):
            raise MalformedData(
                f"{location} ends before byte {offset + length}", hint="the file is cut short, or its metadata is wrong"
            )
        return data[offset : offset + length]

    def size(self, location: str) -> int:
        return len(self.read(location))

    def exists(self, location: str) -> bool:
        path = self._path(location)
        with self._space.lock:
            return path in self._space.files

    def write(self, location: str, data: bytes) -> None:
        path = self._path(location)
        with self._space.lock:
            self._space.files[path] = (bytes(data), ambient.now_ms())

    def replace(self, location: str, data: bytes) -> None:
        self.write(location, data)

    def put_if_absent(self, location: str, data: bytes) -> None:
        path = self._path(location)
        with self._space.lock:
            if path in self._space.files:
                raise AlreadyExists(f"{location} exists already", hint="choose another name", location=location)
            self._space.files[path] = (bytes(data), ambient.now_ms())

    def delete(self, location: str) -> None:
        path = self._path(location)
        with self._space.lock:
            self._space.files.pop(path, None)

    def list(self, prefix: str) -> Iterator[FileInfo]:
        folder = self._path(prefix)
        start = folder if folder == "/" else folder + "/"
        with self._space.lock:
            found = sorted((path, file) for path, file in self._space.files.items() if path.startswith(start))
        base = locations.join(prefix)
        for path, (data, modified_ms) in found:
            yield FileInfo(f"{base}/{path[len(start) :]}", len(data), modified_ms)

    def open_input(self, location: str) -> pa.NativeFile:
        return pa.BufferReader(self.read(location))

    def open_output(self, location: str) -> Sink:
        self._path(location)
        return _MemorySink(self, location)

    def filesystem(self, location: str) -> tuple[fs.FileSystem, str]:
        return fs.PyFileSystem(_ReadOnlyHandler(self)), self._path(location)

    def _path(self, location: str) -> str:
        place = locations.parse(location)
        if place.scheme != "memory" or place.authority != self.name:
            raise InvalidName(
                f"{location} is not in memory://{self.name}", hint="use frazil.io.store.Stores to span stores"
            )
        return place.path

    def _file(self, location: str) -> tuple[bytes, int]:
        path = self._path(location)
        with self._space.lock:
            file = self._space.files.get(path)
        if file is None:
            raise FileMissing(
                f"no file at {location}", hint="it was deleted or moved, or the location is wrong", location=location
            )
        return file


class _MemorySink(Sink):
    def __init__(self, store: MemoryStore, location: str) -> None:
        super().__init__(location)
        self._store, self._pieces = store, bytearray()

    def _append(self, data: memoryview) -> None:
        self._pieces += data

    def _publish(self) -> None:
        self._store.put_if_absent(self.location, bytes(self._pieces))

    def _discard(self) -> None:
        self._pieces.clear()


class _ReadOnlyHandler(fs.FileSystemHandler):  # type: ignore[misc]
    """What pyarrow asks of a file system it only reads from."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ReadOnlyHandler) and other._store.name == self._store.name

    def __hash__(self) -> int:
        return hash(self._store.name)

    def get_type_name(self) -> str:
        return "frazil-memory"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        return [self._info(path) for path in paths]

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        base = self._location(selector.base_dir)
        found = ((locations.parse(file.location).path, file.size) for file in self._store.list(base))
        return [fs.FileInfo(path, fs.FileType.File, size=size) for path, size in found]

    def open_input_file(self, path: str) -> pa.NativeFile:
        if not self._store.exists(self._location(path)):
            raise FileNotFoundError(path)
        return self._store.open_input(self._location(path))

    open_input_stream = open_input_file

    def _location(self, path: str) -> str:
        return f"memory://{self._store.name}{path}"

    def _info(self, path: str) -> fs.FileInfo:
        location = self._location(path)
        if self._store.exists(location):
            return fs.FileInfo(path, fs.FileType.File, size=self._store.size(location))
        folder = next(self._store.list(location), None) is not None
        return fs.FileInfo(path, fs.FileType.Directory if folder else fs.FileType.NotFound)

    def _refuse(self, *_: Any, **__: Any) -> None:
        raise PermissionError("this file system is for reading")

    create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = delete_file = _refuse
    move = copy_file = open_output_stream = open_append_stream = _refuse
