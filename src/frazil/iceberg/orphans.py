"""Orphan files: what lies in a table's folder and no metadata of the table tells of.

They are left by writers that died. A file that a running writer has just written looks the same, so only old files
count. The folder is listed before the metadata is read, and the metadata once more before anything is deleted: what is
committed meanwhile is kept. Everything works on columns, and what is needed is taken off the listing group by group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from html import escape
from itertools import islice
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from frazil import ambient
from frazil.errors import FrazilError, InvalidArgument, InvalidName, Unsupported
from frazil.iceberg import properties as props
from frazil.iceberg.committer import Committer, ReadOnly, TableState
from frazil.iceberg.file_removal import checked_threads, delete_files
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.metadata_files import version_of
from frazil.iceberg.metadata_json import parse_metadata
from frazil.iceberg.orphan_names import HiddenPaths, Names, Prefix
from frazil.iceberg.reachable import Reachability
from frazil.io import location as locations
from frazil.io.store import Store
from frazil.model.temporal import to_millis
from frazil.progress import Progress

PrefixMismatchMode = Literal["ERROR", "IGNORE", "DELETE"]
_MODES: tuple[PrefixMismatchMode, ...] = ("ERROR", "IGNORE", "DELETE")
_HOUR_MS = 3_600_000
DEFAULT_AGE_MS = 3 * 24 * _HOUR_MS
LEAST_AGE_MS = 24 * _HOUR_MS
_MOMENT = pa.timestamp("ms", "UTC")
_FILES = pa.schema({"location": pa.string(), "size": pa.int64(), "modified": _MOMENT})
_LIST_ROWS = 10_000
_GROUP_ROWS = 250_000
_SHOWN = 20
_TOLD = 5
_METADATA_FILE = r"(?s)^(?P<root>.*)/(?:metadata/[^/]*\.metadata\.json(?:\.gz)?|_versions/[^/]*\.manifest)$"
"""Of Iceberg tables, and of Lance tables that are among the files of one."""
_ANY_METADATA_FILE = r"\.metadata\.json(?:\.gz)?$"
_METADATA_FOLDERS = ("metadata", "_versions")
_LAST_LOOKS = 3
_FOLDER_PROPERTIES = (
    props.WRITE_DATA_LOCATION,
    props.WRITE_METADATA_LOCATION,
    props.OBJECT_STORE_PATH,
    props.WRITE_FOLDER_STORAGE_LOCATION,
)


@dataclass(frozen=True)
class OrphanFiles:
    """Orphans that were deleted, or with `dry_run` would be."""

    files: pa.Table
    """Columns `location`, `size` and `modified`."""
    dry_run: bool = False
    failed_files: tuple[str, ...] = ()
    """Those among them that could not be deleted."""
    problems: tuple[str, ...] = ()
    """Why files were left that may be orphans."""

    @property
    def orphan_file_locations(self) -> list[str]:
        """The locations alone."""
        return list(self.files["location"].to_pylist())

    @property
    def total_bytes(self) -> int:
        """Their size together."""
        return int(pc.sum(self.files["size"]).as_py() or 0)

    def __len__(self) -> int:
        return int(self.files.num_rows)

    def __repr__(self) -> str:
        done = "found" if self.dry_run else "deleted"
        failed = f", {len(self.failed_files)} could not be deleted" if self.failed_files else ""
        return f"OrphanFiles({len(self)} {done}, {self.total_bytes} bytes{failed})"

    def _repr_html_(self) -> str:
        rows = self.files.slice(0, _SHOWN).to_pylist()
        listed = "".join(f"<li>{escape(row['location'])} ({row['size']} bytes)</li>" for row in rows)
        more = f"<p>and {len(self) - _SHOWN} more</p>" if len(self) > _SHOWN else ""
        problems = "".join(f"<p>{escape(problem)}</p>" for problem in self.problems)
        return f"<b>{escape(repr(self))}</b><ul>{listed}</ul>{more}{problems}"


@dataclass(frozen=True)
class OrphanSearch:
    """What to look for, checked when it is made."""

    older_than_ms: int
    mode: PrefixMismatchMode = "ERROR"
    names: Names = field(default_factory=Names)
    location: str | None = None
    """The folder to look in, the table's own if not told."""
    files: pa.Table | None = None
    """What a listing would give, if somebody has it: columns `file_path` and `last_modified`."""

    @classmethod
    def of(
        cls,
        *,
        older_than: int | str | datetime | None = None,
        location: str | None = None,
        equal_schemes: Mapping[str, str] | None = None,
        equal_authorities: Mapping[str, str] | None = None,
        prefix_mismatch_mode: str = "ERROR",
        files: pa.Table | None = None,
    ) -> OrphanSearch:
        """A search from what people write."""
        now_ms = ambient.now_ms()
        limit_ms = now_ms - DEFAULT_AGE_MS if older_than is None else to_millis(older_than)
        if now_ms - limit_ms < LEAST_AGE_MS:
            raise InvalidArgument(
                "orphan files less than 24 hours old cannot be removed: a writer may be about to commit them",
                hint="give an older_than at least a day ago, or leave it out for three days",
            )
        mode = _mode(prefix_mismatch_mode)
        return cls(limit_ms, mode, Names(equal_schemes, equal_authorities), location, files)


