"""Both writers take turns on one table; after every step both see the rows of a plain model."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.io.store import Stores
from frazil.lance.table import LanceTable

Row = dict[str, Any]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["ours", "theirs"]),
        st.sampled_from(
            ["append", "append", "late append", "delete", "delete", "update", "add", "drop", "rename", "compact", "tag",
             "restore", "overwrite", "config"]
        ),
        st.integers(0, 7),
    ),
    max_size=12,
)  # fmt: skip


class Model:
    """The table as lists of dicts, with all of its versions."""

    def __init__(self, folder: Path, file_version: str, stable: bool, creator: str) -> None:
        self.folder = folder
        self.rows: list[Row] = []
        self.columns = ["k", "v"]
        self.next_key = 0
        self.versions: dict[int, tuple[list[str], list[Row]]] = {}
        self.added = 0
        first = pa.table({"k": pa.array([], pa.int64()), "v": pa.array([], pa.string())})
        if creator == "ours":
            LanceTable.create(
                Stores(), str(folder), first.schema, first, file_version=file_version, stable_row_ids=stable
            )
        else:
            lance.write_dataset(first, folder, data_storage_version=file_version, enable_stable_row_ids=stable)

        self.look()

    def look(self) -> None:
        """Open the handles that late appends are made from: not before the columns or all rows were changed."""
        self.late = LanceTable.open(Stores(), str(self.folder)), lance.dataset(self.folder)

    def new_rows(self, count: int) -> pa.Table:
        rows = []
        for _ in range(count):
            rows.append({name: self.value(name) for name in self.columns})
            self.next_key += 1
        self.rows += rows
        schema = lance.dataset(self.folder).schema
        return pa.Table.from_pylist(rows, schema=schema)

    def value(self, name: str) -> Any:
        return self.next_key if name in ("k", "v0") or name.startswith("n") else f"v{self.next_key}"

    def check(self) -> None:
        def sort(rows: list[Row]) -> list[Row]:
            return sorted(rows, key=lambda row: row["k"])

        ours, theirs = LanceTable.open(Stores(), str(self.folder)), lance.dataset(self.folder)
        theirs.validate()
        assert ours.version == theirs.version
        assert ours.arrow_schema == theirs.schema
        columns = [*self.columns, "_rowid", "_rowaddr", "_row_created_at_version", "_row_last_updated_at_version"]
        expected = theirs.to_table(columns=columns)
        assert ours.scan(columns=columns).to_arrow().combine_chunks() == expected.combine_chunks()
        assert sort(expected.select(self.columns).to_pylist()) == sort(self.rows)
        self.versions[ours.version] = (list(self.columns), [dict(row) for row in self.rows])
        for version, (_, rows) in list(self.versions.items())[-4:]:
            assert sort(ours.scan(version=version).to_arrow().to_pylist()) == sort(rows)


def step(model: Model, who: str, what: str, number: int) -> None:
    table, dataset = LanceTable.open(Stores(), str(model.folder)), lance.dataset(model.folder)
    mine = who == "ours"
    low, high = number * 3, number * 3 + 4
    chosen = [row for row in model.rows if low <= row["k"] < high]
    match what:
        case "append":
            rows = model.new_rows(number + 1)
            if mine:
                table.append(rows)
            else:
                lance.write_dataset(rows, model.folder, mode="append")
        case "late append":  # from a handle that does not know what happened since
            rows = model.new_rows(number + 1)
            if mine:
                model.late[0].append(rows)
            else:
                model.late[1].insert(rows)
        case "delete":
            model.rows = [row for row in model.rows if row not in chosen]
            (table if mine else dataset).delete(f"k >= {low} AND k < {high}")
        case "update" if "v" in model.columns:
            for row in chosen:
                row["v"] = f"u{number}"
            where = f"k >= {low} AND k < {high}"
            if mine:
                table.update({"v": f"'u{number}'"}, where)
            else:
                dataset.update({"v": f"'u{number}'"}, where=where)
        case "add":
            name = f"n{model.added}"
            model.added += 1
            model.columns.append(name)
            for row in model.rows:
                row[name] = row["k"] + number
            (table if mine else dataset).add_columns({name: f"k + {number}"})
        case "drop" if len(model.columns) > 2:
            name = model.columns.pop()
            for row in model.rows:
                del row[name]
            if mine:
                table.drop_columns(name)
            else:
                dataset.drop_columns([name])
        case "rename" if len(model.columns) > 2:
            old, name = model.columns[-1], f"n{model.added}"
            model.added += 1
            model.columns[-1] = name
            for row in model.rows:
                row[name] = row.pop(old)
            if mine:
                table.rename_column(old, name)
            else:
                dataset.alter_columns({"path": old, "name": name})
        case "compact":
            if mine:
                table.compact(target_rows=number + 2)
            else:
                dataset.optimize.compact_files(target_rows_per_fragment=number + 2)
        case "tag":
            name = f"t{dataset.version}-{model.added}"
            model.added += 1
            if mine:
                table.create_tag(name)
            else:
                dataset.tags.create(name, dataset.version)
            assert table.scan(ref=name).count() == dataset.checkout_version(name).count_rows() == len(model.rows)
        case "restore" if model.versions:
            version = list(model.versions)[-1 - number % len(model.versions)]
            columns, rows = model.versions[version]
            model.columns, model.rows = list(columns), [dict(row) for row in rows]
            if mine:
                table.restore(version)
            else:
                dataset.checkout_version(version).restore()
        case "overwrite":
            model.rows = []
            rows = model.new_rows(number)
            if mine:
                table.overwrite(rows)
            else:
                lance.write_dataset(rows, model.folder, mode="overwrite", schema=rows.schema)
        case "config":
            if mine:
                table.update_properties({f"c{number}": who})
            else:
                dataset.update_config({f"c{number}": who})
            assert LanceTable.open(Stores(), str(model.folder)).properties[f"c{number}"] == who


def run(steps: list[tuple[str, str, int]], file_version: str, stable: bool, creator: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = Model(Path(folder) / "t", file_version, stable, creator)
        model.check()
        for who, what, number in steps:
            step(model, who, what, number)
            if what in ("add", "drop", "rename", "restore", "overwrite"):
                model.look()
            model.check()


INPUTS = {
    "steps": STEPS,
    "file_version": st.sampled_from(["2.0", "2.1", "2.2"]),
    "stable": st.booleans(),
    "creator": st.sampled_from(["ours", "theirs"]),
}


@settings(max_examples=12)
@given(**INPUTS)
def test_taking_turns(steps: list[tuple[str, str, int]], file_version: str, stable: bool, creator: str) -> None:
    run(steps, file_version, stable, creator)


@pytest.mark.slow
@settings(max_examples=300)
@given(**INPUTS)
def test_taking_turns_for_long(
    steps: list[tuple[str, str, int]], file_version: str, stable: bool, creator: str
) -> None:
    run(steps, file_version, stable, creator)
