"""Lakes: how they are connected to, and tables by name."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import frazil
from frazil.errors import (
    InvalidArgument,
    InvalidName,
    NamespaceNotFound,
    TableAlreadyExists,
    TableNotFound,
    Unsupported,
)
from tests.s3_service import S3Bucket


@pytest.fixture
def lake() -> frazil.Lake:
    return frazil.connect("memory:")


def test_a_folder_is_a_lake_and_made_on_first_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lake = frazil.connect("./warehouse")
    assert lake.tables() == []
    assert not (tmp_path / "warehouse").exists()
    lake.create_table("db.events", "id BIGINT")
    assert (tmp_path / "warehouse/db/events/metadata/v1.metadata.json").is_file()
    assert frazil.connect(tmp_path / "warehouse").tables() == ["db.events"]
    assert frazil.connect(f"file:{tmp_path}/warehouse").tables() == ["db.events"]


def test_a_sql_lake_needs_a_warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidArgument) as caught:
        frazil.connect("sqlite:///lake.db")
    assert "warehouse=" in str(caught.value)
    frazil.connect("sqlite:///lake.db", warehouse="./w").create_table("db.t", "id BIGINT")
    monkeypatch.chdir("/")
    again = frazil.connect(f"sqlite:///{tmp_path}/lake.db", warehouse=tmp_path / "w")
    assert again.table("db.t").location == f"{tmp_path}/w/db/t"


def test_named_memory_is_shared_and_unnamed_is_not() -> None:
    frazil.connect("memory://test-lake-shared/w").create_table("db.t", "id BIGINT")
    assert frazil.connect("memory://test-lake-shared/w").tables() == ["db.t"]
    frazil.connect("memory:").create_table("db.t", "id BIGINT")
    assert frazil.connect("memory:").tables() == []


@pytest.mark.parametrize("uri", ["http://localhost:8181", "https://lake.example/api"])
def test_rest_catalogs_are_refused_with_a_way_out(uri: str) -> None:
    with pytest.raises(Unsupported) as caught:
        frazil.connect(uri, warehouse="w", token="secret-canary")
    assert "secret-canary" not in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("uri", "options"),
    [("memory:", {"warehouse": "w"}), ("./w", {"token": "t"}), ("", {}), ("memory://u:p@x/w", {})],
)
def test_connections_that_cannot_be_meant_are_refused(uri: str, options: dict[str, str]) -> None:
    with pytest.raises(InvalidArgument):
        frazil.connect(uri, **options)


def test_a_store_that_nobody_has_is_refused() -> None:
    with pytest.raises(Unsupported):
        frazil.connect("ftp://host/folder")


def test_a_table_takes_partitions_order_version_and_properties(lake: frazil.Lake) -> None:
    table = lake.create_table(
        "db.events",
        pa.schema({"id": pa.int64(), "ts": pa.timestamp("us")}),
        partition_by=["days(ts)", "bucket(16, id)"],
        sort_by="ts DESC",
        format_version=3,
        properties={"owner": "me"},
    )
    assert [part.name for part in table.spec.fields] == ["ts_day", "id_bucket"]
    assert table.sort_order.fields[0].direction == "desc"
    assert table.format_version == 3
    assert table.properties["owner"] == "me"
    assert lake.table(("db", "events")).metadata == table.metadata


def test_namespaces_come_with_their_tables(lake: frazil.Lake) -> None:
    lake.create_table("a.b.t", "id BIGINT")
    lake.create_table("a.u", "id BIGINT")
    assert lake.tables() == ["a.b.t", "a.u"]
    assert lake.tables("a") == ["a.u"]
    assert lake.list_namespaces() == ["a"]
    assert lake.list_namespaces("a") == ["a.b"]


def test_namespaces_have_properties(lake: frazil.Lake) -> None:
    lake.create_namespace("a", {"x": "1"})
    lake.create_namespace("a", exist_ok=True)
    lake.update_namespace_properties("a", {"y": "2"}, ["x"])
    assert lake.namespace_properties("a") == {"y": "2"}
    lake.drop_namespace("a")
    assert not lake.namespace_exists("a")
    with pytest.raises(NamespaceNotFound):
        lake.tables("a")


def test_a_table_that_exists_is_returned_if_that_is_ok(lake: frazil.Lake) -> None:
    made = lake.create_table("db.t", "id BIGINT")
    with pytest.raises(TableAlreadyExists):
        lake.create_table("db.t", "id BIGINT")
    assert lake.create_table("db.t", "other STRING", exist_ok=True).metadata == made.metadata


def test_a_misspelt_name_gets_a_suggestion(lake: frazil.Lake) -> None:
    lake.create_table("db.events", "id BIGINT")
    with pytest.raises(TableNotFound, match="did you mean events"):
        lake.table("db.event")
    with pytest.raises(TableNotFound, match="there are db"):
        lake.table("bd.events")
    with pytest.raises(InvalidName, match=r'"namespace\.events"'):
        lake.table("events")


def test_a_table_can_be_at_a_place_of_its_own(lake: frazil.Lake, tmp_path: Path) -> None:
    table = lake.create_table("db.t", "id BIGINT", location=str(tmp_path / "here"))
    table.append([{"id": 1}])
    assert table.location == str(tmp_path / "here")
    assert lake.register_table("db.again", Path(table.metadata_location)).scan().to_arrow().num_rows == 1
    with pytest.raises(InvalidArgument):
        frazil.connect(tmp_path / "w").create_table("db.t", "id BIGINT", location=str(tmp_path / "there"))


def test_a_notebook_shows_the_tables_and_no_markup_of_others(lake: frazil.Lake) -> None:
    lake.create_table("db.t&amp", "id BIGINT")
    assert "<li>db.t&amp;amp</li>" in lake._repr_html_()
    assert repr(lake).startswith("Lake('lake', MemoryCatalog(")


def test_a_bucket_is_a_lake(s3_bucket: S3Bucket) -> None:
    lake = frazil.connect(f"{s3_bucket.location}/warehouse", **s3_bucket.properties)
    lake.create_namespace("a.b", {"owner": "me"})
    table = lake.create_table("a.t", "id BIGINT")
    table.append([{"id": 1}])
    again = frazil.connect(f"{s3_bucket.location}/warehouse", **s3_bucket.properties)
    assert again.list_namespaces() == ["a"]
    assert again.list_namespaces("a") == ["a.b"]
    assert again.namespace_properties("a.b") == {"owner": "me"}
    assert again.tables() == ["a.t"]
    assert again.table("a.t").scan().to_arrow().num_rows == 1
    again.drop_table("a.t", purge=True)
    again.drop_namespace("a.b")
    again.drop_namespace("a")
    assert again.list_namespaces() == []
