"""Snapshots by time and by id."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil import ambient
from frazil.errors import MalformedMetadata, SnapshotNotFound
from frazil.iceberg.metadata import SnapshotLogEntry, TableMetadata
from frazil.iceberg.metadata_json import parse_metadata, serialize_metadata
from frazil.iceberg.refs import SnapshotRef
from tests.iceberg.tables import snapshot, table, table_with
from tests.incidents.lakes import again, ids_in, new_table, rows_of

LARGEST = 2**63 - 1


def logged(*entries: tuple[int, int]) -> TableMetadata:
    """A table with this snapshot log: times and snapshot ids."""
    made = table_with(*(snapshot(number) for number in sorted({number for _, number in entries})))
    return replace(made, snapshot_log=tuple(SnapshotLogEntry(time, number) for time, number in entries))


def test_as_of_does_not_take_the_log_to_be_in_order():
    """C4 #19 (iceberg#17358, #17360): the writer of 2 had a clock that was ahead, that of 3 one that was behind."""
    metadata = logged((1000, 1), (9000, 2), (3000, 3))
    found = {time: metadata.snapshot_as_of(time).snapshot_id for time in (1000, 2999, 3000, 8999, 9000, 10_000)}
    assert found == {1000: 1, 2999: 1, 3000: 3, 8999: 3, 9000: 2, 10_000: 2}
    with pytest.raises(SnapshotNotFound, match="999"):
        metadata.snapshot_as_of(999)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 5)), min_size=1), st.integers(0, 60))
def test_as_of_is_the_latest_entry_that_is_not_later(entries: list[tuple[int, int]], time: int):
    """C4 #19: for any log at all, whatever its order."""
    metadata = logged(*entries)
    before = [(at, place, number) for place, (at, number) in enumerate(entries) if at <= time]
    if not before:
        with pytest.raises(SnapshotNotFound):
            metadata.snapshot_as_of(time)
    else:
        assert metadata.snapshot_as_of(time).snapshot_id == max(before)[2]


def test_as_of_follows_a_rollback_and_what_came_after():
    """C4 #19: between rollback and the next commit the older snapshot was current again."""
    made = new_table()
    times: dict[int, list[int]] = {}

    def now(*expected: int) -> None:
        times[ambient.now_ms()] = list(expected)
        ambient.sleep(10)

    first = made.append(rows_of(1)).snapshot_id
    now(1)
    made.append(rows_of(2))
    now(1, 2)
    made.rollback().to_snapshot(first).commit()
    now(1)
    made.append(rows_of(3))
    now(1, 3)
    for time, expected in times.items():
        assert ids_in(again(made), as_of=time) == expected


def test_commits_from_a_clock_that_is_behind_are_still_found_in_order():
    """C4 #19: our own writers never write a log that goes back."""
    made = new_table()
    made.append(rows_of(1))
    with ambient.replaced(ambient.Ambient(seed=5, start_ms=1_000_000)):
        made.append(rows_of(2))
        made.append(rows_of(3))
    log = [entry.timestamp_ms for entry in made.metadata.snapshot_log]
    assert log == sorted(log)
    assert ids_in(made, as_of=log[-1]) == [1, 2, 3]
    assert made.metadata.last_updated_ms >= log[-1]


# Ids at the edge of 64 bits.


def test_the_largest_snapshot_id_survives_json():
    """C4 #22 (pyiceberg CLI and jq; Lakekeeper's json-bigint): 2^63-1 is no double, anywhere in the document."""
    made = table_with(
        snapshot(LARGEST - 1, sequence_number=1, timestamp_ms=1000),
        snapshot(LARGEST, LARGEST - 1, sequence_number=2, timestamp_ms=2000),
    )
    made = replace(made, refs={**made.refs, "tag": SnapshotRef(LARGEST - 1, "tag")})
    text = serialize_metadata(made)
    exact = json.loads(text, parse_int=str)
    places = (exact["current-snapshot-id"], exact["snapshots"][1]["snapshot-id"], exact["refs"]["main"]["snapshot-id"])
    assert {*places, exact["snapshot-log"][1]["snapshot-id"]} == {"9223372036854775807"}
    found = parse_metadata(text)
    assert found == made
    assert found.current_snapshot_id == LARGEST
    assert found.snapshot(LARGEST).parent_snapshot_id == found.refs["tag"].snapshot_id == LARGEST - 1
    assert found.snapshot_as_of(2500).snapshot_id == LARGEST


@pytest.mark.parametrize("damaged", ["9223372036854775807.0", "9.223372036854775807e18", "9223372036854775808", '"1"'])
def test_an_id_that_went_through_a_double_is_refused(damaged: str):
    """C4 #22: rounded, it would silently name another snapshot."""
    text = serialize_metadata(table_with(snapshot(LARGEST, sequence_number=1, timestamp_ms=1000))).decode()
    broken = text.replace("9223372036854775807", damaged)
    assert broken != text
    with pytest.raises(MalformedMetadata) as error:
        parse_metadata(broken.encode())
    assert error.value.hint


def test_every_integer_of_the_metadata_is_read_exactly():
    """C4 #22: not only ids of snapshots."""
    made = replace(table(3), next_row_id=LARGEST, last_sequence_number=LARGEST, last_updated_ms=LARGEST)
    document = json.loads(serialize_metadata(made))
    assert document["next-row-id"] == document["last-sequence-number"] == document["last-updated-ms"] == LARGEST
    assert parse_metadata(serialize_metadata(made)) == made
