"""What is damaged, or newer or older than we know, is an error that says so; nothing is guessed."""

from __future__ import annotations

from pathlib import Path

import pytest

import frazil
from frazil.errors import UnsupportedVersion
from frazil.lance.table import LanceTable
from tests.lance.damage import DAMAGES, damaged
from tests.lance.test_table import made, numbers

pytest.importorskip("lance")


@pytest.mark.parametrize("name", DAMAGES)
def test_reading(tmp_path: Path, name: str) -> None:
    damaged(tmp_path / "t", name)
    _, error, told = DAMAGES[name]

    def opened() -> LanceTable:
        found = frazil.open(tmp_path / "t")
        assert isinstance(found, LanceTable)
        return found

    for read in (
        lambda: opened().scan().to_arrow(),
        lambda: opened().scan("id > 3", ["word"]).count(),
        lambda: opened().take([0]),
        lambda: opened().delete("id = 1"),
        lambda: opened().update({"word": "'y'"}, "id = 1"),
    ):
        with pytest.raises(error, match=told) as found:
            read()
        assert found.value.hint


def test_a_flag_for_writers_only(tmp_path: Path) -> None:
    from tests.lance.damage import _told

    table = made(tmp_path / "t", numbers(5))
    _told(lambda manifest: setattr(manifest, "writer_feature_flags", 1 << 20))(tmp_path / "t")
    table.refresh()
    assert table.scan().count() == 5
    for write in (
        lambda: table.append([{"a": 1}]),
        lambda: table.overwrite([{"a": 1}]),
        lambda: table.delete("a = 1"),
        lambda: table.update_properties({"a": "b"}),
        lambda: table.drop_columns("b"),
        lambda: table.restore(1),
        table.clean_up,
    ):
        with pytest.raises(UnsupportedVersion, match="must not write"):
            write()
    assert table.refresh().version == 1
