"""Arrow arrays laid out in the sandbox as ``avro.c`` wants to read them: only the buffers and ranges that matter."""

from __future__ import annotations

from itertools import accumulate
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import InvalidValue
from frazil.io.avro.program import BASE, DATA, OFFSETS, VALID, VALID_BIT, Column, Op, Program
from frazil.io.avro.runtime import Sandbox

Bytes: TypeAlias = npt.NDArray[np.uint8]


def load(box: Sandbox, program: Program, batch: pa.RecordBatch) -> None:
    """Empty the sandbox, and put the nodes of the program there with the columns of the batch behind them."""
    loader = _Loader(program)
    columns = {name: batch.column(i) for i, name in enumerate(batch.schema.names)}
    loader.fields(program.root, columns, batch.num_rows)
    nodes = loader.nodes
    sizes = [nodes.nbytes, *(part.nbytes for _, _, part in loader.parts)]
    places = list(accumulate(((size + 31) // 16 * 16 for size in sizes), initial=0))
    start = box.begin(places[-1])
    memory = box.memory()
    for (node, word, part), place in zip(loader.parts, places[1:-1], strict=True):
        memory[start + place : start + place + part.nbytes] = part
        nodes[node, word] = start + place
    memory[start : start + nodes.nbytes] = nodes.reshape(-1).view(np.uint8)


class _Loader:
    def __init__(self, program: Program) -> None:
        self.nodes = program.nodes.copy()
        self.parts: list[tuple[int, int, Bytes]] = []

    def fields(self, column: Column, arrays: dict[str, pa.Array], rows: int) -> None:
        for name, child in zip(column.names, column.children, strict=True):
            if name in arrays:
                self.value(child, arrays[name])
            elif child.nullable:
                self.value(child, pa.nulls(rows, pa.null() if child.children else child.type))
            else:
                raise InvalidValue(f"Avro: the rows lack the required column {child.path}", hint="add it to the rows")

    def value(self, column: Column, array: pa.Array) -> None:
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        if pa.types.is_null(array.type) and column.children:
            array = pa.nulls(len(array), column.type)
        match column.op:
            case None:
                if array.null_count != len(array):
                    raise InvalidValue(
                        f"Avro: {column.path} can hold only null, the rows have values", hint="drop them"
                    )
            case Op.RECORD:
                self.record(column, array)
            case Op.LIST:
                self.list(column, array)
            case _:
                self.leaf(column, array)

    def validity(self, node: int | None, array: pa.Array) -> None:
        bitmap = array.buffers()[0] if array.null_count else None
        if node is not None and bitmap is not None:
            self.parts.append((node, VALID, _range(bitmap, array.offset // 8, (array.offset + len(array) + 7) // 8)))
            self.nodes[node, VALID_BIT] = array.offset % 8

    def record(self, column: Column, array: pa.Array) -> None:
        if not pa.types.is_struct(array.type):
            raise _mismatch(column, array)
        self.validity(column.node, array)
        names = [array.type.field(i).name for i in range(array.type.num_fields)]
        self.fields(column, {name: array.field(i) for i, name in enumerate(names)}, len(array))

    def list(self, column: Column, array: pa.Array) -> None:
        kind = array.type
        if pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
            array = _cast(column, array, pa.list_(kind.value_type))
        elif not (pa.types.is_list(kind) or pa.types.is_map(kind)):
            raise _mismatch(column, array)
        assert column.node is not None
        self.validity(column.node, array)
        first, last = self.offsets(column.node, array)
        if pa.types.is_map(kind):
            values = pa.StructArray.from_arrays([array.keys, array.items], names=["key", "value"])
        else:
            values = array.values
        self.value(column.children[0], values.slice(first, last - first))

    def offsets(self, node: int, array: pa.Array) -> tuple[int, int]:
        buffer = array.buffers()[1]
        if len(array) == 0 or buffer is None:
            offsets = np.zeros(1, np.int32)
        else:
            offsets = np.frombuffer(buffer, np.int32, len(array) + 1, array.offset * 4)
        self.parts.append((node, OFFSETS, offsets.view(np.uint8)))
        self.nodes[node, BASE] = offsets[0]
        return int(offsets[0]), int(offsets[-1])

    def leaf(self, column: Column, array: pa.Array) -> None:
        node = column.node
        assert node is not None
        array = _symbols(column, array) if column.op is Op.ENUM else _as_type(column, array)
        self.validity(node, array)
        start, stop, data = array.offset, array.offset + len(array), array.buffers()[-1]
        if column.op is Op.BYTES:
            start, stop = self.offsets(node, array)
        elif column.op is Op.BOOLEAN:
            self.nodes[node, BASE] = start % 8
            start, stop = start // 8, (stop + 7) // 8
        else:
            width = array.type.bit_width // 8
            start, stop = start * width, stop * width
        self.parts.append((node, DATA, _range(data, start, stop)))


def _range(buffer: pa.Buffer | None, start: int, stop: int) -> Bytes:
    if buffer is None or stop <= start:
        return np.zeros(0, np.uint8)
    return np.frombuffer(buffer, np.uint8, stop - start, start)


def _is_text(kind: pa.DataType) -> bool:
    return kind in (pa.string(), pa.large_string(), pa.string_view())


def _as_type(column: Column, array: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if array.type == column.type:
        return array
    if _is_text(array.type) != _is_text(column.type) and not pa.types.is_null(array.type):
        raise _mismatch(column, array)  # Arrow would parse or print numbers, which nobody asked for
    return _cast(column, array, column.type)


def _cast(column: Column, array: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return array.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidValue(f"Avro: {column.path}: {error}", hint=f"give it as {kind}") from error


def _symbols(column: Column, array: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if not _is_text(array.type) and not pa.types.is_null(array.type):
        raise _mismatch(column, array)
    indices = pc.index_in(array.cast(pa.string()), value_set=pa.array(column.names, pa.string()))
    if indices.null_count != array.null_count:
        raise InvalidValue(f"Avro: {column.path} has a value that its enum lacks", hint=f"one of {column.names[:20]}")
    return indices


def _mismatch(column: Column, array: pa.Array) -> InvalidValue:
    return InvalidValue(f"Avro: {column.path} cannot be written from {array.type}", hint=f"give it as {column.type}")
