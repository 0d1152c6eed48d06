"""Names of metadata files, in the two schemes of the specification.

>>> metadata_file_name(3, "6a1c")
'00003-6a1c.metadata.json'
>>> hadoop_file_name(3, "gzip")
'v3.gz.metadata.json'
>>> version_of("s3://b/t/metadata/00003-6a1c.gz.metadata.json"), version_of("v12.metadata.json.gz")
(3, 12)
"""

from __future__ import annotations

import re

from frazil.errors import InvalidArgument

_EXTENSIONS = {"none": ".metadata.json", "gzip": ".gz.metadata.json"}
# Java once wrote `.metadata.json.gz`, and still reads it
_SUFFIX = r"(?:\.gz)?\.metadata\.json(?:\.gz)?"
_NAME = re.compile(rf"(?:v(?P<hadoop>\d{{1,18}})|(?P<catalog>\d{{1,18}})-[^/]+?){_SUFFIX}")


def metadata_file_name(version: int, uuid: object, codec: str = "none") -> str:
    """A catalog's name for version `version`: a sequence number for people, a UUID so that no two writers meet."""
    return f"{version:05d}-{uuid}{_extension(codec)}"


def hadoop_file_name(version: int, codec: str = "none") -> str:
    """A file-system table's name for version `version`: whoever creates it first has committed."""
    return f"v{version}{_extension(codec)}"


def version_of(location: str) -> int | None:
    """The version number in a metadata file's name, in either scheme, compressed or not; None for other files."""
    found = _NAME.fullmatch(location.rpartition("/")[2])
    if found is None:
        return None
    return int(found["catalog"] if found["hadoop"] is None else found["hadoop"])


def _extension(codec: str) -> str:
    if codec not in _EXTENSIONS:
        raise InvalidArgument(
            f"unknown codec {codec!r} for metadata files", hint=f"use one of {', '.join(sorted(_EXTENSIONS))}"
        )
    return _EXTENSIONS[codec]
