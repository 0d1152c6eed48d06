"""Files on the local disk, with names that appear whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from frazil import ambient
from frazil.errors import (
    AlreadyExists,
    FileMissing,
    FrazilError,
    InvalidName,
    MalformedData,
    PermissionDenied,
    StoreError,
)
from frazil.io import location as locations
from frazil.io.store import FileInfo, Sink, Store, check_range

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import fs

_TEMPORARY = ".frazil-tmp"
_NO_SUCH_FILE = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR}


class LocalStore(Store):
    """The local disk. New bytes go to a hidden file first and get their name by a hard link, or by rename to replace.

    ``root`` confines it: a location whose real path (links followed) lies elsewhere is refused. ``fsync=False`` makes
    `write` and sinks return before the disk has the bytes; `put_if_absent` and `replace` always wait.
    """

    def __init__(self, *, root: str | None = None, fsync: bool = True) -> None:
        self._root = None if root is None else Path(locations.parse(root).path).resolve()
        self._fsync = fsync

    def __repr__(self) -> str:
        return f"LocalStore(root={None if self._root is None else str(self._root)!r}, fsync={self._fsync})"

    def read(self, location: str) -> bytes:
        path = self._path(location)
        with _reading(location):
            return path.read_bytes()

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        check_range(location, offset, length)
        path = self._path(location)
        with _reading(location), path.open("rb", buffering=0) as file:
            if offset + length > os.fstat(file.fileno()).st_size:
                raise MalformedData(
                    f"{location} ends before byte {offset + length}",
                    hint="the file is cut short, or its metadata is wrong",
                )
            return _read_exactly(file.fileno(), offset, length)

    def size(self, location: str) -> int:
        path = self._path(location)
        with _reading(location):
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, "is a folder")
            return path.stat().st_size

    def exists(self, location: str) -> bool:
        path = self._path(location)
        with _reading(location):
            return path.is_file()

    def write(self, location: str, data: bytes) -> None:
        self._write_over(location, data, self._fsync)

    def replace(self, location: str, data: bytes) -> None:
        self._write_over(location, data, True)

    def put_if_absent(self, location: str, data: bytes) -> None:
        path = self._path(location)
        temporary = _write_temporary(path, location, data, durable=True)
        try:
            _link(temporary, path, location)
        finally:
            _forget(temporary)
        with _writing(location, applied="unknown"):
            _sync(path.parent)

    def delete(self, location: str) -> None:
        path = self._path(location)
        with _writing(location, applied="unknown"), contextlib.suppress(FileNotFoundError, NotADirectoryError):
            path.unlink()

    def list(self, prefix: str) -> Iterator[FileInfo]:
        folder = self._path(prefix)
        with _reading(prefix):
            yield from _walk(str(folder), locations.join(prefix))

    def open_input(self, location: str) -> pa.NativeFile:
        filesystem, path = self.filesystem(location)
        self.size(location)  # pyarrow has no error of its own for a folder
        with _reading(location):
            return filesystem.open_input_file(path)

    def open_output(self, location: str) -> Sink:
        return _LocalSink(location, self._path(location), self._fsync)

    def filesystem(self, location: str) -> tuple[fs.FileSystem, str]:
        from pyarrow.fs import LocalFileSystem

        return LocalFileSystem(), str(self._path(location))

    def sync(self, location: str, root: str) -> None:
        path, top = self._path(location), Path(locations.parse(root).path)
        if not self._fsync:
            return
        with _writing(location, applied="unknown"):
            _sync(path)
            for folder in path.parents:
                with contextlib.suppress(PermissionError):  # one that we may not open is not one that we made
                    _sync(folder)
                if folder == top:
                    break

    def _path(self, location: str) -> Path:
        place = locations.parse(location)
        if place.scheme != "file":
            raise InvalidName(f"{location} is not on the local disk", hint="use frazil.io.store.Stores to span stores")
        path = Path(place.path)
        if self._root is not None and not path.resolve().is_relative_to(self._root):
            raise PermissionDenied(f"{location} is outside {self._root}", hint="this store is confined to that folder")
        return path

    def _write_over(self, location: str, data: bytes, durable: bool) -> None:
        path = self._path(location)
        temporary = _write_temporary(path, location, data, durable=durable)
        try:
            with _writing(location, applied="no"):
                temporary.replace(path)
        except FrazilError:
            _forget(temporary)
            raise
        if durable:
            with _writing(location, applied="unknown"):
                _sync(path.parent)


class _LocalSink(Sink):
    """Streams into the hidden file beside the final name."""

    def __init__(self, location: str, path: Path, fsync: bool) -> None:
        super().__init__(location)
        self._path, self._fsync = path, fsync
        with _writing(location, applied="no"):
            _make_parents(path, durable=fsync)
            self._temporary = _temporary_beside(path)
            self._file: BinaryIO = self._temporary.open("xb")

    def _append(self, data: memoryview) -> None:
        with _writing(self.location, applied="no"):
            self._file.write(data)

    def _publish(self) -> None:
        try:
            with _writing(self.location, applied="no"), self._file:
                self._file.flush()
                if self._fsync:
                    os.fsync(self._file.fileno())
            _link(self._temporary, self._path, self.location)
        finally:
            _forget(self._temporary)
        if self._fsync:
            with _writing(self.location, applied="unknown"):
                _sync(self._path.parent)

    def _discard(self) -> None:
        with contextlib.suppress(OSError):
            self._file.close()
        _forget(self._temporary)

    def __del__(self) -> None:
        # A sink nobody closed was given up; its hidden file would stay for ever.
        if hasattr(self, "_file"):
            self.abort()


def _temporary_beside(path: Path) -> Path:
    return path.with_name(f".{ambient.new_uuid()}{_TEMPORARY}")


def _write_temporary(path: Path, location: str, data: bytes, *, durable: bool) -> Path:
    with _writing(location, applied="no"):
        _make_parents(path, durable=durable)
        temporary = _temporary_beside(path)
        try:
            with temporary.open("xb") as file:
                file.write(data)
                file.flush()
                if durable:
                    os.fsync(file.fileno())
        except BaseException:
            _forget(temporary)
            raise
    return temporary


def _link(temporary: Path, path: Path, location: str) -> None:
    """Give the hidden file its name, unless something has it."""
    try:
        os.link(temporary, path)
    except FileExistsError as error:
        # A network file system may repeat a link whose first answer was lost: then the name is ours after all.
        with contextlib.suppress(OSError):
            if path.samefile(temporary):
                return
        raise AlreadyExists(f"{location} exists already", hint="choose another name", location=location) from error
    except OSError as error:
        if error.errno in (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK):
            raise StoreError(
                f"the file system of {location} has no hard links, so nothing can be created atomically there",
                hint="use a file system with hard links or an object store",
                applied="no",
            ) from error
        raise _translated(error, location, "no") from error


def _make_parents(path: Path, *, durable: bool) -> None:
    missing = []
    folder = path.parent
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    if missing:
        path.parent.mkdir(parents=True, exist_ok=True)
    if durable:
        for made in missing:
            _sync(made.parent)


def _sync(path: Path) -> None:
    """Wait until the disk has the bytes of a file, or the names in a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _forget(temporary: Path) -> None:
    with contextlib.suppress(OSError):
        temporary.unlink(missing_ok=True)


