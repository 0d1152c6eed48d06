"""Adding rows, and putting others in the place of all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from frazil.lance.commit import commit, new_transaction
from frazil.lance.field_ids import next_field_id
from frazil.lance.history import History
from frazil.lance.new_columns import new_fields
from frazil.lance.operations.retry import Attempt, commit_attempt
from frazil.lance.plan import schema_bytes
from frazil.lance.proto.messages import Append, DataFragment, Manifest, Overwrite
from frazil.lance.rebase import Change
from frazil.lance.rows import rows_as
from frazil.lance.version import LanceVersion
from frazil.lance.write import FileTarget, removing, write_fragments
from frazil.model.property_text import property_texts


def append(
    history: History, version: LanceVersion, rows: Any, properties: Mapping[str, str] | None = None
) -> LanceVersion:
    """Add rows."""
    properties = property_texts(properties)
    fragments = write_fragments(history.store, FileTarget.of(version), rows_as(rows, version.arrow_schema))
    return append_fragments(history, version, fragments, properties)


def append_fragments(
    history: History,
    version: LanceVersion,
    fragments: Sequence[DataFragment],
    properties: Mapping[str, str] | None = None,
) -> LanceVersion:
    """Add fragments that were written for a version of the table, maybe by workers."""
    transaction = new_transaction(version.version, append=Append(fragments=fragments))
    transaction.transaction_properties.update(property_texts(properties))
    found = commit_attempt(history, Attempt(Change(transaction, version), list(fragments)))
    assert found is not None
    return found


def overwrite(
    history: History,
    version: LanceVersion,
    rows: Any,
    schema: pa.Schema | None = None,
    properties: Mapping[str, str] | None = None,
) -> LanceVersion:
    """Replace all rows, and the schema if another one is given."""
    part = None if schema is None else Manifest(fields=new_fields(schema, next_field_id(version)))
    properties = property_texts(properties)
    target = FileTarget.of(version)
    if part is not None:
        target = FileTarget(version.folder, schema_bytes(part), version.file_version)
    fragments = write_fragments(history.store, target, rows_as(rows, target.arrow_schema))
    return overwrite_fragments(history, version, fragments, part, properties)


def overwrite_fragments(
    history: History,
    version: LanceVersion,
    fragments: Sequence[DataFragment],
    schema: Manifest | None = None,
    properties: Mapping[str, str] | None = None,
    config: Mapping[str, str] | None = None,
) -> LanceVersion:
    """Put fragments in the place of all that there are; `config` is set along with it.

    Without a schema the table keeps its columns: CommitConflict if another writer changed them meanwhile.
    """
    fields = (schema or version.manifest).fields
    body = Overwrite(fragments=fragments, schema=fields, config_upsert_values=config)
    if schema is None or list(schema.fields) == list(version.manifest.fields):
        for key, value in version.manifest.schema_metadata.items():
            body.schema_metadata[key] = value
    transaction = new_transaction(version.version, overwrite=body)
    transaction.transaction_properties.update(property_texts(properties))
    with removing(history.store, history.folder, fragments):
        return commit(history, Change(transaction, version, keeps_columns=schema is None))
