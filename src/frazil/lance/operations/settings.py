"""Settings and metadata of a table, and going back to an earlier version."""

from __future__ import annotations

from collections.abc import Mapping

from frazil.errors import InvalidArgument
from frazil.lance.commit import commit, new_transaction
from frazil.lance.history import History
from frazil.lance.proto.messages import Restore, UpdateConfig, UpdateMap, UpdateMapEntry
from frazil.lance.rebase import Change
from frazil.lance.vectors import refuse_vectors
from frazil.lance.version import LanceVersion
from frazil.model.property_text import property_texts

Changes = Mapping[str, str | None]


def update_settings(
    history: History,
    version: LanceVersion,
    *,
    config: Changes | None = None,
    table_metadata: Changes | None = None,
    schema_metadata: Changes | None = None,
    field_metadata: Mapping[str, Changes] | None = None,
) -> LanceVersion:
    """Set keys to values, and remove those that are None."""
    refuse_vectors(config or {})
    body = UpdateConfig()
    for name, changes in (
        ("config_updates", config),
        ("table_metadata_updates", table_metadata),
        ("schema_metadata_updates", schema_metadata),
    ):
        if changes:
            getattr(body, name).CopyFrom(_updates(changes))
    for column, changes in (field_metadata or {}).items():
        body.field_metadata_updates[version.schema.find(column).id].CopyFrom(_updates(changes))
    if not body.ByteSize():
        raise InvalidArgument("nothing is to be set", hint="give keys and values")
    return commit(history, Change(new_transaction(version.version, update_config=body), version))


def _updates(changes: Changes) -> UpdateMap:
    kept = property_texts({key: value for key, value in changes.items() if value is not None})
    gone = property_texts({key: "" for key, value in changes.items() if value is None})
    entries = [UpdateMapEntry(key=key, value=None if key in gone else kept[key]) for key in changes]
    return UpdateMap(update_entries=entries)


def restore(history: History, version: LanceVersion, number: int) -> LanceVersion:
    """Make an earlier version the newest one, as a version of its own."""
    history.load(number)
    return commit(history, Change(new_transaction(version.version, restore=Restore(version=number)), version))