def _mode(text: str) -> PrefixMismatchMode:
    for mode in _MODES:
        if text.upper() == mode:
            return mode
    raise InvalidArgument(f"prefix_mismatch_mode is {text!r}", hint=f"use one of {', '.join(_MODES)}")


def remove_orphan_files(
    store: Store, committer: Committer, search: OrphanSearch, *, dry_run: bool = False, threads: int | None = None
) -> OrphanFiles:
    """Find the orphans of a table and delete them, unless it is a dry run."""
    checked_threads(threads)
    state = committer.load()
    _check_owner(committer, state)
    _check_allowed(state.metadata)
    listing = _Listing.of(store, state.metadata, search)
    shared = listing.subtract_shared_metadata(store, state)
    problems = (*shared, *_subtract_all(listing, store, committer, search))
    files = listing.files()
    if dry_run:
        return OrphanFiles(files, dry_run=True, problems=problems)
    return OrphanFiles(files, failed_files=tuple(_delete(store, files, threads)), problems=problems)


def _subtract_all(listing: _Listing, store: Store, committer: Committer, search: OrphanSearch) -> tuple[str, ...]:
    """Take everything off the listing that is needed, or may be; why, where that is not plain."""
    problems: list[str] = []
    known: set[int] = set()
    seen = ""
    for _ in range(_LAST_LOOKS):
        state = committer.load()
        _check_allowed(state.metadata)
        if state.metadata_location == seen:
            break
        for needed in _in_groups(_needed(store, state, known)):
            listing.subtract(needed)
        listing.keep_metadata(state)
        problems += listing.subtract_other_tables(state)
        known.update(snapshot.snapshot_id for snapshot in state.metadata.snapshots)
        seen = state.metadata_location
    listing.settle_doubts(search.mode)
    return tuple(dict.fromkeys(problems))


def _check_owner(committer: Committer, state: TableState) -> None:
    if isinstance(committer, ReadOnly) or not state.metadata_location:
        raise Unsupported(
            "orphan files cannot be told by one metadata file: newer ones may need what it does not know of",
            hint="open the table through its catalog or its folder",
        )


def _check_allowed(metadata: TableMetadata) -> None:
    if not metadata.property_reader.get(props.GC_ENABLED):
        raise InvalidArgument(
            "orphan files of this table cannot be removed: gc.enabled is false",
            hint="its files may belong to other tables too; set gc.enabled to true if they do not",
        )


def _folder(metadata: TableMetadata, wanted: str | None) -> str:
    """The folder to look in. Those of properties only if they are asked for: several tables may share them."""
    if wanted is None:
        return metadata.location
    if not any(_is_inside(wanted, folder) for folder in (metadata.location, *_named_folders(metadata))):
        raise InvalidArgument(
            f"{wanted} is not in the table's location {metadata.location}, nor in a folder that its properties name",
            hint="what is outside may belong to others; give the table's location, its write.data.path, or a folder "
            "in them",
        )
    return wanted


def _is_inside(location: str, folder: str) -> bool:
    return locations.relative_to(location, folder, one_s3=True) is not None


def _named_folders(metadata: TableMetadata) -> Iterator[str]:
    """Folders of the table's properties, but for what is no location."""
    for prop in _FOLDER_PROPERTIES:
        named = metadata.property_reader.get(prop)
        with suppress(InvalidName):
            if named is not None:
                locations.parse(named)
                yield named


def _folders_above(folder: str, metadata: TableMetadata) -> Iterator[str]:
    """The folders that a folder lies in, up to the table's location, or if it is outside, the root of the store."""
    inside = _is_inside(folder, metadata.location)
    while not (inside and _is_inside(metadata.location, folder)):
        try:
            folder = locations.parent(folder)
        except InvalidName:
            return
        yield folder


