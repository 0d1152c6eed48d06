"""Damaged tables through Spark: our error, with its hint, and no trace of a JVM."""

from __future__ import annotations

import pytest

from frazil.errors import FrazilError
from tests.lance.damage import DAMAGES, damaged

pytest.importorskip("lance")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.smoke] if "missing" in name else []) for name in DAMAGES]
)
def test_statements(spark, lake, tmp_path, name):
    place = tmp_path / "t"
    damaged(place, name)
    _, error, told = DAMAGES[name]
    for statement in (
        f"SELECT * FROM lake.`{place}`",
        f"SELECT count(word) FROM lake.`{place}` WHERE id > 3",
        f"DELETE FROM lake.`{place}` WHERE id = 1",
        f"UPDATE lake.`{place}` SET word = 'y' WHERE length(word) = 1",
        f"CALL lake.system.convert('{place}', 'iceberg')",
    ):
        with pytest.raises(FrazilError, match=told) as found:
            spark.sql(statement).collect()
        assert isinstance(found.value, error), statement
        assert found.value.hint
    assert not (place / "metadata").exists()
