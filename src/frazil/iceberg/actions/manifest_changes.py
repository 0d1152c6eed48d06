"""How a snapshot's manifests follow from its parent's: files added, files removed, small manifests merged."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import CommitConflict, InvalidArgument, InvalidSchema
from frazil.iceberg import manifest_schema as ids
from frazil.iceberg import properties as props
from frazil.iceberg.actions.action import Context
from frazil.iceberg.data_file import Content, DataFile, Status
from frazil.iceberg.delete_index import target_paths
from frazil.iceberg.entries import Entries, Mask, concat, from_files
from frazil.iceberg.manifest import (
    ALL_COLUMNS,
    CORE_COLUMNS,
    UNASSIGNED,
    as_added,
    with_deleted,
    write_manifest,
)
from frazil.iceberg.manifest_list import ManifestFile
from frazil.iceberg.partition_types import partition_type
from frazil.model.transforms import UnknownTransform

ENTRIES_PER_MANIFEST = 20_000
"""About the eight megabytes that a manifest is meant to have; also the unit that is written in parallel."""

Name = Callable[[], str]


def added_entries(context: Context, files: Sequence[DataFile], snapshot_id: int) -> Iterator[Entries]:
    """Entries of new files: those of one manifest at a time, made when they are asked for, after all were checked."""
    metadata = context.metadata
    by_spec: dict[int, list[DataFile]] = {}
    for file in files:
        by_spec.setdefault(file.spec_id, []).append(file)
    for spec_id, members in by_spec.items():
        spec = metadata.spec(spec_id)
        unknown = [part.name for part in spec.fields if isinstance(part.transform, UnknownTransform)]
        if unknown:
            raise InvalidSchema(
                f"partition field {unknown[0]!r} has a transform this library does not know",
                hint="files of such a spec can be read but not written",
            )
        for file in members:
            if len(file.partition) != len(spec.fields):
                raise InvalidArgument(
                    f"{file.file_path} has {len(file.partition)} partition values for {len(spec.fields)} fields",
                    hint="give one canonical value per partition field",
                )
    for spec_id, members in by_spec.items():
        spec = metadata.spec(spec_id)
        type_ = partition_type(metadata, spec)
        for start in range(0, len(members), ENTRIES_PER_MANIFEST):
            yield as_added(from_files(spec, type_, members[start : start + ENTRIES_PER_MANIFEST]), snapshot_id)


def write_manifests(
    context: Context,
    parts: Iterable[Entries],
    content: int,
    snapshot_id: int,
    name: Name,
    entries_each: int = ENTRIES_PER_MANIFEST,
) -> list[ManifestFile]:
    """Write entries as manifests of a sensible size, in parallel, and while the next part is being made."""

    def write(piece: Entries, location: str) -> ManifestFile:
        return write_manifest(
            context.store,
            location,
            piece,
            schema=context.metadata.current_schema,
            format_version=context.metadata.format_version,
            content=content,
            snapshot_id=snapshot_id,
            codec=_codec(context),
        )

    with ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="frazil-commit") as pool:
        writing = []
        for part in parts:
            for piece in _split(part, entries_each):
                location = f"{context.metadata_folder}/{name()}"
                context.written.append(location)
                writing.append(pool.submit(write, piece, location))
        return [written.result() for written in writing]


def _codec(context: Context) -> str:
    name = context.metadata.property_reader.get(props.MANIFEST_COMPRESSION).lower()
    return {"gzip": "deflate", "none": "null", "uncompressed": "null", "zstd": "zstandard"}.get(name, name)


def _split(entries: Entries, entries_each: int) -> Iterator[Entries]:
    for start in range(0, len(entries), entries_each):
        yield entries.slice(start, min(entries_each, len(entries) - start))


@dataclass
class Removal:
    """Which live files go: by name, or by a test on entries. What was found is remembered."""

    paths: set[str] = field(default_factory=set)
    vectors: set[tuple[str, int | None]] = field(default_factory=set)
    matches: Callable[[ManifestFile, Entries], Mask] | None = None
    may_match: Callable[[ManifestFile], bool] | None = None
    must_exist: bool = True

    def names(self, file: DataFile) -> None:
        """Remove this very file."""
        if file.is_deletion_vector:
            self.vectors.add(file.key)
        else:
            self.paths.add(file.file_path)

    def __bool__(self) -> bool:
        return bool(self.paths or self.vectors or self.matches is not None)


@dataclass(frozen=True)
class Filtered:
    """Manifests after a removal, and the entries that went."""

    manifests: list[ManifestFile]
    removed: list[Entries]
    replaced: int

    @property
    def removed_paths(self) -> set[str]:
        return {path for part in self.removed for path in part.column(ids.FILE_PATH).to_pylist()}


def remove_files(
    context: Context, manifests: Sequence[ManifestFile], removal: Removal, snapshot_id: int, name: Name
) -> Filtered:
    """Rewrite the manifests that hold files to be removed; all others are kept as they are."""
    kept: list[ManifestFile] = []
    removed: list[Entries] = []
    replaced = 0
    found_paths: set[str] = set()
    found_vectors: set[tuple[str, int | None]] = set()
    wanted = pa.array(sorted(removal.paths | {path for path, _ in removal.vectors}), pa.string())
    for manifest in manifests:
        names_files = bool(removal.paths or removal.vectors)
        tested = removal.matches is not None and (removal.may_match is None or removal.may_match(manifest))
        if not manifest.has_live_files or not (names_files or tested):
            kept.append(manifest)
            continue
        columns = CORE_COLUMNS if removal.matches is None else CORE_COLUMNS | frozenset(ids.METRICS)
        entries = context.reader.read_one(manifest, columns)
        mask = np.zeros(len(entries), dtype=bool)
        if names_files:
            mask |= _named(entries, removal, wanted, found_paths, found_vectors)
        if tested and removal.matches is not None:
            mask |= removal.matches(manifest, entries)
        mask &= entries.live
        if not mask.any():
            kept.append(manifest)
            continue
        full = context.reader.read_one(manifest, ALL_COLUMNS)
        # what an earlier step of this commit removed stays on record
        gone = mask | (~full.live & (full.numpy(ids.SNAPSHOT_ID) == snapshot_id))
        told = full.live | gone
        rewritten = with_deleted(full.filter(told), gone[told], snapshot_id)
        kept.extend(write_manifests(context, [rewritten], manifest.content, snapshot_id, name))
        removed.append(full.filter(mask))
        replaced += 1
    if removal.must_exist:
        missing = (removal.paths - found_paths) | {path for path, _ in removal.vectors - found_vectors}
        if missing:
            raise CommitConflict(
                f"{len(missing)} files to remove are not in the table, the first of them {min(missing)}",
                hint="another commit removed them; read the table again and repeat the change",
            )
    return Filtered(kept, removed, replaced)


def _named(
    entries: Entries,
    removal: Removal,
    wanted: pa.Array,
    found_paths: set[str],
    found_vectors: set[tuple[str, int | None]],
) -> Mask:
    paths = entries.column(ids.FILE_PATH)
    candidate: Mask = pc.is_in(paths, value_set=wanted).to_numpy(zero_copy_only=False) & entries.live
    mask = np.zeros(len(entries), dtype=bool)
    offsets = entries.column(ids.CONTENT_OFFSET)
    for row in np.flatnonzero(candidate).tolist():
        path, offset = paths[row].as_py(), offsets[row].as_py()
        if (path, offset) in removal.vectors:
            found_vectors.add((path, offset))
            mask[row] = True
        elif path in removal.paths:
            found_paths.add(path)
            mask[row] = True
    return mask


def dangling_deletes(gone: set[str]) -> Removal:
    """The deletes that name a removed data file go with it: a vector must never outlive its file."""
    value_set = pa.array(sorted(gone), pa.string())

    def matches(_: ManifestFile, entries: Entries) -> Mask:
        targets = target_paths(entries)
        position = entries.numpy(ids.CONTENT) == Content.POSITION_DELETES
        found: Mask = pc.is_in(targets, value_set=value_set).to_numpy(zero_copy_only=False)
        both: Mask = found & position
        return both

    return Removal(matches=matches, must_exist=False)


def merge_manifests(
    context: Context, manifests: Sequence[ManifestFile], snapshot_id: int, name: Name
) -> tuple[list[ManifestFile], int]:
    """Join small manifests of one spec once there are enough of them; also how many were replaced.

    The newest manifests come first. A bin with the newest one is merged only when it has enough members, so that a
    busy table does not rewrite its last manifest with every append.
    """
    settings = context.metadata.property_reader
    if not settings.get(props.MANIFEST_MERGE_ENABLED):
        return list(manifests), 0
    target = settings.get(props.MANIFEST_TARGET_SIZE_BYTES)
    least = settings.get(props.MANIFEST_MIN_MERGE_COUNT)
    by_spec: dict[int, list[ManifestFile]] = {}
    for manifest in manifests:
        by_spec.setdefault(manifest.partition_spec_id, []).append(manifest)
    result: list[ManifestFile] = []
    replaced = 0
    for spec_id in sorted(by_spec, reverse=True):
        members = by_spec[spec_id]
        for bin_ in _pack(members, target):
            if len(bin_) == 1 or (members[0] in bin_ and len(bin_) < least):
                result.extend(bin_)
                continue
            merged = concat([_carried(context, manifest, snapshot_id) for manifest in bin_])
            replaced += sum(manifest.sequence_number != UNASSIGNED for manifest in bin_)
            if len(merged):
                result.extend(write_manifests(context, [merged], bin_[0].content, snapshot_id, name))
    return result, replaced


def _pack(manifests: Sequence[ManifestFile], target: int) -> Iterator[list[ManifestFile]]:
    """Neighbours packed from the oldest on, so that full bins stay full as newer manifests arrive."""
    bins: list[list[ManifestFile]] = []
    size = 0
    for manifest in reversed(manifests):
        if not bins or size + manifest.manifest_length > target:
            bins.append([])
            size = 0
        bins[-1].append(manifest)
        size += manifest.manifest_length
    for bin_ in reversed(bins):
        yield list(reversed(bin_))


def _carried(context: Context, manifest: ManifestFile, snapshot_id: int) -> Entries:
    """Entries for a merged manifest: this commit's own keep their status, older live ones become existing."""
    if context.metadata.format_version == 1:
        # there are no sequence numbers to assign: all count as zero, those of this commit too
        manifest = replace(manifest, sequence_number=0)
    entries = context.reader.read_one(manifest, ALL_COLUMNS)
    if manifest.sequence_number == UNASSIGNED:
        # not committed yet: what reading filled in from the placeholder must stay unassigned
        entries = _unassigned(entries)
    own = entries.numpy(ids.SNAPSHOT_ID) == snapshot_id
    entries = entries.filter(own | entries.live)
    own = entries.numpy(ids.SNAPSHOT_ID) == snapshot_id
    status = np.where(own, entries.numpy(ids.STATUS), Status.EXISTING).astype(np.int32)
    return entries.with_columns({ids.STATUS: pa.array(status)})


def _unassigned(entries: Entries) -> Entries:
    columns = {}
    for number in (ids.SEQUENCE_NUMBER, ids.FILE_SEQUENCE_NUMBER):
        values = entries.column(number)
        columns[number] = pc.if_else(pc.equal(values, UNASSIGNED), pa.scalar(None, pa.int64()), values)
    return entries.with_columns(columns)
