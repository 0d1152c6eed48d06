"""Tables made and found in every layout; what is half a table, or none."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import frazil
from frazil.catalog.folder_table import FolderCommitter
from frazil.errors import (
    InvalidArgument,
    InvalidSchema,
    MalformedMetadata,
    StoreMissing,
    TableAlreadyExists,
    TableNotFound,
    Unsupported,
)
from frazil.mixed.table import MixedTable
from tests.mixed.goldens import GOLDENS, WRITTEN_AT, expected
from tests.mixed.tables import ids_of, new_table, row

LAYOUTS = ["nested", "sibling"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_table_is_found_by_its_folder_and_written_to(tmp_path: Path, layout: str) -> None:
    folder = str(tmp_path / "db/t")
    made = new_table(layout=layout, folder=folder)
    made.append([row(1)])
    found = frazil.open(folder)
    assert isinstance(found, MixedTable)
    assert found.primary_key == ("id",)
    assert found.location == made.location == folder
    found.upsert([row(1, "b"), row(2)])
    assert ids_of(made.refresh()) == [1, 2]
    stores = sorted(str(one.parent.relative_to(tmp_path)) for one in tmp_path.rglob("metadata"))
    assert stores == (["db/t/base", "db/t/change"] if layout == "nested" else ["db/t", "db/t_change_"])
    assert repr(found) == f"MixedTable('t', key id, '{folder}')"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_unkeyed_table_has_one_store(tmp_path: Path, layout: str) -> None:
    folder = str(tmp_path / "db/t")
    new_table(layout=layout, folder=folder, primary_key=()).append([row(1)])
    found = frazil.open(folder)
    assert isinstance(found, MixedTable)
    assert not found.is_keyed
    assert ids_of(found) == [1]
    assert len(list(tmp_path.rglob("metadata"))) == 1
    with pytest.raises(Unsupported, match="no primary key"):
        found.upsert([row(1)])


@pytest.mark.parametrize("case", ["k_overwrite", "c_keyed_days", "u_append", "c_unkeyed"])
def test_tables_of_amoro_are_found_by_their_folder(case: str) -> None:
    told = expected(case)
    key = told.get("primary_key") if case.startswith("c_") else None
    place = GOLDENS / case / "warehouse/gs" / case
    for relocate in (WRITTEN_AT, True):
        table = frazil.open(place, relocate=relocate, primary_key=key)
        assert isinstance(table, MixedTable)
        assert table.scan().count() == len(told["rows"])


def test_tables_of_amoros_server_are_found_by_two_metadata_files(tmp_path: Path) -> None:
    """Its layout has the change store below the base store, and only the server knows the newest metadata."""
    warehouse = tmp_path / "w"
    shutil.copytree(GOLDENS / "k_overwrite/warehouse", warehouse)
    (warehouse / "gs/k_overwrite_change_").rename(warehouse / "gs/k_overwrite/change")
    base, change = (warehouse / expected("k_overwrite")[f"{kind}_metadata"] for kind in ("base", "change"))
    change = warehouse / "gs/k_overwrite/change/metadata" / change.name
    base, change = (
        one.rename(one.with_name(f"00007-{number}.metadata.json")) for number, one in enumerate((base, change))
    )
    table = frazil.open(base, change=change, relocate=True)
    assert table.scan().count() == len(expected("k_overwrite")["rows"])
    with pytest.raises(Unsupported):
        table.append([{"k": 1}])


def test_a_table_of_old_needs_its_key() -> None:
    place = GOLDENS / "c_keyed_days/warehouse/gs/c_keyed_days"
    with pytest.raises(InvalidArgument, match="does not say by which columns"):
        frazil.open(place, relocate=True)
    with pytest.raises(MalformedMetadata, match="'nothing'"):
        frazil.open(place, relocate=True, primary_key=["nothing"])
    with pytest.raises(InvalidArgument, match="the primary key of k_int is k"):
        frazil.open(GOLDENS / "k_int/warehouse/gs/k_int", relocate=True, primary_key=["qty"])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_store_without_its_twin_is_an_error(tmp_path: Path, layout: str) -> None:
    folder = tmp_path / "db/t"
    table = new_table(layout=layout, folder=str(folder))
    assert table.change_store is not None
    shutil.move(table.change_store.location, tmp_path / "away")
    with pytest.raises(StoreMissing, match="no change store"):
        frazil.open(folder)
    shutil.move(tmp_path / "away", table.change_store.location)
    frazil.open(folder)
    shutil.rmtree(Path(table.base_store.location) / "metadata")
    with pytest.raises(StoreMissing if layout == "nested" else TableNotFound):
        frazil.open(folder)


def test_one_store_is_no_table() -> None:
    place = GOLDENS / "k_int/warehouse/gs/k_int_change_"
    with pytest.raises(Unsupported, match="change store of a mixed table"):
        frazil.open(place, relocate=True)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_there_is_one_table_in_a_folder(tmp_path: Path, layout: str) -> None:
    folder = str(tmp_path / "db/t")
    new_table(layout=layout, folder=folder)
    for other in LAYOUTS:
        with pytest.raises(TableAlreadyExists):
            new_table(layout=other, folder=folder)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_table_that_was_made_by_half_is_made_whole(tmp_path: Path, layout: str) -> None:
    """The change store is made first; whoever makes the base store has the table."""
    folder = str(tmp_path / "db/t")
    create = FolderCommitter.create
    with pytest.MonkeyPatch.context() as patch:

        def dies(self: FolderCommitter, metadata: object, **options: object) -> object:
            if not self.folder.endswith(("change", "change_")):
                raise KeyboardInterrupt
            return create(self, metadata, **options)  # type: ignore[arg-type]

        patch.setattr(FolderCommitter, "create", dies)
        with pytest.raises(KeyboardInterrupt):
            new_table(layout=layout, folder=folder)
    with pytest.raises(TableAlreadyExists, match="change store without a base store"):
        new_table("other INT NOT NULL", primary_key=("other",), layout=layout, folder=folder)
    new_table(layout=layout, folder=folder).append([row(1)])
    assert ids_of(frazil.open(folder)) == [1]  # type: ignore[arg-type]


def test_what_cannot_be_a_table_is_refused() -> None:
    for count in ("3", "0", "six"):
        with pytest.raises(InvalidArgument, match="hash-bucket"):
            new_table(properties={"base.file-index.hash-bucket": count})
    with pytest.raises(InvalidSchema, match="years"):
        new_table("id INT NOT NULL, ts TIMESTAMP", partition_by=("years(ts)",))
    with pytest.raises(InvalidSchema, match="two partition fields"):
        new_table("id INT NOT NULL, ts TIMESTAMP", partition_by=("days(ts)", "bucket(2, ts)"))
    new_table("id INT NOT NULL, ts TIMESTAMP", partition_by=("years(ts)",), primary_key=())
    with pytest.raises(InvalidSchema, match="primary key"):
        new_table("id ARRAY<INT>")
    with pytest.raises(InvalidSchema, match="twice"):
        new_table(primary_key=("id", "id"))
    with pytest.raises(InvalidArgument, match="layout"):
        new_table(layout="elsewhere")
    with pytest.raises(InvalidArgument, match="format version 2"):
        new_table(properties={"format-version": "3"})


def test_a_key_and_a_layout_can_be_given_as_in_create_table(tmp_path: Path) -> None:
    lake = frazil.connect(tmp_path)
    told = {"primary-key": "ID, d", "layout": "Sibling", "mine": "1"}
    table = lake.create_table("db.t", "id BIGINT, d DATE, n INT", format="mixed", properties=told)
    assert table.primary_key == ("id", "d")
    assert table.base_store.location.endswith("/db/t")
    assert "mine" in table.properties
    assert not {"primary-key", "layout"} & table.properties.keys()
    same = lake.create_table(
        "db.s", "id BIGINT", format="mixed", primary_key=["id"], layout="nested", properties={"primary-key": "id"}
    )
    assert same.primary_key == ("id",)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"properties": {"primary-key": "zz"}}, "'zz'"),
        ({"properties": {"layout": "odd"}}, "layout is 'odd'"),
        ({"properties": {"primary-key": "n"}, "primary_key": ["id"]}, "primary-key is 'n'.*primary_key= alone"),
        ({"properties": {"layout": "nested"}, "layout": "sibling"}, "layout is 'nested'.*layout= alone"),
    ],
)
def test_properties_that_say_something_else_than_arguments_are_refused(
    tmp_path: Path, given: dict[str, Any], words: str
) -> None:
    lake = frazil.connect(tmp_path)
    with pytest.raises(InvalidArgument) as caught:
        lake.create_table("db.t", "id BIGINT, n INT", format="mixed", **given)
    assert re.search(words, str(caught.value))
    assert lake.tables() == []


def test_a_lake_does_not_take_a_store_for_a_table(tmp_path: Path) -> None:
    new_table(layout="sibling", folder=str(tmp_path / "db/t")).append([row(1)])
    lake = frazil.connect(tmp_path)
    assert lake.tables() == ["db.t"]
    assert ids_of(lake.table("db.t", format="mixed")) == [1]
    with pytest.raises(Unsupported, match="store of a mixed table"):
        lake.table("db.t_change_")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("purge", [False, True])
def test_stores_go_with_their_table_and_never_alone(tmp_path: Path, layout: str, purge: bool) -> None:
    lake = frazil.connect(tmp_path)
    table = lake.create_table("db.t", "id BIGINT", format="mixed", primary_key=["id"], layout=layout)
    table.append([{"id": 1}])
    stores = ["db.t_change_"] if layout == "sibling" else ["db.t.change", "db.t.base"]
    for store in stores:
        with pytest.raises(Unsupported, match="store"):
            lake.drop_table(store, purge=purge)
        with pytest.raises(Unsupported, match="store"):
            lake.rename_table(store, "db.other")
    assert lake.table("db.t", format="mixed").scan().count() == 1
    lake.drop_table("db.t", purge=purge)
    assert lake.tables() == []
    assert not any(lake.table_exists(store) for store in stores)
    left = [path for path in tmp_path.rglob("*.parquet") if path.is_file()]
    assert bool(left) is not purge


def test_a_change_store_that_lost_its_table_can_be_dropped(tmp_path: Path) -> None:
    lake = frazil.connect(tmp_path)
    lake.create_table("db.t", "id BIGINT", format="mixed", primary_key=["id"], layout="sibling")
    shutil.rmtree(tmp_path / "db/t")
    lake.drop_table("db.t_change_", purge=True)
    assert not lake.table_exists("db.t_change_")


@pytest.mark.parametrize("purge", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_table_that_lost_its_change_store_says_so_and_can_be_dropped(
    tmp_path: Path, layout: str, purge: bool
) -> None:
    lake = frazil.connect(tmp_path)
    table = lake.create_table("db.t", "id BIGINT", format="mixed", primary_key=["id"], layout=layout)
    assert table.change_store is not None
    shutil.rmtree(table.change_store.location)
    with pytest.raises(StoreMissing, match=r"no change store in .*, which a keyed table needs") as caught:
        lake.table("db.t")
    assert "restore it: without it, rows would be missing" in str(caught.value)
    [(name, problem)] = lake.optimize().problems
    assert name == "db.t"
    assert "no change store" in problem
    lake.drop_table("db.t", purge=purge)
    assert lake.tables() == []


def test_who_looks_for_a_table_that_lost_its_base_store_is_told_of_the_change_store(tmp_path: Path) -> None:
    lake = frazil.connect(tmp_path)
    lake.create_table("db.t", "id BIGINT", format="mixed", primary_key=["id"], layout="sibling")
    shutil.rmtree(tmp_path / "db/t")
    with pytest.raises(TableNotFound, match=r"its change store db\.t_change_ is still there"):
        lake.table("db.t")


def test_a_change_store_is_beside_its_table_however_deep(tmp_path: Path) -> None:
    lake = frazil.connect(tmp_path)
    table = lake.create_table("a.b.t", "id BIGINT", format="mixed", primary_key=["id"], layout="sibling")
    table.append([{"id": 1}])
    assert lake.tables() == ["a.b.t"]
    assert ids_of(lake.table("a.b.t", format="mixed")) == [1]
    with pytest.raises(Unsupported, match=r"store of a\.b\.t"):
        lake.drop_table("a.b.t_change_")
    lake.drop_table("a.b.t")
    assert not lake.table_exists("a.b.t_change_")
