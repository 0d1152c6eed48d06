"""Columns that are added, dropped, renamed or get another type, without rewriting those that stay."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from frazil.errors import InvalidArgument, InvalidEvolution, InvalidSchema
from frazil.lance.commit import new_transaction
from frazil.lance.data_files import VERSIONS
from frazil.lance.deletions import read_deletions
from frazil.lance.history import History
from frazil.lance.operations.append import next_field_id
from frazil.lance.operations.retry import Attempt, commit_attempt, listed, until_committed
from frazil.lance.plan import ROW_ADDRESS, FragmentTask, schema_bytes
from frazil.lance.proto.messages import DataFile, DataFragment, Field, Manifest, Merge, Project
from frazil.lance.read import FragmentReader
from frazil.lance.rebase import Change
from frazil.lance.rows import array_as
from frazil.lance.scan import LanceScan
from frazil.lance.schema import Node, arrow_schema, column_entries, fields_of, flatten, tree
from frazil.lance.version import LanceVersion
from frazil.lance.write import FileTarget, write_column_files
from frazil.model.scalar_sql import columns_in, compile_scalar

Computed = Callable[[FragmentReader, FragmentTask], Iterator[pa.RecordBatch]]


def add_columns(history: History, version: LanceVersion, columns: Any) -> LanceVersion:
    """Add columns: computed by SQL (`{"b": "a * 2"}`), from an Arrow table, or null (an Arrow schema).

    A table has its rows in the order of this one, or says by `_rowaddr` which rows they belong to.
    """

    def work(at: LanceVersion) -> Attempt:
        if isinstance(columns, pa.Schema):
            return _merged(at, fields_of(columns, next_field_id(at)), listed(at.manifest.fragments), [])
        if isinstance(columns, Mapping):
            schema, looked_at, compute = _by_sql(at, columns)
        elif isinstance(columns, pa.Table | pa.RecordBatch):
            schema, looked_at, compute = _by_table(history, at, columns)
        else:
            raise InvalidArgument(
                f"columns cannot be added from {type(columns).__name__}",
                hint="give SQL by name, an Arrow table, or an Arrow schema",
            )
        fields = fields_of(schema, next_field_id(at))
        fragments, written = _with_files(history, at, fields, looked_at, compute)
        return _merged(at, fields, fragments, written)

    made = until_committed(history, version, work)
    assert made is not None
    return made


def add_column_files(
    history: History, version: LanceVersion, fields: Sequence[Field], files: Mapping[int, DataFile]
) -> LanceVersion:
    """Add columns that were written elsewhere: a file for each fragment, all made from `version`."""
    fragments = listed(version.manifest.fragments)
    for fragment in fragments:
        if fragment.id in files:
            fragment.files.append(files[fragment.id])
    attempt = _merged(version, fields, fragments, [DataFragment(files=files.values())])
    made = commit_attempt(history, attempt)
    assert made is not None
    return made


def _merged(
    at: LanceVersion, fields: Sequence[Field], fragments: Sequence[DataFragment], written: list[DataFragment]
) -> Attempt:
    names = {node.name for node in at.nodes}
    for node in tree(fields):
        if node.name in names:
            raise InvalidEvolution(f"there is a column {node.name!r} already", hint="drop it first, or rename one")
        names.add(node.name)
    column_entries(tree(fields), VERSIONS[at.file_version])
    body = Merge(fragments=fragments, schema=[*at.manifest.fields, *fields])
    return Attempt(Change(new_transaction(at.version, merge=body), at), written)


def _with_files(
    history: History, at: LanceVersion, fields: Sequence[Field], looked_at: Sequence[str], compute: Computed
) -> tuple[list[DataFragment], list[DataFragment]]:
    """The table's fragments, each with a file more; and the new files alone."""
    target = FileTarget(at.folder, schema_bytes(Manifest(fields=fields)), at.file_version)
    plan = LanceScan(history.store, at, columns=tuple(looked_at)).plan()
    reader = FragmentReader(history.store, plan)
    fragments = listed(at.manifest.fragments)
    written = []
    for fragment, task in zip(fragments, plan.tasks(), strict=True):
        file, _ = write_column_files(history.store, target, compute(reader, task))
        if file is not None:
            fragment.files.append(file)
            written.append(DataFragment(files=[file]))
    return fragments, written


