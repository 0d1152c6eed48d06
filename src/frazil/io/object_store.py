"""Files in S3 and what speaks its protocol, through obstore; bulk reads through pyarrow's own S3 client."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    NotSupportedError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from obstore.store import S3Store

from frazil import ambient
from frazil.errors import (
    AlreadyExists,
    FileMissing,
    FrazilError,
    InvalidArgument,
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

_PUT_ATTEMPTS = 4
_SPOOL_BYTES = 32 * 1024 * 1024
_DEFINITE = (PermissionDeniedError, UnauthenticatedError, NotSupportedError, FileNotFoundError, ValueError)


@dataclass(frozen=True, slots=True)
class S3Options:
    """How to reach S3. What is not given comes from the environment, as with every AWS client.

    >>> S3Options.from_properties({"s3.region": "eu-west-1", "s3.secret-access-key": "hush"})
    S3Options(endpoint=None, region='eu-west-1', path_style=True)
    """

    endpoint: str | None = None
    region: str | None = None
    path_style: bool = True
    access_key_id: str | None = field(default=None, repr=False)
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)

    @staticmethod
    def from_properties(properties: Mapping[str, str]) -> S3Options:
        """From the names PyIceberg and Java use: ``s3.endpoint``, ``s3.region``, ``s3.access-key-id``, ..."""
        path_style = properties.get("s3.path-style-access", "true").lower()
        if path_style not in ("true", "false"):
            raise InvalidArgument(f"s3.path-style-access is {path_style!r}", hint="it is either true or false")
        return S3Options(
            endpoint=properties.get("s3.endpoint"),
            region=properties.get("s3.region"),
            path_style=path_style == "true",
            access_key_id=properties.get("s3.access-key-id"),
            secret_access_key=properties.get("s3.secret-access-key"),
            session_token=properties.get("s3.session-token"),
        )

    def scrub(self, text: str) -> str:
        """``text`` without the credentials: services repeat them in their error messages."""
        for secret in (self.secret_access_key, self.session_token, self.access_key_id):
            if secret:
                text = text.replace(secret, "***")
        return text


class ObjectStore(Store):
    """One bucket.

    Conditional writes are sent once each, by a client that does not retry on its own: a repeated request would meet the
    file its lost first try had made, and call it somebody else's.
    """

    def __init__(self, bucket: str, options: S3Options | None = None) -> None:
        if not bucket:
            raise InvalidName("an s3 location without a bucket", hint="write s3://bucket/key")
        self.bucket = bucket
        self.options = options or S3Options()
        self._client = _client(bucket, self.options)
        self._client_once = _client(bucket, self.options, max_retries=0)
        self._filesystem: fs.FileSystem | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"ObjectStore({self.bucket!r}, {self.options!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (ObjectStore, (self.bucket, self.options))

    def read(self, location: str) -> bytes:
        key = self._key(location)
        with self._errors(location):
            return bytes(obstore.get(self._client, key).bytes())

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        check_range(location, offset, length)
        key = self._key(location)
        data = b""
        if length:
            try:
                with self._errors(location):
                    data = bytes(obstore.get_range(self._client, key, start=offset, length=length))
            except StoreError:
                # A range that starts behind the end is an error of the service, one that ends there is cut short.
                if offset < self.size(location):
                    raise
        if len(data) < length:
            raise MalformedData(
                f"{location} ends before byte {offset + length}",
                hint="the file is cut short, or its metadata is wrong",
            )
        return data

    def size(self, location: str) -> int:
        key = self._key(location)
        with self._errors(location):
            return obstore.head(self._client, key)["size"]

    def exists(self, location: str) -> bool:
        try:
            self.size(location)
        except FileMissing:
            return False
        return True

    def write(self, location: str, data: bytes) -> None:
        key = self._key(location)
        with self._errors(location, applied="unknown"):
            obstore.put(self._client, key, data)

    def replace(self, location: str, data: bytes) -> None:
        self.write(location, data)

    def put_if_absent(self, location: str, data: bytes) -> None:
        key = self._key(location)
        lost = False
        for attempt in range(_PUT_ATTEMPTS):
            if attempt:
                ambient.sleep((0.5 + ambient.jitter()) * 0.1 * 2**attempt)
            try:
                with self._errors(location, applied="unknown" if lost else "no", only=_DEFINITE):
                    obstore.put(self._client_once, key, data, mode="create")
                return
            except AlreadyExistsError:
                if not lost:
                    raise _exists_already(location) from None
            except BaseError:
                lost = True
            # The answer was lost, now or in an earlier attempt: what lies there tells whose write it was.
            with contextlib.suppress(FileMissing, StoreError):
                if self.read(location) == data:
                    return
                raise _exists_already(location)
        raise StoreError(
            f"no answer from the store about {location} in {_PUT_ATTEMPTS} attempts: it may or may not exist now",
            hint="look whether the file is there before trying again",
            location=location,
            applied="unknown",
        )

    def delete(self, location: str) -> None:
        key = self._key(location)
        with contextlib.suppress(FileMissing), self._errors(location, applied="unknown"):
            obstore.delete(self._client, key)

    def delete_many(self, places: Iterable[str]) -> None:
        wanted = list(places)
        try:
            keys = [self._key(place) for place in wanted]
            with self._errors(f"s3://{self.bucket}", applied="unknown"):
                obstore.delete(self._client, keys)
        except FrazilError:
            # One by one, to find which of them it is.
            super().delete_many(wanted)

    def list(self, prefix: str) -> Iterator[FileInfo]:
        key = self._key(prefix, folder=True)
        start = prefix.rstrip("/") if key else f"{prefix.partition(':')[0]}://{self.bucket}"
        with self._errors(prefix):
            for batch in obstore.list(self._client, key or None, chunk_size=1000):
                for entry in batch:
                    rest = entry["path"][len(key) :].lstrip("/")
                    modified_ms = round(entry["last_modified"].timestamp() * 1000)
                    yield FileInfo(f"{start}/{rest}", entry["size"], modified_ms)

    def open_input(self, location: str) -> pa.NativeFile:
        filesystem, path = self.filesystem(location)
        with self._errors(location):
            return filesystem.open_input_file(path)

    def open_output(self, location: str) -> Sink:
        self._key(location)
        return _ObjectSink(self, location)

    def filesystem(self, location: str) -> tuple[fs.FileSystem, str]:
        key = self._key(location, folder=True)
        with self._lock:
            if self._filesystem is None:
                self._filesystem = _arrow_filesystem(self.options)
        return self._filesystem, f"{self.bucket}/{key}".rstrip("/")

    def upload(self, location: str, file: Any) -> None:
        """Send a whole open file, in parts when it is large; what is there is written over."""
        key = self._key(location)
        with self._errors(location, applied="unknown"):
            obstore.put(self._client, key, file)

    def _key(self, location: str, *, folder: bool = False) -> str:
        place = locations.parse(location)
        if place.scheme not in locations.S3_SCHEMES or place.authority != self.bucket:
            raise InvalidName(
                f"{location} is not in the bucket {self.bucket}", hint="use frazil.io.store.Stores to span stores"
            )
        segments = place.key.split("/")
        if place.key and ("" in segments or "." in segments):
            raise InvalidName(
                f"{location} has an empty segment or '.' in its key",
                hint="such keys cannot be addressed here; write the location without '//' and '/./'",
            )
        if not place.key and not folder:
            raise InvalidName(f"{location} names a bucket, not a file", hint="write s3://bucket/key")
        return place.key

    @contextlib.contextmanager
    def _errors(
        self,
        location: str,
        *,
        applied: str = "no",
        only: tuple[type[Exception], ...] = (BaseError, OSError, ValueError),
    ) -> Iterator[None]:
        """Errors of obstore and pyarrow become ours, without their chain: their text may hold credentials."""
        try:
            yield
        except only as error:
            raise self._translated(error, location, applied) from None

    def _translated(self, error: Exception, location: str, applied: str) -> FrazilError:
        reason = self.options.scrub(str(error).partition("\n\nDebug source")[0])[:500]
        if isinstance(error, FileNotFoundError):
            if "NoSuchBucket" in reason:
                return StoreError(
                    f"{location}: there is no bucket {self.bucket}",
                    hint="create it, or check s3.endpoint and s3.region",
                    location=location,
                    applied=applied,
                )
            return FileMissing(
                f"no file at {location}", hint="it was deleted or moved, or the location is wrong", location=location
            )
        if isinstance(error, PermissionDeniedError | UnauthenticatedError | PermissionError):
            return PermissionDenied(
                f"{location}: {reason}",
                hint="check the s3.* credentials and the bucket's policy",
                location=location,
                applied=applied,
            )
        return StoreError(
            f"{location}: {reason}",
            hint="check s3.endpoint, s3.region and the network",
            location=location,
            applied=applied,
        )


class _ObjectSink(Sink):
    """Gathers the file here, on disk when large, and sends it at the end: an abort leaves no half upload behind."""

    def __init__(self, store: ObjectStore, location: str) -> None:
        super().__init__(location)
        self._store = store
        self._file = tempfile.SpooledTemporaryFile(max_size=_SPOOL_BYTES)  # noqa: SIM115 - closed by close or abort

    def _append(self, data: memoryview) -> None:
        try:
            self._file.write(data)
        except OSError as error:
            raise StoreError(
                f"no room to gather {self.location}: {error.strerror}", hint="free the temporary folder", applied="no"
            ) from error

    def _publish(self) -> None:
        with self._file:
            # Best effort: S3 has no condition on an upload in parts. Names of data files are unique by construction.
            if self._store.exists(self.location):
                raise _exists_already(self.location)
            self._file.seek(0)
            self._store.upload(self.location, self._file)

    def _discard(self) -> None:
        self._file.close()


def _exists_already(location: str) -> AlreadyExists:
    return AlreadyExists(f"{location} exists already", hint="choose another name", location=location)


def _region(options: S3Options) -> str:
    return options.region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"


def _client(bucket: str, options: S3Options, *, max_retries: int = 5) -> S3Store:
    config: dict[str, Any] = {
        "region": _region(options),
        "endpoint": options.endpoint,
        "access_key_id": options.access_key_id,
        "secret_access_key": options.secret_access_key,
        "session_token": options.session_token,
        "virtual_hosted_style_request": not options.path_style,
    }
    given: Any = {name: value for name, value in config.items() if value is not None}
    try:
        return S3Store(
            bucket,
            config=given,
            client_options={"allow_http": (options.endpoint or "").startswith("http://")},
            retry_config={"max_retries": max_retries},
        )
    except (BaseError, ValueError) as error:
        reason = options.scrub(str(error))[:500]
        raise InvalidArgument(f"bucket {bucket}: {reason}", hint="check the s3.* properties") from None


def _arrow_filesystem(options: S3Options) -> fs.FileSystem:
    from pyarrow.fs import S3FileSystem

    scheme, _, host = (options.endpoint or "https://").partition("://")
    return S3FileSystem(
        access_key=options.access_key_id,
        secret_key=options.secret_access_key,
        session_token=options.session_token,
        region=_region(options),
        scheme=scheme,
        endpoint_override=host.rstrip("/") or None,
        force_virtual_addressing=not options.path_style,
    )
