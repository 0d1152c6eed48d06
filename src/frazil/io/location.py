"""Locations as they stand in table metadata: plain absolute paths and URIs.

The text is literal. ``%20`` in a location is those three characters, a ``?`` or ``#`` belongs to the file's name, and
nothing is ever decoded, because that is how Java writes and opens them. New locations keep the spelling of the one they
were made from; only comparisons look through spelling.

>>> join("file:/w/t1", "data", "a b.parquet")
'file:/w/t1/data/a b.parquet'
>>> same("file:/w/t1", "/w/t1"), same("s3://b/k", "s3a://b/k"), same("s3://b/k", "s3a://b/k", one_s3=True)
(True, False, True)
>>> relative_to("file:///w/t1/data/x", "/w/t1"), relative_to("/w/t10/x", "/w/t1")
('data/x', None)
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from frazil.errors import InvalidName

S3_SCHEMES = frozenset({"s3", "s3a", "s3n"})
"""The three names Hadoop has given to one kind of store."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):")
_MAX_LENGTH = 32_768


@dataclass(frozen=True, slots=True)
class Location:
    """A location taken apart, in one canonical form: two equal values name the same file.

    ``path`` starts with a slash and does not end with one (except the root, ``/``).

    >>> parse("file:/a//b/") == parse("/a/b")
    True
    >>> parse("s3://bucket/a%20b?c").key
    'a%20b?c'
    """

    scheme: str
    authority: str
    path: str

    @property
    def key(self) -> str:
        """The path as object stores name it: without the leading slash."""
        return self.path[1:]

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"


def parse(text: str) -> Location:
    """Take a location apart; InvalidName when it is relative, has ``..`` in it, or carries credentials."""
    scheme, authority, path = _split(text)
    segments = path.split("/")
    if ".." in segments:
        raise InvalidName(
            f"location {text!r} has a '..' in its path", hint="write the location without '..'", location=text
        )
    if scheme == "file":
        if authority not in ("", "localhost"):
            raise InvalidName(
                f"location {text!r} names a host, {authority!r}",
                hint=f"files on this machine are file:/path or file:///path; did you mean file:///{authority}{path}?",
                location=text,
            )
        # The file system takes '//' and '/./' for '/': so must every comparison.
        return Location("file", "", "/" + "/".join(s for s in segments if s not in ("", ".")))
    return Location(scheme, authority, path.rstrip("/") or "/")


def join(base: str, *parts: str) -> str:
    """The location of something below ``base``, in base's own spelling.

    >>> join("s3://bucket", "t/metadata/", "v1.metadata.json")
    's3://bucket/t/metadata/v1.metadata.json'
    """
    _refuse_dots(parts)
    stripped = [s for s in (part.strip("/") for part in parts) if s]
    return "/".join([_without_trailing_slash(base), *stripped])


def parent(text: str) -> str:
    """The folder something lies in, in its own spelling.

    >>> parent("file:///w/t/data/x.parquet"), parent("/x")
    ('file:///w/t/data', '/')
    """
    start = _path_start(text)
    head, slash, _ = text[start:].rstrip("/").rpartition("/")
    if not slash:
        raise InvalidName(f"location {text!r} has no parent", hint="it is already the root of its store", location=text)
    return text[:start] + (head.rstrip("/") or "/")


def name(text: str) -> str:
    """The last segment: the file's own name.

    >>> name("s3://b/t/data/day=2024-01-01/x y.parquet")
    'x y.parquet'
    """
    return text[_path_start(text) :].rstrip("/").rpartition("/")[2]


def same(left: str, right: str, *, one_s3: bool = False) -> bool:
    """Whether two spellings name one file; ``one_s3`` takes s3, s3a and s3n for the same store."""
    return _comparable(left, one_s3) == _comparable(right, one_s3)


def relative_to(text: str, prefix: str, *, one_s3: bool = False) -> str | None:
    """What follows the folder ``prefix``, or None when ``text`` is not in it; ``""`` for the folder itself.

    >>> relative_to("/w/t", "/w/t/")
    ''
    """
    location, folder = _comparable(text, one_s3), _comparable(prefix, one_s3)
    if (location.scheme, location.authority) != (folder.scheme, folder.authority):
        return None
    if location.path == folder.path:
        return ""
    start = folder.path if folder.path == "/" else folder.path + "/"
    return location.path[len(start) :] if location.path.startswith(start) else None


def _comparable(text: str, one_s3: bool) -> Location:
    location = parse(text)
    if one_s3 and location.scheme in S3_SCHEMES:
        return Location("s3", location.authority, location.path)
    return location


def _split(text: str) -> tuple[str, str, str]:
    """Scheme, authority and path, with every check that does not depend on the scheme."""
    if not text or len(text) > _MAX_LENGTH or "\0" in text or not _encodable(text):
        raise InvalidName(
            f"not a location: {text[:80]!r}",
            hint="a location is a non-empty absolute path or URI without NUL characters",
        )
    if text.startswith("/"):
        return "file", "", text
    match = _SCHEME.match(text)
    if match is None or not text.startswith("/", match.end()):
        raise InvalidName(
            f"location {text!r} is not absolute",
            hint="use an absolute path or a URI such as s3://bucket/key",
            location=text,
        )
    scheme, rest = match.group(1).lower(), text[match.end() :]
    if not rest.startswith("//"):
        return scheme, "", rest
    authority, slash, path = rest[2:].partition("/")
    if "@" in authority:
        # Not repeated in the message: what stands before the '@' is a credential.
        raise InvalidName(
            f"a {scheme} location carries credentials before '@'",
            hint="pass credentials as properties, not in locations",
        )
    return scheme, authority, slash + path or "/"


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _path_start(text: str) -> int:
    """Where the path begins in ``text``."""
    _split(text)
    if text.startswith("/"):
        return 0
    start = text.index(":") + 1
    if not text.startswith("//", start):
        return start
    slash = text.find("/", start + 2)
    return len(text) if slash < 0 else slash


def _without_trailing_slash(base: str) -> str:
    start = _path_start(base)
    return base[:start] + base[start:].rstrip("/")


def _refuse_dots(parts: tuple[str, ...]) -> None:
    for part in parts:
        if any(segment in (".", "..") for segment in part.split("/")):
            raise InvalidName(
                f"{part!r} would leave its folder", hint="names below a location have no '.' or '..' segment"
            )
