"""Which columns of a data file hold which fields of the table, and arrays of the file in the form of the table.

Only field ids and column numbers count: what a column is called in the file may be an earlier name of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from frazil.errors import MalformedData, MalformedMetadata, Unsupported
from frazil.lance.data_files import FileRef
from frazil.lance.schema import BLOB_V2, EXTENSION_NAME, Node, column_entries, fields_of, tree
from frazil.model.arrow import rebuild_list, rebuild_map, rebuild_struct

TOMBSTONE = -2


@dataclass(frozen=True)
class FileColumns:
    """A file's columns as fields of the table: `local` has for a table's field id the file's own field."""

    local: dict[int, Node]
    path: dict[int, tuple[str, ...]]

    def holds(self, node: Node) -> bool:
        return node.id in self.local

    def names_all(self, nodes: Iterable[Node]) -> bool:
        """Whether the file has some fields and all that is in them, under the same names."""
        inner = (node for top in nodes for node in top.walk())
        return all(node.id in self.local and self.local[node.id].name == node.name for node in inner)

    def requests(self, nodes: Iterable[Node]) -> list[str]:
        """The names to ask the file for, so that all that it has of some fields comes back."""
        found: dict[str, None] = {}
        for node in nodes:
            for path in self._paths(node):
                plain = all("." not in part and "`" not in part for part in path)
                found[".".join(path) if plain else path[0]] = None
        return list(found)

    def _paths(self, node: Node) -> list[tuple[str, ...]]:
        if not self.holds(node):
            return []
        if node.field.logical_type == "struct" and not node.is_packed:
            return [path for child in node.children for path in self._paths(child)]
        return [self.path[node.id]]

    def array(self, batch: pa.RecordBatch, node: Node) -> pa.Array:
        """What the batch has of a field, in the table's type."""
        first, *rest = self.path[node.id]
        array = batch.column(batch.schema.get_field_index(first))
        for name in rest:
            array = _struct_field(array, name)
        return self._adapt(array, node)

    def _adapt(self, array: pa.Array, node: Node) -> pa.Array:
        wanted = node.arrow.type
        if array.type == wanted:
            return array
        if isinstance(wanted, pa.BaseExtensionType):
            return pa.ExtensionArray.from_storage(wanted, _cast(array, wanted.storage_type, node))
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        if pa.types.is_nested(wanted) and array.type.id != wanted.id:
            raise _unlike(array.type, wanted, node)
        if pa.types.is_struct(wanted):
            children = [self._child(array, child) for child in node.children]
            return rebuild_struct(array, children, wanted)
        if pa.types.is_map(wanted):
            keys, items = (
                self._adapt(part, child)
                for part, child in zip((array.keys, array.items), node.children[0].children, strict=True)
            )
            return rebuild_map(array, keys, items, wanted)
        if node.children:
            values = self._adapt(array.values, node.children[0])
            if pa.types.is_fixed_size_list(wanted):
                buffers = array.buffers()[:1]
                return pa.Array.from_buffers(wanted, len(array), buffers, offset=array.offset, children=[values])
            return rebuild_list(array, values, wanted)
        return _cast(array, wanted, node)

    def _child(self, array: pa.StructArray, child: Node) -> pa.Array:
        if not self.holds(child):
            return pa.nulls(len(array), child.arrow.type)
        return self._adapt(_struct_field(array, self.local[child.id].name, flat=False), child)


def _cast(array: pa.Array, wanted: pa.DataType, node: Node) -> pa.Array:
    try:
        return array.cast(wanted)
    except pa.ArrowException as error:
        raise _unlike(array.type, wanted, node) from error


def _unlike(found: pa.DataType, wanted: pa.DataType, node: Node) -> MalformedData:
    return MalformedData(
        f"column {node.name!r} is {wanted}, and a data file has it as {found}",
        hint="the table is damaged; open an earlier version of it",
    )


def _struct_field(array: pa.StructArray, name: str, *, flat: bool = True) -> pa.Array:
    """A field of a struct; `flat` has nulls where the struct is null."""
    index = array.type.get_field_index(name)
    return array.flatten()[index] if flat and array.null_count else array.field(index)


def file_columns(nodes: Iterable[Node], ref: FileRef, file_schema: pa.Schema) -> FileColumns:
    """Match the fields of a table with the columns of a file, by the manifest's word for the file."""
    tops = tree(fields_of(file_schema))
    parents: dict[int, Node] = {}
    by_id: dict[int, Node] = {}
    for top in tops:
        for node in top.walk():
            by_id[node.id] = node
            parents |= {child.id: node for child in node.children}
    columns = [by_id[number] for number in column_entries(tops, ref.version)]
    named: dict[int, Node] = {}
    for field, index in zip(ref.fields, ref.column_indices, strict=True):
        if field == TOMBSTONE or index < 0:
            continue
        if index >= len(columns):
            raise MalformedMetadata(
                f"{ref.location} has {len(columns)} columns, and the manifest puts field {field} in number {index}",
                hint="the manifest does not belong to the file",
            )
        named[field] = columns[index]
    local: dict[int, Node] = {}
    for top in nodes:
        _match(top, named, parents, local)
    return FileColumns(local, {field: _path(node, parents) for field, node in local.items()})


def _match(node: Node, named: dict[int, Node], parents: dict[int, Node], local: dict[int, Node]) -> Node | None:
    """The file's field for a table's field: the one that is named, or the parent of what its children are."""
    _refuse_blobs(node)
    found = named.get(node.id)
    for child in () if node.is_packed else node.children:
        below = _match(child, named, parents, local)
        if found is None and below is not None:
            found = parents.get(below.id)
    if found is not None:
        local[node.id] = found
        if node.is_packed:
            local |= {mine.id: theirs for mine, theirs in zip(node.walk(), found.walk(), strict=False)}
    return found


def _refuse_blobs(node: Node) -> None:
    if node.field.metadata.get(EXTENSION_NAME, b"") == BLOB_V2.encode():
        raise Unsupported(
            f"column {node.name!r} holds blobs in their second layout, which are not read yet",
            hint="leave the column out of the scan, or read it with pylance",
        )


def _path(node: Node, parents: dict[int, Node]) -> tuple[str, ...]:
    names = [node.name]
    while node.id in parents:
        node = parents[node.id]
        names.append(node.name)
    return tuple(reversed(names))
