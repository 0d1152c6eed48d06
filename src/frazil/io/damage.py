"""Errors of readers, told as what they mean for a table: which file is damaged, or could not be read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pyarrow as pa

from frazil.errors import FrazilError, MalformedData, MalformedMetadata, StoreError, Unsupported


@contextlib.contextmanager
def reading(location: str) -> Iterator[None]:
    """Turn what pyarrow raises while it reads `location` into errors with a name and a hint."""
    try:
        yield
    except FrazilError:
        raise
    except pa.ArrowNotImplementedError as error:
        raise Unsupported(
            f"{location} uses something that cannot be read: {error}", hint="rewrite the file", location=location
        ) from error
    except pa.ArrowMemoryError as error:
        raise StoreError(f"not enough memory to read {location}", hint="read fewer columns at a time") from error
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        if "encrypted" in str(error):
            raise Unsupported(
                f"{location} is encrypted and no key was given: {error}", hint="open the table with its key management"
            ) from error
        # the store raises errors of its own: an OSError that arrives here is what pyarrow calls corrupt pages
        raise MalformedData(
            f"{location} is damaged: {error}",
            hint="restore the file from a backup, or delete it from the table",
            location=location,
        ) from error


@contextlib.contextmanager
def naming(location: str) -> Iterator[None]:
    """Say which metadata file is damaged, where what is raised knows only its bytes."""
    try:
        yield
    except MalformedMetadata as error:
        if location in error.message:
            raise
        raise MalformedMetadata(f"{location}: {error.message}", hint=error.hint, location=location) from error
