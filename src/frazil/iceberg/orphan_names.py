"""How orphan removal compares names: which listed file is which file of the metadata, and which are never looked at.

A location is a scheme, an authority and a path. Equal paths under prefixes that differ are the dangerous case: metadata
written through `hdfs://old-name/...` and listed as `hdfs://new-name/...` may well name the same files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import InvalidArgument
from frazil.iceberg.reachable import keys_of
from frazil.model.partition import PartitionSpec

_PARTS = r"(?s)^(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]*):(?://(?P<authority>[^/]*))?)?(?P<path>.*)$"
_START = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.\-]*)://([^/]*))?(?=/)")
_SAME_SCHEMES = {"s3a,s3n": "s3"}


@dataclass(frozen=True, slots=True)
class Prefix:
    """The scheme and authority of a location, as they are compared; empty where the location has none."""

    scheme: str
    authority: str

    def is_met_by(self, listed: Prefix) -> bool:
        """Whether a listed file may be meant by metadata with this prefix: what metadata leaves out can be anything."""
        here = listed.scheme or "file"
        return self.scheme in ("", here) and self.authority in ("", listed.authority)

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}" if self.scheme else "(no scheme)"


class Names:
    """Takes locations apart, with the schemes and authorities that count as one."""

    def __init__(
        self, equal_schemes: Mapping[str, str] | None = None, equal_authorities: Mapping[str, str] | None = None
    ) -> None:
        self._schemes = {**_flat(_SAME_SCHEMES), **_flat(equal_schemes or {})}
        self._authorities = _flat(equal_authorities or {})

    def split(self, locations: pa.Array) -> dict[Prefix, pa.Array]:
        """For each prefix among the locations, the row numbers that have it."""
        common = _common_start(locations)
        if common is not None:
            return {self._prefix(common[1] or "", common[2] or ""): pa.array(np.arange(len(locations)))}
        parts = pc.extract_regex(locations, _PARTS)
        told = pc.binary_join_element_wise(parts.field("scheme"), parts.field("authority"), "\n")
        encoded = told.dictionary_encode()
        rows: dict[Prefix, list[pa.Array]] = {}
        for number, text in enumerate(encoded.dictionary.to_pylist()):
            found = pc.indices_nonzero(pc.equal(encoded.indices, number))
            rows.setdefault(self._prefix(*text.split("\n")), []).append(found)
        return {prefix: pa.concat_arrays(found) for prefix, found in rows.items()}

    def paths(self, locations: pa.Array) -> pa.Array:
        """Their paths, in the form in which they are compared."""
        common = _common_start(locations)
        if common is not None:
            return keys_of(pc.utf8_slice_codeunits(locations, len(common[0])))
        return keys_of(pc.extract_regex(locations, _PARTS).field("path"))

    def _prefix(self, scheme: str, authority: str) -> Prefix:
        scheme = scheme.lower()
        if scheme == "file" and authority == "localhost":
            authority = ""
        return Prefix(self._schemes.get(scheme, scheme), self._authorities.get(authority, authority))


def _common_start(locations: pa.Array) -> re.Match[str] | None:
    """What stands before the path, if that is the same in all: telling that is much faster than taking each apart."""
    found = _START.match(locations[0].as_py()) if len(locations) else None
    if found is None or not pc.all(pc.starts_with(locations, f"{found[0]}/")).as_py():
        return None
    return found


def _flat(equal: Mapping[str, str]) -> dict[str, str]:
    """`{"s3a,s3n": "s3"}` with one name in each key."""
    flat: dict[str, str] = {}
    pairs: Iterable[tuple[object, object]] = equal.items()
    for names, meant in pairs:
        if not isinstance(names, str) or not isinstance(meant, str):
            raise InvalidArgument(f"{names!r} cannot equal {meant!r}", hint='write {"s3a,s3n": "s3"}')
        flat.update({name.strip(): meant.strip() for name in names.split(",")})
    return flat


class HiddenPaths:
    """Which paths below a folder are hidden: a name in them begins with `_` or `.`, and is no partition's folder."""

    def __init__(self, specs: Iterable[PartitionSpec]) -> None:
        names = {name for spec in specs for name in spec.folder_prefixes if name[0] in "_."}
        self._shown = f"(^|/)(?:{'|'.join(sorted(re.escape(name) for name in names))})" if names else None

    def mask(self, relative: pa.Array) -> pa.Array:
        """True where a path is hidden; paths are given without the folder they are below."""
        if self._shown is not None:
            relative = pc.replace_substring_regex(relative, self._shown, r"\1x=")
        return pc.match_substring_regex(relative, r"(^|/)[_.]")
