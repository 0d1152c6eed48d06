"""A new table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from frazil.errors import InvalidSchema, Unsupported
from frazil.lance.apply import Builder, enable_stable_row_ids
from frazil.lance.commit import create, new_transaction
from frazil.lance.data_files import VERSIONS
from frazil.lance.history import History
from frazil.lance.new_columns import new_fields
from frazil.lance.plan import schema_bytes
from frazil.lance.proto.messages import DataFragment, IndexSection, Manifest, Overwrite
from frazil.lance.rows import rows_as
from frazil.lance.schema import column_entries, tree
from frazil.lance.version import LanceVersion
from frazil.lance.write import FileTarget, removing, write_fragments
from frazil.model.property_text import property_texts

DEFAULT_FILE_VERSION = "2.2"


def create_table(
    history: History,
    schema: pa.Schema,
    rows: Any = None,
    *,
    file_version: str = DEFAULT_FILE_VERSION,
    stable_row_ids: bool = False,
    config: Mapping[str, str] | None = None,
) -> LanceVersion:
    """Make a table with an Arrow schema, and maybe with its first rows."""
    manifest = first_manifest(schema, file_version=file_version, stable_row_ids=stable_row_ids, config=config)
    target = FileTarget(history.folder, schema_bytes(manifest), file_version)
    fragments = [] if rows is None else write_fragments(history.store, target, rows_as(rows, target.arrow_schema))
    return create_with(history, manifest, fragments)


def first_manifest(
    schema: pa.Schema,
    *,
    file_version: str = DEFAULT_FILE_VERSION,
    stable_row_ids: bool = False,
    config: Mapping[str, str] | None = None,
) -> Manifest:
    """What the first version of a table says, before there are rows."""
    if file_version not in VERSIONS:
        raise Unsupported(
            f"data files of version {file_version!r} cannot be written", hint=f"use one of {', '.join(VERSIONS)}"
        )
    if len(set(schema.names)) != len(schema.names):
        raise InvalidSchema("two columns have the same name", hint="names must be unique")
    manifest = Manifest(fields=new_fields(schema))
    for key, value in (schema.metadata or {}).items():
        manifest.schema_metadata[key.decode()] = value
    column_entries(tree(manifest.fields), VERSIONS[file_version])
    manifest.data_format.file_format, manifest.data_format.version = "lance", file_version
    manifest.config.update(property_texts(config))
    if stable_row_ids:
        enable_stable_row_ids(manifest)
    return manifest


def create_with(history: History, manifest: Manifest, fragments: Sequence[DataFragment]) -> LanceVersion:
    """Make a table of a first manifest, with fragments that were written for it, maybe by workers."""
    with removing(history.store, history.folder, fragments):
        overwrite = Overwrite(fragments=fragments, schema=manifest.fields, config_upsert_values=manifest.config)
        for key, value in manifest.schema_metadata.items():
            overwrite.schema_metadata[key] = value
        transaction = new_transaction(0, overwrite=overwrite)
        Builder(manifest, IndexSection(), 1).run(transaction)
        return create(history, manifest, transaction)
