"""Keys that are uuids: compared by their bytes."""

from __future__ import annotations

from uuid import UUID

import pytest

from frazil.errors import InvalidValue
from tests.mixed.tables import new_table


@pytest.mark.parametrize("more", ["", ", part INT NOT NULL"], ids=["alone", "with another"])
def test_rows_come_and_go_by_their_uuid(more: str) -> None:
    names = ("k", "part") if more else ("k",)
    table = new_table(f"k UUID NOT NULL{more}, v INT", primary_key=names)

    def key(number: int) -> dict[str, object]:
        return {"k": UUID(int=number << 80 | 9), **({"part": 1} if more else {})}

    table.append([{**key(number), "v": 0} for number in range(6)])
    table.upsert([{**key(number), "v": 1} for number in (1, 2, 9)])
    table.delete_keys([key(2), key(3)])
    found = {row["k"].int >> 80: row["v"] for row in table.scan().to_arrow().to_pylist()}
    assert found == {0: 0, 1: 1, 4: 0, 5: 0, 9: 1}
    with pytest.raises(InvalidValue):
        table.upsert([{**key(1), "v": 2}, {**key(1), "v": 3}])
