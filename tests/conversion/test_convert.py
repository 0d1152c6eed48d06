"""Tables that become tables of another format; pylance and PyIceberg read what came of them."""

from __future__ import annotations

import datetime
import shutil
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import frazil
from frazil.errors import (
    CommitConflict,
    FrazilError,
    InvalidName,
    InvalidSchema,
    InvalidValue,
    TableNotFound,
    Unsupported,
)
from frazil.lake import Lake
from tests.lance.samples import every_type
from tests.s3_service import S3Bucket

lance = pytest.importorskip("lance")

SCHEMA = """id BIGINT NOT NULL COMMENT 'the key', b BOOLEAN, i INT, f FLOAT, d DOUBLE, n DECIMAL(20,3), day DATE,
    t TIME, ts TIMESTAMP_NTZ, tz TIMESTAMPTZ, s STRING, u UUID, x FIXED[2], bin BINARY,
    st STRUCT<a: INT, in: STRUCT<b: STRING>>, l ARRAY<BIGINT>, ls ARRAY<STRUCT<p: INT, q: STRING>>,
    m MAP<STRING, DOUBLE>"""
FULL = {
    "id": 1,
    "b": True,
    "i": -5,
    "f": 1.5,
    "d": -2.5,
    "n": Decimal("12.345"),
    "day": datetime.date(1969, 12, 31),
    "t": datetime.time(1, 2, 3, 4),
    "ts": datetime.datetime(2026, 11, 1, 8),
    "tz": datetime.datetime(2026, 11, 1, 8, tzinfo=datetime.UTC),
    "s": "é",
    "u": UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"),
    "x": b"\x00\xff",
    "bin": b"",
    "st": {"a": 1, "in": {"b": "c"}},
    "l": [1, None],
    "ls": [{"p": 1, "q": None}, None],
    "m": [("k", 1.0), ("n", None)],
}
NOTHING = {key: (2 if key == "id" else None) for key in FULL}


def rows_of(table: pa.Table, key: str = "id") -> list[dict[str, object]]:
    return sorted(table.to_pylist(), key=lambda row: row[key])


def by_pylance(lake: Lake, name: str, **at: object) -> pa.Table:
    found = lance.dataset(lake.table(name).location, **at)
    found.validate()
    return found.to_table()


def by_pyiceberg(lake: Lake, name: str, **at: object) -> pa.Table:
    from pyiceberg.table import StaticTable

    return StaticTable.from_metadata(lake.table(name).metadata_location).scan(**at).to_arrow()


def test_every_type_of_iceberg_there_and_back(lake: Lake) -> None:
    table = lake.create_table("db.t", SCHEMA, properties={"comment": "mine", "a": "b"})
    table.append([FULL, NOTHING])
    schema = table.schema
    done = lake.convert_table("db.t", "lance")
    assert (done.format, done.rows, done.tags) == ("lance", 2, 0)
    found = lake.table("db.t", format="lance")
    assert rows_of(found.scan().to_arrow()) == [FULL, NOTHING]
    assert rows_of(by_pylance(lake, "db.t")) == [FULL, NOTHING]
    assert lance.dataset(found.location).schema.field("id") == pa.field(
        "id", pa.int64(), nullable=False, metadata={"doc": "the key"}
    )
    assert found.properties["comment"] == "mine"
    assert found.properties["a"] == "b"

    back = lake.convert_table("db.t", "iceberg")
    assert (back.format, back.rows) == ("iceberg", 2)
    again = lake.table("db.t")
    assert [(column.name, column.type, column.required, column.doc) for column in _shape(again.schema)] == [
        (column.name, column.type, column.required, column.doc) for column in _shape(schema)
    ]
    assert rows_of(again.scan().to_arrow()) == [FULL, NOTHING]
    theirs = rows_of(by_pyiceberg(lake, "db.t"))
    theirs[1]["ls"] = None  # a list of structs that is null is empty to PyIceberg
    assert theirs == [FULL, NOTHING]
    assert pq.read_table(lake.table("db.t").scan().plan().file_paths[0])["ls"].null_count == 1
    assert (again.properties["comment"], again.properties["a"]) == ("mine", "b")
    again.append([{"id": 3}])
    assert again.scan().count() == 3
    assert lake.tables() == ["db.t"]


