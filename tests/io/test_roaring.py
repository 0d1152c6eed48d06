import numpy as np
import pyroaring
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import InvalidValue, MalformedData
from frazil.io.roaring import MAX_KEY, MAX_POSITION, deserialize, serialize


def runs_of_positions() -> st.SearchStrategy[np.ndarray]:
    """Sets with every kind of container: sparse, dense, and long runs, over a few keys."""
    run = st.tuples(
        st.sampled_from([0, 1, 65_000, 65_536, 200_000, 2**32 - 5, 2**32, 5 * 2**32 + 7, MAX_KEY * 2**32]),
        st.integers(0, 70_000),
        st.integers(1, 9_000),
        st.integers(1, 40),
    )

    def build(parts: list[tuple[int, int, int, int]]) -> np.ndarray:
        pieces = [base + start + step * np.arange(count, dtype=np.int64) for base, start, count, step in parts]
        return np.unique(np.concatenate([np.empty(0, np.int64), *pieces]))

    return st.lists(run, max_size=5).map(build)


@given(runs_of_positions())
def test_positions_come_back(positions: np.ndarray) -> None:
    data = serialize(positions)
    assert np.array_equal(deserialize(data, expected_count=len(positions)), positions)


@given(runs_of_positions())
def test_the_bytes_are_those_of_croaring(positions: np.ndarray) -> None:
    bitmap = pyroaring.BitMap64(positions.astype(np.uint64))
    plain = bitmap.serialize()
    assert np.array_equal(deserialize(plain), positions)
    bitmap.run_optimize()
    assert serialize(positions) == bitmap.serialize()


def test_hand_made_bytes_are_understood() -> None:
    one_array = bytes.fromhex("0100000000000000 02000000 3a300000 01000000 0300 0100 10000000 0500 0900")
    assert deserialize(one_array).tolist() == [2 * 2**32 + 3 * 65536 + 5, 2 * 2**32 + 3 * 65536 + 9]
    one_run = bytes.fromhex("0100000000000000 00000000 3b300000 01 0000 0200 0100 0a00 0200")
    assert deserialize(one_run).tolist() == [10, 11, 12]
    assert deserialize(bytes(8)).tolist() == []


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("nothing", ""),
        ("a count without bitmaps", "ffffffffffffffff"),
        ("an unknown cookie", "0100000000000000 00000000 ffffffff 01000000"),
        ("too many containers", "0100000000000000 00000000 3a300000 ffffffff"),
        ("a key above Java's", "0100000000000000 ffffff7f 3a300000 00000000"),
        ("a key with the sign bit", "0100000000000000 00000080 3a300000 00000000"),
        ("keys that fall", "0200000000000000 01000000 3a300000 00000000 00000000 3a300000 00000000"),
        ("a wrong offset", "0100000000000000 00000000 3a300000 01000000 0000 0000 11000000 0500"),
        ("an array out of order", "0100000000000000 00000000 3a300000 01000000 0000 0100 10000000 0900 0500"),
        ("an array with a repetition", "0100000000000000 00000000 3a300000 01000000 0000 0100 10000000 0500 0500"),
        ("a run past the container", "0100000000000000 00000000 3b300000 01 0000 0200 0100 feff 0200"),
        ("a run of another size", "0100000000000000 00000000 3b300000 01 0000 0300 0100 0a00 0200"),
        ("runs that overlap", "0100000000000000 00000000 3b300000 01 0000 0300 0200 0a00 0100 0b00 0100"),
        ("bytes at the end", "0000000000000000 00"),
        ("a bit set that lies", "0100000000000000 00000000 3a300000 01000000 0000 ffff 10000000" + "01" * 8192),
    ],
)
def test_malformed_bytes_are_refused(what: str, text: str) -> None:
    with pytest.raises(MalformedData):
        deserialize(bytes.fromhex(text))


@given(runs_of_positions().filter(lambda p: 0 < len(p) < 20_000), st.data())
def test_damaged_bytes_give_positions_or_an_error_and_never_a_crash(positions: np.ndarray, data: st.DataObject) -> None:
    good = serialize(positions)
    cut = data.draw(st.integers(0, len(good) - 1))
    with pytest.raises(MalformedData):
        deserialize(good[:cut])
    damaged = bytearray(good)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, min(len(good) - 1, 60)))] ^= data.draw(st.integers(1, 255))
    try:
        found = deserialize(bytes(damaged))
    except MalformedData:
        return
    assert np.array_equal(deserialize(serialize(found)), found)


def test_a_bomb_of_runs_is_refused_before_it_is_expanded() -> None:
    full = b"".join(
        key.to_bytes(4, "little") + bytes.fromhex("3b300000 01 0000 ffff 0100 0000 ffff") for key in range(9000)
    )
    with pytest.raises(MalformedData, match="limit"):
        deserialize((9000).to_bytes(8, "little") + full)
    with pytest.raises(MalformedData, match="expected"):
        deserialize((9000).to_bytes(8, "little") + full, expected_count=3)


@pytest.mark.parametrize("positions", [[-1], [2, 1], [1, 1], [MAX_POSITION + 1]])
def test_positions_that_cannot_be_are_not_written(positions: list[int]) -> None:
    with pytest.raises(InvalidValue):
        serialize(np.array(positions, np.int64))
