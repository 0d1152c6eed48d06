"""One root for every error Frazil raises.

Each error has a stable ``code`` (for programs), a message that names the thing at fault, a ``hint`` a person can act
on, and ``retryable``: whether the same call may succeed if it is simply made again.

>>> try:
...     raise ColumnNotFound("no column 'idd' in table db.events", hint="did you mean 'id'?")
... except FrazilError as error:
...     error.code, error.retryable
('COLUMN_NOT_FOUND', False)
"""

from __future__ import annotations

from typing import Any, ClassVar


class FrazilError(Exception):
    """The root of all errors: a stable code, a message, a hint, and whether a retry may help."""

    code: ClassVar[str] = "ERROR"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str | None = None, **context: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.context = context

    def __str__(self) -> str:
        text = f"[{self.code}] {self.message}"
        return f"{text} Hint: {self.hint}" if self.hint else text

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.message, self.hint, self.context))


def _rebuild(kind: type[FrazilError], message: str, hint: str | None, context: dict[str, Any]) -> FrazilError:
    return kind(message, hint=hint, **context)


# What the caller asked for is wrong.


class InvalidArgument(FrazilError):
    """An argument that cannot be meant: a bad option, a bad combination, a value out of range."""

    code = "INVALID_ARGUMENT"


class InvalidName(InvalidArgument):
    """A table, namespace or column name that is empty, reserved, or could escape its folder."""

    code = "INVALID_NAME"


class InvalidSchema(InvalidArgument):
    """A schema, partition spec or sort order that the format forbids."""

    code = "INVALID_SCHEMA"


class InvalidEvolution(InvalidArgument):
    """A change of schema, spec or order that the format forbids."""

    code = "INVALID_EVOLUTION"


class InvalidExpression(InvalidArgument):
    """A filter that does not parse, or that compares things that cannot be compared."""

    code = "INVALID_EXPRESSION"


class ColumnNotFound(InvalidArgument):
    """A column that the schema does not have."""

    code = "COLUMN_NOT_FOUND"


class InvalidValue(InvalidArgument):
    """A value that does not fit its type, or a null where one is required."""

    code = "INVALID_VALUE"


class Unsupported(FrazilError):
    """Something the format version, the codec or this library does not support; refused rather than guessed."""

    code = "UNSUPPORTED"


class UnsupportedVersion(Unsupported):
    """A format version that is newer than this library."""

    code = "UNSUPPORTED_VERSION"


class MissingDependency(FrazilError):
    """An optional package or program that this call needs and that is not installed."""

    code = "MISSING_DEPENDENCY"


# Names that do, or do not, exist.


class NotFound(FrazilError):
    """Something that was named does not exist."""

    code = "NOT_FOUND"


class TableNotFound(NotFound):
    """No table of that name, or no table at that path."""

    code = "TABLE_NOT_FOUND"


class NamespaceNotFound(NotFound):
    """No namespace of that name."""

    code = "NAMESPACE_NOT_FOUND"


class SnapshotNotFound(NotFound):
    """No snapshot with that id, ref or time."""

    code = "SNAPSHOT_NOT_FOUND"


class RefNotFound(NotFound):
    """No branch or tag of that name."""

    code = "REF_NOT_FOUND"


class StoreMissing(NotFound):
    """A mixed table of which one store is there and the other is not."""

    code = "STORE_MISSING"


class FileMissing(NotFound):
    """A file the table's metadata refers to is not in the store."""

    code = "FILE_MISSING"


class AlreadyExists(FrazilError):
    """Something of that name exists already."""

    code = "ALREADY_EXISTS"


class TableAlreadyExists(AlreadyExists):
    """A table of that name exists already."""

    code = "TABLE_ALREADY_EXISTS"


class NamespaceAlreadyExists(AlreadyExists):
    """A namespace of that name exists already."""

    code = "NAMESPACE_ALREADY_EXISTS"


class NamespaceNotEmpty(FrazilError):
    """A namespace that still holds tables or namespaces."""

    code = "NAMESPACE_NOT_EMPTY"


# Bytes that are not what they claim to be.


class Malformed(FrazilError):
    """A file that is damaged, truncated or hostile."""

    code = "MALFORMED"


class MalformedMetadata(Malformed):
    """Metadata (JSON, Avro, Puffin footers) that is damaged, truncated or hostile."""

    code = "MALFORMED_METADATA"


class MalformedData(Malformed):
    """A data or delete file that does not hold what the metadata says."""

    code = "MALFORMED_DATA"


class ChecksumMismatch(Malformed):
    """Stored and computed checksums differ."""

    code = "CHECKSUM_MISMATCH"


# Commits.


class CommitFailed(FrazilError):
    """The commit was definitely not applied: another writer came first. Nothing changed."""

    code = "COMMIT_FAILED"
    retryable = True


class CommitConflict(FrazilError):
    """The commit was definitely not applied: a concurrent change contradicts it. Retrying alone cannot help."""

    code = "COMMIT_CONFLICT"


class CommitStateUnknown(FrazilError):
    """The answer to a commit was lost: it may or may not have been applied. Nothing was cleaned up.

    Not a kind of CommitFailed: who catches that one may delete files, and must not here.
    """

    code = "COMMIT_STATE_UNKNOWN"


# Stores and catalogs.


class StoreError(FrazilError):
    """The object store or disk refused or failed an operation."""

    code = "STORE_ERROR"
    retryable = True


class PermissionDenied(StoreError):
    """The object store, disk or catalog does not let us do this."""

    code = "PERMISSION_DENIED"
    retryable = False


class CatalogError(FrazilError):
    """The catalog's database or service failed."""

    code = "CATALOG_ERROR"
    retryable = True


MAY_BE_COMMITTED = (CommitStateUnknown, StoreError, CatalogError, SnapshotNotFound)
"""Errors of a commit after which it may be in the table, so that nothing is cleaned up: its answer was lost, or what it
made was looked for in a state that somebody else loaded.
"""