def _shape(schema: object) -> object:
    """Columns with ids that tell only their order."""
    from frazil.model.fresh_ids import assign_fresh_ids

    return assign_fresh_ids(schema)[0].fields


REFUSED = {"d256", "dur"}


def test_every_type_of_lance_there_and_back(lake: Lake) -> None:
    """Vectors are vectors again; types that Iceberg has only wider ones for are those."""
    rows = every_type("2.2").drop_columns(sorted(REFUSED)).add_column(0, "key", pa.array([1, 2, 3]))
    lake.create_table("db.t", rows.schema, format="lance").append(rows)
    with pytest.raises(InvalidValue, match="lose data"):  # Iceberg's times have microseconds
        lake.convert_table("db.t", "iceberg")
    whole = pa.array([1000, None, 2000], pa.time64("ns"))
    rows = rows.set_column(rows.column_names.index("t64"), "t64", whole)
    lake.table("db.t", format="lance").overwrite(rows)
    lake.convert_table("db.t", "iceberg")
    table = lake.table("db.t")
    assert table.format_version == 3  # nanoseconds
    found = table.scan().to_arrow().sort_by("key")
    for name in rows.column_names:
        assert _plain(found[name]) == _plain(rows[name]), name
    assert (str(table.schema.find("u64").type), str(table.schema.find("u32").type)) == ("decimal(20, 0)", "long")

    lake.convert_table("db.t", "lance")
    again = by_pylance(lake, "db.t").sort_by("key")
    assert again.schema.field("fsl").type == rows.schema.field("fsl").type
    for name in rows.column_names:
        assert _plain(again[name]) == _plain(rows[name]), name


def _plain(column: pa.ChunkedArray) -> list[object]:
    return [_value(value) for value in column.to_pylist()]


def _value(value: object) -> object:
    """What a value means: an instant whatever its zone, a number whatever its type."""
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.UTC)
    if isinstance(value, UUID):
        return value.bytes
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)
    return value


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_types_that_iceberg_cannot_hold(lake: Lake, name: str) -> None:
    rows = every_type("2.2").select([name])
    lake.create_table("db.t", rows.schema, format="lance").append(rows)
    with pytest.raises(InvalidSchema, match=f"{name}.*Iceberg cannot hold"):
        lake.convert_table("db.t", "iceberg")
    table = lake.table("db.t", format="lance")
    table.append(rows)
    assert table.scan().count() == 6


@pytest.mark.parametrize("kind", ["VARIANT", "GEOMETRY", "STRUCT<a: VARIANT>"])
def test_types_that_lance_cannot_hold(lake: Lake, kind: str) -> None:
    lake.create_table("db.t", f"id BIGINT, x {kind}", format_version=3).append([{"id": 1}])
    with pytest.raises(InvalidSchema, match="Lance cannot hold"):
        lake.convert_table("db.t", "lance")
    assert lake.table("db.t").scan().count() == 1


