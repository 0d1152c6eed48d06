import pytest

from frazil.errors import InvalidArgument
from frazil.iceberg import properties
from frazil.iceberg.properties import KNOWN, RESERVED, PropertyReader, check_properties


def test_defaults_are_icebergs() -> None:
    reader = PropertyReader({})
    assert reader.get(properties.COMMIT_NUM_RETRIES) == 4
    assert reader.get(properties.COMMIT_TOTAL_RETRY_TIME_MS) == 30 * 60 * 1000
    assert reader.get(properties.MANIFEST_TARGET_SIZE_BYTES) == 8 * 1024 * 1024
    assert reader.get(properties.WRITE_TARGET_FILE_SIZE_BYTES) == 512 * 1024 * 1024
    assert reader.get(properties.MAX_SNAPSHOT_AGE_MS) == 5 * 24 * 60 * 60 * 1000
    assert reader.get(properties.MAX_REF_AGE_MS) == 2**63 - 1
    assert reader.get(properties.GC_ENABLED) is True
    assert reader.get(properties.METADATA_DELETE_AFTER_COMMIT_ENABLED) is False
    assert reader.get(properties.WRITE_DATA_LOCATION) is None
    assert reader.get(properties.DEFAULT_FILE_FORMAT) == "parquet"


def test_values_are_read_with_their_type() -> None:
    reader = PropertyReader(
        {"commit.retry.num-retries": "0", "gc.enabled": "FALSE", "write.format.default": "ORC", "write.data.path": ""}
    )
    assert reader.get(properties.COMMIT_NUM_RETRIES) == 0
    assert reader.get(properties.GC_ENABLED) is False
    assert reader.get(properties.DEFAULT_FILE_FORMAT) == "orc"
    assert reader.get(properties.WRITE_DATA_LOCATION) == ""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("commit.retry.num-retries", "many"),
        ("commit.retry.num-retries", "-1"),
        ("commit.retry.num-retries", "٣"),
        ("history.expire.min-snapshots-to-keep", "0"),
        ("gc.enabled", "yes"),
        ("write.metadata.compression-codec", "lz4"),
        ("write.delete.isolation-level", "read-committed"),
    ],
)
def test_a_value_that_does_not_parse_names_the_property(name: str, text: str) -> None:
    with pytest.raises(InvalidArgument, match=name):
        PropertyReader({name: text}).get(KNOWN[name])
    with pytest.raises(InvalidArgument, match=name):
        check_properties({name: text})


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_reserved_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match=name):
        check_properties({name: "1"})


def test_values_that_are_not_text_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="'a'"):
        check_properties({"a": 1})  # type: ignore[dict-item]


def test_unknown_properties_are_allowed() -> None:
    check_properties({"owner": "me", "comment": ""})


def test_properties_are_found_by_prefix() -> None:
    reader = PropertyReader({"write.metadata.metrics.column.a.b": "full", "other": "x"})
    assert reader.with_prefix(properties.METRICS_MODE_COLUMN_PREFIX) == {"a.b": "full"}


def test_every_default_is_accepted_as_a_value() -> None:
    for prop in KNOWN.values():
        if prop.default is not None:
            assert prop.parse(prop.name, str(prop.default).lower()) == prop.default
