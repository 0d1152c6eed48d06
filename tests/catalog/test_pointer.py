"""Catalogs with a pointer per table: lost answers (incidents 1, 2, 4 and 5) end in the truth, or in `unknown`."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from frazil.catalog.catalog import Catalog
from frazil.catalog.memory import MemoryCatalog
from frazil.catalog.names import TableName
from frazil.errors import CatalogError, CommitFailed, CommitStateUnknown, TableAlreadyExists
from frazil.iceberg.committer import TableState
from frazil.iceberg.updates import SetProperties
from frazil.lake import Lake
from tests.catalog.tables import first_metadata

pytestmark = pytest.mark.usefixtures("frozen_clock")


class LossyCatalog(MemoryCatalog):
    """A catalog whose swaps do what `script` says, in turn: each item runs around one swap."""

    def __init__(self) -> None:
        super().__init__()
        self.script: list[Callable[[Callable[[], bool]], bool]] = []
        self.create_namespace("db")

    def _swap(self, name: TableName, old: str | None, new: str) -> bool:
        def swap() -> bool:
            return super(LossyCatalog, self)._swap(name, old, new)

        return self.script.pop(0)(swap) if self.script else swap()

    def files(self) -> list[str]:
        return [file.location for file in self.store.list(self.warehouse) if "metadata.json" in file.location]


def lost_after(swap: Callable[[], bool]) -> bool:
    swap()
    raise CatalogError("connection lost")


def lost_before(_swap: Callable[[], bool]) -> bool:
    raise CatalogError("connection lost")


def create(catalog: Catalog, **properties: str) -> TableState:
    return catalog.create_table("db.t", first_metadata(catalog, "db.t", **properties))


def commit(catalog: Catalog, base: TableState, **properties: str) -> TableState:
    return catalog.committer("db.t").commit(base, [SetProperties(properties)], [])


@pytest.mark.parametrize("script", [[lost_after], [lost_before], [lost_after, lost_before], [lost_before, lost_after]])
def test_a_lost_answer_is_found_out_to_be_a_success(script: list[Callable[[Callable[[], bool]], bool]]) -> None:
    catalog = LossyCatalog()
    base = create(catalog)
    catalog.script = list(script)
    after = commit(catalog, base, a="1")
    assert catalog.load_table("db.t") == after


@pytest.mark.parametrize("first", [lost_after, lost_before])
def test_a_lost_answer_that_stays_lost_is_unknown_and_the_new_metadata_stays(
    first: Callable[[Callable[[], bool]], bool],
) -> None:
    catalog = LossyCatalog()
    base = create(catalog)
    catalog.script = [first, *[lost_before] * 20]
    with pytest.raises(CommitStateUnknown) as caught:
        commit(catalog, base, a="1")
    assert not isinstance(caught.value, CommitFailed)
    catalog.script = []
    assert caught.value.context["location"] in catalog.files()
    assert catalog.load_table("db.t").metadata.properties.get("a") == ("1" if first is lost_after else None)


def test_others_on_top_of_a_commit_whose_answer_was_lost_prove_it() -> None:
    catalog = LossyCatalog()
    base = create(catalog)

    def others(swap: Callable[[], bool]) -> bool:
        swap()
        for number in range(3):
            commit(catalog, catalog.load_table("db.t"), other=str(number))
        raise CatalogError("connection lost")

    catalog.script = [others]
    commit(catalog, base, a="1")
    assert catalog.load_table("db.t").metadata.properties["a"] == "1"


def test_others_in_place_of_a_commit_whose_answer_was_lost_refute_it() -> None:
    catalog = LossyCatalog()
    base = create(catalog)

    def others(_swap: Callable[[], bool]) -> bool:
        commit(catalog, base, other="1")
        raise CatalogError("connection lost")

    catalog.script = [others]
    before = len(catalog.files())
    with pytest.raises(CommitFailed):
        commit(catalog, base, a="1")
    assert len(catalog.files()) == before + 1  # the other's, not ours


def test_a_log_that_is_too_short_to_tell_is_unknown_and_nothing_is_deleted() -> None:
    catalog = LossyCatalog()
    base = create(catalog, **{"write.metadata.previous-versions-max": "2"})

    def others(swap: Callable[[], bool]) -> bool:
        swap()
        for number in range(5):
            commit(catalog, catalog.load_table("db.t"), other=str(number))
        raise CatalogError("connection lost")

    catalog.script = [others]
    with pytest.raises(CommitStateUnknown) as caught:
        commit(catalog, base, a="1")
    assert caught.value.context["location"] in catalog.files()


def test_a_create_whose_answer_was_lost_does_not_report_its_own_table_as_taken() -> None:
    catalog = LossyCatalog()
    catalog.script = [lost_after]
    state = create(catalog)
    assert catalog.load_table("db.t") == state


def test_a_create_that_lost_the_race_says_so_and_leaves_no_file() -> None:
    catalog = LossyCatalog()

    def other(_swap: Callable[[], bool]) -> bool:
        create(catalog)
        return _swap()

    catalog.script = [other]
    with pytest.raises(TableAlreadyExists):
        create(catalog)
    assert catalog.files() == [catalog.load_table("db.t").metadata_location]


@pytest.mark.parametrize("kind", [MemoryError, KeyboardInterrupt])
def test_an_interruption_between_the_swap_and_its_answer_deletes_nothing(kind: type[BaseException]) -> None:
    catalog = LossyCatalog()
    base = create(catalog)

    def interrupted(swap: Callable[[], bool]) -> bool:
        swap()
        raise kind

    catalog.script = [interrupted]
    with pytest.raises(kind):
        commit(catalog, base, a="1")
    assert catalog.load_table("db.t").metadata.properties["a"] == "1"


def test_an_append_whose_answer_stays_lost_keeps_its_files() -> None:
    catalog = LossyCatalog()
    lake = Lake(catalog)
    table = lake.create_table("db.t", "id BIGINT")
    catalog.script = [lost_after, *[lost_before] * 20]
    with pytest.raises(CommitStateUnknown):
        table.append(pa.table({"id": [1, 2]}))
    catalog.script = []
    assert lake.table("db.t").scan().to_arrow().num_rows == 2