def test_what_lance_has_no_place_for(lake: Lake) -> None:
    table = lake.create_table("db.t", "id BIGINT", format_version=3)
    table.append([{"id": 1}])
    table.update_schema().add_column("n", "long", default=7).commit()
    with pytest.raises(Unsupported, match="'n' has a default"):
        lake.convert_table("db.t", "lance")
    table.update_schema().drop_column("n").commit()
    table.manage_refs().create_branch("side").commit()
    with pytest.raises(Unsupported, match="branch 'side'"):
        lake.convert_table("db.t", "lance")
    table.manage_refs().remove_branch("side").create_tag("a tag!").commit()
    with pytest.raises(InvalidName, match="a tag!"):
        lake.convert_table("db.t", "lance")
    assert lake.table("db.t").format == "iceberg"
    other = lake.create_table("db.u", "id BIGINT", format="lance")
    other.create_branch("side")
    with pytest.raises(Unsupported, match="branch 'side'"):
        lake.convert_table("db.u", "iceberg")
    with pytest.raises(Unsupported, match="mixed"):
        lake.convert_table("db.u", "mixed")
    with pytest.raises(FrazilError, match="orc"):
        lake.convert_table("db.u", "orc")
    with pytest.raises(TableNotFound):
        lake.convert_table("db.nothing", "lance")


def test_vectors_by_properties(lake: Lake) -> None:
    """An array of an Iceberg table becomes a vector if a property says so."""
    size = {"v.arrow.fixed-size-list.size": "2", "v.arrow.float16": "true"}
    table = lake.create_table("db.t", "id BIGINT, v ARRAY<FLOAT>", properties=size)
    table.append([{"id": 1, "v": [0.5, 1.0]}, {"id": 2, "v": None}])
    lake.convert_table("db.t", "lance")
    found = by_pylance(lake, "db.t")
    assert found.schema.field("v").type == pa.list_(pa.float16(), 2)
    assert rows_of(found) == [{"id": 1, "v": [0.5, 1.0]}, {"id": 2, "v": None}]
    assert lake.table("db.t").properties.keys().isdisjoint(size)
    lake.convert_table("db.t", "iceberg")
    assert {key: lake.table("db.t").properties[key] for key in size} == size
    lake.table("db.t").append([{"id": 3, "v": [1.0]}])
    with pytest.raises(FrazilError, match="vectors of 2 values"):
        lake.convert_table("db.t", "lance")
    assert lake.table("db.t").format == "iceberg"


