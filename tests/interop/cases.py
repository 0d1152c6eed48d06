"""The register of tables that we write for other readers, and how tests take their parameters from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from frazil.iceberg.table import IcebergTable
from frazil.lake import Lake

Row = dict[str, Any]
Build = Callable[[Lake, int], tuple[IcebergTable, list[Row]]]


@dataclass(frozen=True)
class Case:
    """A table to build, and the format versions it can be of."""

    build: Build
    versions: tuple[int, ...]


CASES: dict[str, Case] = {}


def case(*versions: int) -> Callable[[Build], Build]:
    def register(build: Build) -> Build:
        CASES[build.__name__] = Case(build, versions)
        return build

    return register


def registered() -> dict[str, Case]:
    """Every case by name."""
    from tests.interop import delete_tables, tables  # noqa: F401 - they register their cases

    return CASES


def all_cases(*versions: int) -> list[tuple[str, int]]:
    """Every case in every one of these format versions that it can have."""
    return [(name, version) for name, one in registered().items() for version in versions if version in one.versions]


FIXED_IN_PARTITIONS = {"identity_fixed_4"}
"""Tables that only Java and we can read: Java puts the length before fixed values in the partition tuples of manifests,
against Avro, and reads no others, so we do the same. Readers that keep to Avro lose their way in such manifests."""


class Cannot(NamedTuple):
    """What a reader cannot do: why, and how it shows."""

    reason: str
    raises: type[BaseException]


def parameters(cases: Iterable[str | tuple[str, int]], cannot: Mapping[str, Cannot]) -> list[Any]:
    """Parameters of a test by case. What a reader cannot do must fail, just so: else the list would become untrue."""
    found = []
    for one in cases:
        values = (one,) if isinstance(one, str) else one
        limit = cannot.get(values[0])
        marks = () if limit is None else pytest.mark.xfail(reason=limit.reason, raises=limit.raises, strict=True)
        found.append(pytest.param(*values, marks=marks))
    return found
