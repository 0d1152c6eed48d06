"""Filters of every kind, over rows that have every kind of value.

A filter is Spark's text and, where the kernel's own filters can say the same, the kernel's: theirs are the words for
literals (`TIMESTAMPTZ '...'`), and a NaN that is equal to nothing and greater than nothing.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa

if TYPE_CHECKING:
    from frazil.iceberg.table import IcebergTable
    from frazil.lake import Lake
    from frazil.lance.table import LanceTable
    from frazil.mixed.table import MixedTable

SCHEMA = """id BIGINT, i INT, f FLOAT, d DOUBLE, n9 DECIMAL(9,2), n38 DECIMAL(38,10), s STRING, x BINARY, o BOOLEAN,
    day DATE, t TIMESTAMP_NTZ, z TIMESTAMPTZ, u UUID, fx FIXED[2], st STRUCT<a: INT, inner: STRUCT<b: STRING>>,
    l ARRAY<INT>, m MAP<STRING, INT>"""

NAN, INFINITY = float("nan"), float("inf")
HUGE = Decimal("-1234567890123456789012345678.0123456789")


def _row(number: int, **values: Any) -> dict[str, Any]:
    return {"id": number, **values}


ROWS = [
    _row(
        *(0,),
        i=1,
        f=1.5,
        d=1.5,
        n9=Decimal("1.50"),
        n38=Decimal("1.5000000000"),
        s="ab",
        x=b"\x00\xff",
        o=True,
        day=date(2020, 1, 1),
        t=datetime(2020, 1, 1, 12),
        z=datetime(2020, 1, 1, tzinfo=UTC),
        u=UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"),
        fx=b"\x00\x01",
        l=[1, 2],
        m={"k": 1},
        st={"a": 1, "inner": {"b": "xy"}},
    ),
    _row(1, i=-5, f=NAN, d=NAN, n9=Decimal("-1.00"), s="abc", x=b"", o=False, day=date(1969, 12, 31), l=[], m={}),
    _row(2),
    _row(
        3,
        f=-0.0,
        d=-0.0,
        n38=HUGE,
        s="",
        x=b"\x00",
        t=datetime(1969, 12, 31, 23, 59, 58),
        st={"a": None, "inner": None},
    ),
    _row(4, i=2**31 - 1, f=INFINITY, d=INFINITY, s="b", st={"a": 2, "inner": {"b": None}}, u=UUID(int=2**128 - 1)),
    _row(5, i=0, f=0.0, d=0.0, s="it's", o=True, fx=b"\xff\xff", z=datetime(1900, 1, 1, tzinfo=UTC), m={"k": None}),
    _row(6, i=-(2**31), d=-INFINITY, s="é", day=date(9999, 12, 31), n9=Decimal("9999999.99"), x=b"\xff"),
    _row(7, s="\U0001f9ca", d=5e-324, f=1.0, st={"a": 1, "inner": {"b": "z"}}, l=[None], u=UUID(int=0)),
    _row(8, i=1, s="\uffee", d=1.0, o=False, t=datetime(2020, 1, 1), day=date(2020, 1, 2), x=b"\x00\xff\x00"),
    _row(9, i=7, s="a_b%", d=NAN, f=NAN, n9=Decimal("1.51"), n38=Decimal("1.5100000000"), st={"a": 1, "inner": None}),
]

SAME = "same"
FILTERS: list[tuple[str, str | None]] = [
    *((text, SAME) for text in ("id = 3", "id <> 3", "id < 3", "id <= 3", "id > 7", "id >= 7", "3 < id", "id = 99")),
    *(
        (text, SAME)
        for text in ("id IN (1, 5, 99)", "id NOT IN (1, 5)", "id BETWEEN 2 AND 4", "NOT (id BETWEEN 2 AND 4)")
    ),
    *(
        (text, SAME)
        for text in ("i = 1", "i <> 1", "i < 0", "i IN (1, -5)", "i NOT IN (1, 2)", "i IS NULL", "i IS NOT NULL")
    ),
    ("id IN (1, NULL)", None),
    ("i NOT IN (1, NULL)", None),
    ("i <=> 1", SAME),
    ("i <=> NULL", "i IS NULL"),
    ("NOT (i <=> 1)", "i IS NULL OR i <> 1"),
    ("id = NULL", None),
    # text
    *((text, SAME) for text in ("s = 'ab'", "s <> 'ab'", "s > 'b'", "s <= ''", "s IN ('ab', 'b', 'q')", "s IS NULL")),
    ("s = 'it\\'s'", "s = 'it''s'"),
    *((text, SAME) for text in ("s LIKE 'ab%'", "s NOT LIKE 'ab%'", "s >= '\uffee'", "s >= '\U0001f9ca'", "s < 'é'")),
    ("startswith(s, 'a')", "s LIKE 'a%'"),
    ("NOT startswith(s, 'a')", "s NOT LIKE 'a%'"),
    ("s LIKE 'a\\\\_b%'", None),
    ("s LIKE '%b'", None),
    ("upper(s) = 'AB'", None),
    ("length(s) = 2 AND id < 5", None),
    # booleans
    ("o", "o = true"),
    ("NOT o", "o = false"),
    ("o IS NULL", SAME),
    ("o = true OR id = 1", SAME),
    # numbers with fractions
    *((text, SAME) for text in ("n9 = 1.50", "n9 > 1.50", "n9 IN (1.50, -1)", "n38 < 0", "n38 >= 1.51", "n9 <> 1.5")),
    ("n9 > 1.505", None),
    ("n38 = -1234567890123456789012345678.0123456789", SAME),
    ("n9 = n38", None),
    *((text, SAME) for text in ("d < 1", "d <= 0", "d = 0.0", "f = 0", "d IN (0.0, 1.5)", "d IS NULL")),
    ("d > 1", "d > 1 OR d IS NaN"),
    ("d >= double('Infinity')", "d >= DOUBLE 'Infinity' OR d IS NaN"),
    ("d <> 1.5", "d <> 1.5"),
    ("isnan(d)", "d IS NaN"),
    ("d = double('NaN')", "d IS NaN"),
    ("d < double('NaN')", "d IS NOT NULL AND d IS NOT NaN"),
    ("f <> float('NaN')", "f IS NOT NULL AND f IS NOT NaN"),
    ("d IN (double('NaN'), 1.5D)", "d IS NaN OR d = 1.5"),
    ("NOT isnan(d)", None),
    ("NOT (d > 1)", "d <= 1"),
    ("f = d", None),
    # bytes
    *(
        (text, SAME)
        for text in ("x = X'00ff'", "x > X'00'", "x = X''", "x IN (X'ff', X'00')", "x IS NULL", "x < X'00ff00'")
    ),
    ("fx = X'0001'", SAME),
    ("fx > X'0001'", SAME),
    # days and times
    *((text, SAME) for text in ("day = DATE '1969-12-31'", "day < DATE '1970-01-01'", "day > DATE '2020-01-01'")),
    ("day IN (DATE '2020-01-01', DATE '9999-12-31')", SAME),
    ("day BETWEEN DATE '2020-01-01' AND DATE '2020-01-02'", SAME),
    ("year(day) = 2020", None),
    ("t = TIMESTAMP_NTZ '2020-01-01 12:00:00'", "t = TIMESTAMP '2020-01-01 12:00:00'"),
    ("t < TIMESTAMP_NTZ '1970-01-01 00:00:00'", "t < TIMESTAMP '1970-01-01 00:00:00'"),
    ("t >= TIMESTAMP_NTZ '2020-01-01 00:00:00'", "t >= TIMESTAMP '2020-01-01 00:00:00'"),
    ("CAST(t AS DATE) = DATE '2020-01-01'", None),
    ("z = TIMESTAMP '2020-01-01 00:00:00'", "z = TIMESTAMPTZ '2020-01-01 00:00:00Z'"),
    ("z < TIMESTAMP '1970-01-01 00:00:00'", "z < TIMESTAMPTZ '1970-01-01 00:00:00Z'"),
    ("z < TIMESTAMP '2020-01-01 01:00:00+02:00'", "z < TIMESTAMPTZ '2020-01-01 01:00:00+02:00'"),
    # uuids, which are texts to Spark
    ("u = 'f79c3e09-677c-4bbd-a479-3f349cb785e7'", "u = UUID 'f79c3e09-677c-4bbd-a479-3f349cb785e7'"),
    ("u = 'F79C3E09-677C-4BBD-A479-3F349CB785E7'", "false"),
    ("u <> 'no uuid'", "u IS NOT NULL"),
    ("u > 'a'", None),
    ("u LIKE 'f79%'", None),
    # inside of columns
    *((text, SAME) for text in ("st.a = 1", "st.a <> 1", "st.a IS NULL", "st.a IS NOT NULL", "st.inner.b = 'xy'")),
    *((text, SAME) for text in ("st.inner.b LIKE 'x%'", "st.inner.b IS NULL", "st.a IN (1, 2) AND id > 4")),
    ("st IS NULL", None),
    ("st.inner IS NOT NULL", None),
    ("get(l, 0) = 1", None),
    ("size(l) = 0", None),
    ("m['k'] IS NULL", None),
    # together
    ("id > 2 AND s IS NULL", SAME),
    ("id > 2 OR st.a = 1", SAME),
    ("NOT (id > 2 AND s = 'ab')", SAME),
    ("NOT (id > 2 OR st.a = 1)", SAME),
    ("(i = 1 OR i IS NULL) AND NOT (s = 'b' OR d < 0)", SAME),
    ("id > 2 AND (length(s) = 1 OR i > 0)", None),
    ("id < 8 AND rand(0) >= 0", "id < 8"),
    ("id + 1 = 3", None),
    ("coalesce(i, 0) = 0", None),
    ("i = id", None),
    ("CASE WHEN i > 0 THEN s = 'ab' ELSE false END", None),
    ("true", SAME),
    ("false", SAME),
]


def one_format(lake: Lake) -> IcebergTable:
    """Three Parquet files."""
    table = lake.create_table("db.values_parquet", SCHEMA, format_version=3)
    for start in range(0, len(ROWS), 4):
        table.append(ROWS[start : start + 4])
    return table


def in_lance(lake: Lake, rows: pa.Table) -> LanceTable:
    """The same rows in three fragments of a Lance table, and one in each that is deleted."""
    table = lake.create_table("db.values_lance", rows.schema, format="lance")
    for start in range(0, len(rows), 4):
        table.append(pa.concat_tables([rows.slice(start, 4), _gone(rows)]))
    table.delete("id < 0")
    return table


def in_two_stores(lake: Lake, rows: pa.Table) -> MixedTable:
    """The same rows in a keyed table: half as they are in the base store, half changed since, and one that is gone."""
    table: MixedTable = lake.create_table("db.values_keyed", rows.schema, format="mixed", primary_key=["id"])
    order = pa.array(range(len(rows)))
    others = rows.take(pa.compute.subtract(len(rows) - 1, order)).set_column(0, rows.schema.field(0), rows["id"])
    odd = pa.compute.equal(pa.compute.bit_wise_and(order, 1), 1)
    table.overwrite(pa.concat_tables([rows.filter(odd), others.filter(pa.compute.invert(odd)), _gone(rows)]))
    table.upsert(rows.filter(pa.compute.invert(odd)))
    table.delete("id < 0")
    return table


def _gone(rows: pa.Table) -> pa.Table:
    return rows.slice(0, 1).set_column(0, rows.schema.field(0), pa.array([-1], pa.int64()))


def many_specs_and_formats(lake: Lake) -> IcebergTable:
    """Parquet partitioned by o and s, then by the day of t and a bucket of s; ORC by a part of x; Avro by nothing."""
    table = lake.create_table("db.values_mixed", SCHEMA, partition_by=["o", "s"], format_version=2)
    table.append(ROWS[:3])
    table.update_spec().remove_field("o").remove_field("s").add_field("days(t)").add_field("bucket(4, s)").commit()
    table.append(ROWS[3:6])
    table.update_spec().remove_field("t_day").remove_field("s_bucket_4").add_field("truncate(1, x)").commit()
    table.update_properties().set("write.format.default", "orc").commit()
    table.append(ROWS[6:8])
    table.update_spec().remove_field("x_trunc_1").commit()
    table.update_properties().set("write.format.default", "avro").commit()
    table.append(ROWS[8:])
    return table