# What is needed.


def _needed(store: Store, state: TableState, known: set[int]) -> Iterator[pa.Array]:
    """The locations of all files that the table needs, but for those of snapshots that are known already.

    Raises if any of them cannot be read: then nothing is known to be an orphan.
    """
    metadata = state.metadata
    hints = {f"{locations.parent(file)}/version-hint.text" for file in _metadata_files(state)}
    statistics = [file.statistics_path for file in metadata.statistics]
    statistics += [file.statistics_path for file in metadata.partition_statistics]
    yield pa.array([*_metadata_files(state), *sorted(hints), *statistics], pa.string())
    snapshots = [snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id not in known]
    yield pa.array([one.manifest_list for one in snapshots if one.manifest_list is not None], pa.string())
    reachability = Reachability(store, metadata)
    manifests = list(reachability.manifests(snapshots).values())
    yield pa.array([manifest.manifest_path for manifest in manifests], pa.string())
    yield from reachability.live_paths(manifests)


def _metadata_files(state: TableState) -> list[str]:
    return [state.metadata_location, *(entry.metadata_file for entry in state.metadata.metadata_log)]


def _in_groups(arrays: Iterable[pa.Array]) -> Iterator[pa.Array]:
    """Arrays joined until they are worth a look through the whole listing."""
    waiting: list[pa.Array] = []
    rows = 0
    for array in arrays:
        waiting.append(array)
        rows += len(array)
        if rows >= _GROUP_ROWS:
            yield pa.concat_arrays(waiting)
            waiting, rows = [], 0
    if waiting:
        yield pa.concat_arrays(waiting)


# What is there.


