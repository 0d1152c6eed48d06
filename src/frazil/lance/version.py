"""One version of a table: its manifest, and where the files that it names are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from frazil.errors import MalformedMetadata, Unsupported
from frazil.io import location as locations
from frazil.lance import layout
from frazil.lance.data_files import VERSIONS, FileRef, check_columns, checked_version
from frazil.lance.deletions import BITMAP, DeletionRef
from frazil.lance.manifest_file import ManifestFile
from frazil.lance.proto.messages import DataFile, DataFragment, IndexMetadata, Manifest
from frazil.lance.schema import Node, arrow_schema, model_schema, tree
from frazil.model.schema import Schema

OPERATIONS = {
    "append": "append",
    "delete": "delete",
    "overwrite": "overwrite",
    "create_index": "index",
    "rewrite": "replace",
    "merge": "merge",
    "restore": "restore",
    "reserve_fragments": "reserve",
    "update": "update",
    "project": "project",
    "update_config": "config",
    "data_replacement": "replace data",
    "clone": "clone",
    "update_bases": "bases",
}


@dataclass(frozen=True)
class LanceVersion:
    """A version as its manifest file tells it; nothing in it is to be changed."""

    root: str
    """The table's folder, also for a version of a branch."""
    location: str
    """The manifest's file."""
    size: int
    file: ManifestFile
    branch: str | None = None
    """The branch that the version was found on; None for main."""

    @property
    def manifest(self) -> Manifest:
        return self.file.manifest

    @property
    def version(self) -> int:
        return int(self.manifest.version)

    @property
    def folder(self) -> str:
        """The folder of the version's branch: the table's own on main."""
        return layout.branch_root(self.root, self.branch)

    @property
    def naming(self) -> layout.Naming:
        return layout.naming_of(locations.name(self.location))

    @property
    def timestamp_ms(self) -> int:
        moment = self.manifest.timestamp
        return int(moment.seconds * 1000 + moment.nanos // 1_000_000)

    @property
    def operation(self) -> str | None:
        """What the version did to the one before it, in a word; None if it does not say."""
        if self.file.transaction is None:
            return None
        kind = self.file.transaction.WhichOneof("operation")
        return OPERATIONS.get(kind, kind) if kind else None

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        return tree(self.manifest.fields)

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        return arrow_schema(self.nodes, self.manifest.schema_metadata)

    @cached_property
    def schema(self) -> Schema:
        return model_schema(self.nodes)

    @property
    def fragments(self) -> list[DataFragment]:
        return list(self.manifest.fragments)

    @property
    def indices(self) -> list[IndexMetadata]:
        return list(self.file.indices.indices)

    @cached_property
    def file_version(self) -> str:
        """The version of the table's data files; Unsupported if we cannot write such."""
        told = self.manifest.data_format.version if self.manifest.HasField("data_format") else ""
        if not told:
            files = (file for fragment in self.manifest.fragments for file in fragment.files)
            first = next(files, None)
            if first is None:
                return "2.2"
            version = checked_version(first.file_major_version, first.file_minor_version, first.path)
            return f"{version[0]}.{version[1]}"
        if told not in VERSIONS:
            raise Unsupported(
                f"the Lance table has data files of version {told!r}, which is not supported",
                hint="rewrite the table with pylance, as data_storage_version 2.0 to 2.2",
            )
        return told

    @cached_property
    def _bases(self) -> dict[int, tuple[str, bool]]:
        return {base.id: (self._absolute(base.path), base.is_dataset_root) for base in self.manifest.base_paths}

    def _absolute(self, path: str) -> str:
        """pylance writes the path of a branch's table as it was given, which may be relative to where it ran."""
        if path.startswith(("/", "file:")) or "://" in path:
            return path
        if self.branch is not None and locations.name(path if "/" in path else f"/{path}") == locations.name(self.root):
            return self.root
        return str(Path(path).absolute())

    def base(self, base_id: int | None) -> tuple[str, bool]:
        """The folder that files are in, and whether it is laid out as a table."""
        if base_id is None:
            return self.folder, True
        if base_id not in self._bases:
            raise MalformedMetadata(
                f"the manifest of version {self.version} has no base path {base_id}", hint="the manifest is damaged"
            )
        return self._bases[base_id]

    def data_location(self, file: DataFile) -> str:
        """Where a data file is."""
        folder, is_table = self.base(file.base_id if file.HasField("base_id") else None)
        return locations.join(folder, layout.DATA, file.path) if is_table else locations.join(folder, file.path)

    def deletions(self, fragment: DataFragment) -> DeletionRef | None:
        """A fragment's deletion file, if it has one."""
        if not fragment.HasField("deletion_file"):
            return None
        file = fragment.deletion_file
        if file.file_type > BITMAP:
            raise Unsupported(f"deletion files of kind {file.file_type} are not known", hint="use a newer frazil")
        folder, _ = self.base(file.base_id if file.HasField("base_id") else None)
        name = layout.deletion_name(fragment.id, file.read_version, file.id, file.file_type == BITMAP)
        place = locations.join(folder, layout.DELETIONS, name)
        return DeletionRef(place, int(file.num_deleted_rows), file.file_type == BITMAP)

    def file_refs(self, fragment: DataFragment) -> tuple[FileRef, ...]:
        """A fragment's data files, checked as far as the manifest goes."""
        return tuple(self.file_ref(file) for file in fragment.files)

    def file_ref(self, file: DataFile) -> FileRef:
        """One data file."""
        version = checked_version(file.file_major_version, file.file_minor_version, file.path)
        if self.manifest.HasField("data_format") and VERSIONS.get(self.file_version) != version:
            raise MalformedMetadata(
                f"{file.path} is of version {version[0]}.{version[1]} in a table of {self.file_version} files",
                hint="the manifest is damaged; versions are mixed only under a feature flag",
            )
        ref = FileRef(
            self.data_location(file), tuple(file.fields), tuple(file.column_indices), version, int(file.file_size_bytes)
        )
        check_columns(ref)
        return ref

    def __repr__(self) -> str:
        branch = f" of branch {self.branch}" if self.branch else ""
        return f"LanceVersion({self.version}{branch}, {self.operation or 'unknown'})"
