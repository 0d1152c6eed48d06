"""Tags and branches: small JSON files beside the versions."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, unquote

from frazil import ambient
from frazil.errors import AlreadyExists, InvalidName, MalformedMetadata, RefNotFound
from frazil.io import location as locations
from frazil.io.store import Store
from frazil.lance import layout

_SEGMENT = re.compile(r"[A-Za-z0-9._-]+")
_EXTENSION = ".json"


@dataclass(frozen=True, slots=True)
class Tag:
    """A name for a version of main, or of a branch. Clean-up keeps tagged versions."""

    name: str
    version: int
    branch: str | None = None
    manifest_size: int = 0
    metadata: Mapping[str, str] = field(default_factory=dict)

    is_tag = True


@dataclass(frozen=True, slots=True)
class Branch:
    """A line of versions of its own that began at a version of another."""

    name: str
    parent_version: int
    parent_branch: str | None = None
    identifier: tuple[tuple[int, str], ...] = ()
    created_at: int = 0
    manifest_size: int = 0
    metadata: Mapping[str, str] = field(default_factory=dict)

    is_tag = False


def check_tag_name(name: str) -> None:
    """Refuse what pylance refuses as the name of a tag, and `main`, which would never be found."""
    fine = _SEGMENT.fullmatch(name) and name[0] != "." and name[-1] != "." and ".." not in name
    if not fine or name.endswith(".lock") or name == layout.MAIN:
        raise InvalidName(
            f"{name!r} cannot name a tag", hint="use letters, digits, and . _ - inside; `main` is the table's own"
        )


def check_branch_name(name: str) -> None:
    """Refuse what pylance refuses as the name of a branch."""
    parts = name.split("/")
    fine = all(_SEGMENT.fullmatch(part) and part not in (".", "..") for part in parts)
    if not fine or ".." in name or name.endswith(".lock") or name == layout.MAIN:
        raise InvalidName(
            f"{name!r} cannot name a branch", hint="use letters, digits, . _ - and / between; `main` is the table's own"
        )


class Refs:
    """The tags and branches of a table."""

    def __init__(self, store: Store, root: str) -> None:
        self._store = store
        self._tags = locations.join(root, layout.TAGS)
        self._branches = locations.join(root, layout.BRANCHES)

    def tags(self) -> dict[str, Tag]:
        """All tags by name."""
        return {name: _tag(name, document) for name, document in self._documents(self._tags)}

    def branches(self) -> dict[str, Branch]:
        """All branches but main, by name."""
        return {name: _branch(name, document) for name, document in self._documents(self._branches)}

    def find(self, name: str) -> Tag | Branch:
        """The tag or branch of a name; a RefNotFound that lists what there is otherwise."""
        refs: dict[str, Tag | Branch] = {**self.branches(), **self.tags()}
        if name not in refs:
            known = ", ".join(map(repr, sorted([*refs, layout.MAIN])))
            raise RefNotFound(f"no branch or tag {name!r}", hint=f"there are {known}")
        return refs[name]

    def put_tag(self, tag: Tag, *, replace: bool = False) -> None:
        """Write a tag; AlreadyExists if there is one and it is not to be replaced, or a branch of that name."""
        check_tag_name(tag.name)
        if tag.name in self.branches():
            raise AlreadyExists(f"there is a branch {tag.name!r} already", hint="choose another name for the tag")
        now = datetime.fromtimestamp(ambient.now_ms() / 1000, UTC).isoformat().replace("+00:00", "Z")
        document = {
            "branch": tag.branch,
            "version": tag.version,
            "createdAt": now,
            "updatedAt": now,
            "manifestSize": tag.manifest_size,
            "metadata": dict(tag.metadata),
        }
        place = self._tag_file(tag.name)
        data = json.dumps(document, indent=2).encode()
        if replace:
            self._store.replace(place, data)
        else:
            _create(self._store, place, data, f"tag {tag.name!r}")

    def put_branch(self, branch: Branch) -> None:
        """Make a branch known, of which the first version is there already."""
        document = {
            "parentBranch": branch.parent_branch,
            "identifier": {"version_mapping": [list(pair) for pair in branch.identifier]},
            "parentVersion": branch.parent_version,
            "createAt": branch.created_at,
            "manifestSize": branch.manifest_size,
            "metadata": dict(branch.metadata),
        }
        _create(
            self._store,
            self._branch_file(branch.name),
            json.dumps(document, indent=2).encode(),
            f"branch {branch.name!r}",
        )

    def drop_tag(self, name: str) -> None:
        """Forget a tag."""
        if name not in self.tags():
            raise RefNotFound(f"no tag {name!r}", hint=f"there are {', '.join(sorted(self.tags())) or 'none'}")
        self._store.delete(self._tag_file(name))

    def drop_branch(self, name: str) -> None:
        """Forget a branch; its files stay."""
        self._store.delete(self._branch_file(name))

    def _branch_file(self, name: str) -> str:
        return locations.join(self._branches, quote(name, safe="") + _EXTENSION)

    def _tag_file(self, name: str) -> str:
        return locations.join(self._tags, quote(name, safe="") + _EXTENSION)

    def _documents(self, folder: str) -> list[tuple[str, dict[str, Any]]]:
        found = []
        for file in self._store.list(folder):
            name = locations.name(file.location)
            if not name.endswith(_EXTENSION):
                continue
            try:
                document = json.loads(self._store.read(file.location))
                if not isinstance(document, dict):
                    raise ValueError("it is no object")
            except ValueError as error:
                raise _malformed(file.location, str(error)) from error
            found.append((unquote(name[: -len(_EXTENSION)]), document))
        return found


def _tag(name: str, document: dict[str, Any]) -> Tag:
    version = document.get("version")
    if not isinstance(version, int):
        raise _malformed(f"tag {name}", "it names no version")
    return Tag(name, version, document.get("branch"), document.get("manifestSize") or 0, document.get("metadata") or {})


def _branch(name: str, document: dict[str, Any]) -> Branch:
    version = document.get("parentVersion")
    if not isinstance(version, int):
        raise _malformed(f"branch {name}", "it names no version that it began at")
    mapping = (document.get("identifier") or {}).get("version_mapping") or []
    return Branch(
        name,
        version,
        document.get("parentBranch"),
        tuple((int(number), str(text)) for number, text in mapping),
        document.get("createAt") or 0,
        document.get("manifestSize") or 0,
        document.get("metadata") or {},
    )


def _create(store: Store, place: str, data: bytes, what: str) -> None:
    try:
        store.put_if_absent(place, data)
    except AlreadyExists as error:
        raise AlreadyExists(f"there is a {what} already", hint="drop it first, or choose another name") from error


def _malformed(where: str, what: str) -> MalformedMetadata:
    return MalformedMetadata(f"{where} is no reference of a Lance table: {what}", hint="the file is damaged")
