"""What every catalog does, run against each kind."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from frazil.catalog.catalog import Catalog
from frazil.catalog.filesystem import FilesystemCatalog
from frazil.errors import (
    AlreadyExists,
    CommitFailed,
    FileMissing,
    InvalidArgument,
    NamespaceAlreadyExists,
    NamespaceNotEmpty,
    NamespaceNotFound,
    TableAlreadyExists,
    TableNotFound,
    Unsupported,
)
from frazil.iceberg.committer import TableState
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.metadata_json import parse_metadata, serialize_metadata
from frazil.iceberg.requirements import AssertCurrentSchemaId, AssertTableUuid
from frazil.iceberg.updates import SetProperties
from frazil.lake import Lake
from tests.catalog.tables import first_metadata


def create(catalog: Catalog, name: str = "db.t", **properties: str) -> TableState:
    catalog.ensure_namespace(tuple(name.split(".")[:-1]))
    return catalog.create_table(name, first_metadata(catalog, name, **properties))


def test_namespaces_nest_and_are_listed_level_by_level(catalog: Catalog) -> None:
    catalog.create_namespace("a")
    catalog.create_namespace("a.b")
    catalog.create_namespace("x.y", {"owner": "me"})
    assert catalog.list_namespaces() == [("a",), ("x",)]
    assert catalog.list_namespaces("a") == [("a", "b")]
    assert catalog.list_namespaces("a.b") == []
    assert catalog.namespace_exists("x")
    assert not catalog.namespace_exists("y")


def test_a_namespace_cannot_be_created_twice(catalog: Catalog) -> None:
    catalog.create_namespace("a")
    with pytest.raises(NamespaceAlreadyExists):
        catalog.create_namespace("a")


def test_namespace_properties_are_set_changed_and_removed(catalog: Catalog) -> None:
    catalog.create_namespace("a", {"owner": "me", "purpose": "trial"})
    catalog.update_namespace_properties("a", {"owner": "you", "size": "1"}, ["purpose", "nothing"])
    assert catalog.load_namespace_properties("a") == {"owner": "you", "size": "1"}


def test_namespace_properties_that_make_no_sense_are_refused(catalog: Catalog) -> None:
    catalog.create_namespace("a", {"k": "v"})
    with pytest.raises(InvalidArgument):
        catalog.update_namespace_properties("a", {"k": "w"}, ["k"])
    with pytest.raises(InvalidArgument):
        catalog.update_namespace_properties("a", {"k": 1})  # type: ignore[dict-item]
    assert catalog.load_namespace_properties("a") == {"k": "v"}


def test_a_missing_namespace_is_named_in_the_error(catalog: Catalog) -> None:
    for call in (catalog.list_tables, catalog.list_namespaces, catalog.drop_namespace):
        with pytest.raises(NamespaceNotFound, match="nowhere"):
            call("nowhere")
    with pytest.raises(NamespaceNotFound):
        catalog.load_namespace_properties("nowhere")
    with pytest.raises(NamespaceNotFound):
        catalog.create_table("nowhere.t", first_metadata(catalog, "nowhere.t"))


def test_only_an_empty_namespace_can_be_dropped(catalog: Catalog) -> None:
    catalog.create_namespace("a")
    catalog.create_namespace("a.b")
    create(catalog, "a.b.t")
    for name in ("a", "a.b"):
        with pytest.raises(NamespaceNotEmpty):
            catalog.drop_namespace(name)
    catalog.drop_table("a.b.t")
    catalog.drop_namespace("a.b")
    catalog.drop_namespace("a")
    assert catalog.list_namespaces() == []
    catalog.create_namespace("a")
    assert catalog.list_namespaces() == [("a",)]
    assert catalog.list_tables("a") == []


def test_a_table_is_created_listed_and_loaded(catalog: Catalog) -> None:
    made = create(catalog)
    loaded = catalog.load_table("db.t")
    assert loaded.metadata_location == made.metadata_location
    assert loaded.metadata == made.metadata
    assert [str(name) for name in catalog.list_tables("db")] == ["db.t"]
    assert catalog.list_namespaces("db") == []
    assert catalog.table_exists("db.t")
    assert not catalog.table_exists("db.u")


def test_a_name_that_is_taken_is_refused_and_the_table_is_untouched(catalog: Catalog) -> None:
    made = create(catalog)
    with pytest.raises(TableAlreadyExists):
        catalog.create_table("db.t", first_metadata(catalog, "db.t"))
    assert catalog.load_table("db.t").metadata.table_uuid == made.metadata.table_uuid


def test_a_missing_table_is_not_found(catalog: Catalog) -> None:
    catalog.create_namespace("db")
    with pytest.raises(TableNotFound):
        catalog.load_table("db.t")
    with pytest.raises(TableNotFound):
        catalog.committer("db.t").load()
    for purge in (False, True):
        with pytest.raises(TableNotFound):
            catalog.drop_table("db.t", purge=purge)


def test_a_commit_moves_the_table_and_logs_the_former_metadata(catalog: Catalog) -> None:
    base = create(catalog)
    after = catalog.committer("db.t").commit(base, [SetProperties({"a": "1"})], [])
    assert catalog.load_table("db.t") == after
    assert after.metadata.properties["a"] == "1"
    assert [entry.metadata_file for entry in after.metadata.metadata_log] == [base.metadata_location]


def test_a_commit_that_changes_nothing_writes_nothing(catalog: Catalog) -> None:
    base = create(catalog, a="1")
    assert catalog.committer("db.t").commit(base, [SetProperties({"a": "1"})], []) is base


def test_of_two_commits_on_one_base_the_second_fails_and_leaves_no_file(catalog: Catalog) -> None:
    base = create(catalog)
    committer = catalog.committer("db.t")
    committer.commit(base, [SetProperties({"a": "1"})], [])
    before = [file.location for file in catalog.store.list(catalog.warehouse)]
    with pytest.raises(CommitFailed):
        committer.commit(base, [SetProperties({"b": "2"})], [])
    assert [file.location for file in catalog.store.list(catalog.warehouse)] == before
    assert "b" not in committer.load().metadata.properties


def test_requirements_are_checked(catalog: Catalog) -> None:
    base = create(catalog)
    committer = catalog.committer("db.t")
    for requirement in (AssertCurrentSchemaId(7), AssertTableUuid("00000000-0000-0000-0000-000000000000")):
        with pytest.raises(CommitFailed):
            committer.commit(base, [SetProperties({"a": "1"})], [requirement])
    assert committer.load().metadata == base.metadata


def test_old_metadata_files_are_deleted_if_the_table_says_so(catalog: Catalog) -> None:
    settings = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "2"}
    states = [create(catalog, **settings)]
    committer = catalog.committer("db.t")
    for number in range(5):
        states.append(committer.commit(states[-1], [SetProperties({"n": str(number)})], []))
    left = [catalog.store.exists(state.metadata_location) for state in states]
    assert left == [False, False, False, True, True, True]
    assert catalog.load_table("db.t") == states[-1]


def test_a_log_that_names_foreign_files_deletes_none_of_them(catalog: Catalog) -> None:
    settings = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
    place = f"{catalog.warehouse}/elsewhere/metadata/v1.metadata.json"
    catalog.store.write(place, b"somebody's")
    metadata = first_metadata(catalog, "db.t", **settings)
    from frazil.iceberg.metadata import MetadataLogEntry

    catalog.ensure_namespace(("db",))
    state = catalog.create_table("db.t", replace(metadata, metadata_log=(MetadataLogEntry(1, place),)))
    catalog.committer("db.t").commit(state, [SetProperties({"a": "1"})], [])
    assert catalog.store.read(place) == b"somebody's"


def test_compressed_metadata_is_written_and_read(catalog: Catalog) -> None:
    base = create(catalog, **{"write.metadata.compression-codec": "gzip"})
    after = catalog.committer("db.t").commit(base, [SetProperties({"a": "1"})], [])
    assert after.metadata_location.endswith(".gz.metadata.json")
    assert catalog.store.read(after.metadata_location)[:2] == b"\x1f\x8b"
    assert catalog.load_table("db.t") == after


def test_a_dropped_table_is_gone_but_can_be_registered_again(catalog: Catalog) -> None:
    lake = Lake(catalog)
    table = lake.create_table("db.t", "id BIGINT")
    table.append(pa.table({"id": [1, 2]}))
    lake.drop_table("db.t")
    assert lake.tables() == []
    assert lake.list_namespaces("db") == []
    newest = max(
        (file.location for file in catalog.store.list(catalog.warehouse) if "metadata.json" in file.location),
        key=lambda place: parse_metadata(catalog.store.read(place)).last_sequence_number,
    )
    assert lake.register_table("db.t", newest).scan().to_arrow().num_rows == 2
    lake.table("db.t").append(pa.table({"id": [3]}))
    assert lake.table("db.t").scan().to_arrow().num_rows == 3


def test_a_name_can_be_used_again_after_a_drop(catalog: Catalog) -> None:
    lake = Lake(catalog)
    old = lake.create_table("db.t", "id BIGINT")
    old.append(pa.table({"id": [1]}))
    lake.drop_table("db.t")
    new = lake.create_table("db.t", "name STRING")
    assert new.metadata.table_uuid != old.metadata.table_uuid
    assert lake.table("db.t").scan().to_arrow().num_rows == 0


def test_purge_deletes_every_file_of_the_table_and_no_other(catalog: Catalog) -> None:
    lake = Lake(catalog)
    other = lake.create_table("db.other", "id BIGINT")
    other.append(pa.table({"id": [7]}))
    table = lake.create_table("db.t", "id BIGINT")
    for number in range(3):
        table.append(pa.table({"id": [number]}))
    lake.drop_table("db.t", purge=True)
    assert list(catalog.store.list(table.location)) == []
    assert lake.tables() == ["db.other"]
    assert other.refresh().scan().to_arrow().num_rows == 1


def test_a_table_whose_files_others_may_use_is_not_purged(catalog: Catalog) -> None:
    create(catalog, **{"gc.enabled": "false"})
    with pytest.raises(Unsupported, match=r"gc\.enabled"):
        catalog.drop_table("db.t", purge=True)
    assert catalog.table_exists("db.t")
    catalog.drop_table("db.t")
    assert not catalog.table_exists("db.t")


def test_a_table_that_has_its_files_in_common_with_another_is_not_purged(catalog: Catalog) -> None:
    lake = Lake(catalog)
    table = lake.create_table("db.t", "id BIGINT")
    table.append(pa.table({"id": [1]}))
    lake.register_table("db.u", table.metadata_location)
    with pytest.raises(Unsupported, match=r"files"):
        lake.drop_table("db.u", purge=True)
    assert lake.table("db.u").scan().count() == 1
    lake.drop_table("db.u")
    assert lake.table("db.t").scan().count() == 1
    lake.drop_table("db.t", purge=True)
    assert lake.tables() == []


def test_a_commit_to_a_dropped_table_fails_and_does_not_bring_it_back(catalog: Catalog) -> None:
    base = create(catalog)
    committer = catalog.committer("db.t")
    catalog.drop_table("db.t")
    with pytest.raises(CommitFailed):
        committer.commit(base, [SetProperties({"a": "1"})], [])
    assert not catalog.table_exists("db.t")


def test_a_commit_to_a_table_that_was_dropped_and_created_again_fails(catalog: Catalog) -> None:
    base = create(catalog)
    catalog.drop_table("db.t")
    new = create(catalog)
    with pytest.raises(CommitFailed):
        catalog.committer("db.t").commit(base, [SetProperties({"a": "1"})], [])
    assert catalog.load_table("db.t") == new


def test_a_table_can_be_registered_by_its_metadata_file(catalog: Catalog) -> None:
    metadata: TableMetadata = first_metadata(catalog, "db.t")
    place = f"{catalog.warehouse}/somewhere/00007-abc.metadata.json"
    catalog.store.write(place, serialize_metadata(metadata))
    catalog.create_namespace("db")
    assert catalog.register_table("db.t", place).metadata == metadata
    assert catalog.load_table("db.t").metadata == metadata
    with pytest.raises(TableAlreadyExists):
        catalog.register_table("db.t", place)
    with pytest.raises(FileMissing):
        catalog.register_table("db.u", f"{catalog.warehouse}/nothing.metadata.json")


def test_renaming_keeps_the_table_and_its_files(pointer_catalog: Catalog) -> None:
    state = create(pointer_catalog)
    pointer_catalog.create_namespace("other")
    pointer_catalog.rename_table("db.t", "other.u")
    assert pointer_catalog.load_table("other.u") == state
    assert not pointer_catalog.table_exists("db.t")
    with pytest.raises(TableNotFound):
        pointer_catalog.rename_table("db.t", "other.v")
    with pytest.raises(NamespaceNotFound):
        pointer_catalog.rename_table("other.u", "nowhere.u")


def test_renaming_does_not_take_a_name_away(pointer_catalog: Catalog) -> None:
    create(pointer_catalog, "db.t")
    kept = create(pointer_catalog, "db.u")
    with pytest.raises(TableAlreadyExists):
        pointer_catalog.rename_table("db.t", "db.u")
    assert pointer_catalog.load_table("db.u") == kept


def test_a_new_table_never_shares_the_folder_of_one_that_was_renamed_away(pointer_catalog: Catalog) -> None:
    old = create(pointer_catalog)
    pointer_catalog.rename_table("db.t", "db.u")
    new = create(pointer_catalog)
    assert new.metadata.location != old.metadata.location
    assert not new.metadata.location.startswith(old.metadata.location + "/")


def test_a_namespace_can_say_where_its_tables_go(pointer_catalog: Catalog) -> None:
    pointer_catalog.create_namespace("db", {"location": f"{pointer_catalog.warehouse}/special"})
    assert pointer_catalog.default_location("db.t") == f"{pointer_catalog.warehouse}/special/t"


def test_a_catalog_of_folders_says_why_it_cannot_rename(catalog: Catalog) -> None:
    if not isinstance(catalog, FilesystemCatalog):
        return
    create(catalog)
    with pytest.raises(Unsupported) as caught:
        catalog.rename_table("db.t", "db.u")
    assert "sqlite" in str(caught.value)


def test_a_name_is_a_table_or_a_namespace(catalog: Catalog) -> None:
    if not isinstance(catalog, FilesystemCatalog):
        return
    create(catalog)
    for name in ("db.t", "db.t.inner"):
        with pytest.raises(AlreadyExists):
            catalog.create_namespace(name)
    catalog.create_namespace("db.n")
    with pytest.raises(TableAlreadyExists):
        create(catalog, "db.n")