def test_tags_name_the_same_rows(lake: Lake) -> None:
    table = lake.create_table("db.t", "id BIGINT, name STRING")
    table.append([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
    table.manage_refs().create_tag("first").create_tag("v1.0").commit()
    table.delete("id = 1")
    table.update_schema().add_column("more", "long").rename_column("name", "word").commit()
    table.append([{"id": 3, "word": "c", "more": 9}])
    table.manage_refs().create_tag("now").commit()
    assert lake.convert_table("db.t", "lance").tags == 3
    assert rows_of(by_pylance(lake, "db.t", version="first")) == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
    assert rows_of(by_pylance(lake, "db.t", version="v1.0")) == rows_of(by_pylance(lake, "db.t", version="first"))
    current = [{"id": 2, "word": "b", "more": None}, {"id": 3, "word": "c", "more": 9}]
    assert rows_of(by_pylance(lake, "db.t", version="now")) == rows_of(by_pylance(lake, "db.t")) == current

    lanced = lake.table("db.t", format="lance")
    lanced.append([{"id": 4, "word": "d", "more": 10}])
    lanced.drop_tag("v1.0")
    assert lake.convert_table("db.t", "iceberg").tags == 2
    again = lake.table("db.t")
    assert sorted(name for name, ref in again.refs.items() if ref.is_tag) == ["first", "now"]
    first = again.refs["first"].snapshot_id
    assert rows_of(by_pyiceberg(lake, "db.t", snapshot_id=first)) == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
    assert rows_of(again.scan(ref="now").to_arrow()) == current
    assert rows_of(by_pyiceberg(lake, "db.t")) == [*current, {"id": 4, "word": "d", "more": 10}]

    again.manage_refs().remove_tag("now").commit()
    assert lake.convert_table("db.t", "lance").tags == 1
    assert sorted(lake.table("db.t").refs) == ["first"]
    assert rows_of(by_pylance(lake, "db.t")) == [*current, {"id": 4, "word": "d", "more": 10}]


def test_deleted_rows_stay_deleted(lake: Lake) -> None:
    table = lake.create_table("db.t", "id BIGINT", properties={"write.delete.mode": "merge-on-read"}, format_version=3)
    table.append([{"id": n} for n in range(100)])
    table.delete("id < 10")
    lake.convert_table("db.t", "lance")
    lanced = lake.table("db.t", format="lance")
    lanced.delete("id >= 90")
    lake.convert_table("db.t", "iceberg")
    assert [row["id"] for row in rows_of(by_pyiceberg(lake, "db.t"))] == list(range(10, 90))


def test_the_former_table_can_be_read_where_it_was(lake: Lake) -> None:
    lake.create_table("db.t", "id BIGINT").append([{"id": 1}])
    old = lake.convert_table("db.t", "lance").previous
    lake.table("db.t").append([{"id": 2}])
    assert rows_of(frazil.open(old).scan().to_arrow()) == [{"id": 1}]
    former = lake.table("db.t", format="lance")
    gone = lake.convert_table("db.t", "iceberg")
    lake.table("db.t").append([{"id": 3}])
    assert rows_of(lance.dataset(gone.previous).to_table()) == [{"id": 1}, {"id": 2}]
    assert rows_of(former.refresh().scan().to_arrow()) == [{"id": 1}, {"id": 2}]


def test_writers_who_come_too_late_are_told(lake: Lake) -> None:
    """Nothing is acknowledged that is in no table."""
    late = lake.create_table("db.t", "id BIGINT")
    late.append([{"id": 1}])
    lake.convert_table("db.t", "lance")
    with pytest.raises(FrazilError):
        late.append([{"id": 2}])
    writers = [lake.table("db.t", format="lance") for _ in range(6)]
    theirs = lance.dataset(writers[0].location)
    lake.convert_table("db.t", "iceberg")
    for write in (
        lambda: writers[0].append([{"id": 3}]),
        lambda: writers[1].overwrite([{"id": 3}]),
        lambda: writers[2].delete("id = 1"),
        lambda: writers[3].update_properties({"a": "b"}),
        lambda: writers[4].restore(1),
        lambda: writers[5].refresh().append([{"id": 3}]),
    ):
        with pytest.raises((Unsupported, CommitConflict), match=r"converted|does not go on top"):
            write()
    for change in (
        lambda: theirs.insert(pa.table({"id": [4]})),
        lambda: theirs.delete("id = 1"),
        lambda: lance.dataset(theirs.uri).insert(pa.table({"id": [4]})),
        lambda: lance.write_dataset(pa.table({"id": [4]}), theirs.uri, mode="overwrite"),
    ):
        with pytest.raises(Exception, match=r"conflict|[Ff]eature|not supported|cannot be written|upgrade"):
            change()
    assert rows_of(lake.table("db.t").scan().to_arrow()) == [{"id": 1}]


def test_a_dropped_table_does_not_come_back_as_what_it_was(lake: Lake) -> None:
    for purge in (False, True):
        lake.create_table("db.t", "id BIGINT", format="lance").append([{"id": 1}])
        lake.convert_table("db.t", "iceberg")
        lake.drop_table("db.t", purge=purge)
        assert not lake.table_exists("db.t")
        lake.create_table("db.t", "id BIGINT").append([{"id": 2}])
        lake.convert_table("db.t", "lance")
        lake.drop_table("db.t", purge=purge)
        assert not lake.table_exists("db.t")
    assert lake.tables() == []


def test_what_is_of_that_format_already_stays(lake: Lake) -> None:
    for kind in ("iceberg", "lance"):
        table = lake.create_table(f"db.{kind}", "id BIGINT", format=kind)
        table.append([{"id": 1}])
        done = lake.convert_table(f"db.{kind}", kind)
        assert (done.previous, done.rows, done.location) == (None, 1, table.location)


def test_tables_without_rows(lake: Lake) -> None:
    lake.create_table("db.t", "id BIGINT")
    for to in ("lance", "iceberg", "lance", "iceberg"):
        assert lake.convert_table("db.t", to).rows == 0
        assert lake.table("db.t").format == to
    lake.table("db.t").append([{"id": 1}])
    assert by_pyiceberg(lake, "db.t").to_pylist() == [{"id": 1}]


def test_a_lake_that_is_copied(tmp_path: Path) -> None:
    """Where a table is that was converted is told as a folder in the table's own."""
    lake = frazil.connect(tmp_path / "a")
    lake.create_table("db.t", "id BIGINT").append([{"id": 1}])
    lake.convert_table("db.t", "lance")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    copied = frazil.connect(tmp_path / "b").table("db.t", format="lance")
    copied.append([{"id": 2}])
    assert rows_of(copied.scan().to_arrow()) == [{"id": 1}, {"id": 2}]
    assert rows_of(lake.table("db.t").scan().to_arrow()) == [{"id": 1}]


def test_upkeep_leaves_the_former_files(tmp_path: Path) -> None:
    """In a filesystem catalog both tables are in one folder."""
    lake = frazil.connect(tmp_path)
    lake.create_table("db.t", "id BIGINT").append([{"id": 1}])
    old = lake.convert_table("db.t", "lance").previous
    table = lake.table("db.t", format="lance")
    table.append([{"id": 2}])
    table.clean_up(older_than=2**50, delete_unverified=True)
    assert rows_of(frazil.open(old).scan().to_arrow()) == [{"id": 1}]
    assert rows_of(frazil.open(tmp_path / "db" / "t").scan().to_arrow()) == [{"id": 1}, {"id": 2}]


def test_tables_on_s3(s3_bucket: S3Bucket) -> None:
    lake = frazil.connect(f"{s3_bucket.location}/lake", **s3_bucket.properties)
    table = lake.create_table("db.t", "id BIGINT, v ARRAY<FLOAT>", properties={"v.arrow.fixed-size-list.size": "2"})
    table.append([{"id": n, "v": [n, 0]} for n in range(5)])
    table.manage_refs().create_tag("all").commit()
    table.delete("id = 3")
    for to in ("lance", "iceberg", "lance"):
        lake.convert_table("db.t", to)
        found = lake.table("db.t")
        assert (found.format, found.scan().count(), found.scan(ref="all").count()) == (to, 4, 5)
        found.append([{"id": 100, "v": [1, 1]}])
        found.delete("id = 100")
    lake.drop_table("db.t", purge=True)
    assert not lake.table_exists("db.t")


def test_tables_in_memory() -> None:
    """Where Lance's files cannot be: that is said, and the table stays as it is."""
    lake = frazil.connect("memory:")
    lake.create_table("db.t", "id BIGINT").append([{"id": 1}])
    with pytest.raises(Unsupported, match="Lance data files cannot be at"):
        lake.convert_table("db.t", "lance")
    assert lake.table("db.t").scan().count() == 1


@pytest.mark.parametrize("name", ["dev", "main"])
def test_a_tag_that_is_called_like_a_branch_loses_no_branch(tmp_path: Path, name: str) -> None:
    lake = frazil.connect(str(tmp_path))
    table = lake.create_table("db.t", pa.schema({"id": pa.int64()}), format="lance")
    table.append([{"id": 1}])
    if name == "dev":
        table.create_branch("dev").append([{"id": 2}])
    table.create_tag("other")
    tags = Path(table.location) / "_refs" / "tags"
    (tags / "other.json").rename(tags / f"{name}.json")  # as another writer may have it
    with pytest.raises(Unsupported, match=name):
        lake.convert_table("db.t", to="iceberg")
    assert lake.table("db.t", format="lance").branch(name).scan().count() == (2 if name == "dev" else 1)
