"""Sealing a table: its last version, which says where the table is now. It is read like any other, and not written to.

A writer who was about to commit must not be told that rows are in a table which nobody looks at any more. So the last
version restores the one before it, which nearly no change goes on top of, and it has a feature flag that no writer
knows, of ours or others.
"""

from __future__ import annotations

from frazil.lance.apply import apply
from frazil.lance.commit import follow, new_transaction
from frazil.lance.feature_flags import MOVED_TO, SEALED, check_writable, is_sealed
from frazil.lance.history import History
from frazil.lance.proto.messages import Restore
from frazil.lance.version import LanceVersion


def seal(history: History, version: LanceVersion, moved_to: str) -> LanceVersion:
    """Let nothing come after a version, which is the newest one; CommitFailed if it is not."""
    check_writable(version.manifest)
    transaction = new_transaction(version.version, restore=Restore(version=version.version))
    made = apply(transaction, version, version)
    made.manifest.writer_feature_flags |= SEALED
    made.manifest.table_metadata[MOVED_TO] = moved_to
    return follow(history, version, made, transaction)


def unseal(history: History, version: LanceVersion) -> LanceVersion:
    """Let the table be written to again; as it is if it is not sealed."""
    if not is_sealed(version.manifest):
        return version
    transaction = new_transaction(version.version, restore=Restore(version=version.version))
    made = apply(transaction, version, version)
    made.manifest.writer_feature_flags &= ~SEALED
    made.manifest.table_metadata.pop(MOVED_TO, None)
    return follow(history, version, made, transaction)
