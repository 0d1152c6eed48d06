"""A transaction applied to a version: the manifest of the next one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from frazil import ambient
from frazil.errors import CommitConflict, Unsupported
from frazil.lance import indices
from frazil.lance.conflicts import operation_of, touched
from frazil.lance.feature_flags import STABLE_ROW_IDS, has_stable_row_ids, set_flags
from frazil.lance.field_ids import last_field_id, remember
from frazil.lance.proto.messages import (
    DataFragment,
    Field,
    IndexSection,
    Manifest,
    Transaction,
    UpdateConfig,
    UpdateMap,
    WriterVersion,
)
from frazil.lance.row_ids import encode_row_ids, encode_row_versions
from frazil.lance.version import LanceVersion

_CHANGES_COLUMNS = frozenset({"project", "merge", "overwrite", "restore"})
WRITER = WriterVersion(library="frazil", version="0.1.0")


@dataclass(frozen=True, slots=True)
class Next:
    """What a new version consists of."""

    manifest: Manifest
    indices: IndexSection


def apply(transaction: Transaction, base: LanceVersion, restored: LanceVersion | None = None) -> Next:
    """The version that follows `base`; `restored` is the one that a Restore names."""
    source = base if restored is None else restored
    manifest = Manifest()
    manifest.CopyFrom(source.manifest)
    section = IndexSection()
    section.CopyFrom(source.file.indices)
    if restored is not None:
        last = max(_max_fragment_id(manifest), _max_fragment_id(base.manifest))
        if last >= 0:
            manifest.max_fragment_id = last
        manifest.next_row_id = max(manifest.next_row_id, base.manifest.next_row_id)
    builder = Builder(manifest, section, base.version + 1)
    builder.run(transaction)
    if operation_of(transaction) in _CHANGES_COLUMNS:
        remember(manifest, last_field_id(base.manifest))
    manifest.version = base.version + 1
    stamp(manifest)
    set_flags(manifest)
    return Next(manifest, builder.indices)


def stamp(manifest: Manifest) -> None:
    """Say when a version was made, and by whom."""
    now = ambient.now_ms()
    manifest.timestamp.seconds, manifest.timestamp.nanos = now // 1000, now % 1000 * 1_000_000
    manifest.writer_version.CopyFrom(WRITER)
    for name in ("version_aux_data", "tag", "transaction_section", "transaction_section_before_14", "index_section"):
        manifest.ClearField(name)


def _max_fragment_id(manifest: Manifest) -> int:
    """The largest fragment id that was ever used; -1 if there was none."""
    listed = max((int(fragment.id) for fragment in manifest.fragments), default=-1)
    return max(listed, manifest.max_fragment_id) if manifest.HasField("max_fragment_id") else listed


class Builder:
    """One operation on a manifest, in place."""

    def __init__(self, manifest: Manifest, section: IndexSection, version: int) -> None:
        self.manifest = manifest
        self.indices = section
        self.version = version
        self.stable = has_stable_row_ids(manifest)

    def run(self, transaction: Transaction) -> None:
        kind = operation_of(transaction)
        method = getattr(self, f"_{kind}", None)
        if kind is None or method is None:
            raise Unsupported(f"transactions of kind {kind} cannot be applied", hint="use pylance for it")
        method(transaction)

    # Rows.

    def _append(self, transaction: Transaction) -> None:
        self._add(transaction.append.fragments)

    def _delete(self, transaction: Transaction) -> None:
        self._replace(transaction.delete.updated_fragments)
        self._remove(frozenset(transaction.delete.deleted_fragment_ids))

    def _update(self, transaction: Transaction) -> None:
        update = transaction.update
        self._replace(update.updated_fragments)
        self._remove(frozenset(update.removed_fragment_ids))
        if update.update_mode == 1:
            changed = frozenset(fragment.id for fragment in update.updated_fragments)
            self.indices = indices.without_fragments(self.indices.indices, changed, frozenset(update.fields_modified))
        self._add(update.new_fragments)

    def _overwrite(self, transaction: Transaction) -> None:
        overwrite = transaction.overwrite
        self._keep_max()
        del self.manifest.fragments[:]
        self._set_schema(overwrite.schema)
        self.manifest.schema_metadata.clear()
        for key, value in overwrite.schema_metadata.items():
            self.manifest.schema_metadata[key] = value
        for key, text in overwrite.config_upsert_values.items():
            self.manifest.config[key] = text
        self.manifest.base_paths.extend(overwrite.initial_bases)
        self.indices = IndexSection()
        self._add(overwrite.fragments)

    def _rewrite(self, transaction: Transaction) -> None:
        rewrite = transaction.rewrite
        if rewrite.rewritten_indices:
            raise Unsupported("rewritten indices are not committed by us", hint="compact without remapping indices")
        removed = touched(transaction).removed
        self._remove(removed)
        for group in rewrite.groups:  # at the end: fragments must be in the order of their ids
            self._add(group.new_fragments)

    def _data_replacement(self, transaction: Transaction) -> None:
        for group in transaction.data_replacement.replacements:
            self._check_there(frozenset({group.fragment_id}))
            fragment = next(one for one in self.manifest.fragments if one.id == group.fragment_id)
            replaced = frozenset(group.new_file.fields)
            for file in fragment.files:
                if frozenset(file.fields) == replaced:
                    file.CopyFrom(group.new_file)
                    break
            else:
                raise CommitConflict(
                    f"fragment {fragment.id} has no file of exactly the fields {sorted(replaced)}",
                    hint="replace files as they are, one by one",
                )
            gone = frozenset({int(fragment.id)})
            self.indices = indices.without_fragments(self.indices.indices, gone, replaced)

    # Columns.

    def _merge(self, transaction: Transaction) -> None:
        merge = transaction.merge
        del self.manifest.fragments[:]
        self.manifest.fragments.extend(merge.fragments)
        self._set_schema(merge.schema)
        for key, value in merge.schema_metadata.items():
            self.manifest.schema_metadata[key] = value
        self._leave_out_files()

    def _project(self, transaction: Transaction) -> None:
        self._set_schema(transaction.project.schema)
        self._leave_out_files()

    def _leave_out_files(self) -> None:
        """Data files of which no column is left are not listed: pylance takes them for damage."""
        known = {field.id for field in self.manifest.fields}
        for fragment in self.manifest.fragments:
            left = [file for file in fragment.files if not known.isdisjoint(file.fields)]
            if len(left) < len(fragment.files):
                kept = left or [fragment.files[0]]  # the number of rows is still told by a file
                del fragment.files[:]
                fragment.files.extend(kept)

    def _set_schema(self, fields: Iterable[Field]) -> None:
        made = [*fields]
        del self.manifest.fields[:]
        self.manifest.fields.extend(made)
        self.indices = indices.of_fields(self.indices.indices, frozenset(field.id for field in made))

    # Settings.

    def _update_config(self, transaction: Transaction) -> None:
        update: UpdateConfig = transaction.update_config
        for key, value in update.upsert_values.items():
            self.manifest.config[key] = value
        for key in update.delete_keys:
            self.manifest.config.pop(key, None)
        _change(self.manifest.config, update.config_updates)
        _change(self.manifest.table_metadata, update.table_metadata_updates)
        _change(self.manifest.schema_metadata, update.schema_metadata_updates, binary=True)
        fields = {field.id: field for field in self.manifest.fields}
        for number, updates in update.field_metadata_updates.items():
            if number not in fields:
                raise CommitConflict(f"there is no field {number}", hint="the column was dropped")
            _change(fields[number].metadata, updates, binary=True)

    def _restore(self, transaction: Transaction) -> None:
        """What is restored was taken as the base already."""

    def _reserve_fragments(self, transaction: Transaction) -> None:
        self.manifest.max_fragment_id = _max_fragment_id(self.manifest) + transaction.reserve_fragments.num_fragments

    def _create_index(self, transaction: Transaction) -> None:
        made = transaction.create_index
        gone = {index.uuid.uuid for index in made.removed_indices}
        left = [index for index in self.indices.indices if index.uuid.uuid not in gone]
        self.indices = IndexSection(indices=[*left, *made.new_indices])

    def _update_bases(self, transaction: Transaction) -> None:
        self.manifest.base_paths.extend(transaction.update_bases.new_bases)

    # Fragments.

    def _keep_max(self) -> None:
        last = _max_fragment_id(self.manifest)
        if last >= 0:
            self.manifest.max_fragment_id = last

    def _add(self, fragments: Iterable[DataFragment]) -> None:
        """Fragments at the end, with ids of their own, and row ids where the table has such."""
        last = _max_fragment_id(self.manifest)
        for given in fragments:
            fragment = self.manifest.fragments.add()
            fragment.CopyFrom(given)
            last += 1
            fragment.id = last
            if self.stable:
                self._number(fragment)
        if last >= 0:
            self.manifest.max_fragment_id = last

    def _number(self, fragment: DataFragment) -> None:
        rows = int(fragment.physical_rows)
        if fragment.WhichOneof("row_ids") is None:
            first = int(self.manifest.next_row_id)
            fragment.inline_row_ids = encode_row_ids(np.arange(first, first + rows, dtype=np.uint64))
            self.manifest.next_row_id = first + rows
        now = encode_row_versions(np.full(rows, self.version, np.uint64))
        if fragment.WhichOneof("created_at") is None:
            fragment.inline_created_at = now
        if fragment.WhichOneof("last_updated") is None:
            fragment.inline_last_updated = now

    def _replace(self, fragments: Iterable[DataFragment]) -> None:
        changed = {fragment.id: fragment for fragment in fragments}
        self._check_there(frozenset(changed))
        for fragment in self.manifest.fragments:
            if fragment.id in changed:
                fragment.CopyFrom(changed[fragment.id])

    def _remove(self, numbers: frozenset[int]) -> None:
        self._check_there(numbers)
        self._keep_max()
        left = [fragment for fragment in self.manifest.fragments if fragment.id not in numbers]
        if len(left) < len(self.manifest.fragments):
            del self.manifest.fragments[:]
            self.manifest.fragments.extend(left)
            self.indices = indices.without_fragments(self.indices.indices, numbers)

    def _check_there(self, numbers: frozenset[int]) -> None:
        missing = numbers - {fragment.id for fragment in self.manifest.fragments}
        if missing:
            raise CommitConflict(
                f"fragments {sorted(missing)} are not in the table any more", hint="make the change again"
            )


def _change(target: Mapping[str, str | bytes], updates: UpdateMap, *, binary: bool = False) -> None:
    """Set and remove keys of a map of the manifest."""
    where: dict[str, str | bytes] = target  # type: ignore[assignment]  # protobuf's maps are written to like dicts
    if updates.replace:
        where.clear()
    for entry in updates.update_entries:
        if entry.HasField("value"):
            where[entry.key] = entry.value.encode() if binary else entry.value
        else:
            where.pop(entry.key, None)


def enable_stable_row_ids(manifest: Manifest) -> None:
    """Make a new table give its rows ids that stay."""
    manifest.reader_feature_flags |= STABLE_ROW_IDS
    manifest.writer_feature_flags |= STABLE_ROW_IDS
