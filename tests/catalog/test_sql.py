"""The SQL catalog: the tables other engines expect, races of processes, lost connections, and secrets."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy as sa

from frazil import ambient
from frazil.catalog.catalog import Catalog
from frazil.catalog.sql import SqlCatalog
from frazil.errors import (
    CatalogError,
    CommitFailed,
    CommitStateUnknown,
    InvalidArgument,
    NamespaceNotEmpty,
    TableAlreadyExists,
    TableNotFound,
)
from frazil.iceberg.updates import SetProperties
from frazil.io.store import Store, Stores
from frazil.lake import Lake
from tests.catalog.tables import first_metadata


@pytest.fixture(params=["sqlite", "postgresql"])
def sql_catalog(request: pytest.FixtureRequest, open_catalog: Callable[[str, Store], Catalog]) -> SqlCatalog:
    catalog = open_catalog(request.param, Stores())
    assert isinstance(catalog, SqlCatalog)
    return catalog


def test_the_tables_are_those_of_the_jdbc_catalog(tmp_path: Path) -> None:
    catalog = SqlCatalog(f"sqlite:///{tmp_path}/a.db", Stores(), str(tmp_path), "mine")
    catalog.create_namespace("db", {"owner": "me"})
    state = catalog.create_table("db.t", first_metadata(catalog, "db.t"))
    after = catalog.committer("db.t").commit(state, [SetProperties({"a": "1"})], [])
    connection = sqlite3.connect(tmp_path / "a.db")
    try:
        tables = connection.execute("SELECT * FROM iceberg_tables").fetchall()
        namespaces = connection.execute("SELECT * FROM iceberg_namespace_properties ORDER BY property_key").fetchall()
    finally:
        connection.close()
    assert tables == [("mine", "db", "t", after.metadata_location, state.metadata_location, "TABLE")]
    assert namespaces == [("mine", "db", "exists", "true"), ("mine", "db", "owner", "me")]


def test_pyiceberg_reads_and_writes_the_same_catalog(tmp_path: Path) -> None:
    pyiceberg = pytest.importorskip("pyiceberg.catalog.sql")
    uri = f"sqlite:///{tmp_path}/lake.db"
    lake = Lake(SqlCatalog(uri, Stores(), str(tmp_path / "w")))
    lake.create_namespace("db", {"owner": "me"})
    lake.create_table("db.ours", "id BIGINT").append(pa.table({"id": [1, 2]}))
    other = pyiceberg.SqlCatalog("lake", uri=uri, warehouse=f"file://{tmp_path}/w")
    try:
        assert other.list_namespaces() == [("db",)]
        assert other.load_namespace_properties("db")["owner"] == "me"
        table = other.load_table("db.ours")
        assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2]
        table.append(pa.table({"id": [3]}))
        theirs = other.create_table("db.theirs", pa.schema({"id": pa.int64()}))
        theirs.append(pa.table({"id": [4]}))
    finally:
        other.engine.dispose()
    assert lake.tables() == ["db.ours", "db.theirs"]
    assert sorted(lake.table("db.ours").scan().to_arrow()["id"].to_pylist()) == [1, 2, 3]
    lake.table("db.theirs").append(pa.table({"id": [5]}))
    assert sorted(lake.table("db.theirs").scan().to_arrow()["id"].to_pylist()) == [4, 5]


def test_views_of_other_engines_are_no_tables_but_keep_their_names(sql_catalog: SqlCatalog) -> None:
    sql_catalog.create_namespace("db")
    with sql_catalog._engine.begin() as connection:
        connection.execute(
            sa.text("INSERT INTO iceberg_tables VALUES ('lake', 'db', 'v', 'file:/v.json', NULL, 'VIEW')")
        )
        connection.execute(sa.text("INSERT INTO iceberg_tables VALUES ('else', 'x', 't', 'file:/t.json', NULL, NULL)"))
    assert sql_catalog.list_tables("db") == []
    assert sql_catalog.list_namespaces() == [("db",)]
    with pytest.raises(TableNotFound):
        sql_catalog.load_table("db.v")
    with pytest.raises(TableNotFound):
        sql_catalog.drop_table("db.v")
    with pytest.raises(TableAlreadyExists):
        sql_catalog.create_table("db.v", first_metadata(sql_catalog, "db.v"))
    with pytest.raises(NamespaceNotEmpty):
        sql_catalog.drop_namespace("db")


def test_a_database_from_before_views_works_and_stays_as_it_is(tmp_path: Path) -> None:
    database = tmp_path / "old.db"
    connection = sqlite3.connect(database)
    connection.execute(
        "CREATE TABLE iceberg_tables (catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT NULL, "
        "table_name VARCHAR(255) NOT NULL, metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000), "
        "PRIMARY KEY (catalog_name, table_namespace, table_name))"
    )
    connection.execute(
        "CREATE TABLE iceberg_namespace_properties (catalog_name VARCHAR(255) NOT NULL, namespace VARCHAR(255) NOT "
        "NULL, property_key VARCHAR(255), property_value VARCHAR(1000), "
        "PRIMARY KEY (catalog_name, namespace, property_key))"
    )
    connection.commit()
    connection.close()
    lake = Lake(SqlCatalog(f"sqlite:///{database}", Stores(), str(tmp_path / "w")))
    lake.create_table("db.t", "id BIGINT").append(pa.table({"id": [1]}))
    lake.rename_table("db.t", "db.u")
    assert lake.tables() == ["db.u"]
    lake.drop_table("db.u", purge=True)
    assert lake.tables() == []


def test_namespaces_that_only_tables_tell_of_exist(sql_catalog: SqlCatalog) -> None:
    with sql_catalog._engine.begin() as connection:
        connection.execute(
            sa.text("INSERT INTO iceberg_tables VALUES ('lake', 'a_b.c', 't', 'file:/t.json', NULL, 'TABLE')")
        )
    assert sql_catalog.list_namespaces() == [("a_b",)]
    assert sql_catalog.list_namespaces("a_b") == [("a_b", "c")]
    assert not sql_catalog.namespace_exists("axb")
    assert not sql_catalog.namespace_exists("A_B")


def test_what_does_not_fit_a_column_is_refused(sql_catalog: SqlCatalog) -> None:
    with pytest.raises(InvalidArgument):
        sql_catalog.create_namespace("db", {"k": "x" * 1001})
    with pytest.raises(InvalidArgument):
        sql_catalog.create_namespace("db", {"exists": "false"})
    assert sql_catalog.list_namespaces() == []


def test_many_threads_make_the_schema_and_their_namespaces_at_once(
    sql_catalog: SqlCatalog, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with sql_catalog._engine.begin() as connection:
        for table in ("iceberg_tables", "iceberg_namespace_properties"):
            connection.execute(sa.text(f"DROP TABLE {table}"))
    errors: list[BaseException] = []
    barrier = threading.Barrier(6)

    def work(number: int) -> None:
        try:
            barrier.wait(30)
            url = sql_catalog._url.render_as_string(hide_password=False)
            catalog = SqlCatalog(url, Stores(), str(tmp_path))
            catalog.create_namespace(f"n{number}")
            catalog.ensure_namespace(("shared",))
            catalog.close()
        except BaseException as error:  # noqa: BLE001 - told to the test
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert len(sql_catalog.list_namespaces()) == 7


def losing(monkeypatch: pytest.MonkeyPatch, *, after: bool, times: int = 1) -> list[str]:
    """Make the connection break around the next commits; what happened is in the list."""
    original = sa.Connection.commit
    seen: list[str] = []

    def commit(self: sa.Connection) -> None:
        if len(seen) >= times:
            return original(self)
        seen.append("lost")
        if after and len(seen) == 1:
            original(self)
        else:
            self.rollback()
        raise sa.exc.OperationalError("COMMIT", {}, Exception("server closed the connection unexpectedly"))

    monkeypatch.setattr(sa.Connection, "commit", commit)
    return seen


@pytest.mark.usefixtures("frozen_clock")
@pytest.mark.parametrize("after", [True, False])
def test_a_connection_lost_in_a_commit_is_found_out_about(
    sql_catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    sql_catalog.create_namespace("db")
    base = sql_catalog.create_table("db.t", first_metadata(sql_catalog, "db.t"))
    seen = losing(monkeypatch, after=after)
    state = sql_catalog.committer("db.t").commit(base, [SetProperties({"a": "1"})], [])
    assert seen == ["lost"]
    assert sql_catalog.load_table("db.t") == state


@pytest.mark.usefixtures("frozen_clock")
def test_a_connection_that_stays_lost_leaves_the_outcome_unknown_and_the_file(
    sql_catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql_catalog.create_namespace("db")
    base = sql_catalog.create_table("db.t", first_metadata(sql_catalog, "db.t"))
    with monkeypatch.context() as patch:
        losing(patch, after=True, times=100)
        patch.setattr(sql_catalog, "_pointer", _unreachable)
        with pytest.raises(CommitStateUnknown):
            sql_catalog.committer("db.t").commit(base, [SetProperties({"a": "1"})], [])
    assert sql_catalog.load_table("db.t").metadata.properties["a"] == "1"


def _unreachable(*_: Any) -> str:
    raise CatalogError("no connection")


@pytest.mark.usefixtures("frozen_clock")
def test_a_create_whose_connection_is_lost_is_found_out_about(
    sql_catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql_catalog.create_namespace("db")
    losing(monkeypatch, after=True)
    state = sql_catalog.create_table("db.t", first_metadata(sql_catalog, "db.t"))
    assert sql_catalog.load_table("db.t") == state


def test_a_server_that_kills_the_connection_after_the_commit_is_survived(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = SqlCatalog(postgres_url, Stores(), str(tmp_path))
    catalog.create_namespace("db")
    base = catalog.create_table("db.t", first_metadata(catalog, "db.t"))
    original = sa.Connection.commit
    killed: list[int] = []

    def commit(self: sa.Connection) -> None:
        original(self)
        if not killed:
            killed.append(1)
            self.execute(sa.text("SELECT pg_terminate_backend(pg_backend_pid())"))

    with monkeypatch.context() as patch, ambient.replaced(ambient.Ambient(seed=5, start_ms=1_900_000_000_000)):
        patch.setattr(sa.Connection, "commit", commit)
        state = catalog.committer("db.t").commit(base, [SetProperties({"a": "1"})], [])
    assert killed
    assert catalog.load_table("db.t") == state
    with pytest.raises(CommitFailed):
        catalog.committer("db.t").commit(base, [SetProperties({"b": "1"})], [])
    catalog.close()


def test_secrets_are_in_no_text_about_the_catalog(tmp_path: Path) -> None:
    secret = "hunter2-canary"
    uri = f"postgresql://someone:{secret}@127.0.0.1:1/db?connect_timeout=1&sslpassword={secret}"
    with pytest.raises(CatalogError) as caught:
        SqlCatalog(uri, Stores(), str(tmp_path))
    chain: list[str] = []
    error: BaseException | None = caught.value
    while error is not None:
        chain.append(f"{error} {error!r} {getattr(error, 'context', '')}")
        error = error.__cause__
    assert secret not in " ".join(chain)
    with pytest.raises(InvalidArgument) as wrong:
        SqlCatalog(f"nonsense {secret}", Stores(), str(tmp_path))
    assert secret not in str(wrong.value)
    catalog = SqlCatalog(f"sqlite:///{tmp_path}/a.db", Stores(), str(tmp_path))
    assert "a.db" in repr(catalog)
