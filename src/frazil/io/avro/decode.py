"""Rows to columns: the blocks of one or many containers with one schema become Arrow batches."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import pyarrow as pa

from frazil.errors import InvalidArgument, MalformedMetadata
from frazil.io.avro.container import Container, Limits
from frazil.io.avro.program import DATA, HINT, NULLS, OFFSETS, VALID, WORDS, Column, N, Op, Program, compile_schema
from frazil.io.avro.runtime import sandbox

# Big enough to make the cost of a call vanish, small enough to stay far below 4 GiB once spread over columns.
_CHUNK_BYTES = 8 << 20
_MAX_ROWS = (1 << 31) - 1


def decode(
    containers: Container | Sequence[Container],
    columns: Collection[int | str] | None = None,
    *,
    utc_unless_told: bool = True,
) -> pa.Table:
    """All rows of the containers, in order, as one table; `Container.num_rows` tells which are whose.

    `columns` selects field ids, or paths of column names joined by dots (`data_file.file_path`; inside lists and maps
    `element`, `key` and `value`). Whatever is below a selected field comes with it; everything else is stepped over.
    A timestamp that does not say `adjust-to-utc` is one with time zone if `utc_unless_told`.
    """
    containers = [containers] if isinstance(containers, Container) else containers
    if not containers:
        raise InvalidArgument("Avro: no container to decode", hint="give one at least, for the schema")
    program = compile_schema(containers[0].schema, columns, utc_unless_told=utc_unless_told)
    batches = list(iter_batches(containers, columns, utc_unless_told=utc_unless_told))
    return pa.Table.from_batches(batches, program.schema)


def iter_batches(
    containers: Container | Sequence[Container],
    columns: Collection[int | str] | None = None,
    *,
    utc_unless_told: bool = True,
) -> Iterator[pa.RecordBatch]:
    """As `decode`, batch by batch, so that a large file is never in memory as columns all at once."""
    containers = [containers] if isinstance(containers, Container) else containers
    if any(c.schema != containers[0].schema for c in containers):
        raise InvalidArgument("Avro: the containers have different schemas", hint="decode them in groups by schema")
    if not containers:
        return
    program = compile_schema(containers[0].schema, columns, utc_unless_told=utc_unless_told)
    chunk: list[tuple[int, bytes | memoryview]] = []
    size = rows = empty = 0
    hints = np.zeros(len(program.nodes), np.uint32)
    for container in containers:
        for count, payload in container.payloads():
            if program.min_width == 0:
                empty += count
            if count * program.min_width > len(payload) or empty > container.limits.empty_rows or count > _MAX_ROWS:
                raise MalformedMetadata(
                    f"Avro: a block of {len(payload)} bytes claims {count} rows", hint="the file is damaged"
                )
            if chunk and (size + len(payload) > _CHUNK_BYTES or rows + count > _MAX_ROWS):
                yield _decode_chunk(program, chunk, container.limits, hints)
                chunk, size, rows = [], 0, 0
            chunk.append((count, payload))
            size, rows = size + len(payload), rows + count
    if chunk:
        yield _decode_chunk(program, chunk, containers[0].limits, hints)


def _decode_chunk(
    program: Program,
    chunk: Sequence[tuple[int, bytes | memoryview]],
    limits: Limits,
    hints: np.typing.NDArray[np.uint32],
) -> pa.RecordBatch:
    rows, size = sum(count for count, _ in chunk), sum(len(payload) for _, payload in chunk)
    nodes = program.nodes.copy()
    nodes[:, HINT] = hints
    with sandbox(limits.memory_bytes) as box:
        box.call("reset")
        at_nodes = box.allocate(nodes.nbytes)
        at_table = box.allocate(8 * len(chunk))
        at_payload = box.allocate(size)
        memory = box.memory()
        memory[at_nodes : at_nodes + nodes.nbytes] = nodes.reshape(-1).view(np.uint8)
        table = np.array([(len(payload), count) for count, payload in chunk], np.uint32)
        memory[at_table : at_table + table.nbytes] = table.reshape(-1).view(np.uint8)
        position = at_payload
        for _, payload in chunk:
            memory[position : position + len(payload)] = np.frombuffer(payload, np.uint8)
            position += len(payload)
        box.call("set_nodes", at_nodes)
        if program.nodes.size and box.call("decode", at_payload, at_table, len(chunk)) != rows:
            raise box.failure(program.paths, writing=False)
        memory = box.memory()
        state = memory[at_nodes : at_nodes + nodes.nbytes].view(np.uint32).reshape(-1, WORDS)
        hints[:] = np.maximum(hints, state[:, N])
        struct = _Assembler(memory, state.tolist()).array(program.root, rows)
    return pa.RecordBatch.from_struct_array(struct).replace_schema_metadata(None)


class _Assembler:
    """Copies what the nodes point to out of the sandbox, into Arrow arrays."""

    def __init__(self, memory: np.typing.NDArray[np.uint8], state: list[list[int]]) -> None:
        self.memory = memory
        self.state = state

    def buffer(self, address: int, size: int) -> pa.Buffer:
        buffer = pa.allocate_buffer(size)  # Arrow's own pool: fresh pages from the system would cost as much as decoding
        np.frombuffer(buffer, np.uint8)[:] = self.memory[address : address + size]
        return buffer

    def array(self, column: Column, rows: int) -> pa.Array:
        if column.op is None:
            return pa.nulls(rows)
        state = [0] * WORDS if column.node is None else self.state[column.node]
        validity = self.buffer(state[VALID], (rows + 7) // 8) if state[NULLS] else None
        if column.op is Op.RECORD:
            children = [self.array(child, rows) for child in column.children]
            return pa.Array.from_buffers(column.type, rows, [validity], state[NULLS], children=children)
        if column.op is Op.LIST:
            offsets, items = self.offsets(state, rows)
            child = self.array(column.children[0], items)
            return pa.Array.from_buffers(column.type, rows, [validity, offsets], state[NULLS], children=[child])
        if column.op is Op.BYTES:
            offsets, size = self.offsets(state, rows)
            buffers = [validity, offsets, self.buffer(state[DATA], size)]
        elif column.op is Op.BOOLEAN:
            buffers = [validity, self.buffer(state[DATA], (rows + 7) // 8)]
        else:
            buffers = [validity, self.buffer(state[DATA], rows * _width(column))]
        if column.op is Op.ENUM:
            indices = pa.Array.from_buffers(pa.int32(), rows, buffers, state[NULLS])
            return pa.DictionaryArray.from_arrays(indices, pa.array(column.names, pa.string()))
        return _checked(pa.Array.from_buffers(column.type, rows, buffers, state[NULLS]), column)

    def offsets(self, state: list[int], rows: int) -> tuple[pa.Buffer, int]:
        if rows == 0:
            return pa.py_buffer(bytes(4)), 0
        last = state[OFFSETS] + 4 * rows
        return self.buffer(state[OFFSETS], 4 * rows + 4), int(self.memory[last : last + 4].view(np.int32)[0])


def _width(column: Column) -> int:
    return column.arg if column.op is Op.FIXED else column.type.bit_width // 8 if column.op is not Op.ENUM else 4


def _checked(array: pa.Array, column: Column) -> pa.Array:
    # What is not about bytes but about meaning is left to Arrow: UTF-8, digits of decimals, times within a day.
    if pa.types.is_string(array.type) or pa.types.is_decimal(array.type) or pa.types.is_time(array.type):
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as error:
            raise MalformedMetadata(f"Avro: {column.path}: {error}", hint="the file is damaged") from error
    return array
