"""Names of tags and branches are allowed where pylance allows them."""

from __future__ import annotations

from pathlib import Path

import lance
import pytest

from frazil.errors import FrazilError, InvalidName, MalformedMetadata
from frazil.io.store import Stores
from frazil.lance.refs import Refs, check_branch_name, check_tag_name
from tests.lance.test_table import made, numbers, opened

NAMES = ["a", "v1.2", "a-b_c", "x/y", "x/y/z", "", "/a", "a/", "a//b", "a..b", ".a", "a.", "a b", "a\\b", "x.lock",
         "main", "é", "a/./b", "a/../b", "A9", "-", "a:b", "a*"]  # fmt: skip


def _refused(check: object, name: str) -> bool:
    try:
        check(name)  # type: ignore[operator]
    except InvalidName:
        return True
    return False


def test_names(tmp_path: Path) -> None:
    made(tmp_path, numbers(3))
    dataset = lance.dataset(tmp_path)
    theirs: dict[str, tuple[bool, bool]] = {}
    for name in NAMES:
        outcome = []
        for create in (lambda n: dataset.tags.create(n, 1), dataset.create_branch):
            try:
                create(name)
            except (ValueError, OSError, RuntimeError):
                outcome.append(True)
            else:
                outcome.append(False)
        theirs[name] = (outcome[0], outcome[1])
    ours = {name: (_refused(check_tag_name, name), _refused(check_branch_name, name)) for name in NAMES}
    # what we allow they allow too
    assert [name for name in NAMES if not ours[name][0] and theirs[name][0]] == []
    assert [name for name in NAMES if not ours[name][1] and theirs[name][1]] == []
    # and the usual ones are allowed by both
    assert all(ours[name] == (False, False) for name in ("a", "v1.2", "a-b_c", "A9"))
    assert ours["x/y"] == theirs["x/y"] == (True, False)
    refs = Refs(Stores(), str(tmp_path))
    assert set(refs.tags()) == {name for name in NAMES if not theirs[name][0]}
    assert set(refs.branches()) == {name for name in NAMES if not theirs[name][1]}


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"{}", b'{"version": "x"}', b"\xff"])
def test_damaged_refs(tmp_path: Path, content: bytes) -> None:
    table = made(tmp_path, numbers(3))
    table.create_tag("t")
    (tmp_path / "_refs/tags/t.json").write_bytes(content)
    with pytest.raises(MalformedMetadata):
        opened(tmp_path).scan(ref="t")
    with pytest.raises(FrazilError):
        _ = opened(tmp_path).refs
