"""Which files snapshots reach, and which only the expired ones among them did.

The difference is always taken in full: every manifest of every snapshot that stays is asked before a file goes.
Cleverer ways, which follow history from snapshot to snapshot, have deleted live files wherever refs, rollbacks or
snapshots expired from the middle made history no straight line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import FrazilError
from frazil.iceberg import manifest_schema as ids
from frazil.iceberg.data_file import Content
from frazil.iceberg.entries import Entries
from frazil.iceberg.manifest import REQUIRED
from frazil.iceberg.manifest_list import DELETES, ManifestFile, read_manifest_list
from frazil.iceberg.manifest_reader import ManifestCache, ManifestReader
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.partition_types import partition_type
from frazil.iceberg.snapshot import Snapshot
from frazil.io.store import Store
from frazil.model.partition import PartitionSpec
from frazil.model.types import StructType
from frazil.progress import Progress

_COLUMNS = frozenset(
    {*REQUIRED, ids.SNAPSHOT_ID, ids.SEQUENCE_NUMBER, ids.FILE_SEQUENCE_NUMBER, ids.FIRST_ROW_ID, ids.CONTENT}
)
_FILES = pa.schema({"key": pa.string(), "path": pa.string(), "content": pa.int32()})
_MERGE_ROWS = 1_000_000
_LISTS_AT_A_TIME = 16
_SAME = (
    (r"^file://localhost/", "/"),
    (r"/(?:\.?/)+", "/"),
    (r"^file:/", "/"),
    (r"^s3[an]:/", "s3:/"),
    (r"(?:/\.?)+$", ""),
)
"""Spellings that name one file, and the one to compare."""


@dataclass(frozen=True)
class Files:
    """Files of a table by kind; all locations as metadata spells them."""

    content: pa.Table
    """Data and delete files: columns `path` and `content`."""
    manifests: tuple[str, ...] = ()
    manifest_lists: tuple[str, ...] = ()
    statistics: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    """Metadata of expired snapshots that could not be read: what only it tells of is not listed."""

    @classmethod
    def none(cls, problems: tuple[str, ...] = ()) -> Files:
        """No files at all."""
        return cls(_FILES.empty_table(), problems=problems)

    def with_statistics(self, paths: Iterable[str]) -> Files:
        """The same files, and these statistics files."""
        return replace(self, statistics=tuple(paths))

    def paths(self, content: Content) -> pa.ChunkedArray:
        """The data or delete files of a kind."""
        return self.content["path"].filter(pc.equal(self.content["content"], int(content)))


class Reachability:
    """Reads the metadata of one table's snapshots. `metadata` must know every spec that any of them uses."""

    def __init__(self, store: Store, metadata: TableMetadata) -> None:
        self._store = store
        self._metadata = metadata
        self._specs = {spec.spec_id: spec for spec in metadata.partition_specs}
        # each manifest is read once: a cache would only hold memory
        self._reader = ManifestReader(store, self._spec, ManifestCache(0))

    def _spec(self, spec_id: int) -> tuple[PartitionSpec, StructType]:
        spec = self._metadata.spec(spec_id)
        return spec, partition_type(self._metadata, spec)

    def manifests(self, snapshots: Iterable[Snapshot]) -> dict[str, ManifestFile]:
        """The manifests of all those snapshots, by `location_key`."""
        found: dict[str, ManifestFile] = {}
        for listed in self._lists(list(snapshots)):
            if isinstance(listed, FrazilError):
                raise listed
            for key, manifest in zip(location_keys([item.manifest_path for item in listed]), listed, strict=True):
                found.setdefault(key, manifest)
        return found

    def _lists(self, snapshots: Sequence[Snapshot]) -> Iterator[list[ManifestFile] | FrazilError]:
        """The manifest list of each snapshot, or why it cannot be read; some are read at a time."""

        def read(snapshot: Snapshot) -> list[ManifestFile] | FrazilError:
            try:
                return read_manifest_list(self._store, snapshot, self._specs, remember=False)
            except FrazilError as error:
                return error

        with ThreadPoolExecutor(_LISTS_AT_A_TIME, thread_name_prefix="frazil-reach") as pool:
            for start in range(0, len(snapshots), _LISTS_AT_A_TIME):
                yield from pool.map(read, snapshots[start : start + _LISTS_AT_A_TIME])

    def live_files(self, manifests: Sequence[ManifestFile]) -> Iterator[pa.Table]:
        """Key, path and content of the live files of manifests, some group at a time."""
        for live in self._live(manifests):
            paths = live.column(ids.FILE_PATH)
            yield pa.table({"key": keys_of(paths), "path": paths, "content": live.column(ids.CONTENT)})

    def live_paths(self, manifests: Sequence[ManifestFile]) -> Iterator[pa.Array]:
        """The locations of the live files of manifests, some group at a time."""
        for live in self._live(manifests):
            yield live.column(ids.FILE_PATH)

    def equality_ids(self, manifests: Sequence[ManifestFile]) -> set[int]:
        """The columns that live equality deletes of manifests compare."""
        of_deletes = [one for one in manifests if one.content == DELETES]
        found: set[int] = set()
        for live in self._live(of_deletes, _COLUMNS | {ids.EQUALITY_IDS}):
            found.update(pc.unique(live.column(ids.EQUALITY_IDS).flatten()).to_pylist())
        return found

    def _live(self, manifests: Sequence[ManifestFile], columns: frozenset[int] = _COLUMNS) -> Iterator[Entries]:
        expected = sum((one.live_files or 0) + (one.deleted_files_count or 0) for one in manifests)
        with Progress("reading manifests", expected) as progress:
            for entries in self._reader.read(manifests, columns):
                progress.step(len(entries))
                yield entries.filter(entries.live)

    def only_expired(self, expired: Sequence[Snapshot], retained: Sequence[Snapshot], *, content: bool = True) -> Files:
        """What the expired snapshots reach and the retained ones do not; without `content`, metadata files only.

        Raises if anything of a retained snapshot cannot be read: then nothing is known to be unreachable.
        """
        kept = self.manifests(retained)
        kept_lists = set(location_keys([one.manifest_list for one in retained if one.manifest_list is not None]))
        problems: list[str] = []
        gone: dict[str, ManifestFile] = {}
        lists: dict[str, str] = {}
        for snapshot, listed in zip(expired, self._lists(expired), strict=True):
            if isinstance(listed, FrazilError):
                # the list stays too: it alone knows what it told of
                problems.append(str(listed))
                continue
            if snapshot.manifest_list is not None and location_key(snapshot.manifest_list) not in kept_lists:
                lists.setdefault(location_key(snapshot.manifest_list), snapshot.manifest_list)
            for key, manifest in zip(location_keys([item.manifest_path for item in listed]), listed, strict=True):
                if key not in kept:
                    gone.setdefault(key, manifest)
        manifests, files = list(gone.values()), _FILES.empty_table()
        if content:
            manifests, files = self._files_of_expired(manifests, problems)
            files = self._subtract(files, list(kept.values()))
        paths = tuple(manifest.manifest_path for manifest in manifests)
        return Files(files, paths, tuple(lists.values()), problems=tuple(problems))

    def _files_of_expired(
        self, manifests: list[ManifestFile], problems: list[str]
    ) -> tuple[list[ManifestFile], pa.Table]:
        """The manifests that can be read, and the live files in them."""
        try:
            return manifests, _distinct(self.live_files(manifests))
        except FrazilError:
            # one bad manifest must not keep the files of all others: read them one by one
            readable: list[ManifestFile] = []
            tables: list[pa.Table] = []
            for manifest in manifests:
                try:
                    tables.extend(self.live_files([manifest]))
                    readable.append(manifest)
                except FrazilError as error:
                    problems.append(str(error))
            return readable, _distinct(tables)

    def _subtract(self, files: pa.Table, manifests: list[ManifestFile]) -> pa.Table:
        if not files.num_rows:
            return files
        for live in self.live_files(manifests):
            files = files.filter(pc.invert(pc.is_in(files["key"], value_set=live["key"].combine_chunks())))
            if not files.num_rows:
                break
        return files