@dataclass
class _Listing:
    """Old files of a folder, by prefix, that nobody was seen to need yet. Column `key` is the path to compare."""

    names: Names
    own: Prefix
    """Of the folder."""
    left: dict[Prefix, pa.Table]
    metadata_files: dict[str, dict[str, int]]
    """Metadata files by the folder of their table, and when each was written: by path, young ones too. Also of tables
    in whose folder this one lies."""
    strange_files: dict[str, int] = field(default_factory=dict)
    """Metadata files wherever they lie and their times, if the folder is outside the table's location."""
    doubts: list[tuple[Prefix, Prefix, pa.Array]] = field(default_factory=list)
    """Paths that metadata has under another prefix than the listing: the metadata's, the listing's, the paths."""

    @classmethod
    def of(cls, store: Store, metadata: TableMetadata, search: OrphanSearch) -> _Listing:
        """List the folder, or take over a listing."""
        folder = _folder(metadata, search.location)
        parts = _listed(store, folder) if search.files is None else [_given(search.files)]
        base = search.names.paths(pa.array([folder], pa.string()))[0].as_py()
        hidden = HiddenPaths(metadata.partition_specs)
        left: dict[Prefix, list[pa.Table]] = {}
        metadata_files: dict[str, dict[str, int]] = {}
        limit = pa.scalar(search.older_than_ms, _MOMENT)
        outside = not _is_inside(folder, metadata.location)
        strange: dict[str, int] = {}
        for above in () if search.location is None else _folders_above(folder, metadata):
            for name in _METADATA_FOLDERS:
                for part in _listed(store, f"{above.rstrip('/')}/{name}"):
                    for root, file, modified_ms in _metadata_listed(_keyed(part, search.names)):
                        metadata_files.setdefault(root, {})[file] = modified_ms
        for part in parts:
            keyed = _keyed(part, search.names)
            if search.files is not None:
                keyed = keyed.filter(pc.starts_with(keyed["key"], f"{base}/"))
            for root, file, modified_ms in _metadata_listed(keyed):
                metadata_files.setdefault(root, {})[file] = modified_ms
            if outside:
                found = keyed.filter(pc.match_substring_regex(keyed["key"], _ANY_METADATA_FILE))
                times = found["modified"].cast(pa.int64()).to_pylist()
                strange.update(zip(found["location"].to_pylist(), times, strict=True))
            keyed = keyed.filter(pc.less(keyed["modified"], limit))
            relative = pc.utf8_slice_codeunits(keyed["key"], len(base) + 1)
            keyed = keyed.filter(pc.invert(hidden.mask(relative)))
            if keyed.num_rows:
                for prefix, rows in search.names.split(keyed["location"].combine_chunks()).items():
                    left.setdefault(prefix, []).append(keyed.take(rows))
        (own,) = search.names.split(pa.array([folder], pa.string()))
        tables = {prefix: pa.concat_tables(found) for prefix, found in left.items()}
        return cls(search.names, own, tables, metadata_files, strange)

    def subtract(self, needed: pa.Array) -> None:
        """Take off what is needed; what is needed under another prefix becomes a doubt."""
        if not any(table.num_rows for table in self.left.values()):
            return
        paths = self.names.paths(needed)
        for told, rows in self.names.split(needed).items():
            keys = paths.take(rows)
            for prefix, table in self.left.items():
                known = pc.is_in(table["key"], value_set=keys)
                if told.is_met_by(prefix):
                    self.left[prefix] = table.filter(pc.invert(known))
                elif pc.any(known).as_py():
                    self.doubts.append((told, prefix, table["key"].filter(known).combine_chunks()))

    def keep_metadata(self, state: TableState) -> None:
        """Take off what has the name of a metadata file of the table: the catalog may spell its folder otherwise, by a
        link or as it was before the table moved.
        """
        names = {file.rpartition("/")[2] for file in _metadata_files(state)} | {"version-hint.text"}
        for prefix, table in self.left.items():
            last = pc.replace_substring_regex(table["key"], r"(?s)^.*/", "")
            self.left[prefix] = table.filter(pc.invert(pc.is_in(last, value_set=pa.array(sorted(names), pa.string()))))

    def subtract_other_tables(self, state: TableState) -> list[str]:
        """Take off the files of other tables that have their metadata in this table's folder; which those are."""
        problems = []
        for root in sorted(self.metadata_files):
            if self._is_another(root, state):
                problems.append(f"{root} is the folder of another table too; its files were left alone")
                self._leave(root)
        return problems

    def subtract_shared_metadata(self, store: Store, state: TableState) -> list[str]:
        """Take off what lies with metadata of other tables, in a folder that `write.metadata.path` made common."""
        known = self.names.paths(pa.array(_metadata_files(state), pa.string())).to_pylist()
        paths = self.names.paths(pa.array(list(self.strange_files), pa.string())).to_pylist()
        logged_ms = min((entry.timestamp_ms for entry in state.metadata.metadata_log), default=0)
        problems: dict[str, str] = {}
        for (place, time), path in zip(self.strange_files.items(), paths, strict=True):
            folder = path.rpartition("/")[0]
            if path in known or folder in problems:
                continue
            # as for `_is_another`: where this table's do not go, new ones are of one that it is a copy of
            is_copied = time >= logged_ms and folder != known[0].rpartition("/")[0]
            if is_copied or not _is_of(store, place, state.metadata):
                problems[folder] = f"{folder} has metadata of another table too; its files were left alone"
                self._leave(folder)
        return list(problems.values())

    def _leave(self, folder: str) -> None:
        for prefix, table in self.left.items():
            self.left[prefix] = table.filter(pc.invert(pc.starts_with(table["key"], f"{folder}/")))

    def _is_another(self, root: str, state: TableState) -> bool:
        """Whether a table in that folder is not this one, going by its metadata files."""
        known = self.names.paths(pa.array(_metadata_files(state), pa.string())).to_pylist()
        if known[0].startswith(f"{root}/metadata/"):
            return False
        (own,) = self.names.paths(pa.array([state.metadata.location], pa.string())).to_pylist()
        if root != own and not any(file.startswith(f"{root}/metadata/") for file in known):
            return True
        # a registered copy's metadata goes elsewhere: if new ones still come here, the original lives on
        logged_ms = min((entry.timestamp_ms for entry in state.metadata.metadata_log), default=0)
        return any(file not in known and time >= logged_ms for file, time in self.metadata_files[root].items())

    def settle_doubts(self, mode: PrefixMismatchMode) -> None:
        """Decide about files that metadata names under another prefix, unless it names them under their own too."""
        conflicts: dict[str, str] = {}
        for told, prefix, keys in self.doubts:
            table = self.left[prefix]
            doubtful = pc.is_in(table["key"], value_set=keys)
            if mode == "DELETE" or not pc.any(doubtful).as_py():
                continue
            conflicts.setdefault(
                f"{told} in metadata, {prefix} in the listing", table["key"].filter(doubtful)[0].as_py()
            )
            if mode == "IGNORE":
                self.left[prefix] = table.filter(pc.invert(doubtful))
        if mode == "ERROR" and conflicts:
            shown = "; ".join(f"{pair} (such as {path})" for pair, path in list(conflicts.items())[:_TOLD])
            raise InvalidArgument(
                f"files are named by metadata under another scheme or authority than they are listed under: {shown}",
                hint="say which are the same by equal_schemes or equal_authorities; prefix_mismatch_mode IGNORE keeps "
                "such files, DELETE deletes them for good",
            )

    def _is_own(self, prefix: Prefix) -> bool:
        return (self.own.scheme or "file", self.own.authority) == (prefix.scheme or "file", prefix.authority)

    def files(self) -> pa.Table:
        """What is left. Under another prefix than the folder's only what there were doubts about is meant."""
        for prefix in [prefix for prefix in self.left if not self._is_own(prefix)]:
            meant = [keys for _, listed, keys in self.doubts if listed == prefix]
            known = pa.concat_arrays(meant) if meant else pa.array([], pa.string())
            self.left[prefix] = self.left[prefix].filter(pc.is_in(self.left[prefix]["key"], value_set=known))
        tables = [table.select(_FILES.names) for table in self.left.values() if table.num_rows]
        return pa.concat_tables(tables) if tables else _FILES.empty_table()


