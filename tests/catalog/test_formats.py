"""Tables of every format in every catalog: by name, listed, renamed, dropped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import frazil
from frazil.errors import InvalidArgument, TableAlreadyExists, TableNotFound, Unsupported
from frazil.lake import Lake
from tests.catalogs import CATALOGS, lake_in

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
MAKE: dict[str, Callable[[Lake, str], object]] = {
    "iceberg": lambda lake, name: lake.create_table(name, SCHEMA),
    "lance": lambda lake, name: lake.create_table(name, SCHEMA, format="lance"),
    "mixed": lambda lake, name: lake.create_table(name, SCHEMA, format="mixed", primary_key=["id"]),
}
ROWS = [{"id": 1, "name": "a"}, {"id": 2, "name": None}]


@pytest.fixture(params=CATALOGS)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    return lake_in(request.param, tmp_path)


@pytest.mark.parametrize("format_name", MAKE)
def test_a_table_is_found_again_with_its_rows(lake: Lake, format_name: str) -> None:
    MAKE[format_name](lake, "db.t")
    lake.table("db.t").append(ROWS)
    table = lake.table("db.t")
    assert (table.format, table.identifier) == (format_name, "db.t")
    assert table.scan().to_arrow().sort_by("id").to_pylist() == ROWS
    assert lake.tables() == ["db.t"]
    assert lake.table_exists("db.t")
    assert lake.list_namespaces() == ["db"]
    assert lake.list_namespaces("db") == []


@pytest.mark.parametrize("second", MAKE)
@pytest.mark.parametrize("first", MAKE)
def test_a_name_is_one_table_s(lake: Lake, first: str, second: str) -> None:
    MAKE[first](lake, "db.t")
    lake.table("db.t").append(ROWS)
    with pytest.raises(TableAlreadyExists):
        MAKE[second](lake, "db.t")
    assert lake.table("db.t").scan().to_arrow().num_rows == 2
    assert lake.table("db.t").format == first


@pytest.mark.parametrize("format_name", MAKE)
def test_a_table_is_no_namespace(lake: Lake, format_name: str) -> None:
    MAKE[format_name](lake, "db.t")
    assert not lake.namespace_exists("db.t")
    with pytest.raises(frazil.errors.NamespaceNotEmpty):
        lake.drop_namespace("db")


@pytest.mark.parametrize("purge", [False, True])
@pytest.mark.parametrize("format_name", MAKE)
def test_a_dropped_table_is_gone_and_its_name_free(lake: Lake, format_name: str, purge: bool, tmp_path: Path) -> None:
    MAKE[format_name](lake, "db.t")
    lake.table("db.t").append(ROWS)
    lake.drop_table("db.t", purge=purge)
    assert lake.tables() == []
    with pytest.raises(TableNotFound):
        lake.table("db.t")
    with pytest.raises(TableNotFound):
        lake.drop_table("db.t")
    left = [path for path in (tmp_path / "lake").rglob("*") if path.suffix in (".parquet", ".lance")]
    assert bool(left) is not purge
    MAKE[format_name](lake, "db.t")
    assert lake.table("db.t").scan().to_arrow().num_rows == 0


@pytest.mark.parametrize("format_name", MAKE)
def test_a_table_can_be_renamed_where_names_are_free(lake: Lake, format_name: str) -> None:
    MAKE[format_name](lake, "db.t")
    lake.table("db.t").append(ROWS)
    if "Filesystem" in repr(lake):
        with pytest.raises(Unsupported, match="its folder"):
            lake.rename_table("db.t", "db.u")
        return
    lake.rename_table("db.t", "db.u")
    assert lake.tables() == ["db.u"]
    assert lake.table("db.u").scan().to_arrow().num_rows == 2
    MAKE["iceberg"](lake, "db.t")
    with pytest.raises(TableAlreadyExists):
        lake.rename_table("db.u", "db.t")


def test_the_format_that_is_asked_for(lake: Lake) -> None:
    MAKE["lance"](lake, "db.t")
    assert lake.table("db.t", format="lance").arrow_schema == SCHEMA
    with pytest.raises(InvalidArgument, match="format lance"):
        lake.table("db.t", format="mixed")
    with pytest.raises(InvalidArgument, match="unknown table format 'delta'"):
        lake.create_table("db.u", SCHEMA, format="delta")  # type: ignore[call-overload]


def test_what_a_format_has_no_place_for(lake: Lake) -> None:
    with pytest.raises(Unsupported, match="lance tables have no partition_by"):
        lake.create_table("db.t", SCHEMA, format="lance", partition_by=["id"])  # type: ignore[call-overload]
    with pytest.raises(Unsupported, match="iceberg tables have no primary_key"):
        lake.create_table("db.t", SCHEMA, primary_key=["id"])  # type: ignore[call-overload]
    assert lake.tables() == []


def test_create_if_it_is_not_there(lake: Lake) -> None:
    for format_name, name in (("lance", "db.l"), ("mixed", "db.m")):
        MAKE[format_name](lake, name)
        lake.table(name).append(ROWS)
        again = lake.create_table(name, "other INT", exist_ok=True)
        assert again.scan().to_arrow().num_rows == 2


def test_tables_as_amoro_lays_them_out(lake: Lake) -> None:
    def make() -> object:
        return lake.create_table("db.t", SCHEMA, format="mixed", primary_key=["id"], layout="sibling")

    if "Filesystem" not in repr(lake):
        with pytest.raises(Unsupported, match="filesystem catalogs"):
            make()
        return
    make()
    lake.table("db.t").append(ROWS)
    assert lake.table("db.t").format == "mixed"
    assert lake.table("db.t").scan().to_arrow().num_rows == 2
    assert lake.tables() == ["db.t"]
    lake.drop_table("db.t")
    assert lake.tables() == []


def test_columns_of_lance_stay_as_arrow_has_them(lake: Lake) -> None:
    schema = pa.schema([("small", pa.int8()), ("embedding", pa.list_(pa.float32(), 4))])
    table = lake.create_table("db.t", schema, format="lance", format_version="2.1")
    table.append(pa.table({"small": pa.array([1], pa.int8()), "embedding": pa.array([[1, 2, 3, 4]], schema.types[1])}))
    assert lake.table("db.t", format="lance").arrow_schema == schema
    assert table.format_version == "2.1"
    text = lake.create_table("db.ddl", "id BIGINT, words ARRAY<STRING>", format="lance")
    assert text.arrow_schema.names == ["id", "words"]


def test_a_writer_who_comes_after_a_mixed_table_was_dropped_brings_nothing_back(lake: Lake) -> None:
    MAKE["mixed"](lake, "db.t")
    stale = lake.table("db.t")
    stale.append(ROWS)
    lake.drop_table("db.t", purge=True)
    with pytest.raises(frazil.errors.FrazilError):
        stale.append(ROWS)
    with pytest.raises(frazil.errors.FrazilError):
        stale.base_store.update_properties().set("a", "b").commit()
    assert lake.tables() == []
    MAKE["mixed"](lake, "db.t")
    assert lake.table("db.t").scan().to_arrow().num_rows == 0


def test_a_mixed_table_whose_files_are_not_its_own_is_not_purged(lake: Lake) -> None:
    MAKE["mixed"](lake, "db.t")
    lake.table("db.t").append(ROWS)
    lake.table("db.t").update_properties().set("gc.enabled", "false").commit()
    with pytest.raises(Unsupported, match=r"gc\.enabled"):
        lake.drop_table("db.t", purge=True)
    assert lake.table("db.t").scan().to_arrow().num_rows == 2
    lake.drop_table("db.t")
    assert lake.tables() == []
