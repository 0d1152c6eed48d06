"""Columns that are added, dropped, renamed or get another type, without rewriting those that stay."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from frazil.errors import InvalidArgument, InvalidEvolution
from frazil.lance.commit import new_transaction
from frazil.lance.data_files import VERSIONS
from frazil.lance.field_ids import next_field_id
from frazil.lance.history import History
from frazil.lance.new_columns import check_name, new_fields
from frazil.lance.operations.live_rows import computed
from frazil.lance.operations.retry import Attempt, listed, until_committed
from frazil.lance.plan import FragmentTask, schema_bytes
from frazil.lance.proto.messages import DataFragment, Field, Manifest, Merge, Project
from frazil.lance.read import FragmentReader
from frazil.lance.rebase import Change
from frazil.lance.rows import array_as
from frazil.lance.scan import LanceScan
from frazil.lance.schema import Node, arrow_schema, column_entries, flatten, tree
from frazil.lance.version import LanceVersion
from frazil.lance.write import FileTarget, remove_files, write_column_files
from frazil.model.scalar_sql import columns_in, compile_scalar

Computed = Callable[[FragmentReader, FragmentTask], Iterator[pa.RecordBatch]]


def add_columns(history: History, version: LanceVersion, columns: Mapping[str, str] | pa.Schema) -> LanceVersion:
    """Add columns that are computed by SQL (`{"b": "a * 2"}`), or null (an Arrow schema)."""
    names = columns.names if isinstance(columns, pa.Schema) else list(columns)
    if not names:
        raise InvalidArgument("there are no columns to add", hint="give at least one")
    texts = [] if isinstance(columns, pa.Schema) else list(columns.values())
    if not all(isinstance(text, str) for text in (*names, *texts)):
        raise InvalidArgument(f"{columns!r} is no SQL by name", hint='give text, such as {"b": "a * 2"}')

    def work(at: LanceVersion) -> Attempt:
        if isinstance(columns, pa.Schema):
            return merged(at, new_fields(columns, next_field_id(at)), listed(at.manifest.fragments), [])
        schema, looked_at, compute = _by_sql(at, columns)
        fields = new_fields(schema, next_field_id(at))
        check_free(at, fields)
        fragments, written = with_files(history, at, fields, looked_at, compute)
        return merged(at, fields, fragments, written)

    made = until_committed(history, version, work)
    assert made is not None
    return made


def merged(
    at: LanceVersion, fields: Sequence[Field], fragments: Sequence[DataFragment], written: list[DataFragment]
) -> Attempt:
    """The change that adds fields, for which some files were written."""
    check_free(at, fields)
    body = Merge(fragments=fragments, schema=[*at.manifest.fields, *fields])
    return Attempt(Change(new_transaction(at.version, merge=body), at), written)


def check_free(at: LanceVersion, fields: Sequence[Field]) -> None:
    """Refuse new fields that the table has no place for: better before their files are written."""
    names = {node.name for node in at.nodes}
    for node in tree(fields):
        if node.name in names:
            raise InvalidEvolution(f"there is a column {node.name!r} already", hint="drop it first, or rename one")
        names.add(node.name)
    column_entries(tree(fields), VERSIONS[at.file_version])


def with_files(
    history: History, at: LanceVersion, fields: Sequence[Field], looked_at: Sequence[str], compute: Computed
) -> tuple[list[DataFragment], list[DataFragment]]:
    """The table's fragments, each with a file more; and the new files alone."""
    target = FileTarget(at.folder, schema_bytes(Manifest(fields=fields)), at.file_version)
    plan = LanceScan(history.store, at, columns=tuple(looked_at)).plan()
    reader = FragmentReader(history.store, plan)
    fragments = listed(at.manifest.fragments)
    written: list[DataFragment] = []
    try:
        for fragment, task in zip(fragments, plan.tasks(), strict=True):
            file, _ = write_column_files(history.store, target, compute(reader, task))
            if file is not None:
                fragment.files.append(file)
                written.append(DataFragment(files=[file]))
    except BaseException:
        remove_files(history.store, at.folder, written)
        raise
    return fragments, written


def _by_sql(at: LanceVersion, columns: Mapping[str, str]) -> tuple[pa.Schema, list[str], Computed]:
    compiled = {name: compile_scalar(text, at.arrow_schema) for name, text in columns.items()}
    empty = at.arrow_schema.empty_table().to_batches() or [_empty(at.arrow_schema)]
    schema = pa.schema({name: compute(empty[0]).type for name, compute in compiled.items()})
    names = {name for text in columns.values() for name in columns_in(text, at.arrow_schema)}
    looked_at = [name for name in at.arrow_schema.names if name in names]
    part = pa.schema([at.arrow_schema.field(name) for name in looked_at])
    functions = [compile_scalar(text, part) for text in columns.values()]

    def compute_(reader: FragmentReader, task: FragmentTask) -> Iterator[pa.RecordBatch]:
        return computed(reader, task, schema, lambda batch: [function(batch) for function in functions])

    return schema, looked_at, compute_


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


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
            if field.parent_id == -1:
                check_name(rename)
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

    if not isinstance(kind, pa.DataType):
        raise InvalidArgument(f"{kind!r} is no type of Arrow", hint="give one, such as pa.int64()")

    def work(at: LanceVersion) -> Attempt:
        node = next((one for one in at.nodes if one.name == name), None)
        if node is None:
            at.schema.find(name)
            raise InvalidEvolution(f"{name!r} is in a struct, whose type stays", hint="change top-level columns only")
        wanted = node.arrow.with_type(kind)
        fields = new_fields(pa.schema([wanted]), next_field_id(at))

        def compute(reader: FragmentReader, task: FragmentTask) -> Iterator[pa.RecordBatch]:
            schema = arrow_schema(tree(fields))
            return computed(reader, task, schema, lambda batch: [array_as(batch.column(0), schema.field(0))])

        fragments, written = with_files(history, at, fields, [name], compute)
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
