"""Snapshot references: branches and tags.

>>> SnapshotRef(7).to_json()
{'snapshot-id': 7, 'type': 'branch'}
>>> SnapshotRef(7, "tag", min_snapshots_to_keep=2)
Traceback (most recent call last):
...
frazil.errors.InvalidArgument: [INVALID_ARGUMENT] a tag cannot have min-snapshots-to-keep or ... Hint: ...
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from frazil.errors import InvalidArgument, InvalidName, RefNotFound
from frazil.iceberg.json_object import JsonObject, without_none

MAIN = "main"
BRANCH = "branch"
TAG = "tag"
_MAX_NAME_LENGTH = 1024


def existing_branch(refs: Mapping[str, SnapshotRef], name: str) -> str:
    """The name, if it is that of a branch to write to: a mistyped one must not make a branch."""
    found = refs.get(checked_ref_name(name))
    if found is None and name != MAIN:
        raise RefNotFound(
            f"the table has no branch {name!r}", hint=f"table.manage_refs().create_branch({name!r}).commit() first"
        )
    if found is not None and found.is_tag:
        raise InvalidArgument(f"{name!r} is a tag: it never moves", hint="write to a branch")
    return name


def checked_ref_name(name: object) -> str:
    """The name, if a branch or tag may have it."""
    if not isinstance(name, str) or not name.strip() or len(name) > _MAX_NAME_LENGTH or not name.isprintable():
        raise InvalidName(
            f"{str(name)[:80]!r} is not a name for a branch or tag",
            hint="use letters, digits and signs, not only blanks",
        )
    return name


@dataclass(frozen=True, slots=True)
class SnapshotRef:
    """A named snapshot: the head of a branch, or a tagged one, and how long to keep it."""

    snapshot_id: int
    kind: str = BRANCH
    min_snapshots_to_keep: int | None = None
    max_snapshot_age_ms: int | None = None
    max_ref_age_ms: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in (BRANCH, TAG):
            raise InvalidArgument(f"unknown kind of ref {self.kind!r}", hint="a ref is a branch or a tag")
        branch_only = (self.min_snapshots_to_keep, self.max_snapshot_age_ms)
        if self.kind == TAG and branch_only != (None, None):
            raise InvalidArgument(
                "a tag cannot have min-snapshots-to-keep or max-snapshot-age-ms",
                hint="a tag is one snapshot: set max-ref-age-ms, or make a branch",
            )
        for number in (*branch_only, self.max_ref_age_ms):
            whole = isinstance(number, int) and not isinstance(number, bool)
            if number is not None and not (whole and number > 0):
                raise InvalidArgument(
                    f"retention of a ref is {number!r}", hint="use a positive whole number, or leave it out"
                )

    @property
    def is_branch(self) -> bool:
        return self.kind == BRANCH

    @property
    def is_tag(self) -> bool:
        return self.kind == TAG

    def to_json(self) -> dict[str, Any]:
        """The specification's JSON object."""
        return without_none(
            {
                "snapshot-id": self.snapshot_id,
                "type": self.kind,
                "min-snapshots-to-keep": self.min_snapshots_to_keep,
                "max-snapshot-age-ms": self.max_snapshot_age_ms,
                "max-ref-age-ms": self.max_ref_age_ms,
            }
        )

    @classmethod
    def from_json(cls, document: JsonObject) -> SnapshotRef:
        """Read the specification's JSON object."""
        return cls(
            document.integer("snapshot-id"),
            document.text("type").lower(),
            document.integer_or_none("min-snapshots-to-keep"),
            document.integer_or_none("max-snapshot-age-ms"),
            document.integer_or_none("max-ref-age-ms"),
        )