def _read_exactly(descriptor: int, offset: int, length: int) -> bytes:
    data = os.pread(descriptor, length, offset)
    while len(data) < length:
        # One call gives at most 2 GiB.
        more = os.pread(descriptor, length - len(data), offset + len(data))
        if not more:
            raise OSError(errno.EIO, "the file became shorter while it was read")
        data += more
    return data


def _walk(folder: str, location: str) -> Iterator[FileInfo]:
    """Depth first. Entries may vanish while we look. Links to folders are not followed: they may lead in a circle, or
    to files of others, and what is listed here may be deleted as an orphan.
    """
    try:
        with os.scandir(folder) as entries:
            # A folder sorts as its name and a slash, so that the whole listing is in order.
            found = sorted((e.name + "/" * e.is_dir(follow_symlinks=False), e.path) for e in entries)
    except (FileNotFoundError, NotADirectoryError):
        return
    for name, path in found:
        place = f"{location}/{name}"
        if name.endswith("/"):
            yield from _walk(path, place[:-1])
        elif not (name.startswith(".") and name.endswith(_TEMPORARY)):
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(path)  # noqa: PTH116 - a Path for each of a million files costs more than the call
                if stat.S_ISREG(status.st_mode):
                    yield FileInfo(place, status.st_size, status.st_mtime_ns // 1_000_000)


@contextlib.contextmanager
def _reading(location: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _NO_SUCH_FILE:
            raise FileMissing(
                f"no file at {location}", hint="it was deleted or moved, or the location is wrong", location=location
            ) from error
        raise _translated(error, location, "no") from error


@contextlib.contextmanager
def _writing(location: str, *, applied: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _translated(error, location, applied) from error


def _translated(error: OSError, location: str, applied: str) -> StoreError:
    reason = error.strerror or str(error)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return PermissionDenied(
            f"{location}: {reason}", hint="check the owner and mode of the folder", location=location, applied=applied
        )
    return StoreError(f"{location}: {reason}", hint="check the disk and the path", location=location, applied=applied)