def _distinct(groups: Iterable[pa.Table]) -> pa.Table:
    """One row per key: vectors of one Puffin file share its path, and a file may stand in many manifests."""
    result, pending, waiting = _FILES.empty_table(), [], 0
    for group in groups:
        pending.append(group)
        waiting += group.num_rows
        if waiting > max(result.num_rows, _MERGE_ROWS):
            result, pending, waiting = _first_of_each([result, *pending]), [], 0
    return _first_of_each([result, *pending])


def _first_of_each(tables: list[pa.Table]) -> pa.Table:
    grouped = pa.concat_tables(tables).group_by("key", use_threads=False)
    first = grouped.aggregate([("path", "first"), ("content", "first")])
    return first.select(["key", "path_first", "content_first"]).rename_columns(_FILES.names)


def location_key(location: str) -> str:
    """What two spellings of one location have in common; see `location_keys`."""
    return location_keys([location])[0]


def location_keys(locations: Sequence[str]) -> list[str]:
    """For each location a text that all its spellings share: schemes of one store, doubled slashes.

    It errs on the side of equality: two files taken for one are kept as long as one of them is reachable.

    >>> location_keys(["file:/w//t/a", "/w/t/a", "s3a://b/k", "S3://b/k"])
    ['/w/t/a', '/w/t/a', 's3:/b/k', 's3:/b/k']
    """
    return keys_of(pa.array(locations, pa.string())).to_pylist()  # type: ignore[no-any-return]


def _is_plain(paths: pa.Array) -> bool:
    """Whether all are absolute paths with nothing to change in them, as most are: that is told much faster."""
    odd = [
        pc.match_substring(paths, "//"),
        pc.match_substring(paths, "/./"),
        pc.ends_with(paths, "/"),
        pc.ends_with(paths, "/."),
        pc.invert(pc.starts_with(paths, "/")),
    ]
    return not any(pc.any(mask).as_py() for mask in odd)


def keys_of(paths: pa.Array) -> pa.Array:
    """`location_keys` of a column."""
    if _is_plain(paths):
        return paths
    if pc.any(pc.match_substring_regex(paths, r"^[^:/]*[A-Z][^:/]*:/")).as_py():
        schemes = pc.utf8_lower(pc.replace_substring_regex(paths, r"(?s)^([^:/]*:)?.*", r"\1"))
        paths = pc.binary_join_element_wise(schemes, pc.replace_substring_regex(paths, r"^[^:/]*:", ""), "")
    keys = paths
    for pattern, written in _SAME:
        keys = pc.replace_substring_regex(keys, pattern, written)
    return keys
