"""The tables that other readers are asked about have the rows they should, read by ourselves."""

from __future__ import annotations

import pytest

from tests.interop.cases import all_cases
from tests.interop.conftest import Built
from tests.interop.rows import bag


@pytest.mark.parametrize(("name", "version"), all_cases(1, 2, 3))
def test_we_read_what_we_wrote(built: Built, name: str, version: int):
    table, rows = built(name, version)
    scan = table.scan()
    assert bag(scan.to_arrow(), table.schema) == bag(rows, table.schema)
    assert scan.count() == len(rows)
