"""Values computed by SQL are those that pylance and DuckDB compute."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from frazil.errors import ColumnNotFound, FrazilError, InvalidExpression
from frazil.model.scalar_sql import columns_in, compile_scalar

ROWS = pa.table({
    "a": pa.array([1, 2, None, -7], pa.int64()),
    "i": pa.array([10, 20, 30, 40], pa.int32()),
    "x": pa.array([1.5, None, 0.0, -2.25]),
    "s": pa.array(["ab", "Cd", None, ""]),
    "t": pa.array([{"u": 1, "w": "p"}, {"u": 2, "w": None}, None, {"u": 4, "w": "q"}]),
    "CASE col": pa.array([1, 2, 3, 4]),
})  # fmt: skip

SAME = [
    "a + 1", "a * 2 - i", "-a", "(a + 1) * (a - 1)", "x * 2", "a % 3", "upper(s)", "lower(s) || '!'", "length(s)",
    "coalesce(a, 0)", "abs(a)", "CASE WHEN a > 1 THEN 'big' WHEN a IS NULL THEN 'none' ELSE s END",
    "CASE WHEN a = 1 OR a = 2 THEN i END", "CASE WHEN a = 1 THEN NULL ELSE a + i END",
    "CAST(a AS DOUBLE)", "CAST(i AS STRING)", "a > 1 AND i < 30",
    "NOT (a > 1)", "a IS NOT NULL", "'it''s'", "1.5", "7", "sqrt(i)", "floor(x)", "greatest(a, 1)",
]  # fmt: skip


@pytest.mark.parametrize("text", SAME)
def test_as_duckdb(text: str) -> None:
    duckdb = pytest.importorskip("duckdb")
    rows = ROWS  # noqa: F841 - duckdb looks for it by its name
    (expected,) = zip(*duckdb.sql(f"SELECT {text} FROM rows").fetchall(), strict=True)
    batch = ROWS.combine_chunks().to_batches()[0]
    found = compile_scalar(text, ROWS.schema)(batch).to_pylist()
    assert [_plain(value) for value in found] == [_plain(value) for value in expected]


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, str | bool) else float(value)  # type: ignore[arg-type]


def test_as_pylance(tmp_path: Path) -> None:
    lance = pytest.importorskip("lance")
    rows = ROWS.select(["a", "i", "x", "s"])
    dataset = lance.write_dataset(rows, tmp_path)
    texts = {"p": "a * 2 + i", "q": "upper(s)", "r": "coalesce(a, 0)", "t": "x / 2"}
    dataset.add_columns(texts)
    batch = rows.combine_chunks().to_batches()[0]
    for name, text in texts.items():
        expected = dataset.to_table(columns=[name]).column(0).to_pylist()
        assert compile_scalar(text, rows.schema)(batch).to_pylist() == expected


def test_structs_quotes_and_division() -> None:
    batch = ROWS.combine_chunks().to_batches()[0]

    def value(text: str) -> list[object]:
        return compile_scalar(text, ROWS.schema)(batch).to_pylist()

    assert value("t.u + 1") == [2, 3, None, 5]
    assert value("`CASE col` * 2") == [2, 4, 6, 8]
    assert value("i / 0") == [None] * 4  # as Spark without ANSI, and never infinity
    assert value("i / 4") == [2.5, 5.0, 7.5, 10.0]
    assert value("NULL") == [None] * 4
    assert columns_in("t.u + a", ROWS.schema) == ["a", "t"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a +",
        "a + )",
        "(a",
        "what(a)",
        "upper(a, s)",
        "a ; b",
        "CASE END",
        "CAST(a AS wat)",
        "s + 1",
        "a b",
        "(" * 500,
    ],
)
def test_what_is_not_understood(text: str) -> None:
    with pytest.raises(FrazilError):
        compile_scalar(text, ROWS.schema)


def test_errors_name_the_thing() -> None:
    with pytest.raises(ColumnNotFound, match="nope"):
        compile_scalar("nope + 1", ROWS.schema)
    batch = pa.record_batch({"a": pa.array([2**62], pa.int64())})
    with pytest.raises(InvalidExpression, match="overflow"):
        compile_scalar("a * 4", batch.schema)(batch)