def _by_sql(at: LanceVersion, columns: Mapping[str, str]) -> tuple[pa.Schema, list[str], Computed]:
    computed = {name: compile_scalar(text, at.arrow_schema) for name, text in columns.items()}
    empty = at.arrow_schema.empty_table().to_batches() or [_empty(at.arrow_schema)]
    schema = pa.schema({name: compute(empty[0]).type for name, compute in computed.items()})
    names = {name for text in columns.values() for name in columns_in(text, at.arrow_schema)}
    looked_at = [name for name in at.arrow_schema.names if name in names]
    part = pa.schema([at.arrow_schema.field(name) for name in looked_at])
    functions = [compile_scalar(text, part) for text in columns.values()]

    def compute_(reader: FragmentReader, task: FragmentTask) -> Iterator[pa.RecordBatch]:
        for batch in reader.physical(task):
            yield pa.RecordBatch.from_arrays([function(batch) for function in functions], schema=schema)

    return schema, looked_at, compute_


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def _by_table(
    history: History, at: LanceVersion, given: pa.Table | pa.RecordBatch
) -> tuple[pa.Schema, list[str], Computed]:
    rows = pa.Table.from_batches([given]) if isinstance(given, pa.RecordBatch) else given
    by_address = ROW_ADDRESS in rows.schema.names
    values = rows.drop_columns([ROW_ADDRESS]) if by_address else rows
    live = sum(task.rows for task in LanceScan(history.store, at, columns=()).plan().tasks())
    if not values.num_columns:
        raise InvalidArgument("the table has no columns to add", hint="give at least one")
    if not by_address and rows.num_rows != live:
        raise InvalidArgument(
            f"{rows.num_rows} rows are given for a table of {live}",
            hint="give one for each row, or say by a column _rowaddr which rows they belong to",
        )
    values = values.combine_chunks()
    places = np.asarray(rows.column(ROW_ADDRESS), np.uint64) if by_address else None
    if places is not None and len(np.unique(places)) < len(places):
        raise InvalidArgument("a row is given twice", hint="each _rowaddr may stand once")

    def compute(reader: FragmentReader, task: FragmentTask) -> Iterator[pa.RecordBatch]:
        index = np.full(task.physical_rows, -1, np.int64)
        if places is None:
            left = np.delete(np.arange(task.physical_rows), read_deletions(reader.store, task.deletions))
            index[left] = np.arange(task.first_position, task.first_position + len(left))
        else:
            mine = np.flatnonzero(places >> np.uint64(32) == task.fragment_id)
            index[(places[mine] & np.uint64(0xFFFFFFFF)).astype(np.int64)] = mine
        taken = values.take(pa.array(index, mask=index < 0))
        yield from taken.to_batches(max_chunksize=reader.plan.batch_rows)

    nullable = [field.with_nullable(True) for field in values.schema]
    return pa.schema(nullable), [], compute


# Columns that go, or are called otherwise.


def drop_columns(history: History, version: LanceVersion, names: Iterable[str]) -> LanceVersion:
    """Drop columns, or fields of structs (`a.b`). Their data stays in the files until these are compacted."""
    wanted = [names] if isinstance(names, str) else list(names)

    def schema(at: LanceVersion) -> list[Field]:
        gone = {at.schema.find(name).id for name in wanted}
        left = flatten(node for top in at.nodes if (node := _without(top, gone)) is not None)
        if not left:
            raise InvalidEvolution("all columns would go", hint="a table needs at least one")
        return left

    return _projected(history, version, schema)


def _without(node: Node, gone: set[int]) -> Node | None:
    if node.id in gone:
        return None
    children = tuple(left for child in node.children if (left := _without(child, gone)) is not None)
    if node.children and len(children) < len(node.children) and node.field.logical_type != "struct":
        raise InvalidEvolution(f"what is in {node.name!r} cannot be dropped", hint="drop the column itself")
    if node.children and not children:
        raise InvalidEvolution(f"{node.name!r} would have no fields", hint="drop the struct itself")
    return Node(node.field, children)


def alter_column(
    history: History,
    version: LanceVersion,
    name: str,
    *,
    rename: str | None = None,
    nullable: bool | None = None,
) -> LanceVersion:
    """Give a column another name, or allow nulls in it."""

    def schema(at: LanceVersion) -> list[Field]:
        found = at.schema.find(name)
        fields = [_copy(field) for field in at.manifest.fields]
        field = next(one for one in fields if one.id == found.id)
        if rename is not None:
            siblings = {one.name for one in fields if one.parent_id == field.parent_id and one.id != field.id}
            if rename in siblings:
                raise InvalidEvolution(f"there is a column {rename!r} already", hint="choose another name")
            if not rename or (field.parent_id == -1 and "." in rename):
                raise InvalidSchema(f"{rename!r} cannot name a column", hint="Lance allows no dots")
            field.name = rename
        if nullable is not None:
            if field.nullable and not nullable:
                raise InvalidEvolution(f"{name!r} may have nulls already", hint="add a required column instead")
            field.nullable = nullable
        return fields

    return _projected(history, version, schema)


def _projected(history: History, version: LanceVersion, schema: Callable[[LanceVersion], list[Field]]) -> LanceVersion:
    def work(at: LanceVersion) -> Attempt:
        body = Project(schema=schema(at), preserves_nullability=True)
        return Attempt(Change(new_transaction(at.version, project=body), at))

    made = until_committed(history, version, work)
    assert made is not None
    return made


def change_type(history: History, version: LanceVersion, name: str, kind: pa.DataType) -> LanceVersion:
    """Give a top-level column another type; its values are cast, and refused where they do not fit."""

    def work(at: LanceVersion) -> Attempt:
        node = next((one for one in at.nodes if one.name == name), None)
        if node is None:
            at.schema.find(name)
            raise InvalidEvolution(f"{name!r} is in a struct, whose type stays", hint="change top-level columns only")
        wanted = node.arrow.with_type(kind)
        fields = fields_of(pa.schema([wanted]), next_field_id(at))

        def compute(reader: FragmentReader, task: FragmentTask) -> Iterator[pa.RecordBatch]:
            schema = arrow_schema(tree(fields))
            for batch in reader.physical(task):
                yield pa.RecordBatch.from_arrays([array_as(batch.column(0), schema.field(0))], schema=schema)

        fragments, written = _with_files(history, at, fields, [name], compute)
        schema = flatten(new for old in at.nodes for new in (tree(fields) if old.id == node.id else (old,)))
        body = Merge(fragments=fragments, schema=schema)
        return Attempt(Change(new_transaction(at.version, merge=body), at), written)

    made = until_committed(history, version, work)
    assert made is not None
    return made


def _copy(field: Field) -> Field:
    made = Field()
    made.CopyFrom(field)
    return made
