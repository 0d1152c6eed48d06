"""Decoded manifests are kept while there is room, and given again only if they hold what is asked for."""

from __future__ import annotations

import pyarrow as pa
import pytest

from frazil.iceberg import manifest_schema as ids
from frazil.iceberg.actions.action import Context
from frazil.iceberg.actions.append import FastAppend
from frazil.iceberg.entries import Entries, concat
from frazil.iceberg.manifest import ALL_COLUMNS, CORE_COLUMNS
from frazil.iceberg.manifest_list import ManifestFile
from frazil.iceberg.manifest_reader import ManifestCache, ManifestReader
from frazil.iceberg.partition_types import partition_type
from frazil.io.memory_store import MemoryStore
from frazil.model.types import IntegerType, LongType, NestedField, StructType
from tests.iceberg.memory_committer import Table

FILTER_COLUMNS = CORE_COLUMNS | frozenset(ids.METRICS)
METRICS = {"value_counts": {1: 10, 2: 20}, "lower_bounds": {1: b"a", 2: b"b"}}


class CountingStore(MemoryStore):
    """A store that knows how often it was read."""

    reads = 0

    def read(self, location: str) -> bytes:
        self.reads += 1
        return super().read(location)


class Fixture:
    """A table of four manifests, and a reader with a cache of its own."""

    def __init__(self) -> None:
        self.table = Table()
        for number in range(4):
            file = self.table.file(f"f{number}.parquet", **METRICS)
            FastAppend(self.table.transaction()).append_file(file).commit()
        self.store = CountingStore(self.table.name)
        self.cache = ManifestCache()
        metadata = self.table.metadata
        spec = metadata.default_spec
        self.type = partition_type(metadata, spec)
        self.reader = ManifestReader(self.store, lambda _: (spec, self.type), self.cache)
        self.manifests: list[ManifestFile] = Context(metadata, self.table.store).manifests(metadata.current_snapshot)

    def read(self, columns: frozenset[int], metrics_of: frozenset[int] | None = None) -> Entries:
        return concat(list(self.reader.read(self.manifests, columns, metrics_of)))

    def reads(self) -> int:
        """How many files were read since the last time."""
        found, self.store.reads = self.store.reads, 0
        return found


@pytest.fixture
def fixture() -> Fixture:
    return Fixture()


def test_a_manifest_is_decoded_once_and_again_only_for_more_columns(fixture: Fixture) -> None:
    fixture.read(CORE_COLUMNS)
    assert fixture.reads() == 4
    fixture.read(CORE_COLUMNS)
    assert fixture.reads() == 0
    fixture.read(ALL_COLUMNS)
    assert fixture.reads() == 4
    fixture.read(CORE_COLUMNS)
    fixture.read(FILTER_COLUMNS, frozenset({1}))
    assert fixture.reads() == 0


def test_only_the_metrics_asked_for_are_decoded(fixture: Fixture) -> None:
    entries = fixture.read(FILTER_COLUMNS, frozenset({2}))
    assert entries.column(ids.VALUE_COUNTS).to_pylist() == [[(2, 20)]] * 4
    assert entries.map_values(ids.LOWER_BOUNDS, 2).to_pylist() == [b"b"] * 4
    assert fixture.read(FILTER_COLUMNS).column(ids.LOWER_BOUNDS).to_pylist() == [[(1, b"a"), (2, b"b")]] * 4


def test_filters_on_different_columns_take_turns_without_decoding_again(fixture: Fixture) -> None:
    fixture.read(FILTER_COLUMNS, frozenset({1}))
    fixture.read(FILTER_COLUMNS, frozenset({2}))
    assert fixture.reads() == 8
    assert fixture.read(FILTER_COLUMNS, frozenset({1})).map_values(ids.VALUE_COUNTS, 1).to_pylist() == [10] * 4
    assert fixture.read(FILTER_COLUMNS, frozenset({2})).map_values(ids.VALUE_COUNTS, 2).to_pylist() == [20] * 4
    assert fixture.reads() == 0


def test_a_column_promoted_since_is_not_given_in_its_old_type(fixture: Fixture) -> None:
    assert fixture.type == StructType((NestedField(1000, "id_bucket", IntegerType()),))
    fixture.read(CORE_COLUMNS)
    fixture.type = StructType((NestedField(1000, "id_bucket", LongType()),))
    assert fixture.read(CORE_COLUMNS).partition_columns()[0].type == pa.int64()


def test_the_cache_keeps_to_its_size_and_forgets_what_was_not_used_for_longest(fixture: Fixture) -> None:
    first, second, third, fourth = fixture.manifests
    for manifest in fixture.manifests:
        fixture.reader.read_one(manifest, ALL_COLUMNS)
    each = fixture.cache.nbytes // 4
    fixture.cache.clear()
    assert fixture.cache.nbytes == 0
    fixture.cache.max_bytes = 2 * each + each // 2
    fixture.reader.read_one(first, ALL_COLUMNS)
    fixture.reader.read_one(second, ALL_COLUMNS)
    fixture.reader.read_one(first, ALL_COLUMNS)
    fixture.reader.read_one(third, ALL_COLUMNS)
    fixture.reads()
    fixture.reader.read_one(first, ALL_COLUMNS)
    fixture.reader.read_one(third, ALL_COLUMNS)
    assert fixture.reads() == 0
    fixture.reader.read_one(second, ALL_COLUMNS)
    assert fixture.reads() == 1
    assert fixture.cache.nbytes <= fixture.cache.max_bytes
    fixture.reader.read_one(fourth, ALL_COLUMNS)
    assert fixture.cache.nbytes <= fixture.cache.max_bytes


def test_what_is_decoded_anew_takes_the_place_of_the_old(fixture: Fixture) -> None:
    fixture.read(ALL_COLUMNS)
    size = fixture.cache.nbytes
    fixture.cache.clear()
    fixture.read(CORE_COLUMNS)
    for manifest in fixture.manifests[:2]:
        fixture.reader.read_one(manifest, ALL_COLUMNS)
    assert len(fixture.read(CORE_COLUMNS)) == 4
    for manifest in fixture.manifests[2:]:
        fixture.reader.read_one(manifest, ALL_COLUMNS)
    fixture.reads()
    assert sorted(fixture.read(ALL_COLUMNS).column(ids.FILE_PATH).to_pylist()) == [
        f"{fixture.table.location}/data/f{number}.parquet" for number in range(4)
    ]
    assert fixture.reads() == 0
    assert fixture.cache.nbytes <= 2 * size  # the four of one each, and none of the group before them
