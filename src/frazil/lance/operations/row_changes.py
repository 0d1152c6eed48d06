"""Changes of rows that were worked out elsewhere, such as an UPDATE or MERGE on Spark, committed in one step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from frazil.errors import InvalidArgument
from frazil.lance.commit import new_transaction
from frazil.lance.feature_flags import check_writable, has_stable_row_ids
from frazil.lance.history import History
from frazil.lance.operations.delete import mark
from frazil.lance.operations.retry import Attempt, commit_attempt
from frazil.lance.proto.messages import DataFragment, Update
from frazil.lance.rebase import Change
from frazil.lance.results import RowChanges
from frazil.lance.row_ids import encode_row_ids, encode_row_versions
from frazil.lance.version import LanceVersion

Addresses = npt.NDArray[np.uint64]


def with_lineage(fragment: DataFragment, row_ids: Addresses, created_at: Addresses) -> DataFragment:
    """A fragment of rows that were there before, told which they are: `_rowid` and `_row_created_at_version`."""
    if not len(row_ids) == len(created_at) == int(fragment.physical_rows):
        raise InvalidArgument("there is not one row id for each row", hint="give them in the order of the rows")
    fragment.inline_row_ids = encode_row_ids(row_ids)
    fragment.inline_created_at = encode_row_versions(created_at)
    return fragment


def commit_row_changes(
    history: History,
    version: LanceVersion,
    removed: Mapping[int, npt.NDArray[np.int64]],
    *,
    updated: Sequence[DataFragment] = (),
    inserted: Sequence[DataFragment] = (),
    columns: Iterable[str] | None = None,
    properties: Mapping[str, str] | None = None,
) -> RowChanges:
    """Remove rows of `version` (also those that `updated` has anew) and add fragments.

    `columns` are those whose values changed, all if not told. CommitFailed if another writer changed the same rows:
    then everything is to be worked out again.
    """
    check_writable(version.manifest)
    written = [*updated, *inserted]
    if not removed and not written:
        return RowChanges()
    if has_stable_row_ids(version.manifest) and any(one.WhichOneof("row_ids") is None for one in updated):
        raise InvalidArgument("rows that were updated must keep their ids", hint="see with_lineage")
    marked = mark(history.store, version, removed)
    names = version.schema.columns if columns is None else list(columns)
    body = Update(
        removed_fragment_ids=marked.removed,
        updated_fragments=marked.updated,
        new_fragments=written,
        fields_for_preserving_frag_bitmap=sorted({version.schema.find(name).id for name in names}),
    )
    transaction = new_transaction(version.version, update=body)
    transaction.transaction_properties.update(properties or {})
    made = commit_attempt(history, Attempt(Change(transaction, version, marked.rows), written))
    changed = sum(int(one.physical_rows) for one in updated)
    return RowChanges(
        rows_inserted=sum(int(one.physical_rows) for one in inserted),
        rows_updated=changed,
        rows_deleted=marked.count - changed,
        data_files_added=len(written),
        data_files_removed=marked.files_removed,
        delete_files_added=len(marked.updated),
        snapshot=made,
    )
