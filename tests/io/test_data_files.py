"""What holds for data files of every format."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.errors import AlreadyExists, FileMissing, InvalidArgument, InvalidSchema, MalformedData, Unsupported
from frazil.io.data_files import open_data_file, read_data_file, write_data_file
from frazil.model.arrow import schema_from_anything
from frazil.model.schema import Schema
from frazil.model.types import (
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampNsType,
    TimestampType,
    TimestamptzNsType,
    TimestamptzType,
    UnknownType,
    list_of,
)
from tests.io.data_file_samples import EVERYTHING, ROWS, assert_same, batch_of, memory, read, write

FORMATS = ("parquet", "orc", "avro")
SMALL = schema_from_anything("id BIGINT NOT NULL, s STRUCT<a: INT, b: STRING>, l ARRAY<STRING>")


@pytest.mark.parametrize("file_format", FORMATS)
def test_every_type_and_edge_survives_a_round_trip(file_format: str) -> None:
    want = batch_of(EVERYTHING, ROWS)
    written = write("everything", want, EVERYTHING, file_format)
    assert written.record_count == len(ROWS)
    assert written.file_size_in_bytes == memory().size(written.location)
    assert_same(read(written.location, EVERYTHING, file_format), want)


@pytest.mark.parametrize("file_format", FORMATS)
def test_metrics_are_the_same_in_every_format(file_format: str) -> None:
    want = write("metrics", batch_of(EVERYTHING, ROWS), EVERYTHING, "parquet").metrics
    got = write("metrics", batch_of(EVERYTHING, ROWS), EVERYTHING, file_format).metrics
    assert (got.value_counts, got.null_value_counts, got.nan_value_counts) == (
        want.value_counts,
        want.null_value_counts,
        want.nan_value_counts,
    )
    assert (got.lower_bounds, got.upper_bounds) == (want.lower_bounds, want.upper_bounds)


@pytest.mark.parametrize("file_format", ["parquet", "avro"])
@given(values=st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=20))
def test_timestamps_of_any_size_and_sign_survive(file_format: str, values: list[int | None]) -> None:
    types = (TimestampType(), TimestamptzType(), TimestampNsType(), TimestamptzNsType())
    schema = Schema(tuple(NestedField(n, f"t{n}", type_) for n, type_ in enumerate(types, start=1)))
    want = batch_of(schema, [dict.fromkeys(range(1, 5), value) for value in values])
    got = read(write("times", want, schema, file_format).location, schema, file_format)
    for name in schema.columns:
        assert got.column(name).combine_chunks().view(pa.int64()).to_pylist() == values


rows_strategy = st.lists(
    st.fixed_dictionaries(
        {
            1: st.integers(-(2**63), 2**63 - 1),
            2: st.none()
            | st.fixed_dictionaries({4: st.none() | st.integers(0, 9), 5: st.none() | st.text(max_size=3)}),
            3: st.none() | st.lists(st.none() | st.text(max_size=3), max_size=4),
        }
    ),
    max_size=30,
)


@pytest.mark.parametrize("file_format", FORMATS)
@settings(max_examples=30)
@given(rows=rows_strategy, batch_rows=st.integers(1, 7))
def test_nulls_and_empties_at_every_level_survive_any_batch_size(
    file_format: str, rows: list[dict[int, object]], batch_rows: int
) -> None:
    want = batch_of(SMALL, rows)
    written = write("property", want, SMALL, file_format)
    assert_same(read(written.location, SMALL, file_format, batch_rows=batch_rows), want)


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_file_without_rows_is_a_file(file_format: str) -> None:
    written = write_empty(file_format)
    assert written.record_count == 0
    assert read(written.location, SMALL, file_format).num_rows == 0


def write_empty(file_format: str):  # type: ignore[no-untyped-def]
    location = f"memory://samples/data/empty.{file_format}"
    memory().delete(location)
    return write_data_file(memory(), location, file_format, SMALL, [], {})


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_projection_of_nothing_in_the_file_still_has_all_rows(file_format: str) -> None:
    written = write("columns", batch_of(SMALL, [{1: number} for number in range(5)]), SMALL, file_format)
    added = Schema((NestedField(90, "n", LongType(), initial_default=0),))
    assert read(written.location, added, file_format, batch_rows=2).column("n").to_pylist() == [0] * 5
    batches = list(read_data_file(memory(), written.location, file_format, Schema(()), batch_rows=2))
    assert sum(batch.num_rows for _, batch in batches) == 5


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_missing_file_says_so(file_format: str) -> None:
    with pytest.raises(FileMissing):
        list(read_data_file(memory(), f"memory://samples/data/none.{file_format}", file_format, SMALL))


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("keep", [0, 1, 30, 0.5, 0.98])
def test_a_truncated_file_is_malformed(file_format: str, keep: float) -> None:
    written = write("cut", batch_of(SMALL, [{1: number, 3: ["x"]} for number in range(1000)]), SMALL, file_format)
    data = memory().read(written.location)
    location = f"memory://samples/data/cut2.{file_format}"
    memory().write(location, data[: int(keep if keep > 1 or keep in (0, 1) else len(data) * keep)])
    with pytest.raises(MalformedData):
        list(read_data_file(memory(), location, file_format, SMALL))


@pytest.mark.parametrize("file_format", FORMATS)
@settings(max_examples=60)
@given(data=st.data())
def test_a_damaged_file_is_an_error_of_ours_or_rows(file_format: str, data: st.DataObject) -> None:
    from frazil.errors import FrazilError

    written = write("damaged", batch_of(SMALL, [{1: n, 2: {4: n}, 3: ["x"]} for n in range(20)]), SMALL, file_format)
    whole = bytearray(memory().read(written.location))
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    location = f"memory://samples/data/damaged2.{file_format}"
    memory().write(location, bytes(whole))
    try:
        for _ in read_data_file(memory(), location, file_format, SMALL):
            pass
    except FrazilError:
        pass


@pytest.mark.parametrize("file_format", FORMATS)
def test_nothing_is_left_when_writing_fails(file_format: str) -> None:
    location = f"memory://samples/data/failing.{file_format}"

    def batches():  # type: ignore[no-untyped-def]
        yield batch_of(SMALL, [{1: 1}])
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError):
        write_data_file(memory(), location, file_format, SMALL, batches(), {})
    assert not memory().exists(location)
    with pytest.raises(InvalidArgument):
        write_data_file(memory(), location, file_format, SMALL, [pa.record_batch({"zz": [1]})], {})
    assert not memory().exists(location)


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_file_is_never_written_over(file_format: str) -> None:
    written = write("once", batch_of(SMALL, [{1: 1}]), SMALL, file_format)
    with pytest.raises(AlreadyExists):
        write_data_file(memory(), written.location, file_format, SMALL, [], {})
    assert read(written.location, SMALL, file_format).num_rows == 1


@pytest.mark.parametrize("file_format", FORMATS)
def test_batches_are_made_to_fit_as_they_are_written(file_format: str) -> None:
    given = pa.record_batch({"l": pa.array([["a"]], pa.large_list(pa.large_string())), "id": pa.array([3], pa.int8())})
    written = write("fitted", given, SMALL, file_format)
    assert read(written.location, SMALL, file_format).to_pylist() == [{"id": 3, "s": None, "l": ["a"]}]


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_size_is_known_while_writing(file_format: str) -> None:
    location = f"memory://samples/data/rolling.{file_format}"
    memory().delete(location)
    with open_data_file(memory(), location, file_format, SMALL, {}) as writer:
        for _ in range(3):
            writer.write(batch_of(SMALL, [{1: n, 3: [str(n)] * 5} for n in range(2000)]))
        assert writer.estimated_bytes > 1000
        written = writer.close()
    assert written.record_count == 6000


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("key", ["compression-codec"])
def test_an_unknown_codec_is_refused_before_anything_is_created(file_format: str, key: str) -> None:
    location = f"memory://samples/data/codec.{file_format}"
    with pytest.raises(InvalidArgument, match="one of"):
        write_data_file(memory(), location, file_format, SMALL, [], {f"write.{file_format}.{key}": "rar"})
    assert not memory().exists(location)


@pytest.mark.parametrize(
    ("file_format", "codec"),
    [
        *(("parquet", codec) for codec in ("zstd", "gzip", "snappy", "lz4", "brotli", "uncompressed")),
        *(("orc", codec) for codec in ("zlib", "zstd", "snappy", "lz4", "none")),
        *(("avro", codec) for codec in ("gzip", "zstd", "snappy", "uncompressed")),
    ],
)
def test_every_codec_reads_back(file_format: str, codec: str) -> None:
    want = batch_of(SMALL, [{1: number, 3: ["same"]} for number in range(3000)])
    location = f"memory://samples/data/{codec}.{file_format}"
    memory().delete(location)
    properties = {f"write.{file_format}.compression-codec": codec}
    write_data_file(memory(), location, file_format, SMALL, [want], properties)
    assert_same(read(location, SMALL, file_format), want)


def test_unknown_formats_are_refused() -> None:
    with pytest.raises(Unsupported, match="'csv'"):
        read_data_file(memory(), "memory://samples/data/x.csv", "csv", SMALL)
    with pytest.raises(Unsupported):
        open_data_file(memory(), "memory://samples/data/x.csv", "csv", SMALL, {})


@pytest.mark.parametrize(
    "column",
    [
        NestedField(1, "a", UnknownType()),
        NestedField(1, "a", list_of(2, UnknownType())),
        NestedField(1, "a", StructType((NestedField(2, "x", UnknownType()),))),
    ],
)
def test_columns_with_only_unknown_inside_cannot_be_stored(column: NestedField) -> None:
    with pytest.raises(InvalidSchema, match="unknown"):
        open_data_file(memory(), "memory://samples/data/u.parquet", "parquet", Schema((column,)), {})


@pytest.mark.parametrize("file_format", FORMATS)
def test_odd_column_names_are_names(file_format: str) -> None:
    schema = Schema(
        (
            NestedField(1, "a.b", LongType()),
            NestedField(2, "a", StructType((NestedField(3, "b", LongType()), NestedField(4, "ü ö", StringType())))),
            NestedField(5, "1st", LongType()),
        )
    )
    want = batch_of(schema, [{1: 1, 2: {3: 2, 4: "x"}, 5: 3}])
    written = write("names", want, schema, file_format)
    assert_same(read(written.location, schema, file_format), want)
    assert read(written.location, schema.select(["1st"]), file_format).to_pylist() == [{"1st": 3}]
    only = Schema((schema.fields[0],))
    assert read(written.location, only, file_format).column(0).to_pylist() == [1]
