"""Where things are, from what people write."""

from __future__ import annotations

import os
import re
from pathlib import Path

from frazil.errors import InvalidArgument

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+):")


def absolute_location(path: str | Path) -> str:
    """A location from what people write: relative paths and `~` are for the local disk.

    >>> absolute_location("s3://bucket/t"), absolute_location("/a/./b/../c")
    ('s3://bucket/t', '/a/c')
    """
    if not isinstance(path, str | os.PathLike):
        raise InvalidArgument(f"{path!r} is no path", hint="give text or a pathlib.Path")
    text = os.fspath(path)
    if not text:
        raise InvalidArgument("an empty path", hint='write "." for the current folder')
    if scheme_of(text) is not None:
        return text
    return os.path.abspath(Path(text).expanduser())  # noqa: PTH100 - takes '..' out without following links


def scheme_of(text: str) -> str | None:
    """The scheme of a URL, None for a path."""
    found = _SCHEME.match(text)
    return None if found is None else found[1].lower().partition("+")[0]