def _listed(store: Store, folder: str) -> Iterator[pa.Table]:
    files = iter(store.list(folder))
    with Progress("listing files") as progress:
        while rows := [(file.location, file.size, file.modified_ms) for file in islice(files, _LIST_ROWS)]:
            progress.step(len(rows))
            places, sizes, times = zip(*rows, strict=True)
            moments = pa.array(times, pa.int64()).cast(_MOMENT)
            yield pa.table([pa.array(places, pa.string()), pa.array(sizes, pa.int64()), moments], schema=_FILES)


def _keyed(files: pa.Table, names: Names) -> pa.Table:
    return files.append_column("key", names.paths(files["location"].combine_chunks()))


def _is_of(store: Store, place: str, metadata: TableMetadata) -> bool:
    """Whether a metadata file is known to be an older one of this table."""
    try:
        other = parse_metadata(store.read(place))
    except FrazilError:
        return False
    return other.table_uuid is not None and other.table_uuid == metadata.table_uuid


def _given(files: pa.Table) -> pa.Table:
    """A listing that somebody else made, as ours; sizes are not known."""
    for name in ("file_path", "last_modified"):
        if name not in files.column_names:
            raise InvalidArgument(
                f"the list of files has no column {name!r}", hint="it needs file_path and last_modified"
            )
    paths, times = files["file_path"], files["last_modified"]
    if not (pa.types.is_string(paths.type) or pa.types.is_large_string(paths.type)):
        raise InvalidArgument(f"file_path is of type {paths.type}", hint="it must be text")
    if not pa.types.is_timestamp(times.type):
        raise InvalidArgument(f"last_modified is of type {times.type}", hint="it must be a timestamp")
    if paths.null_count or times.null_count:
        raise InvalidArgument("the list of files has nulls", hint="every file needs its path and its time")
    moments = times.cast(pa.timestamp("ms", times.type.tz), safe=False).cast(pa.int64()).cast(_MOMENT)
    return pa.table([paths.cast(pa.string()), pa.nulls(len(files), pa.int64()), moments], schema=_FILES)


def _metadata_listed(keyed: pa.Table) -> Iterator[tuple[str, str, int]]:
    """The metadata files among listed ones: the folder of their table, their path, their time."""
    found = keyed.filter(pc.match_substring_regex(keyed["key"], _METADATA_FILE))
    keys = found["key"].combine_chunks()
    roots = pc.extract_regex(keys, _METADATA_FILE).field("root")
    times = found["modified"].cast(pa.int64())
    return zip(roots.to_pylist(), keys.to_pylist(), times.to_pylist(), strict=True)


# Deleting.


def _delete(store: Store, files: pa.Table, threads: int | None) -> list[str]:
    """Delete them; those that could not be.

    Versions of a folder's table go oldest first and none after one that stays: a stalled writer takes a version that
    follows one which is there for free, and would commit into the past (see `catalog/folder_table.py`).
    """
    is_version = pc.match_substring_regex(files["location"], r"/v[0-9]+(?:\.gz)?\.metadata\.json(?:\.gz)?$")
    failed = delete_files(store, files["location"].filter(pc.invert(is_version)), threads=threads)
    versions = sorted(files["location"].filter(is_version).to_pylist(), key=lambda place: version_of(place) or 0)
    for number, version in enumerate(versions):
        if delete_files(store, [version]):
            return [*failed, *versions[number:]]
    return failed
