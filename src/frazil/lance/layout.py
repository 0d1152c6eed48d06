"""Where the files of a table are: names of manifests, transactions, data and deletion files, in both naming schemes.

>>> V2.manifest(3), V1.manifest(3)
('18446744073709551612.manifest', '3.manifest')
>>> version_of("18446744073709551612.manifest"), version_of("3.manifest"), version_of("latest_version_hint.json")
(3, 3, None)
"""

from __future__ import annotations

import re
import uuid
from enum import Enum

from frazil import ambient
from frazil.io import location as locations

_MAX = 2**64 - 1
_DETACHED = 1 << 63
_NUMBERED = re.compile(r"(\d{1,20})\.manifest")

VERSIONS, TRANSACTIONS, DATA, DELETIONS, INDICES = "_versions", "_transactions", "data", "_deletions", "_indices"
TAGS, BRANCHES, TREE = "_refs/tags", "_refs/branches", "tree"
HINT = "latest_version_hint.json"
MAIN = "main"


class Naming(Enum):
    """How manifests are named: by their version (V1), or so that the newest comes first in a listing (V2)."""

    V1 = 1
    V2 = 2

    def manifest(self, version: int) -> str:
        """The file name of a version's manifest."""
        return f"{version}.manifest" if self is Naming.V1 else f"{_MAX - version:020d}.manifest"


V1, V2 = Naming.V1, Naming.V2


def version_of(name: str) -> int | None:
    """The version that a manifest's name stands for; None if it is no manifest of the chain of versions."""
    found = _NUMBERED.fullmatch(name)
    if found is None:
        return None
    number = int(found[1])
    version = _MAX - number if len(found[1]) == 20 else number
    return version if 0 < version < _DETACHED else None


def naming_of(name: str) -> Naming:
    """The scheme of a manifest's name."""
    return V2 if len(name) == len(V2.manifest(1)) else V1


def branch_root(root: str, branch: str | None) -> str:
    """The folder that holds the versions of a branch: the table's own for main."""
    return root if branch in (None, MAIN) else locations.join(root, TREE, branch)


def transaction_name(read_version: int, identifier: str) -> str:
    """The name of the file that tells what a commit did."""
    return f"{read_version}-{identifier}.txn"


def deletion_name(fragment: int, read_version: int, number: int, bitmap: bool) -> str:
    """The name of a fragment's deletion file."""
    return f"{fragment}-{read_version}-{number}.{'bin' if bitmap else 'arrow'}"


def new_data_name(job: str = "") -> str:
    """A fresh name for a data file: 24 binary digits to spread keys over a store, then the rest of a UUID.

    The last digits may tell which job wrote it.

    >>> import re
    >>> bool(re.fullmatch("[01]{24}[0-9a-f]{20}abcdef[.]lance", new_data_name("abcdef")))
    True
    """
    stem = data_name(ambient.new_uuid()).removesuffix(".lance")
    return f"{stem[: len(stem) - len(job)]}{job}.lance"


def data_name(identifier: uuid.UUID) -> str:
    """The name of the data file with an identifier.

    >>> data_name(uuid.UUID("f1e7ad98-f15e-463f-b4b4-8f7c1601e825"))
    '11110001111001111010110198f15e463fb4b48f7c1601e825.lance'
    """
    first, rest = identifier.bytes[:3], identifier.bytes[3:]
    return f"{int.from_bytes(first, 'big'):024b}{rest.hex()}.lance"
