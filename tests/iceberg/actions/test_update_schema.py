"""Schema updates: what they change, and when they conflict."""

from __future__ import annotations

import json

import pytest

from frazil.errors import CommitConflict, InvalidEvolution
from frazil.iceberg.actions.update_schema import UpdateSchema
from frazil.model.schema_evolution import Position
from frazil.model.types import NestedField, StructType
from tests.iceberg.memory_committer import Table


def update(table: Table) -> UpdateSchema:
    return UpdateSchema(table.transaction())


def names(table: Table) -> list[str]:
    return [column.name for column in table.metadata.current_schema.fields]


def test_all_changes_of_one_update_become_current_together():
    table = Table()
    change = update(table).add_column("score", "double", position=Position.after("id")).rename_column("name", "label")
    assert [column.name for column in change.apply().fields] == ["id", "score", "ts", "label", "point"]
    assert len(table.metadata.schemas) == 1
    change.commit()
    assert names(table) == ["id", "score", "ts", "label", "point"]
    assert (table.metadata.current_schema_id, table.metadata.last_column_id) == (1, 7)


def test_a_change_that_changes_nothing_commits_nothing():
    table = Table()
    before = table.metadata
    update(table).make_optional("name").commit()
    update(table).commit()
    assert table.metadata is before
    assert table.committer.commits == 0


def test_going_back_to_an_old_schema_uses_it_again():
    table = Table()
    update(table).rename_column("name", "label").commit()
    update(table).rename_column("label", "name").commit()
    assert table.metadata.current_schema_id == 0
    assert len(table.metadata.schemas) == 2


def test_a_concurrent_schema_change_is_a_conflict_and_both_columns_are_never_lost():
    table = Table()
    change = update(table).add_column("mine", "long")
    table.in_between(lambda: update(table).add_column("theirs", "long").commit())
    with pytest.raises(CommitConflict, match="schema was changed"):
        change.commit()
    assert "theirs" in names(table)
    assert "mine" not in names(table)


def test_a_concurrent_change_of_something_else_is_no_conflict():
    table = Table()
    change = update(table).add_column("mine", "long")
    table.in_between(lambda: table.append("a"))
    change.commit()
    assert "mine" in names(table)
    assert table.metadata.current_snapshot is not None


@pytest.mark.parametrize("column", ["id", "ts"])
def test_sources_of_the_spec_and_the_sort_order_cannot_be_dropped(column: str):
    table = Table()
    with pytest.raises(InvalidEvolution, match="cannot be dropped"):
        update(table).drop_column(column)
    assert table.committer.commits == 0


def test_a_column_can_be_dropped_once_nothing_is_made_from_it():
    table = Table()
    update(table).drop_column("name").drop_column("point").commit()
    assert names(table) == ["id", "ts"]


def test_the_name_mapping_follows_renames_and_additions():
    mapping = '[{"field-id": 1, "names": ["id"]}, {"field-id": 3, "names": ["name"]}]'
    table = Table(properties={"schema.name-mapping.default": mapping})
    update(table).rename_column("name", "label").add_column("score", "double").commit()
    assert json.loads(table.metadata.properties["schema.name-mapping.default"]) == [
        {"field-id": 1, "names": ["id"]},
        {"field-id": 3, "names": ["name", "label"]},
        {"field-id": 7, "names": ["score"]},
    ]


def test_properties_that_name_a_column_follow_it():
    table = Table(
        properties={
            "write.metadata.metrics.column.name": "full",
            "write.metadata.metrics.column.point.x": "counts",
            "write.parquet.bloom-filter-enabled.column.name": "true",
            "write.parquet.bloom-filter-fpp.column.name": "0.1",
            "write.metadata.metrics.column.id": "none",
        }
    )
    update(table).rename_column("name", "label").rename_column("point", "place").commit()
    kept = {key: value for key, value in table.metadata.properties.items() if ".column." in key}
    assert kept == {
        "write.metadata.metrics.column.label": "full",
        "write.metadata.metrics.column.place.x": "counts",
        "write.parquet.bloom-filter-enabled.column.label": "true",
        "write.parquet.bloom-filter-fpp.column.label": "0.1",
        "write.metadata.metrics.column.id": "none",
    }
    update(table).drop_column("place").drop_column("label").commit()
    assert [key for key in table.metadata.properties if ".column." in key] == ["write.metadata.metrics.column.id"]


def test_two_columns_that_swap_names_swap_their_properties():
    table = Table(
        properties={"write.metadata.metrics.column.name": "full", "write.metadata.metrics.column.point": "none"}
    )
    update(table).rename_column("name", "tmp").commit()
    update(table).rename_column("point", "name").rename_column("tmp", "point").commit()
    properties = table.metadata.properties
    assert properties["write.metadata.metrics.column.point"] == "full"
    assert properties["write.metadata.metrics.column.name"] == "none"


def test_required_columns_need_permission_or_a_default():
    table = Table()
    with pytest.raises(InvalidEvolution, match="required"):
        update(table).require_column("name")
    update(table).allow_incompatible_changes().require_column("name").commit()
    assert table.metadata.current_schema.find("name").required
    three = Table(3)
    update(three).add_column("n", "int", required=True, default=7).commit()
    update(three).update_column("n", default=8).commit()
    assert (
        three.metadata.current_schema.find("n").initial_default,
        three.metadata.current_schema.find("n").write_default,
    ) == (7, 8)
    update(three).unset_default("n").commit()
    assert three.metadata.current_schema.find("n").write_default is None


def test_moves_docs_types_identifiers_and_unions():
    table = Table()
    update(table).move_first("name").move_after("id", "ts").move_before("point.y", "point.x").commit()
    assert names(table) == ["name", "ts", "id", "point"]
    assert [column.name for column in table.metadata.current_schema.find("point").type.fields] == ["y", "x"]
    update(table).set_identifier_fields(["id"]).update_column("name", doc="what it is called").commit()
    assert table.metadata.current_schema.identifier_field_ids == (1,)
    assert table.metadata.current_schema.find("name").doc == "what it is called"
    more = table.metadata.current_schema
    grown = type(more)(
        (*more.fields, NestedField(99, "extra", StructType((NestedField(100, "z", more.find("id").type),))))
    )
    update(table).union_by_name(grown).commit()
    assert names(table)[-1] == "extra"
    assert table.metadata.last_column_id == 8
    update(table).case_sensitive(False).rename_column("EXTRA", "Other").commit()
    assert names(table)[-1] == "Other"


def test_a_column_that_needs_a_newer_format_is_refused():
    with pytest.raises(InvalidEvolution):
        update(Table(2)).add_column("v", "variant")
