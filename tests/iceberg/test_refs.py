import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import InvalidArgument
from frazil.iceberg.json_object import JsonObject
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.refs import SnapshotRef
from frazil.iceberg.retention import Retention, retained_snapshots
from tests.iceberg.tables import snapshot, table, table_with

NOW = 10_000
POLICY = {"history.expire.max-snapshot-age-ms": "3000", "history.expire.min-snapshots-to-keep": "1"}


def chain(**refs: SnapshotRef) -> TableMetadata:
    """Snapshots 1 to 9, each the parent of the next, made at 1000 to 9000; main at 9."""
    line = [snapshot(number, number - 1 if number > 1 else None) for number in range(1, 10)]
    return table_with(*line, refs={"main": SnapshotRef(9), **refs}, properties=POLICY)


def kept(metadata: TableMetadata, **options: int) -> list[int]:
    return sorted(retained_snapshots(metadata, NOW, **options).kept_snapshot_ids)


def test_refs_survive_a_round_trip() -> None:
    for ref in (SnapshotRef(1), SnapshotRef(1, "tag", max_ref_age_ms=5), SnapshotRef(1, "branch", 1, 2, 3)):
        assert SnapshotRef.from_json(JsonObject(ref.to_json(), "ref")) == ref


@pytest.mark.parametrize(
    "wrong",
    [{"kind": "x"}, {"min_snapshots_to_keep": 0}, {"max_ref_age_ms": -1}, {"kind": "tag", "max_snapshot_age_ms": 1}],
)
def test_impossible_refs_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument):
        SnapshotRef(1, **wrong)  # type: ignore[arg-type]


def test_a_branch_keeps_snapshots_that_are_young_enough() -> None:
    assert kept(chain()) == [7, 8, 9]


def test_a_branch_keeps_a_least_number_however_old() -> None:
    assert kept(chain(), retain_last=5) == [5, 6, 7, 8, 9]
    assert kept(chain(), older_than_ms=NOW) == [9]
    assert kept(chain(), older_than_ms=NOW, retain_last=2) == [8, 9]


def test_what_a_ref_says_stands_above_the_table_and_the_arguments() -> None:
    refs = {"main": SnapshotRef(9, "branch", 2, 1), "audit": SnapshotRef(5, "branch", 3, 1)}
    assert kept(chain(**refs)) == [3, 4, 5, 8, 9]
    assert kept(chain(**refs), retain_last=9) == [3, 4, 5, 8, 9]


def test_a_tag_keeps_its_one_snapshot() -> None:
    assert kept(chain(v1=SnapshotRef(2, "tag"))) == [2, 7, 8, 9]


def test_refs_too_old_expire_but_never_main() -> None:
    metadata = chain(
        old=SnapshotRef(2, "tag", max_ref_age_ms=7999),
        just=SnapshotRef(3, "tag", max_ref_age_ms=7000),
        main=SnapshotRef(9, max_ref_age_ms=1),
    )
    assert retained_snapshots(metadata, NOW) == Retention(frozenset({3, 7, 8, 9}), ("old",))


def test_the_tables_own_ref_age_holds_for_refs_without_one() -> None:
    metadata = chain(old=SnapshotRef(2, "tag"), kept=SnapshotRef(1, "tag", max_ref_age_ms=10**9))
    metadata = table_with(
        *metadata.snapshots, refs=metadata.refs, properties={**POLICY, "history.expire.max-ref-age-ms": "1000"}
    )
    assert retained_snapshots(metadata, NOW).expired_refs == ("old",)


def test_staged_snapshots_are_kept_until_they_are_old() -> None:
    line = chain().snapshots
    metadata = table_with(
        *line[:8], snapshot(20, 6, timestamp_ms=7500), snapshot(21, 5, timestamp_ms=6999), line[8], properties=POLICY
    )
    assert kept(metadata) == [7, 8, 9, 20]


def test_an_empty_table_keeps_nothing() -> None:
    assert retained_snapshots(table(), NOW) == Retention(frozenset(), ())


@given(st.integers(0, 20_000), st.integers(1, 12), st.sets(st.integers(1, 9)))
def test_heads_of_all_living_refs_are_always_kept(older_than: int, last: int, tags: set[int]) -> None:
    metadata = chain(**{f"t{number}": SnapshotRef(number, "tag") for number in tags})
    retention = retained_snapshots(metadata, NOW, older_than_ms=older_than, retain_last=last)
    assert retention.kept_snapshot_ids >= {9, *tags}
    assert retention.expired_refs == ()
    assert len(retention.kept_snapshot_ids) >= min(last, 9)
