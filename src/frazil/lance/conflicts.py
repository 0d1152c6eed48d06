"""May a transaction be made on top of one that was committed after it began? The conflict matrix, as rules.

A transaction that may not be applied as it is can be *retryable*: made again from the newest version it may succeed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from frazil.lance.proto.messages import DataFragment, Transaction, UpdateConfig, UpdateMap


class Verdict(Enum):
    """What becomes of a transaction that comes second."""

    FINE = ""
    RETRY = "R"
    INCOMPATIBLE = "X"


FINE, RETRY, INCOMPATIBLE = Verdict.FINE, Verdict.RETRY, Verdict.INCOMPATIBLE

_REPLACES_ALL = frozenset({"overwrite", "restore"})
_NEVER_MINDS = frozenset({"restore", "update_config", "update_bases", "reserve_fragments"})
_MOVES_ROWS = frozenset({"delete", "update", "rewrite"})
_UNKNOWN = frozenset({None, "update_mem_wal_state", "data_overlay", "append_fri_transitions", "clone"})


@dataclass(frozen=True, slots=True)
class Touched:
    """The fragments that a transaction changes, and those that it removes."""

    changed: frozenset[int] = frozenset()
    removed: frozenset[int] = frozenset()

    @property
    def all(self) -> frozenset[int]:
        return self.changed | self.removed


def operation_of(transaction: Transaction) -> str | None:
    """The name of a transaction's operation; None for one that we do not know."""
    kind: str | None = transaction.WhichOneof("operation")
    return kind


def touched(transaction: Transaction) -> Touched:
    """Which fragments of the table a transaction changes or removes."""
    kind = operation_of(transaction)
    if kind == "delete":
        delete = transaction.delete
        return Touched(_ids(delete.updated_fragments), frozenset(delete.deleted_fragment_ids))
    if kind == "update":
        update = transaction.update
        return Touched(_ids(update.updated_fragments), frozenset(update.removed_fragment_ids))
    if kind == "rewrite":
        rewrite = transaction.rewrite
        groups = [_ids(group.old_fragments) for group in rewrite.groups]
        return Touched(removed=frozenset().union(_ids(rewrite.old_fragments), *groups))
    if kind == "data_replacement":
        return Touched(frozenset(group.fragment_id for group in transaction.data_replacement.replacements))
    return Touched()


def verdict(first: Transaction, second: Transaction) -> Verdict:
    """What becomes of `second`, which did not know of `first`. Which rows they mean is looked at elsewhere."""
    before, after = operation_of(first), operation_of(second)
    if before in _UNKNOWN or after in _UNKNOWN:
        return INCOMPATIBLE
    if after == "update_config":
        same = before == "update_config" and not _keys(first).isdisjoint(_keys(second))
        return INCOMPATIBLE if same else FINE
    if after == "update_bases":
        return RETRY if before == "update_bases" else FINE
    if after in _NEVER_MINDS or before in ("reserve_fragments", "update_config", "update_bases"):
        return FINE
    if after == "overwrite":
        return RETRY if before == "overwrite" else FINE
    if before in _REPLACES_ALL:
        return INCOMPATIBLE
    return _among_rows_and_columns(first, second)


def _among_rows_and_columns(first: Transaction, second: Transaction) -> Verdict:
    before, after = operation_of(first), operation_of(second)
    pair = {before, after}
    if "merge" in pair:
        if after == "merge":
            return INCOMPATIBLE if before == "project" else FINE if before == "create_index" else RETRY
        return FINE if after == "create_index" else RETRY
    if "project" in pair:
        return _with_project(first, second)
    if "append" in pair:
        return FINE
    if "create_index" in pair:
        return _with_index(first, second)
    mine, theirs = touched(second), touched(first)
    if mine.all.isdisjoint(theirs.all):
        return FINE
    if after == "data_replacement" and before == "delete":
        return INCOMPATIBLE if mine.all & theirs.removed else FINE
    return RETRY


def _with_project(first: Transaction, second: Transaction) -> Verdict:
    before, after = operation_of(first), operation_of(second)
    if before == after == "project":
        return RETRY
    project, other = (first.project, after) if before == "project" else (second.project, before)
    if other == "data_replacement":
        return RETRY
    if other in ("append", "update"):  # the rows may have nulls where there may be none now
        return FINE if project.preserves_nullability else RETRY
    return FINE


def _with_index(first: Transaction, second: Transaction) -> Verdict:
    before, after = operation_of(first), operation_of(second)
    if before == after:
        mine, theirs = ({index.name for index in one.create_index.new_indices} for one in (first, second))
        return FINE if mine.isdisjoint(theirs) else RETRY
    index, other = (first, second) if before == "create_index" else (second, first)
    if operation_of(other) == "rewrite":
        return RETRY
    if operation_of(other) == "data_replacement":
        indexed = {field for one in index.create_index.new_indices for field in one.fields}
        replaced = {field for one in other.data_replacement.replacements for field in one.new_file.fields}
        return FINE if indexed.isdisjoint(replaced) else RETRY
    return FINE


def moves_rows(transaction: Transaction) -> bool:
    """Whether a transaction deletes rows where they are, or moves them elsewhere."""
    return operation_of(transaction) in _MOVES_ROWS


def _ids(fragments: list[DataFragment]) -> frozenset[int]:
    return frozenset(fragment.id for fragment in fragments)


def _keys(transaction: Transaction) -> set[tuple[str, str]]:
    """The settings that a transaction changes; `*` stands for all of a kind."""
    config: UpdateConfig = transaction.update_config
    found = {("config", key) for key in [*config.upsert_values, *config.delete_keys]}
    maps: dict[str, UpdateMap] = {
        "config": config.config_updates,
        "table": config.table_metadata_updates,
        "schema": config.schema_metadata_updates,
        **{f"field {number}": config.field_metadata_updates[number] for number in config.field_metadata_updates},
    }
    for kind, updates in maps.items():
        found |= {(kind, entry.key) for entry in updates.update_entries}
    return found
